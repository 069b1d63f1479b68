// Copyright Contributors to the Open Cluster Management project

package install

import (
	"context"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"open-cluster-management.io/addon-framework/pkg/utils"
	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"
	clusterv1 "open-cluster-management.io/api/cluster/v1"
	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
)

func named(requests []reconcile.Request) []string {
	var out []string
	for _, r := range requests {
		out = append(out, r.Name)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// TestRequests holds which resources are looked at when an object changes.
func TestRequests(t *testing.T) {
	another := func(c *unstructured.Unstructured) {
		c.Object["spec"] = map[string]any{"clusterProfileRef": map[string]any{"namespace": "other", "name": "c2"}}
	}
	self := serving("self", 100)
	h := newHub(t, self, serving("rival", 101), serving("elsewhere", 102, another), serving("fleet", 103, refersToNothing))
	r := h.r
	eventing := addOnOf("self")
	eventing.Name = api.Eventing.AddOnName()
	object := func(namespace, name string) client.Object {
		return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	}
	all := []string{"elsewhere", "fleet", "rival", "self"}
	ofCluster := func(ctx context.Context, o client.Object) []reconcile.Request { return r.ofCluster(ctx, o.GetName()) }
	for name, tc := range map[string]struct {
		reason string
		of     func(context.Context, client.Object) []reconcile.Request
		object client.Object
		want   []string
	}{
		"a resource":            {"Whoever waits for its cluster goes on when it is gone.", r.ofConfig, self, []string{"rival", "self"}},
		"a fleet configuration": {"It is for no cluster.", r.ofConfig, serving("fleet", 1, refersToNothing), []string{"fleet"}},
		"something else":        {"It has a name.", r.ofConfig, object(team, "odd"), []string{"odd"}},
		"an add-on":             {"Whoever refers to its cluster.", r.ofAddOn, addOnOf(""), []string{"rival", "self"}},
		"an add-on with configurations": {
			"What it names, and what it uses, also when these are gone.", r.ofAddOn, addOnOf("gone", uses("fleet")), []string{"fleet", "gone", "rival", "self"},
		},
		"an add-on elsewhere":                {"Whoever refers to that cluster.", r.ofAddOn, addOnOf("", on("c2")), []string{"elsewhere"}},
		"an add-on of another component":     {"Nobody.", r.ofAddOn, eventing, nil},
		"no add-on":                          {"Nobody.", r.ofAddOn, object(clusterName, "knative-serving"), nil},
		"the ClusterManagementAddOn":         {"All depend on it.", r.ofDefinition, object("", "knative-serving"), all},
		"another ClusterManagementAddOn":     {"Nobody.", r.ofDefinition, object("", "knative-eventing"), nil},
		"a foundation":                       {"Whoever refers to its cluster.", r.ofLabel(api.FoundationLabel), foundationOf(nil), []string{"rival", "self"}},
		"a payload":                          {"Whoever refers to its cluster.", r.ofLabel(addonv1beta1.AddonLabelKey), payloadOf("a"), []string{"rival", "self"}},
		"a work of somebody else":            {"Nobody.", r.ofLabel(addonv1beta1.AddonLabelKey), &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Namespace: clusterName}}, nil},
		"a cluster":                          {"Whoever refers to it.", ofCluster, h.cluster, []string{"rival", "self"}},
		"a cluster that nobody refers to":    {"Nobody.", ofCluster, &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: "c3"}}, nil},
		"a profile":                          {"Whoever refers to its cluster: rivals count.", r.ofProfile, object("anywhere", clusterName), []string{"rival", "self"}},
		"a binding":                          {"Whoever refers to its namespace.", r.ofBinding, object("other", "dev"), []string{"elsewhere"}},
		"a binding that nobody refers below": {"Nobody.", r.ofBinding, object("nowhere", "dev"), nil},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, named(tc.of(t.Context(), tc.object))); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
	r.Finder.Configs[api.Serving] = h.cached.clusters
	if got := r.ofCluster(t.Context(), clusterName); got != nil {
		t.Errorf("without an index it finds %q", got)
	}
}

// TestRequestsOfDeployment holds that a change of an AddOnDeploymentConfig, or its deletion, is told at once to those that the
// add-ons with it are of.
func TestRequestsOfDeployment(t *testing.T) {
	with := func(config string) func(*addonv1beta1.ManagedClusterAddOn) {
		return func(a *addonv1beta1.ManagedClusterAddOn) {
			gvr := utils.AddOnDeploymentConfigGVR
			a.Status.ConfigReferences = append(a.Status.ConfigReferences, addonv1beta1.ConfigReference{
				ConfigGroupResource: addonv1beta1.ConfigGroupResource{Group: gvr.Group, Resource: gvr.Resource},
				DesiredConfig:       &addonv1beta1.ConfigSpecHash{ConfigReferent: addonv1beta1.ConfigReferent{Namespace: "infra", Name: config}},
			})
		}
	}
	h := newHub(t, serving("self", 100), serving("fleet", 101, refersToNothing), serving("default", 102, refersToNothing))
	eventing := addOnOf("eventing", on("c4"), with("mirrors"))
	eventing.Name = api.Eventing.AddOnName()
	fill(t, h.cached.addOns, addOnOf("self", with("mirrors")), addOnOf("", on("c2"), uses("fleet"), with("mirrors")),
		addOnOf("", on("c3"), uses("default"), with("proxies")), eventing)
	of := func(name string) []string {
		return named(h.r.ofDeployment(t.Context(), &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "infra", Name: name}}))
	}
	for name, want := range map[string][]string{"mirrors": {"fleet", "self"}, "proxies": {"default"}, "unused": nil} {
		if diff := cmp.Diff(want, of(name)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	h.r.AddOnsByConfig = h.cached.configs
	if got := of("mirrors"); got != nil {
		t.Errorf("without an index it finds %q", got)
	}
}

// TestSetup holds that a manager takes the controllers of both components.
func TestSetup(t *testing.T) {
	mgr, err := ctrl.NewManager(&rest.Config{Host: "127.0.0.1:1"}, ctrl.Options{
		Metrics: server.Options{BindAddress: "0"}, Controller: config.Controller{SkipNameValidation: new(true)},
	})
	if err != nil {
		t.Fatal(err)
	}
	informer := func() cache.SharedIndexInformer {
		return cache.NewSharedIndexInformer(&cache.ListWatch{}, &metav1.PartialObjectMetadata{}, 0, cache.Indexers{})
	}
	in := Informers{
		Configs: informer(), AddOns: informer(), Definitions: informer(), Foundations: informer(), Payloads: informer(),
		Clusters: informer(), Profiles: informer(), Bindings: informer(), Sets: informer(), Deployments: informer(),
	}
	for _, c := range api.Components() {
		if err := (&Reconciler{Component: c}).SetupWithManager(mgr, in); err != nil {
			t.Errorf("%s: %v", c, err)
		}
	}
	strict, err := ctrl.NewManager(&rest.Config{Host: "127.0.0.1:1"}, ctrl.Options{Metrics: server.Options{BindAddress: "0"}})
	if err != nil {
		t.Fatal(err)
	}
	twice := func() error { return (&Reconciler{Component: api.Serving}).SetupWithManager(strict, in) }
	_ = twice() // another run of the tests may have done so before
	if err := twice(); err == nil {
		t.Error("two controllers of one name are an error")
	}
}
