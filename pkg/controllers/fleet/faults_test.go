// Copyright Contributors to the Open Cluster Management project

package fleet

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"open-cluster-management.io/knative-addon/pkg/api"
)

func TestARefusedChildIsReported(t *testing.T) {
	h := newHub(t, allClusters, threeProfiles()...)
	h.refuse = apierrors.NewForbidden(schema.GroupResource{Resource: "knativeservings"}, "c1", errors.New("spec.manifests may not replace the release"))
	writes, result := h.passAfter(time.Minute)
	h.shows("Ready=False/ChildRefused", "RolledOut=False/ChildRefused")
	want := []string{"create knativeservings c1", "create knativeservings c2", "create knativeservings c3", "patch knativefleets/status web"}
	if !slices.Equal(writes, want) {
		t.Errorf("the pass writes %q, want %q", writes, want)
	}
	if result.RequeueAfter != refusedRetry {
		t.Errorf("the next pass is after %s", result.RequeueAfter)
	}
	h.refuse = nil
	h.pass()
	if got := len(h.children(api.Serving)); got != 3 {
		t.Errorf("%d children", got)
	}
}

// TestRefusedChildrenAreBounded holds that refused creations, as by a quota, keep no other cluster from its change, and that one pass tries few.
func TestRefusedChildrenAreBounded(t *testing.T) {
	h := newHub(t, allClusters, newProfile("z"))
	h.pass()
	for n := range maxRefused + 5 {
		h.profiles = append(h.profiles, newProfile(fmt.Sprintf("c%02d", n)))
	}
	h.change("z", func(c *unstructured.Unstructured) {
		_ = unstructured.SetNestedField(c.Object, "1.20", "spec", "version")
	})
	h.refuse = apierrors.NewForbidden(schema.GroupResource{Resource: "knativeservings"}, "c1", errors.New("exceeded quota"))
	writes, _ := h.passAfter(time.Minute)
	creations := len(slices.DeleteFunc(slices.Clone(writes), func(w string) bool { return !strings.HasPrefix(w, "create ") }))
	if creations != maxRefused || !slices.Contains(writes, "patch knativeservings z") {
		t.Errorf("the pass tries %d creations, and writes %q", creations, writes)
	}
}

// TestUnreachableClusters holds that a waiting cluster that does not answer gets the change when the cluster answers again, and not before.
func TestUnreachableClusters(t *testing.T) {
	h := runningFleet(t, oneByOne)
	h.report("c1", "Ready=False/RemoteClusterStale", "TargetClusterResolved=False/RemoteClusterStale")
	h.setSpec(`{"serving": {"spec": {"version": "1.23"}}}`)
	for range 4 {
		h.pass()
		h.report("c2", "Ready=True/Ready")
		h.report("c3", "Ready=True/Ready")
	}
	h.pass()
	h.shows("RolledOut=False/ClustersUnresolved", "TargetClusterResolved=False/ClustersUnresolved")
	if got := h.versions(); got != "c1=1.22 c2=1.23 c3=1.23" {
		t.Errorf("without an answer of the first cluster the children have %s", got)
	}
	h.report("c1", "Ready=True/Ready")
	h.pass()
	if got := h.versions(); got != "c1=1.23 c2=1.23 c3=1.23" {
		t.Errorf("after the return the children have %s", got)
	}
}

// TestFailedClusterIsLost holds that a cluster with a spec that cannot be installed stops the rollout, also when the cluster does not answer.
func TestFailedClusterIsLost(t *testing.T) {
	h := runningFleet(t, oneByOne)
	h.setSpec(`{"serving": {"spec": {"version": "1.23"}}}`)
	h.pass()
	h.report("c1", "Ready=False/RemoteClusterStale", "TargetClusterResolved=False/RemoteClusterStale", "InstallSucceeded=False/UnknownVersion")
	h.pass()
	h.shows("RolledOut=False/MaxFailuresExceeded")
	if got := h.versions(); got != "c1=1.23 c2=1.22 c3=1.22" {
		t.Errorf("after the loss of the failed cluster the children have %s", got)
	}
}

// completions is a Completions in which clusters have run every spec of their children, or none.
type completions bool

func (c completions) IsCompleted(*unstructured.Unstructured) bool { return bool(c) }

// TestClusterIsLostAfterChange holds that a cluster that stops answering before the cluster has run the change holds its place, and that a
// cluster that has run the change before, or never had an installation, holds no place.
func TestClusterIsLostAfterChange(t *testing.T) {
	const change = `{"serving": {"spec": {"version": "1.23"}}}`
	const byDeadline = `{"serving": {"spec": {"version": "1.23"}}, "rolloutStrategy": {"type": "Progressive", "progressive": {"maxConcurrency": 1, "progressDeadline": "10m"}}}`
	for name, tc := range map[string]struct {
		spec      string
		installed string
		completed completions
		rolledOut string
		versions  string
	}{
		"before the end of the delivery": {change, "1.22.0", false, "RolledOut=False/Progressing", "c1=1.23 c2=1.22 c3=1.22"},
		"for longer than the deadline":   {byDeadline, "1.22.0", false, "RolledOut=False/MaxFailuresExceeded", "c1=1.23 c2=1.22 c3=1.22"},
		"after the change ran":           {change, "1.23.0", true, "RolledOut=False/Progressing", "c1=1.23 c2=1.23 c3=1.22"},
		"without an installation":        {change, "", false, "RolledOut=False/Progressing", "c1=1.23 c2=1.23 c3=1.22"},
	} {
		t.Run(name, func(t *testing.T) {
			h := runningFleet(t, oneByOne)
			h.r.Completions = map[api.Component]Completions{api.Serving: tc.completed}
			h.setSpec(tc.spec)
			h.pass()
			h.report("c1", "Ready=False/RemoteClusterStale", "TargetClusterResolved=False/RemoteClusterStale")
			h.change("c1", func(c *unstructured.Unstructured) {
				if err := unstructured.SetNestedField(c.Object, tc.installed, "status", "version"); err != nil {
					t.Fatal(err)
				}
			})
			h.pass()
			h.settle()
			h.shows(tc.rolledOut)
			if got := h.versions(); got != tc.versions {
				t.Errorf("the children have %s, want %s", got, tc.versions)
			}
		})
	}
}
