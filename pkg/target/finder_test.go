// Copyright Contributors to the Open Cluster Management project

package target

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterinventoryv1alpha1 "sigs.k8s.io/cluster-inventory-api/apis/v1alpha1"

	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"
	clusterlisters "open-cluster-management.io/api/client/cluster/listers/cluster/v1"
	clusterlistersv1beta2 "open-cluster-management.io/api/client/cluster/listers/cluster/v1beta2"
	clusterv1 "open-cluster-management.io/api/cluster/v1"
	clusterv1beta2 "open-cluster-management.io/api/cluster/v1beta2"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/resolve"
	"open-cluster-management.io/knative-addon/pkg/trust"
)

// errBroken is what a cache fails with.
var errBroken = errors.New("broken")

func isBroken(err error) bool { return errors.Is(err, errBroken) }

type failingClusters struct{ err error }

func (f failingClusters) List(labels.Selector) ([]*clusterv1.ManagedCluster, error) {
	return nil, f.err
}
func (f failingClusters) Get(string) (*clusterv1.ManagedCluster, error) { return nil, f.err }

type failingSets struct{ err error }

func (f failingSets) List(labels.Selector) ([]*clusterv1beta2.ManagedClusterSet, error) {
	return nil, f.err
}
func (f failingSets) Get(string) (*clusterv1beta2.ManagedClusterSet, error) { return nil, f.err }

type failingBindings struct {
	clusterlistersv1beta2.ManagedClusterSetBindingNamespaceLister
	err error
}

func (f failingBindings) List(labels.Selector) ([]*clusterv1beta2.ManagedClusterSetBinding, error) {
	return nil, f.err
}

func (f failingBindings) ManagedClusterSetBindings(string) clusterlistersv1beta2.ManagedClusterSetBindingNamespaceLister {
	return f
}

var (
	_ clusterlisters.ManagedClusterLister                  = failingClusters{}
	_ clusterlistersv1beta2.ManagedClusterSetLister        = failingSets{}
	_ clusterlistersv1beta2.ManagedClusterSetBindingLister = failingBindings{}
)

// workTarget is where config leads on newHub.
func workTarget() *resolve.Target {
	return &resolve.Target{Mode: api.ModeManifestWork, Profile: named(clusterName), ManagedCluster: clusterName}
}

func noProfile(h *hub) { h.profiles = nil }

func notServed(h *hub) {
	noProfile(h)
	h.failProfile = &apimeta.NoKindMatchError{GroupKind: schema.GroupKind{Group: "multicluster.x-k8s.io", Kind: "ClusterProfile"}}
}

func unreadable(h *hub) {
	noProfile(h)
	h.failProfile = apierrors.NewForbidden(schema.GroupResource{Resource: "clusterprofiles"}, clusterName, errBroken)
}

func noCluster(h *hub) { h.clusters = nil }

func unavailable(h *hub) { h.clusters[0].Status.Conditions[1].Status = metav1.ConditionUnknown }

func notAccepted(h *hub) { h.clusters[0].Spec.HubAcceptsClient = false }

func unbound(h *hub) { h.bindings[0].Status.Conditions[0].Status = metav1.ConditionFalse }

func direct(h *hub) { h.profile().Annotations[api.DeliveryAnnotation] = api.DeliveryDirect }

func withProvider(h *hub) {
	inventories, err := trust.NewInventories([]trust.Inventory{{Namespace: "team", Providers: []string{"proxy"}, Servers: []string{"*"}}})
	if err != nil {
		panic(err)
	}
	h.direct = resolve.DirectDelivery{Configured: true, Providers: []string{"proxy"}, Inventories: inventories}
	h.profile().Status.AccessProviders = []clusterinventoryv1alpha1.AccessProvider{{Name: "proxy"}}
}

func TestResolve(t *testing.T) {
	for name, tc := range map[string]struct {
		reason  string
		changes []func(*hub)
		config  *unstructured.Unstructured
		want    resolve.Result
	}{
		"a cluster that is there": {
			reason: "Everything was read that is needed to say so.", want: resolve.Result{Target: workTarget()},
		},
		"a namespace that may not be referred to": {
			reason: "The policy is asked.", config: config("self", 1, refersTo("elsewhere", clusterName)),
			want: resolve.Result{Reason: api.ReasonReferenceNotPermitted},
		},
		"no profile": {
			reason: "It may come.", changes: []func(*hub){noProfile}, want: resolve.Result{Reason: api.ReasonClusterProfileNotFound},
		},
		"no kind of profiles": {
			reason: "The hub may get it.", changes: []func(*hub){notServed}, want: resolve.Result{Reason: api.ReasonClusterProfileNotFound},
		},
		"a profile that cannot be read": {
			reason: "That is no answer, and no error of ours.", changes: []func(*hub){unreadable},
			want: resolve.Result{Reason: api.ReasonClusterProfileUnavailable},
		},
		"a profile that claims another cluster": {
			reason:  "The cluster is not even looked up.",
			changes: []func(*hub){func(h *hub) { h.profile().Labels[clusterv1.ClusterNameLabelKey] = "c2" }, func(h *hub) { h.clusters[0].Name = "c2" }},
			want:    resolve.Result{Reason: api.ReasonManagedClusterNotFound},
		},
		"no cluster": {
			reason: "The profile outlived it.", changes: []func(*hub){noCluster}, want: resolve.Result{Reason: api.ReasonManagedClusterNotFound},
		},
		"no binding that counts": {
			reason: "Consent is read from the hub.", changes: []func(*hub){unbound}, want: resolve.Result{Reason: api.ReasonReferenceNotPermitted},
		},
		"a binding elsewhere": {
			reason: "It proves nothing here.", changes: []func(*hub){func(h *hub) { h.bindings = []*clusterv1beta2.ManagedClusterSetBinding{binding("other", "dev")} }},
			want: resolve.Result{Reason: api.ReasonReferenceNotPermitted},
		},
		"a binding of a set that is gone": {
			reason: "The next one may do.", changes: []func(*hub){func(h *hub) {
				h.bindings = append([]*clusterv1beta2.ManagedClusterSetBinding{binding(team, "a-gone")}, h.bindings...)
			}},
			want: resolve.Result{Target: workTarget()},
		},
		"only a binding of a set that is gone": {
			reason: "Nothing contains the cluster.", changes: []func(*hub){func(h *hub) { h.sets = nil }},
			want: resolve.Result{Reason: api.ReasonReferenceNotPermitted},
		},
		"an unavailable cluster": {
			reason: "It is still the target.", changes: []func(*hub){unavailable},
			want: resolve.Result{Target: workTarget(), Reason: api.ReasonManagedClusterUnavailable},
		},
		"a profile of another manager": {
			reason:  "It is no cluster of OCM, whatever there is of that name.",
			changes: []func(*hub){withProvider, func(h *hub) { h.profile().Spec.ClusterManager.Name = "gke" }},
			want:    resolve.Result{Target: &resolve.Target{Mode: api.ModeDirect, Profile: named(clusterName), Provider: "proxy"}},
		},
		"Direct delivery": {
			reason: "What the manager is configured for is passed on.", changes: []func(*hub){direct, withProvider},
			want: resolve.Result{Target: &resolve.Target{Mode: api.ModeDirect, Profile: named(clusterName), ManagedCluster: clusterName, Provider: "proxy"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHub()
			for _, change := range tc.changes {
				change(h)
			}
			if tc.config == nil {
				tc.config = config("self", 1)
			}
			got, err := h.finder(t).Resolve(tc.config)
			if err != nil {
				t.Fatal(err)
			}
			if (got.Message == "") != (got.Reason == "") {
				t.Errorf("reason %q has message %q", got.Reason, got.Message)
			}
			got.Message = ""
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}

// TestBrokenCaches holds that a cache that fails is an error: it would otherwise be taken for a cluster, a binding or a
// set that does not exist.
func TestBrokenCaches(t *testing.T) {
	for name, breaks := range map[string]func(*Finder){
		"clusters": func(f *Finder) { f.Clusters = failingClusters{errBroken} },
		"bindings": func(f *Finder) { f.Bindings = failingBindings{err: errBroken} },
		"sets":     func(f *Finder) { f.Sets = failingSets{errBroken} },
	} {
		t.Run(name, func(t *testing.T) {
			f := newHub(config("self", 1)).finder(t)
			breaks(f)
			if result, err := f.Resolve(config("self", 1)); !isBroken(err) || result != (resolve.Result{}) {
				t.Errorf("Resolve is %v with error %v", result, err)
			}
			if result, err := f.OfAddOn(addOn("self")); !isBroken(err) || result.Target != nil {
				t.Errorf("OfAddOn is %v with error %v", result, err)
			}
		})
	}
	f := newHub().finder(t)
	f.Clusters = failingClusters{errBroken}
	if result, err := f.OfAddOn(addOn()); !isBroken(err) || result.Target != nil {
		t.Errorf("of an add-on without configuration OfAddOn is %v with error %v", result, err)
	}
	f = newHub().finder(t)
	if err := f.Configs[api.Serving].Add(&metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: team, Name: "odd"}}); err != nil {
		t.Fatal(err)
	}
	if result, err := f.OfAddOn(addOn("odd")); err == nil || result.Target != nil {
		t.Errorf("with a configuration that cannot be read OfAddOn is %v with error %v", result, err)
	}
}

func TestOfAddOn(t *testing.T) {
	enabled := &resolve.Target{Mode: api.ModeManifestWork, ManagedCluster: clusterName}
	closed := &resolve.Target{Mode: api.ModeManifestWork, ManagedCluster: clusterName, Closed: true}
	pending := addOn("self")
	pending.Status.ConfigReferences = nil
	for name, tc := range map[string]struct {
		reason  string
		changes []func(*hub)
		config  *unstructured.Unstructured
		addOn   *addonv1beta1.ManagedClusterAddOn
		want    resolve.Result
		mention string
	}{
		"no configuration": {
			reason: "A user enabled it on a cluster that is there.", addOn: addOn(), want: resolve.Result{Target: enabled},
		},
		"a configuration that OCM has not resolved": {
			reason: "Nothing is rendered before, and nothing has to be kept from it.", addOn: pending, want: resolve.Result{Target: enabled},
		},
		"a configuration that does not exist": {
			reason: "That is told by who renders.", addOn: addOn("gone"), want: resolve.Result{Target: enabled},
		},
		"a fleet configuration": {
			reason: "It may be used everywhere.", config: config("self", 1, refersToNothing), addOn: addOn("self"), want: resolve.Result{Target: enabled},
		},
		"no configuration, and the cluster is unavailable": {
			reason: "What is there stays and may be changed.", changes: []func(*hub){unavailable}, addOn: addOn(),
			want: resolve.Result{Target: enabled, Reason: api.ReasonManagedClusterUnavailable},
		},
		"no configuration, and the cluster is not accepted": {
			reason: "The administrator has the last word.", changes: []func(*hub){notAccepted}, addOn: addOn(),
			want: resolve.Result{Target: closed, Reason: api.ReasonManagedClusterNotAccepted},
		},
		"no configuration, and no cluster": {
			reason: "There is nothing to write to.", changes: []func(*hub){noCluster}, addOn: addOn(),
			want: resolve.Result{Reason: api.ReasonManagedClusterNotFound}, mention: `"c1"`,
		},
		"a resource without a reference in the place of one that had one": {
			reason: "A name that is used again is no consent.", config: config("self", 1, refersToNothing), addOn: installedFor(addOn("self"), team+"/self"),
			want: resolve.Result{Reason: api.ReasonReferenceNotPermitted}, mention: "refers to no cluster now",
		},
		"a reference to the cluster": {
			reason: "It is permitted and leads here.", config: config("self", 1), addOn: addOn("self"), want: resolve.Result{Target: workTarget()},
		},
		"a reference to an unavailable cluster": {
			reason: "The target is still known.", changes: []func(*hub){unavailable}, config: config("self", 1), addOn: addOn("self"),
			want: resolve.Result{Target: workTarget(), Reason: api.ReasonManagedClusterUnavailable},
		},
		"a reference to another cluster": {
			reason: "Consent for one cluster is none for another.", config: config("self", 1, refersTo(team, "c2")), addOn: addOn("self"),
			want: resolve.Result{Reason: api.ReasonReferenceNotPermitted}, mention: `"team/c2"`,
		},
		"a reference that is revoked": {
			reason: "Nothing new may be written.", changes: []func(*hub){unbound}, config: config("self", 1), addOn: addOn("self"),
			want: resolve.Result{Reason: api.ReasonReferenceNotPermitted},
		},
		"a reference to a profile that is gone": {
			reason: "Nobody knows whether it is still permitted.", changes: []func(*hub){noProfile}, config: config("self", 1), addOn: addOn("self"),
			want: resolve.Result{Reason: api.ReasonClusterProfileNotFound},
		},
		"Direct delivery": {
			reason: "Two ways to one cluster would be two writers.", changes: []func(*hub){direct, withProvider}, config: config("self", 1), addOn: addOn("self"),
			want: resolve.Result{Reason: api.ReasonTargetConflict}, mention: "Direct",
		},
		"Direct delivery that is not configured": {
			reason: "It does not fall back, and says why it does not go on.", changes: []func(*hub){direct}, config: config("self", 1), addOn: addOn("self"),
			want: resolve.Result{Reason: api.ReasonMulticlusterDisabled},
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHub()
			if tc.config != nil {
				h.configs = append(h.configs, tc.config)
			}
			for _, change := range tc.changes {
				change(h)
			}
			got, err := h.finder(t).OfAddOn(tc.addOn)
			if err != nil {
				t.Fatal(err)
			}
			if (got.Message == "") != (got.Reason == "") || !strings.Contains(got.Message, tc.mention) {
				t.Errorf("%s The message of %q is %q, which is to have %q", tc.reason, got.Reason, got.Message, tc.mention)
			}
			got.Message = ""
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}
