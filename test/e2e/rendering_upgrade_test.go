// Copyright Contributors to the Open Cluster Management project

package e2e

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/test/e2e/harness"
	"open-cluster-management.io/knative-addon/test/lab"
)

// earlierRevision is a commit from before renderings went in waves. Its manager records no rendering.
const earlierRevision = "0ce1f26bad449b8f1ebef36f1f4484aa73428b07"

// TestUpgradedRendering upgrades the chart and the manager from an earlier revision of this repository, which the test builds. The new manager
// renders the same spec differently. A cluster that refuses the rendering stops the rollout; the cluster after it keeps its manifests to the
// byte until the other cluster accepts the rendering.
func TestUpgradedRendering(t *testing.T) {
	startNightlyStory(t)
	checkout, err := harness.BuildRevision(t.Context(), earlierRevision, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	l := ownLab(t, lab.Options{ManagedClusters: 3, StatusSyncInterval: statusSync})
	f, err := harness.Install(t.Context(), l, harness.Options{Checkout: checkout})
	if err != nil {
		t.Fatal(err)
	}
	logManagerOnFailure(t, f)
	m := newTeam(t, f, "platform")
	m.createPlacement(t)
	available(t, f, []api.Component{api.Serving}, f.Managed...)
	m.setInstallStrategy(t, api.Serving, fmt.Sprintf(
		`{"type":"Placements","placements":[{"namespace":%q,"name":%q,"rolloutStrategy":{"type":"Progressive","progressive":{"maxConcurrency":1,"minSuccessTime":"2s","progressDeadline":"60s","maxFailures":0}}}]}`,
		m.namespace, placementName))
	eventually(t, "all clusters have completed the spec", 3*time.Minute, m.checkCompleted(m.specHash(t), len(f.Managed)))

	first, refusing, last := f.Managed[0], f.Managed[1], f.Managed[2:]
	m.refuseRendering(t, refusing, withoutExample, `{"data":{"_example":"y"}}`)
	before := m.manifests(t, last)
	if err := f.Upgrade(t.Context(), otherRendering); err != nil {
		t.Fatal(err)
	}
	m.awaitRendering(t, metav1.ConditionTrue, api.ReasonRenderingRuns, first)
	m.awaitRendering(t, metav1.ConditionUnknown, api.ReasonRenderingDelivering, refusing)
	m.awaitRendering(t, metav1.ConditionFalse, api.ReasonRenderingWaits, last...)
	m.awaitStop(t, refusing.Name)
	if diff := cmp.Diff(before, m.manifests(t, last)); diff != "" {
		t.Errorf("manifests of the waiting cluster have changed (-before +after):\n%s", diff)
	}
	m.acceptRendering(t, refusing)
	m.awaitRendering(t, metav1.ConditionTrue, api.ReasonRenderingRuns, f.Managed...)
	settled(t, f, api.Serving, f.Managed...)
}

// manifests returns the digest of the manifests of each foundation and payload of the clusters. The new manager writes the gates, and the
// options of ManifestWorks.
func (m team) manifests(t *testing.T, clusters []*lab.Cluster) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, c := range clusters {
		works, err := m.ComponentWorks(t.Context(), api.Serving, c.Name)
		if err != nil {
			t.Fatal(err)
		}
		for i := range works {
			if harness.IsGate(&works[i]) {
				continue
			}
			digest := sha256.New()
			for _, manifest := range works[i].Spec.Workload.Manifests {
				digest.Write(manifest.Raw)
			}
			out[c.Name+"/"+works[i].Name] = hex.EncodeToString(digest.Sum(nil))
		}
	}
	return out
}
