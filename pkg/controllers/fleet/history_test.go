// Copyright Contributors to the Open Cluster Management project

package fleet

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"

	"open-cluster-management.io/addon-framework/pkg/index"
	addonlisters "open-cluster-management.io/api/client/addon/listers/addon/v1beta1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/controllers/configuration"
	"open-cluster-management.io/knative-addon/pkg/revision"
)

// history is the history of the KnativeFleet on a fake hub.
type history struct {
	*fakeHub

	kube  *kubefake.Clientset
	cache cache.Indexer
}

// keepHistory gives the Reconciler a history.
func keepHistory(t *testing.T, h *fakeHub) *history {
	t.Helper()
	out := &history{fakeHub: h, kube: kubefake.NewClientset()}
	out.connect()
	return out
}

// connect makes a Recorder that remembers nothing.
func (h *history) connect() {
	h.t.Helper()
	addOns := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{index.AddonByConfig: index.IndexAddonByConfig})
	h.cache = cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	if err := h.cache.AddIndexers(revision.Indexers()); err != nil {
		h.t.Fatal(err)
	}
	h.r.History = &configuration.Recorder{
		Kind: revision.Fleet{}, Revisions: h.cache, RevisionClient: h.kube,
		References: &revision.References{AddOns: addOns, Definitions: addonlisters.NewClusterManagementAddOnLister(addOns)},
	}
}

// passes runs passes with a cache that has every ControllerRevision.
func (h *history) passes(n int) {
	h.t.Helper()
	for range n {
		var all []any
		for _, r := range h.revisions() {
			all = append(all, &r)
		}
		if err := h.cache.Replace(all, ""); err != nil {
			h.t.Fatal(err)
		}
		h.pass()
		h.becomeReady()
	}
}

// revisions lists the ControllerRevisions by number.
func (h *history) revisions() []appsv1.ControllerRevision {
	h.t.Helper()
	list, err := h.kube.AppsV1().ControllerRevisions(team).List(h.t.Context(), metav1.ListOptions{})
	if err != nil {
		h.t.Fatal(err)
	}
	slices.SortFunc(list.Items, func(a, b appsv1.ControllerRevision) int { return int(a.Revision - b.Revision) })
	return list.Items
}

// numberOf returns the number of the revision with the hash: templates that return get a new number.
func (h *history) numberOf(hash string) int64 {
	h.t.Helper()
	for _, r := range h.revisions() {
		if revision.HashOf(&r) == hash {
			return r.Revision
		}
	}
	h.t.Fatalf("no revision has hash %s", hash)
	return 0
}

// told drains the Events.
func (h *history) told() []string {
	var out []string
	for len(h.events.Events) > 0 {
		out = append(out, <-h.events.Events)
	}
	return out
}

func (h *history) requestRollback(value string) {
	h.changeFleet(annotate(api.RollbackAnnotation, value))
}

// TestRollback holds that the templates of a KnativeFleet are recorded once, and that a request brings earlier templates back, and
// neither an earlier selection nor an earlier strategy.
func TestRollback(t *testing.T) {
	h := keepHistory(t, newHub(t, oneByOne, threeProfiles()...))
	h.passes(8)
	h.setSpec(`{"serving": {"spec": {"version": "1.23"}}, "maxRemoval": 2}`)
	h.passes(8)
	if got, want := h.versions(), "c1=1.23 c2=1.23 c3=1.23"; got != want {
		t.Fatalf("the children have %s, want %s", got, want)
	}
	all := h.revisions()
	if len(all) != 2 || all[0].Revision != 1 || all[1].Revision != 2 || all[1].Annotations[api.CompletedAnnotation] != "c1" {
		t.Fatalf("the revisions are %+v", all)
	}
	first := revision.HashOf(&all[0])
	for name, request := range map[string]func() string{
		"a number": func() string { return fmt.Sprint(h.numberOf(first)) }, "a hash": func() string { return first[:12] },
		"the last good one": func() string { return api.RollbackLastKnownGood },
	} {
		h.setSpec(`{"serving": {"spec": {"version": "1.23"}}}`)
		h.passes(8)
		h.requestRollback(request())
		h.passes(8)
		if got, want := h.versions(), "c1=1.22 c2=1.22 c3=1.22"; got != want {
			t.Errorf("%s: the children have %s, want %s", name, got, want)
		}
		read, err := h.Get(types.NamespacedName{})
		if err != nil {
			t.Fatal(err)
		}
		spec, _ := read.Object["spec"].(map[string]any)
		if _, found := read.GetAnnotations()[api.RollbackAnnotation]; found || fmt.Sprint(spec["maxRemoval"]) != "2" || spec["selector"] == nil {
			t.Errorf("%s: the annotations are %v and the spec is %v", name, read.GetAnnotations(), spec)
		}
	}
	if n := len(h.revisions()); n != 2 {
		t.Errorf("%d revisions, want two: templates that return are the same revision", n)
	}
	h.restart()
	h.connect()
	h.kube.ClearActions()
	h.passes(3)
	for _, a := range h.kube.Actions() {
		if a.GetVerb() != "list" {
			t.Errorf("a restarted manager requests %s of the history", a.GetVerb())
		}
	}
}

// TestReturnOfTemplates holds that templates that return after others, which no cluster has run, stay the last good ones.
func TestReturnOfTemplates(t *testing.T) {
	h := keepHistory(t, newHub(t, oneByOne, threeProfiles()...))
	h.passes(8)
	good := revision.HashOf(&h.revisions()[0])
	h.setSpec(`{"serving": {"spec": {"version": "1.23"}}}`)
	h.passes(1)
	h.setSpec(`{"serving": {"spec": {"version": "1.22"}}}`)
	h.passes(8)
	for _, r := range h.revisions() {
		if isGood := revision.HashOf(&r) == good; isGood != (r.Annotations[api.CompletedAnnotation] != "") {
			t.Errorf("revision %d, good: %t, is completed by %q", r.Revision, isGood, r.Annotations[api.CompletedAnnotation])
		}
	}
	if n := len(h.revisions()); n != 2 {
		t.Errorf("%d revisions, want two", n)
	}
}

// TestRecreatedFleet holds that a KnativeFleet of the same name begins a history of its own.
func TestRecreatedFleet(t *testing.T) {
	h := keepHistory(t, newHub(t, oneByOne, threeProfiles()...))
	h.passes(3)
	h.changeFleet(func(u *unstructured.Unstructured) { u.SetUID("another") })
	h.passes(1)
	for _, r := range h.revisions() {
		if owner := metav1.GetControllerOf(&r); owner == nil || owner.UID != "another" {
			t.Errorf("ControllerRevision %s is owned by %v, which Kubernetes has deleted", r.Name, owner)
		}
	}
}

// TestRollbackIsRefused holds that a request without a revision changes nothing and is reported once.
func TestRollbackIsRefused(t *testing.T) {
	h := keepHistory(t, newHub(t, allClusters, threeProfiles()...))
	h.passes(4)
	h.told()
	h.requestRollback("7")
	h.passes(3)
	told := slices.DeleteFunc(h.told(), func(e string) bool { return !strings.Contains(e, "RollbackRefused") })
	if len(told) != 1 || !strings.Contains(told[0], "no revision with that number") {
		t.Errorf("the Events are %q", told)
	}
	h.shows("Ready=True/Ready")
}

// TestRefusedHistory holds that a hub which refuses the history delays no cluster, and that the history follows when the hub permits it.
func TestRefusedHistory(t *testing.T) {
	h := keepHistory(t, newHub(t, oneByOne, threeProfiles()...))
	refuses := true
	h.kube.PrependReactor("create", "controllerrevisions", func(clienttesting.Action) (bool, runtime.Object, error) {
		return refuses, nil, apierrors.NewForbidden(schema.GroupResource{Group: "apps", Resource: "controllerrevisions"}, "web", errors.New("a policy"))
	})
	h.passes(8)
	if got, want := h.versions(), "c1=1.22 c2=1.22 c3=1.22"; got != want {
		t.Errorf("the children have %s, want %s", got, want)
	}
	refuses = false
	h.passes(2)
	if all := h.revisions(); len(all) != 1 {
		t.Errorf("the revisions are %+v", all)
	}
}
