// Copyright Contributors to the Open Cluster Management project

package configuration

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"open-cluster-management.io/addon-framework/pkg/index"
	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"
	addonlisters "open-cluster-management.io/api/client/addon/listers/addon/v1beta1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/reconciler"
	"open-cluster-management.io/knative-addon/pkg/revision"
)

var ref = map[string]any{"namespace": "fleet", "name": "c1"}

// serving is a KnativeServing fleet/default.
func serving(version string, annotations map[string]string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": api.Group + "/v1beta1", "kind": "KnativeServing",
		"metadata": map[string]any{"namespace": "fleet", "name": "default", "uid": "u1", "resourceVersion": "1"},
		"spec":     map[string]any{"version": version},
	}}
	u.SetAnnotations(annotations)
	return u
}

// rollbackHub has revisions 1 to 3 of a KnativeServing, with versions 1.21 to 1.23, of which the last one is live.
type rollbackHub struct {
	t         *testing.T
	client    *dynamicfake.FakeDynamicClient
	configs   cache.Indexer
	revisions cache.Indexer
	addOns    cache.Indexer
	events    *events.FakeRecorder
	r         *Reconciler
	hashes    []string // by number, less one
}

func newRollbackHub(t *testing.T, live *unstructured.Unstructured) *rollbackHub {
	t.Helper()
	indexer := func(more cache.Indexers) cache.Indexer {
		i := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
		if err := i.AddIndexers(more); err != nil {
			t.Fatal(err)
		}
		return i
	}
	h := &rollbackHub{
		t: t, configs: indexer(nil), revisions: indexer(revision.Indexers()), events: events.NewFakeRecorder(100),
		addOns: indexer(cache.Indexers{index.AddonByConfig: index.IndexAddonByConfig}),
		client: newConfigClient(live),
	}
	for i, config := range []*unstructured.Unstructured{
		serving("1.21", nil), serving("", map[string]string{api.PinnedVersionAnnotation: "1.22.1", api.InstallNamespaceAnnotation: "kn"}), serving("1.23", nil),
	} {
		r, err := revision.New(api.Serving, config, int64(i+1))
		if err != nil {
			t.Fatal(err)
		}
		if err := h.revisions.Add(r); err != nil {
			t.Fatal(err)
		}
		h.hashes = append(h.hashes, revision.HashOf(r))
	}
	if err := h.configs.Add(live); err != nil {
		t.Fatal(err)
	}
	h.r = &Reconciler{
		Recorder: Recorder{
			Kind: api.Serving, Configs: cache.NewGenericLister(h.configs, api.Serving.Resource().GroupResource()), Revisions: h.revisions,
			References: &revision.References{AddOns: h.addOns, Definitions: addonlisters.NewClusterManagementAddOnLister(indexer(nil))},
		},
		Component: api.Serving, ConfigClient: h.client, Versions: newest{}, Events: h.events, Operator: func() string { return "" },
	}
	return h
}

// completed has the hub note that a cluster completed the revision with the number.
func (h *rollbackHub) completed(cluster string, number int) {
	h.t.Helper()
	for _, o := range h.revisions.List() {
		if r, ok := o.(*appsv1.ControllerRevision); ok && r.Revision == int64(number) {
			r.Annotations[api.CompletedAnnotation] = cluster
		}
	}
}

// claimed has the agent of a cluster write into the status of the add-on that the cluster completed the revision.
func (h *rollbackHub) claimed(cluster string, number int) {
	h.t.Helper()
	here := func(hash string) *addonv1beta1.ConfigSpecHash {
		return &addonv1beta1.ConfigSpecHash{ConfigReferent: addonv1beta1.ConfigReferent{Namespace: "fleet", Name: "default"}, SpecHash: hash}
	}
	a := &addonv1beta1.ManagedClusterAddOn{ObjectMeta: metav1.ObjectMeta{
		Namespace: cluster, Name: "knative-serving",
		Annotations: map[string]string{api.GrantedConfigsAnnotation: "knativeservings." + api.Group + "/fleet/default"},
	}}
	a.Status.ConfigReferences = []addonv1beta1.ConfigReference{{
		ConfigGroupResource: addonv1beta1.ConfigGroupResource{Group: api.Group, Resource: "knativeservings"},
		DesiredConfig:       here(h.hashes[2]), LastAppliedConfig: here(h.hashes[number-1]),
	}}
	if err := h.addOns.Add(a); err != nil {
		h.t.Fatal(err)
	}
}

func (h *rollbackHub) reconcile() (reconcile.Result, error) {
	h.t.Helper()
	return reconciler.Wrap(h.r, reconciler.OfComponent(api.Serving)).Reconcile(h.t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "fleet", Name: "default"}})
}

func (h *rollbackHub) told() []string {
	var out []string
	for {
		select {
		case e := <-h.events.Events:
			out = append(out, e)
		default:
			return out
		}
	}
}

func (h *rollbackHub) after() *unstructured.Unstructured {
	h.t.Helper()
	o, err := h.client.Tracker().Get(api.Serving.Resource(), "fleet", "default")
	if err != nil {
		h.t.Fatal(err)
	}
	return o.(*unstructured.Unstructured) //nolint:forcetypeassert // it is one
}

func asking(value string) *unstructured.Unstructured {
	return serving("1.23", map[string]string{api.RollbackAnnotation: value, "other": "kept"})
}

// TestRollbackKeepsVerification holds that a rollback neither adds nor removes a request for a verification.
func TestRollbackKeepsVerification(t *testing.T) {
	for present, recorded := range map[string]string{"Service": "", "": "Service", "KeptService": "None"} {
		withMode := func(mode string) map[string]string {
			out := map[string]string{api.RollbackAnnotation: "1"}
			if mode != "" {
				out[api.VerificationAnnotation] = mode
			}
			return out
		}
		target, err := revision.New(api.Serving, serving("1.21", withMode(recorded)), 1)
		if err != nil {
			t.Fatal(err)
		}
		changed, err := withSpecOf(serving("1.23", withMode(present)), target)
		if err != nil {
			t.Fatal(err)
		}
		if got := changed.GetAnnotations()[api.VerificationAnnotation]; got != present {
			t.Errorf("a resource with %q has %q after the rollback to %q", present, got, recorded)
		}
	}
}

func TestRollback(t *testing.T) {
	plain := map[string]string{"other": "kept"}
	pinned := map[string]string{"other": "kept", api.PinnedVersionAnnotation: "1.22.1", api.InstallNamespaceAnnotation: "kn"}
	for name, tc := range map[string]struct {
		value       func(h *rollbackHub) string
		completed   []int
		version     string
		annotations map[string]string
	}{
		"a number":        {value: func(*rollbackHub) string { return "1" }, version: "1.21", annotations: plain},
		"with spaces":     {value: func(*rollbackHub) string { return " 1 " }, version: "1.21", annotations: plain},
		"a hash":          {value: func(h *rollbackHub) string { return h.hashes[0] }, version: "1.21", annotations: plain},
		"half a hash":     {value: func(h *rollbackHub) string { return strings.ToUpper(h.hashes[0][:12]) }, version: "1.21", annotations: plain},
		"a pinned one":    {value: func(*rollbackHub) string { return "2" }, version: "", annotations: pinned},
		"the live one":    {value: func(*rollbackHub) string { return "3" }, version: "1.23", annotations: plain},
		"last known good": {value: func(*rollbackHub) string { return api.RollbackLastKnownGood }, completed: []int{1, 2, 3}, version: "", annotations: pinned},
		"the only good":   {value: func(*rollbackHub) string { return api.RollbackLastKnownGood }, completed: []int{1, 3}, version: "1.21", annotations: plain},
		"no word of a cluster": {
			value: func(h *rollbackHub) string { h.claimed("c9", 2); return api.RollbackLastKnownGood }, completed: []int{1, 3}, version: "1.21", annotations: plain,
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := newRollbackHub(t, asking(""))
			for i, number := range tc.completed {
				h.completed("c"+string(rune('1'+i)), number)
			}
			after := h.follow(asking(tc.value(h)))
			if version, _, _ := unstructured.NestedString(after.Object, "spec", "version"); version != tc.version {
				t.Errorf("version is %q, want %q", version, tc.version)
			}
			if diff := cmp.Diff(tc.annotations, after.GetAnnotations()); diff != "" {
				t.Errorf("annotations (-want +got):\n%s", diff)
			}
		})
	}
}

// follow goes back as the resource asks, in one request and once, and returns what it is then.
func (h *rollbackHub) follow(live *unstructured.Unstructured) *unstructured.Unstructured {
	h.t.Helper()
	if err := errors.Join(h.configs.Update(live), h.client.Tracker().Update(api.Serving.Resource(), live, "fleet")); err != nil {
		h.t.Fatal(err)
	}
	for range 2 {
		if result, err := h.reconcile(); err != nil || result.RequeueAfter != 0 {
			h.t.Fatalf("result is %v, error %v", result, err)
		}
		if err := h.configs.Update(h.after()); err != nil {
			h.t.Fatal(err)
		}
	}
	if told := h.told(); len(told) != 1 || !strings.HasPrefix(told[0], "Normal RolledBack") {
		h.t.Errorf("%q is told", told)
	}
	if len(h.client.Actions()) != 1 {
		h.t.Errorf("it takes %d requests", len(h.client.Actions()))
	}
	return h.after()
}

// TestRollbackKeepsReference holds that going back never says where else to install.
func TestRollbackKeepsReference(t *testing.T) {
	live := asking("1")
	if err := unstructured.SetNestedMap(live.Object, ref, "spec", "clusterProfileRef"); err != nil {
		t.Fatal(err)
	}
	h := newRollbackHub(t, live)
	if _, err := h.reconcile(); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]any{"version": "1.21", "clusterProfileRef": ref}, h.after().Object["spec"]); diff != "" {
		t.Errorf("spec (-want +got):\n%s", diff)
	}
	other := serving("1.20", nil)
	if err := unstructured.SetNestedMap(other.Object, ref, "spec", "clusterProfileRef"); err != nil {
		t.Fatal(err)
	}
	r, err := revision.New(api.Serving, other, 4)
	if err != nil {
		t.Fatal(err)
	}
	changed, err := withSpecOf(asking("4"), r)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]any{"version": "1.20"}, changed.Object["spec"]); diff != "" {
		t.Errorf("spec without a reference (-want +got):\n%s", diff)
	}
}

func TestRollbackRefusals(t *testing.T) {
	for name, tc := range map[string]struct {
		value string
		want  []string
	}{
		"unknown number":   {"9", []string{"no revision with that number", "the revisions are 3 (", "2 (", "1 ("}},
		"unknown hash":     {"0123456789abcdef", []string{"no revision with that hash"}},
		"short hash":       {"abcdef", []string{"no revision number", "8 digits", api.RollbackLastKnownGood}},
		"empty":            {"", []string{"no revision number"}},
		"nothing is good":  {api.RollbackLastKnownGood, []string{"no cluster is known to have completed another spec"}},
		"a very long text": {strings.Repeat("ü", 3000), []string{"..."}},
	} {
		t.Run(name, func(t *testing.T) {
			h := newRollbackHub(t, asking(tc.value))
			told := h.refused()
			for _, want := range tc.want {
				if !strings.Contains(told, want) {
					t.Errorf("%q is not in %q", want, told)
				}
			}
			// Another request is another fact.
			for _, value := range []string{"77", "78"} {
				if err := h.configs.Update(asking(value)); err != nil {
					t.Fatal(err)
				}
				h.refused()
			}
		})
	}
}

// refused is what is told, once, of an annotation that cannot be followed.
func (h *rollbackHub) refused() string {
	h.t.Helper()
	for range 3 {
		if result, err := h.reconcile(); err != nil || result.RequeueAfter != 0 {
			h.t.Fatalf("result is %v, error %v", result, err)
		}
	}
	told := h.told()
	if len(told) != 1 || !strings.HasPrefix(told[0], "Warning RollbackRefused") || len(told[0]) > 1024 {
		h.t.Fatalf("%q is told", told)
	}
	if len(h.client.Actions()) > 0 {
		h.t.Errorf("it asks for %v", h.client.Actions())
	}
	return told[0]
}

func TestTwoRevisionsOfOneStart(t *testing.T) {
	h := newRollbackHub(t, asking("x"))
	history, err := revision.History(h.revisions, api.Serving, types.NamespacedName{Namespace: "fleet", Name: "default"})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range history[:2] {
		r.Annotations[api.SpecHashAnnotation] = "aaaaaaaaaa" + r.Annotations[api.SpecHashAnnotation][10:]
	}
	if _, refusal := findNamedRevision(history, "aaaaaaaaaa"); !strings.Contains(refusal, "several") {
		t.Errorf("refusal is %q", refusal)
	}
	for len(history) < 15 {
		history = slices.Concat(history, history)
	}
	if got := describeHistory(history); !strings.HasSuffix(got, "more") {
		t.Errorf("listed as %q", got)
	}
	if got := describeHistory(nil); !strings.Contains(got, "no revisions yet") {
		t.Errorf("listed as %q", got)
	}
}

// TestRollbackFaults holds that a conflict is tried again, a refusal told, and another failure returned.
func TestRollbackFaults(t *testing.T) {
	resource, errDown := api.Serving.Resource().GroupResource(), errors.New("the hub is down")
	for name, tc := range map[string]struct {
		err     error
		again   bool
		wantErr error
		told    int
	}{
		"conflict": {err: apierrors.NewConflict(resource, "default", nil), again: true},
		"invalid":  {err: apierrors.NewInvalid(schema.GroupKind{Kind: "KnativeServing"}, "default", nil), told: 1},
		"denied":   {err: apierrors.NewForbidden(resource, "default", errors.New("a policy")), told: 1},
		"gone":     {err: apierrors.NewNotFound(resource, "default")},
		"down":     {err: errDown, wantErr: errDown},
	} {
		t.Run(name, func(t *testing.T) {
			h := newRollbackHub(t, asking("1"))
			h.client.PrependReactor("update", "*", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, tc.err })
			for range 2 {
				result, err := h.reconcile()
				if !errors.Is(err, tc.wantErr) || (result.RequeueAfter > 0) != tc.again {
					t.Errorf("result is %v, error %v", result, err)
				}
			}
			if told := h.told(); len(told) != tc.told {
				t.Errorf("%q is told", told)
			}
		})
	}
}

func TestRollbackIsLeftAlone(t *testing.T) {
	deleting := asking("1")
	deleting.SetDeletionTimestamp(new(metav1.Now()))
	for name, live := range map[string]*unstructured.Unstructured{"not asked": serving("1.23", nil), "being deleted": deleting, "the Knative Operator's": asking("1"), "another manager's": asking("1")} {
		t.Run(name, func(t *testing.T) {
			h := newRollbackHub(t, live)
			if strings.Contains(name, "Operator") {
				h.r.Operator = func() string { return "Deployment" }
			}
			if strings.Contains(name, "manager") {
				h.r.Excludes = func(*unstructured.Unstructured) bool { return true }
			}
			if _, err := h.reconcile(); err != nil || len(h.client.Actions()) > 0 || len(h.told()) > 0 {
				t.Errorf("error %v, actions %v", err, h.client.Actions())
			}
		})
	}
	h := newRollbackHub(t, asking("1"))
	if err := h.configs.Delete(asking("1")); err != nil {
		t.Fatal(err)
	}
	if _, err := h.reconcile(); err != nil || len(h.client.Actions()) > 0 {
		t.Errorf("without the resource: error %v, actions %v", err, h.client.Actions())
	}
}
