// Copyright Contributors to the Open Cluster Management project

package revision

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	if render.ReasonOf(err) != ReasonConfigNotGranted {
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

// TestGrants holds what the hub gives to an add-on.
func TestGrants(t *testing.T) {
	placement := func(name, config string) addonv1beta1.PlacementStrategy {
		out := addonv1beta1.PlacementStrategy{PlacementRef: addonv1beta1.PlacementRef{Namespace: "fleet", Name: name}}
		if config != "" {
			out.Configs = configured(config)
		}
		return out
	}
	definition := func(strategies ...addonv1beta1.PlacementStrategy) *addonv1beta1.ClusterManagementAddOn {
		d := &addonv1beta1.ClusterManagementAddOn{ObjectMeta: metav1.ObjectMeta{Name: "knative-serving"}}
		d.Spec.DefaultConfigs = configured("default")
		if len(strategies) > 0 {
			d.Spec.InstallStrategy = addonv1beta1.InstallStrategy{Type: addonv1beta1.AddonInstallStrategyPlacements, Placements: strategies}
		}
		return d
	}
	moving := definition(placement("here", "next"))
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
		"nothing is named":                           {definition(), claims(), nil},
		"nothing is desired":                         {definition(), undesired, nil},
		"the default":                                {definition(), claims("default"), []string{"default"}},
		"a configuration of somebody else":           {definition(), claims("private"), nil},
		"spec counts before the default":             {definition(), withSpec(claims("default"), "own"), nil},
		"the Placement that selects the cluster":     {definition(placement("here", "mine"), placement("there", "private")), claims("mine"), []string{"mine"}},
		"a Placement that selects others":            {definition(placement("here", "mine"), placement("there", "private")), claims("private"), nil},
		"the Placement counts before the default":    {definition(placement("here", "mine")), claims("default"), nil},
		"a Placement without configurations":         {definition(placement("here", "")), claims("default"), []string{"default"}},
		"what all clusters of the Placement had":     {moving, claims("before"), []string{"before"}},
		"what the hub gave before":                   {definition(placement("here", "next")), recorded(claims("mine"), "mine"), []string{"mine"}},
		"what comes after it":                        {definition(placement("here", "next")), recorded(claims("next"), "mine"), []string{"next"}},
		"a forged one does not take the record away": {definition(placement("here", "next")), recorded(claims("private"), "mine"), []string{"mine"}},
		"a forged one beside":                        {definition(), recorded(claims("private", "default"), "default"), []string{"default"}},
	} {
		t.Run(name, func(t *testing.T) {
			decision := &clusterv1beta1.PlacementDecision{
				ObjectMeta: metav1.ObjectMeta{Namespace: "fleet", Name: "here-1", Labels: map[string]string{clusterv1beta1.PlacementLabel: "here"}},
				Status:     clusterv1beta1.PlacementDecisionStatus{Decisions: []clusterv1beta1.ClusterDecision{{ClusterName: "cluster1"}}},
			}
			others := decision.DeepCopy()
			others.Name, others.Labels[clusterv1beta1.PlacementLabel], others.Status.Decisions[0].ClusterName = "there-1", "there", "cluster2"
			got, err := granter(t, tc.definition, decision, others).Grants(tc.addOn)
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
