// Copyright Contributors to the Open Cluster Management project

package revision

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"
	addonlisters "open-cluster-management.io/api/client/addon/listers/addon/v1beta1"
	clusterlistersv1beta1 "open-cluster-management.io/api/client/cluster/listers/cluster/v1beta1"
	clusterv1beta1 "open-cluster-management.io/api/cluster/v1beta1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/render"
)

// claims returns the add-on of a cluster whose status names KnativeServings, none of which spec.configs names.
func claims(names ...string) *addonv1beta1.ManagedClusterAddOn {
	var refs []addonv1beta1.ConfigReference
	for _, name := range names {
		refs = append(refs, reference("knativeservings", name))
	}
	a := addOn(refs...)
	a.Spec.Configs = nil
	return a
}

func recorded(a *addonv1beta1.ManagedClusterAddOn, names ...string) *addonv1beta1.ManagedClusterAddOn {
	var grants []string
	for _, name := range names {
		grants = append(grants, grantFor(name))
	}
	a.Annotations = map[string]string{api.GrantedConfigsAnnotation: strings.Join(grants, ",")}
	return a
}

func grantFor(name string) string { return "knativeservings." + api.Group + "/fleet/" + name }

func configured(name string) []addonv1beta1.AddOnConfig {
	ref := reference("knativeservings", name)
	return []addonv1beta1.AddOnConfig{{ConfigGroupResource: ref.ConfigGroupResource, ConfigReferent: ref.DesiredConfig.ConfigReferent}}
}

func withSpec(a *addonv1beta1.ManagedClusterAddOn, name string) *addonv1beta1.ManagedClusterAddOn {
	a.Spec.Configs = configured(name)
	return a
}

// TestDesired holds that the status of an add-on selects among what the hub gave, and brings nothing of its own.
func TestDesired(t *testing.T) {
	other := reference("knativeservings", "default")
	other.DesiredConfig.Namespace = "team-b"
	elsewhere := addOn(other)
	elsewhere.Spec.Configs = configured("default")
	for name, tc := range map[string]struct {
		addOn *addonv1beta1.ManagedClusterAddOn
		want  string
	}{
		"nothing":                        {claims(), ""},
		"spec.configs":                   {withSpec(claims("default"), "default"), "default"},
		"what the hub recorded":          {recorded(claims("default"), "default"), "default"},
		"what only the status names":     {claims("private"), ""},
		"beside what the hub recorded":   {recorded(claims("private"), "default"), ""},
		"before what the hub recorded":   {recorded(claims("private", "default"), "default"), "default"},
		"the same name of somebody else": {elsewhere, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := ""
			if config, ok := ConfigOf(tc.addOn); ok {
				got = config.Name
			}
			if got != tc.want {
				t.Errorf("the configuration is %q, want %q", got, tc.want)
			}
		})
	}
}

// TestNotGranted holds that the spec of a resource that the hub did not give is not read, and what is said instead.
func TestNotGranted(t *testing.T) {
	s, _ := source(t, serving(1, "1.23"))
	_, err := s.Install(claims("default"))
	if render.ReasonOf(err) != api.ReasonConfigNotGranted {
		t.Fatalf("error is %v", err)
	}
	for _, want := range []string{`"fleet/default"`, `"cluster1"`, "spec.configs", "keeps its installation"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in: %v", want, err)
		}
	}
	if s.PausedBy(claims("default")) != "" {
		t.Error("annotations of the resource count")
	}
}

// placedBy returns a Placement of a ClusterManagementAddOn, with a configuration unless the name of the configuration is empty.
func placedBy(name, config string) addonv1beta1.PlacementStrategy {
	out := addonv1beta1.PlacementStrategy{PlacementRef: addonv1beta1.PlacementRef{Namespace: "fleet", Name: name}}
	if config != "" {
		out.Configs = configured(config)
	}
	return out
}

// defines returns a ClusterManagementAddOn with a default configuration.
func defines(strategies ...addonv1beta1.PlacementStrategy) *addonv1beta1.ClusterManagementAddOn {
	d := &addonv1beta1.ClusterManagementAddOn{ObjectMeta: metav1.ObjectMeta{Name: "knative-serving"}}
	d.Spec.DefaultConfigs = configured("default")
	if len(strategies) > 0 {
		d.Spec.InstallStrategy = addonv1beta1.InstallStrategy{Type: addonv1beta1.AddonInstallStrategyPlacements, Placements: strategies}
	}
	return d
}

// decidedFor returns the decision of a Placement for a cluster.
func decidedFor(placement, cluster string) *clusterv1beta1.PlacementDecision {
	return &clusterv1beta1.PlacementDecision{
		ObjectMeta: metav1.ObjectMeta{Namespace: "fleet", Name: placement + "-1", Labels: map[string]string{clusterv1beta1.PlacementLabel: placement}},
		Status:     clusterv1beta1.PlacementDecisionStatus{Decisions: []clusterv1beta1.ClusterDecision{{ClusterName: cluster}}},
	}
}

// TestAwaits holds which add-ons count for a configuration before OCM assigns the configuration.
func TestAwaits(t *testing.T) {
	here, there := decidedFor("here", "cluster1"), decidedFor("there", "cluster2")
	for name, tc := range map[string]struct {
		definition *addonv1beta1.ClusterManagementAddOn
		addOn      *addonv1beta1.ManagedClusterAddOn
		config     string
		want       bool
	}{
		"no ClusterManagementAddOn":                   {nil, claims(), "default", false},
		"the default, before the turn":                {defines(), claims(), "default", true},
		"another configuration than the default":      {defines(), claims(), "other", false},
		"the default, assigned":                       {defines(), recorded(claims("default"), "default"), "default", false},
		"the Placement, before the turn":              {defines(placedBy("here", "mine")), claims(), "mine", true},
		"the default, where a Placement has another":  {defines(placedBy("here", "mine")), claims(), "default", false},
		"a Placement without a configuration":         {defines(placedBy("here", "")), claims(), "default", true},
		"a Placement that selects others":             {defines(placedBy("there", "mine")), claims(), "mine", false},
		"the next configuration of the Placement":     {defines(placedBy("here", "next")), recorded(claims("before"), "before"), "next", true},
		"the configuration before":                    {defines(placedBy("here", "next")), recorded(claims("before"), "before"), "before", false},
		"a Placement that a later one overrides":      {defines(placedBy("here", "mine"), placedBy("again", "yours")), claims(), "mine", false},
		"the last Placement":                          {defines(placedBy("here", "mine"), placedBy("again", "yours")), claims(), "yours", true},
		"before a Placement that selects others":      {defines(placedBy("here", "mine"), placedBy("there", "yours")), claims(), "mine", true},
		"the default of the last Placement":           {defines(placedBy("here", "mine"), placedBy("again", "")), claims(), "default", true},
		"overridden by a Placement without configs":   {defines(placedBy("here", "mine"), placedBy("again", "")), claims(), "mine", false},
		"spec, not assigned":                          {defines(), withSpec(claims(), "own"), "own", true},
		"the default, where spec has another":         {defines(), withSpec(claims(), "own"), "default", false},
		"a forged status names another configuration": {defines(), claims("private"), "default", true},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := granter(t, tc.definition, here, there, decidedFor("again", "cluster1")).Awaits(tc.addOn, types.NamespacedName{Namespace: "fleet", Name: tc.config})
			if err != nil || got != tc.want {
				t.Errorf("got %t and error %v, want %t", got, err, tc.want)
			}
		})
	}
}

// TestGrants holds what the hub gives to an add-on.
func TestGrants(t *testing.T) {
	moving := defines(placedBy("here", "next"))
	good := reference("knativeservings", "before")
	moving.Status.InstallProgressions = []addonv1beta1.InstallProgression{{
		PlacementRef: addonv1beta1.PlacementRef{Namespace: "fleet", Name: "here"},
		ConfigReferences: []addonv1beta1.InstallConfigReference{{
			ConfigGroupResource: good.ConfigGroupResource, DesiredConfig: good.DesiredConfig, LastKnownGoodConfig: good.DesiredConfig,
		}},
	}}
	undesired := claims("default")
	undesired.Status.ConfigReferences[0].DesiredConfig = nil
	for name, tc := range map[string]struct {
		definition *addonv1beta1.ClusterManagementAddOn
		addOn      *addonv1beta1.ManagedClusterAddOn
		want       []string
	}{
		"no ClusterManagementAddOn":                  {nil, claims("default"), nil},
		"no ClusterManagementAddOn, but spec":        {nil, withSpec(claims("default"), "default"), []string{"default"}},
		"nothing is named":                           {defines(), claims(), nil},
		"nothing is desired":                         {defines(), undesired, nil},
		"the default":                                {defines(), claims("default"), []string{"default"}},
		"a configuration of somebody else":           {defines(), claims("private"), nil},
		"spec counts before the default":             {defines(), withSpec(claims("default"), "own"), nil},
		"the Placement that selects the cluster":     {defines(placedBy("here", "mine"), placedBy("there", "private")), claims("mine"), []string{"mine"}},
		"a Placement that selects others":            {defines(placedBy("here", "mine"), placedBy("there", "private")), claims("private"), nil},
		"the Placement counts before the default":    {defines(placedBy("here", "mine")), claims("default"), nil},
		"the last Placement":                         {defines(placedBy("here", "mine"), placedBy("again", "yours")), claims("yours"), []string{"yours"}},
		"a Placement that a later one overrides":     {defines(placedBy("here", "mine"), placedBy("again", "yours")), claims("mine"), nil},
		"what an overridden Placement gave before":   {defines(placedBy("here", "mine"), placedBy("again", "yours")), recorded(claims("mine"), "mine"), []string{"mine"}},
		"the default of the last Placement":          {defines(placedBy("here", "mine"), placedBy("again", "")), claims("default"), []string{"default"}},
		"after the last Placement lost the cluster":  {defines(placedBy("here", "mine"), placedBy("there", "yours")), recorded(claims("mine"), "yours"), []string{"mine"}},
		"a Placement without configurations":         {defines(placedBy("here", "")), claims("default"), []string{"default"}},
		"what all clusters of the Placement had":     {moving, claims("before"), []string{"before"}},
		"what the hub gave before":                   {defines(placedBy("here", "next")), recorded(claims("mine"), "mine"), []string{"mine"}},
		"what comes after it":                        {defines(placedBy("here", "next")), recorded(claims("next"), "mine"), []string{"next"}},
		"a forged one does not take the record away": {defines(placedBy("here", "next")), recorded(claims("private"), "mine"), []string{"mine"}},
		"a forged one beside":                        {defines(), recorded(claims("private", "default"), "default"), []string{"default"}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := granter(t, tc.definition, decidedFor("here", "cluster1"), decidedFor("there", "cluster2"), decidedFor("again", "cluster1")).Grants(tc.addOn)
			if err != nil {
				t.Fatal(err)
			}
			var want []string
			for _, name := range tc.want {
				want = append(want, grantFor(name))
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func granter(t *testing.T, definition *addonv1beta1.ClusterManagementAddOn, decisions ...*clusterv1beta1.PlacementDecision) *Granter {
	t.Helper()
	indexer := func() cache.Indexer {
		return cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	}
	definitions, all := indexer(), indexer()
	var errs []error
	if definition != nil {
		errs = append(errs, definitions.Add(definition))
	}
	for _, d := range decisions {
		errs = append(errs, all.Add(d))
	}
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	return &Granter{
		Definitions: addonlisters.NewClusterManagementAddOnLister(definitions), Decisions: clusterlistersv1beta1.NewPlacementDecisionLister(all),
	}
}
