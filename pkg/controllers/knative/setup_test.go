// Copyright Contributors to the Open Cluster Management project

package knative

import (
	"context"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"open-cluster-management.io/addon-framework/pkg/utils"
	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"
	clusterv1 "open-cluster-management.io/api/cluster/v1"
	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/hub"
)

func named(requests []reconcile.Request) []string {
	var out []string
	for _, r := range requests {
		out = append(out, r.Name)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func (h *fakeHub) requestMapper() *requestMapper {
	return &requestMapper{component: api.Serving, configs: h.cached.configs, addOns: h.cached.addOns, definitions: h.m.Definitions}
}

// TestUnassignedAddOnRequestsConfigurations holds that an add-on that waits for its first configuration is counted at once.
func TestUnassignedAddOnRequestsConfigurations(t *testing.T) {
	h := newHub(t, serving("fleet", 100, refersToNothing))
	h.definition = &addonv1beta1.ClusterManagementAddOn{
		ObjectMeta: metav1.ObjectMeta{Name: api.Serving.AddOnName()}, Spec: addonv1beta1.ClusterManagementAddOnSpec{DefaultConfigs: defaultConfig("fleet")},
	}
	h.sync()
	for name, tc := range map[string]struct {
		addOn *addonv1beta1.ManagedClusterAddOn
		want  []string
	}{
		"without a configuration":           {addOnOf("", on("c9")), []string{"fleet"}},
		"with another configuration":        {addOnOf("", on("c9"), uses("other")), []string{"other"}},
		"with the configuration of the hub": {addOnOf("", on("c9"), uses("fleet")), []string{"fleet"}},
	} {
		if diff := cmp.Diff(tc.want, named(h.requestMapper().requestsForAddOn(t.Context(), tc.addOn))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestFoundationRequestsConfiguration holds that the version which a foundation records reaches the counts of the configuration.
func TestFoundationRequestsConfiguration(t *testing.T) {
	h := newFleet(t, addOnOf("", on("c9"), uses("fleet")))
	h.sync()
	foundation := foundationOf()
	foundation.Namespace = "c9"
	if diff := cmp.Diff([]string{"fleet"}, named(h.requestMapper().requestsForFoundation(t.Context(), foundation))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestRequests holds which resources are enqueued when an object changes.
func TestRequests(t *testing.T) {
	another := func(c *unstructured.Unstructured) {
		c.Object["spec"] = map[string]any{"clusterProfileRef": map[string]any{"namespace": "other", "name": "c2"}}
	}
	self := serving("self", 100)
	h := newHub(t, self, serving("other", 101), serving("elsewhere", 102, another), serving("fleet", 103, refersToNothing))
	h.sync()
	m := h.requestMapper()
	eventing := addOnOf("self")
	eventing.Name = api.Eventing.AddOnName()
	object := func(namespace, name string) client.Object {
		return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	}
	all := []string{"elsewhere", "fleet", "other", "self"}
	for name, tc := range map[string]struct {
		reason string
		of     func(context.Context, client.Object) []reconcile.Request
		object client.Object
		want   []string
	}{
		"a resource":            {"Whoever waits for its cluster goes on when it is gone.", m.requestsForConfig, self, []string{"other", "self"}},
		"a fleet configuration": {"It is for no cluster.", m.requestsForConfig, serving("fleet", 1, refersToNothing), []string{"fleet"}},
		"something else":        {"It has a name.", m.requestsForConfig, object(team, "odd"), []string{"odd"}},
		"an add-on":             {"Whoever refers to its cluster.", m.requestsForAddOn, addOnOf(""), []string{"other", "self"}},
		"an add-on with configurations": {
			"What it names, and what it uses, also when these are gone.", m.requestsForAddOn, addOnOf("gone", uses("fleet")), []string{"fleet", "gone", "other", "self"},
		},
		"an add-on elsewhere":                {"Whoever refers to that cluster.", m.requestsForAddOn, addOnOf("", on("c2")), []string{"elsewhere"}},
		"an add-on of another component":     {"Nobody.", m.requestsForAddOn, eventing, nil},
		"no add-on":                          {"Nobody.", m.requestsForAddOn, object(clusterName, "knative-serving"), nil},
		"the ClusterManagementAddOn":         {"All depend on it.", m.requestsForDefinition, object("", "knative-serving"), all},
		"another ClusterManagementAddOn":     {"Nobody.", m.requestsForDefinition, object("", "knative-eventing"), nil},
		"a foundation":                       {"Whoever refers to its cluster.", m.requestsForFoundation, foundationOf(), []string{"other", "self"}},
		"a payload":                          {"Whoever refers to its cluster.", m.requestsForWork(addonv1beta1.AddonLabelKey), payloadOf("a"), []string{"other", "self"}},
		"a work of somebody else":            {"Nobody.", m.requestsForWork(addonv1beta1.AddonLabelKey), &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Namespace: clusterName}}, nil},
		"a cluster":                          {"Whoever refers to it.", m.requestsForCluster, h.cluster, []string{"other", "self"}},
		"a cluster that nobody refers to":    {"Nobody.", m.requestsForCluster, &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: "c3"}}, nil},
		"a profile":                          {"Whoever refers to its cluster: resources that wait for the cluster count.", m.requestsForCluster, object("anywhere", clusterName), []string{"other", "self"}},
		"a binding":                          {"Whoever refers to its namespace.", m.requestsForBinding, object("other", "dev"), []string{"elsewhere"}},
		"a binding that nobody refers below": {"Nobody.", m.requestsForBinding, object("nowhere", "dev"), nil},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, named(tc.of(t.Context(), tc.object))); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
	m.configs = h.cached.clusters
	if got := m.requestsForClusterName(t.Context(), clusterName); got != nil {
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
			given(a)
		}
	}
	h := newHub(t, serving("self", 100), serving("fleet", 101, refersToNothing), serving("default", 102, refersToNothing))
	eventing := addOnOf("eventing", on("c4"), with("mirrors"))
	eventing.Name = api.Eventing.AddOnName()
	fill(t, h.cached.addOns, addOnOf("self", with("mirrors")), addOnOf("", on("c2"), uses("fleet"), with("mirrors")),
		addOnOf("", on("c3"), uses("default"), with("proxies")), eventing)
	m := h.requestMapper()
	of := func(name string) []string {
		return named(m.requestsForDeployment(t.Context(), &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "infra", Name: name}}))
	}
	for name, want := range map[string][]string{"mirrors": {"fleet", "self"}, "proxies": {"default"}, "unused": nil} {
		if diff := cmp.Diff(want, of(name)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	m.addOns = h.cached.configs
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
	h, err := hub.NewForConfig(&rest.Config{Host: "127.0.0.1:1"}, hub.DefaultOperatorNamespace)
	if err != nil {
		t.Fatal(err)
	}
	local, err := hub.NewLocalForConfig(&rest.Config{Host: "127.0.0.1:1"}, hub.DefaultOperatorNamespace)
	if err != nil {
		t.Fatal(err)
	}
	providers := make(chan event.GenericEvent)
	for _, c := range api.Components() {
		if err := (&Reconciler{Component: c}).SetupWithManager(mgr, h, &RequestSource{}, providers); err != nil {
			t.Errorf("%s: %v", c, err)
		}
		if err := (&Reconciler{Component: c}).SetupLocalWithManager(mgr, local.Configuration(c), &RequestSource{}); err != nil {
			t.Errorf("%s on the hub: %v", c, err)
		}
	}
	strict, err := ctrl.NewManager(&rest.Config{Host: "127.0.0.1:1"}, ctrl.Options{Metrics: server.Options{BindAddress: "0"}})
	if err != nil {
		t.Fatal(err)
	}
	twice := func() error {
		return (&Reconciler{Component: api.Serving}).SetupWithManager(strict, h, &RequestSource{}, providers)
	}
	_ = twice() // another run of the tests may have done so before
	if err := twice(); err == nil {
		t.Error("two controllers of one name are an error")
	}
}
