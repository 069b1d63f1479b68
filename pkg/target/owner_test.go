// Copyright Contributors to the Open Cluster Management project

package target

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"

	"open-cluster-management.io/knative-addon/pkg/api"
)

// ours is an add-on that names the KnativeServing and says that it was made for it.
func ours(name string) *addonv1beta1.ManagedClusterAddOn {
	return installedFor(addOn(name), team+"/"+name)
}

func TestOwner(t *testing.T) {
	lost := refersTo(team, "c2")
	for name, tc := range map[string]struct {
		reason string
		addOn  *addonv1beta1.ManagedClusterAddOn
		// others are the resources of the hub besides self, which was created in second 100.
		others []*unstructured.Unstructured
		change func(*hub)
		want   Owner
	}{
		"nobody has the cluster": {
			reason: "Who asks first may have it.", want: Owner{Ownership: Free},
		},
		"self has the cluster": {
			reason: "It stays so.", addOn: ours("self"), want: Owner{Ownership: Ours},
		},
		"self has the cluster, and nobody has written down why": {
			reason: "What counts is spec.configs.", addOn: addOn("self"), want: Owner{Ownership: Ours},
		},
		"an older resource asks too": {
			reason: "The oldest comes first.", others: []*unstructured.Unstructured{config("old", 99)},
			want: Owner{OfOtherResource, named("old")},
		},
		"two older resources ask": {
			reason: "The oldest is named.", others: []*unstructured.Unstructured{config("older", 98), config("oldest", 97), config("young", 101)},
			want: Owner{OfOtherResource, named("oldest")},
		},
		"a younger resource asks": {
			reason: "It has to wait.", others: []*unstructured.Unstructured{config("young", 101)}, want: Owner{Ownership: Free},
		},
		"a resource of the same second whose name comes first": {
			reason: "Somebody has to win, and everybody has to see it alike.", others: []*unstructured.Unstructured{config("another", 100)},
			want: Owner{OfOtherResource, named("another")},
		},
		"a resource of the same second whose name comes last": {
			reason: "Somebody has to win, and everybody has to see it alike.", others: []*unstructured.Unstructured{config("young", 100)},
			want: Owner{Ownership: Free},
		},
		"an older resource is being deleted": {
			reason: "It does not want the cluster any more.", others: []*unstructured.Unstructured{config("old", 99, beingDeleted)},
			want: Owner{Ownership: Free},
		},
		"an older resource refers to another cluster": {
			reason: "It is none.", others: []*unstructured.Unstructured{config("old", 99, lost)}, want: Owner{Ownership: Free},
		},
		"an older resource whose reference nobody permits": {
			reason: "It gets nothing, and keeps nothing from others.", others: []*unstructured.Unstructured{config("old", 99, in("other"))},
			want: Owner{Ownership: Free},
		},
		"an older resource refers to the same cluster by another profile": {
			reason: "The identity is the cluster, not the profile.",
			others: []*unstructured.Unstructured{config("old", 99, in("other"), refersTo("other", clusterName))},
			want:   Owner{OfOtherResource, nameIn("other", "old")},
		},
		"an older resource, and the cluster is unavailable": {
			reason: "It comes first all the same.", others: []*unstructured.Unstructured{config("old", 99)}, change: unavailable,
			want: Owner{OfOtherResource, named("old")},
		},
		"an older resource that asks for Direct delivery": {
			reason: "It does not want the add-on.",
			others: []*unstructured.Unstructured{config("old", 99, in("other"), refersTo("other", clusterName))},
			change: func(h *hub) {
				h.profiles[nameIn("other", clusterName)].Annotations[api.DeliveryAnnotation] = api.DeliveryDirect
			},
			want: Owner{Ownership: Free},
		},
		"an older incumbent": {
			reason: "It came first and has it.", addOn: ours("old"), others: []*unstructured.Unstructured{config("old", 99)},
			want: Owner{OfOtherResource, named("old")},
		},
		"a younger incumbent": {
			reason: "The oldest has the cluster, also when it comes into its right late.", addOn: ours("young"),
			others: []*unstructured.Unstructured{config("young", 101)}, want: Owner{Inherited, named("young")},
		},
		"a younger incumbent, and somebody who is older": {
			reason: "The oldest takes it over, not self.", addOn: ours("young"),
			others: []*unstructured.Unstructured{config("young", 101), config("old", 99)}, want: Owner{OfOtherResource, named("old")},
		},
		"an incumbent that is being deleted": {
			reason: "Its removal comes first, whatever its age.", addOn: ours("young"),
			others: []*unstructured.Unstructured{config("young", 101, beingDeleted)}, want: Owner{OfOtherResource, named("young")},
		},
		"an older incumbent whose reference is not permitted any more": {
			reason: "Nothing moves because something is not to be seen for a while.", addOn: ours("old"),
			others: []*unstructured.Unstructured{config("old", 99, refersTo("elsewhere", clusterName))}, want: Owner{OfOtherResource, named("old")},
		},
		"a younger incumbent whose reference is not permitted any more": {
			reason: "Against the oldest it never had a right.", addOn: ours("young"),
			others: []*unstructured.Unstructured{config("young", 101, refersTo("elsewhere", clusterName))}, want: Owner{Inherited, named("young")},
		},
		"a user's add-on without configuration": {
			reason: "A user enabled it and may rely on it.", addOn: addOn(), want: Owner{Ownership: OfUser},
		},
		"a user's add-on without configuration, and an older resource": {
			reason: "The user has it, nobody else.", addOn: addOn(), others: []*unstructured.Unstructured{config("old", 99)},
			want: Owner{Ownership: OfUser},
		},
		"a user's add-on with a configuration that refers to nothing": {
			reason: "It is a fleet's.", addOn: addOn("fleet"), others: []*unstructured.Unstructured{config("fleet", 101, refersToNothing)},
			want: Owner{Ownership: OfUser},
		},
		"a user's add-on with the configuration of another cluster": {
			reason: "A user named it; it may not be used here, and that is told there.", addOn: addOn("other"),
			others: []*unstructured.Unstructured{config("other", 101, lost)}, want: Owner{Ownership: OfUser},
		},
		"a user's add-on with a configuration that does not exist": {
			reason: "The user may be about to create it.", addOn: addOn("gone"), want: Owner{Ownership: OfUser},
		},
		"an add-on made for a resource that is gone": {
			reason: "Somebody took the finalizer off: what it left is there to be taken.", addOn: ours("gone"), want: Owner{Inherited, named("gone")},
		},
		"an add-on made for a resource that is gone, and an older resource": {
			reason: "The oldest takes it.", addOn: ours("gone"), others: []*unstructured.Unstructured{config("old", 99)},
			want: Owner{OfOtherResource, named("old")},
		},
		"an add-on made for somebody, and given another configuration by a user": {
			reason: "It is the user's since.", addOn: installedFor(addOn("gone"), team+"/another"), want: Owner{Ownership: OfUser},
		},
		"an add-on made for self, and without configuration since": {
			reason: "A user has taken it.", addOn: installedFor(addOn(), team+"/self"), want: Owner{Ownership: OfUser},
		},
		"self's add-on is being removed": {
			reason: "Somebody disabled it; another one may follow.", addOn: leaving(ours("self")), want: Owner{Ownership: Leaving},
		},
		"the add-on of a resource that is gone is being removed": {
			reason: "Another one may follow.", addOn: leaving(ours("gone")), want: Owner{Ownership: Leaving},
		},
		"self's add-on is being removed, and an older resource asks": {
			reason: "What follows is of the other resource.", addOn: leaving(ours("self")), others: []*unstructured.Unstructured{config("old", 99)},
			want: Owner{OfOtherResource, named("old")},
		},
		"a user's add-on is being removed": {
			reason: "It is the user's until it is gone.", addOn: leaving(addOn()), want: Owner{Ownership: OfUser},
		},
	} {
		t.Run(name, func(t *testing.T) {
			self := config("self", 100)
			h := newHub(append(tc.others, self)...)
			h.profiles[nameIn("other", clusterName)] = profile("other")
			h.bindings = append(h.bindings, binding("other", "dev"))
			if tc.change != nil {
				tc.change(h)
			}
			got, err := h.finder(t).Owner(api.Serving, self, tc.addOn)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}

// acts tells whether a resource writes the add-on with that outcome.
func acts(o Ownership) bool { return o == Free || o == Ours || o == Inherited }

// TestOnlyOneActs lets each of several resources look at the same hub, in every state of the add-on: at most one may act.
func TestOnlyOneActs(t *testing.T) {
	seconds := [][]int64{{1, 2, 3}, {3, 2, 1}, {1, 1, 1}, {2, 1, 1}, {1, 2, 1}}
	changes := map[string]func(*unstructured.Unstructured){
		"there": func(*unstructured.Unstructured) {}, "denied": refersTo("elsewhere", clusterName), "another cluster": refersTo(team, "c2"),
		"fleet": refersToNothing,
	}
	addOns := map[string]*addonv1beta1.ManagedClusterAddOn{
		"none": nil, "user": addOn(), "gone": ours("gone"), "gone, by a user": addOn("gone"), "leaving": leaving(ours("a")),
	}
	for _, name := range []string{"a", "b", "c"} {
		addOns[name], addOns[name+", by a user"] = ours(name), addOn(name)
	}
	for _, s := range seconds {
		for change, apply := range changes {
			for state, a := range addOns {
				acting := actors(t, []*unstructured.Unstructured{config("a", s[0]), config("b", s[1]), config("c", s[2], apply)}, a)
				if len(acting) > 1 {
					t.Errorf("created in %v, c is %s, add-on of %s: %v act", s, change, state, acting)
				}
				if len(acting) == 0 && state == "none" {
					t.Errorf("created in %v, c is %s: nobody takes a cluster that is free", s, change)
				}
			}
		}
	}
}

// actors are those of the resources of a hub that may act on the add-on.
func actors(t *testing.T, all []*unstructured.Unstructured, a *addonv1beta1.ManagedClusterAddOn) []string {
	t.Helper()
	f := newHub(all...).finder(t)
	var out []string
	for _, self := range all {
		owner, err := f.Owner(api.Serving, self, a)
		if err != nil {
			t.Fatal(err)
		}
		result, err := f.Resolve(self)
		if err != nil {
			t.Fatal(err)
		}
		if result.Target != nil && acts(owner.Ownership) {
			out = append(out, self.GetName())
		}
	}
	return out
}

// TestByAge holds that two resources have the same order whoever looks.
func TestByAge(t *testing.T) {
	all := []*unstructured.Unstructured{
		config("a", 1), config("b", 1), config("a", 2), config("b", 1, in("another")), config("c", 1),
		config("d", 1, func(c *unstructured.Unstructured) { c.SetCreationTimestamp(metav1.Time{}) }),
	}
	for i, a := range all {
		for j, b := range all {
			switch x, y := byAge(a, b), byAge(b, a); {
			case i == j && x != 0:
				t.Errorf("%d comes before itself", i)
			case i != j && (x == 0 || x != -y):
				t.Errorf("%d and %d are in no order: %d, %d", i, j, x, y)
			}
		}
	}
}

func TestConfiguredBy(t *testing.T) {
	other := addOn("a")
	other.Spec.Configs[0].Resource = api.Eventing.Resource().Resource
	group := addOn("a")
	group.Spec.Configs[0].Group = "example.com"
	both := addOn("a", "b")
	both.Spec.Configs[0].Resource = "addondeploymentconfigs"
	for name, tc := range map[string]struct {
		addOn *addonv1beta1.ManagedClusterAddOn
		want  string
		ok    bool
	}{
		"nothing":                       {addOn: addOn()},
		"a resource":                    {addOn: addOn("a"), want: "team/a", ok: true},
		"a resource of another kind":    {addOn: other},
		"a resource of another group":   {addOn: group},
		"a resource among other things": {addOn: both, want: "team/b", ok: true},
	} {
		t.Run(name, func(t *testing.T) {
			got, ok := ConfiguredBy(tc.addOn)
			if ok != tc.ok || ok && got.String() != tc.want {
				t.Errorf("the add-on is configured by %q, %v; want %q, %v", got, ok, tc.want, tc.ok)
			}
		})
	}
}

// TestOwnerFails holds that what cannot be read decides nothing.
func TestOwnerFails(t *testing.T) {
	self := config("self", 100)
	f := newHub(self, config("old", 99)).finder(t)
	f.Clusters = failingClusters{errBroken}
	if _, err := f.Owner(api.Serving, self, nil); !isBroken(err) {
		t.Errorf("error is %v, want that of the cluster of the other resource", err)
	}
	f = newHub(self).finder(t)
	f.Configs[api.Serving] = indexerOf(t, []*unstructured.Unstructured{self}, nil)
	if _, err := f.Owner(api.Serving, self, nil); err == nil {
		t.Error("without an index other resources are overlooked")
	}
	f = newHub(self).finder(t)
	if err := f.Configs[api.Serving].Add(&metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: team, Name: "odd"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Owner(api.Serving, self, addOn("odd")); err == nil {
		t.Error("an incumbent that cannot be read is taken for one that does not exist")
	}
}
