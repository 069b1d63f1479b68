// Copyright Contributors to the Open Cluster Management project

package installations

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/sets"

	"open-cluster-management.io/knative-addon/pkg/api"
)

// TestCompose compares rows of the table with the objects of a hub. REV stands for the hash of the spec of the first resource, and
// OTHER for another hash.
func TestCompose(t *testing.T) {
	const other = "0123456789abcdef"
	fleet := serving("default", withConditions(ready))
	for name, tc := range map[string]struct {
		objects func() Objects
		want    []string
	}{
		"a managed cluster with the fleet configuration is ready": {
			func() Objects {
				o := servings(fleet)
				o.AddOns = append(o.AddOns, addOn(t, "cluster1", fleet, hashOf(t, fleet), resolved, delivered, available))
				o.Works = append(o.Works, foundation("cluster1", "1.23.0"))
				return o
			},
			[]string{"cluster1 knative-serving ManifestWork 1.23.0 REV True Ready 5m - cluster1/knative-serving"},
		},
		"a managed cluster has not completed the spec that OCM assigned": {
			func() Objects {
				o := servings(fleet)
				o.AddOns = append(o.AddOns, addOn(t, "cluster1", fleet, other, resolved, delivered, available))
				o.Works = append(o.Works, foundation("cluster1", "1.22.1"))
				return o
			},
			[]string{"cluster1 knative-serving ManifestWork 1.22.1->1.23.0 OTHER->REV Unknown Delivering - - cluster1/knative-serving"},
		},
		"a managed cluster has the spec that OCM assigned, and the gate is open": {
			func() Objects {
				o := servings(fleet)
				o.AddOns = append(o.AddOns, addOn(t, "cluster1", fleet, hashOf(t, fleet), resolved, delivered, available))
				o.Works = append(o.Works, gate(fleet, hashOf(t, fleet)))
				return o
			},
			[]string{"cluster1 knative-serving ManifestWork - REV True Ready 5m - cluster1/knative-serving"},
		},
		"a managed cluster returns to the spec that OCM has seen last, and the gate is closed": {
			func() Objects {
				o := servings(fleet)
				o.AddOns = append(o.AddOns, addOn(t, "cluster1", fleet, hashOf(t, fleet), resolved, delivered, available))
				o.Works = append(o.Works, gate(fleet, ""))
				return o
			},
			[]string{"cluster1 knative-serving ManifestWork - ->REV Unknown Delivering - - cluster1/knative-serving"},
		},
		"a managed cluster returns to the spec that OCM has seen last, and the gate is open for another spec": {
			func() Objects {
				o := servings(fleet)
				o.AddOns = append(o.AddOns, addOn(t, "cluster1", fleet, hashOf(t, fleet), resolved, delivered, available))
				o.Works = append(o.Works, gate(fleet, other))
				return o
			},
			[]string{"cluster1 knative-serving ManifestWork - ->REV Unknown Delivering - - cluster1/knative-serving"},
		},
		"a managed cluster returns to the spec that OCM has seen last, and the payload is of another spec": {
			func() Objects {
				o := servings(fleet)
				o.AddOns = append(o.AddOns, addOn(t, "cluster1", fleet, hashOf(t, fleet), resolved, delivered, available))
				payload := gate(fleet, other)
				payload.Name = "addon-knative-serving-deploy-0"
				delete(payload.Labels, api.FoundationLabel)
				o.Works = append(o.Works, payload, gate(fleet, hashOf(t, fleet)))
				return o
			},
			[]string{"cluster1 knative-serving ManifestWork - ->REV Unknown Delivering - - cluster1/knative-serving"},
		},
		"a managed cluster waits for its wave": {
			func() Objects {
				o := servings(fleet)
				waiting := addOn(t, "cluster1", fleet, other, resolved, delivered, available)
				waiting.Status.ConfigReferences[0].DesiredConfig.SpecHash = other
				o.AddOns = append(o.AddOns, waiting)
				return o
			},
			[]string{"cluster1 knative-serving ManifestWork - OTHER->REV True Ready 5m - cluster1/knative-serving"},
		},
		"an add-on that nobody has reported on": {
			func() Objects {
				o := servings(fleet)
				o.AddOns = append(o.AddOns, addOn(t, "cluster1", fleet, ""))
				return o
			},
			[]string{"cluster1 knative-serving ManifestWork - ->REV Unknown NotReported - - cluster1/knative-serving"},
		},
		"an unreachable cluster precedes its workloads": {
			func() Objects {
				o := servings(fleet)
				o.AddOns = append(o.AddOns, addOn(t, "cluster1", fleet, hashOf(t, fleet),
					"TargetClusterResolved False ManagedClusterUnavailable", delivered, "Available Unknown ManagedClusterAddOnLeaseUpdateStopped"))
				return o
			},
			[]string{"cluster1 knative-serving ManifestWork - REV False ManagedClusterUnavailable 5m - cluster1/knative-serving"},
		},
		"workloads that are not ready": {
			func() Objects {
				o := servings(fleet)
				o.AddOns = append(o.AddOns, addOn(t, "cluster1", fleet, hashOf(t, fleet), resolved, delivered, "Available False ProbeUnavailable"))
				return o
			},
			[]string{"cluster1 knative-serving ManifestWork - REV False ProbeUnavailable 5m - cluster1/knative-serving"},
		},
		"a cluster that is not verified": {
			func() Objects {
				o := servings(fleet)
				o.AddOns = append(o.AddOns, addOn(t, "cluster1", fleet, "", resolved, delivered, available, "Verified False VerificationFailed"))
				return o
			},
			[]string{"cluster1 knative-serving ManifestWork - ->REV False VerificationFailed 5m - cluster1/knative-serving"},
		},
		"a refused configuration of an add-on that works": {
			func() Objects {
				o := servings(fleet)
				o.AddOns = append(o.AddOns, addOn(t, "cluster1", fleet, hashOf(t, fleet), resolved, available, "Degraded True ConfigurationRefused"))
				return o
			},
			[]string{"cluster1 knative-serving ManifestWork - REV False ConfigurationRefused 5m - cluster1/knative-serving"},
		},
		"an add-on that is paused": {
			func() Objects {
				o := servings(fleet)
				a := addOn(t, "cluster1", fleet, hashOf(t, fleet), resolved, delivered, available)
				a.Annotations = map[string]string{api.PausedAnnotation: "true"}
				o.AddOns = append(o.AddOns, a)
				return o
			},
			[]string{"cluster1 knative-serving ManifestWork - REV True Ready 5m True cluster1/knative-serving"},
		},
		"an add-on that its configuration pauses": {
			func() Objects {
				config := serving("default", paused)
				o := servings(config)
				o.AddOns = append(o.AddOns, addOn(t, "cluster1", config, hashOf(t, config), resolved, delivered, available))
				return o
			},
			[]string{"cluster1 knative-serving ManifestWork - REV True Ready 5m True cluster1/knative-serving"},
		},
		"a removal that is held": {
			func() Objects {
				o := servings(fleet)
				a := addOn(t, "cluster1", fleet, hashOf(t, fleet), resolved, delivered, available, "RemovalHeld True MassRemoval")
				at := since()
				a.DeletionTimestamp = &at
				o.AddOns = append(o.AddOns, a)
				return o
			},
			[]string{"cluster1 knative-serving ManifestWork - REV Unknown MassRemoval 5m - cluster1/knative-serving"},
		},
		"a removal about which nothing is known": {
			func() Objects {
				o := servings(fleet)
				a := addOn(t, "cluster1", fleet, hashOf(t, fleet), available)
				at := since()
				a.DeletionTimestamp = &at
				o.AddOns = append(o.AddOns, a)
				return o
			},
			[]string{"cluster1 knative-serving ManifestWork - REV Unknown Removing 5m - cluster1/knative-serving"},
		},
		"a resource and its add-on are one installation": {
			func() Objects {
				own := serving("own", onCluster("cluster1"), withFinalizer(api.InstallFinalizer),
					withConditions("Ready False ApplyFailed not applied", "InstallSucceeded False ApplyFailed"))
				o := servings(own)
				o.AddOns = append(o.AddOns, addOn(t, "cluster1", own, hashOf(t, own), resolved, delivered, available))
				o.Works = append(o.Works, foundation("cluster1", "1.23.0"))
				return o
			},
			[]string{"cluster1 knative-serving ManifestWork 1.23.0 REV False ApplyFailed 5m - team/own"},
		},
		"a resource is Ready before the foundation has recorded the version": {
			func() Objects {
				own := serving("own", onCluster("cluster1"), withFinalizer(api.InstallFinalizer), withConditions(ready, applied))
				o := servings(own)
				o.AddOns = append(o.AddOns, addOn(t, "cluster1", own, hashOf(t, own), resolved, delivered, available))
				o.Works = append(o.Works, foundation("cluster1", ""))
				return o
			},
			[]string{"cluster1 knative-serving ManifestWork 1.23.0 REV True Ready 5m - team/own"},
		},
		"a resource is not Ready, and the foundation has not recorded the version": {
			func() Objects {
				own := serving("own", onCluster("cluster1"), withFinalizer(api.InstallFinalizer), withConditions("Ready Unknown Delivering", applied))
				o := servings(own)
				o.AddOns = append(o.AddOns, addOn(t, "cluster1", own, hashOf(t, own), resolved, delivered, available))
				o.Works = append(o.Works, foundation("cluster1", "1.22.1"))
				return o
			},
			[]string{"cluster1 knative-serving ManifestWork 1.22.1->1.23.0 REV Unknown Delivering 5m - team/own"},
		},
		"a Ready resource reports another version than the foundation has": {
			func() Objects {
				own := serving("own", onCluster("cluster1"), withFinalizer(api.InstallFinalizer), withConditions(ready, applied))
				own.Object["status"].(map[string]any)["version"] = "1.22.1"
				o := servings(own)
				o.AddOns = append(o.AddOns, addOn(t, "cluster1", own, hashOf(t, own), resolved, delivered, available))
				o.Works = append(o.Works, foundation("cluster1", "1.22.1"))
				return o
			},
			[]string{"cluster1 knative-serving ManifestWork 1.22.1->1.23.0 REV True Ready 5m - team/own"},
		},
		"a resource whose add-on does not exist yet": {
			func() Objects {
				return servings(serving("own", onCluster("cluster1"), withFinalizer(api.InstallFinalizer), withConditions("Ready Unknown Delivering")))
			},
			[]string{"cluster1 knative-serving ManifestWork 1.23.0 ->REV Unknown Delivering 5m - team/own"},
		},
		"a cluster without a work agent is ready": {
			func() Objects {
				return servings(serving("edge", onCluster("edge"), withFinalizer(api.DirectFinalizer), withConditions(ready, applied)))
			},
			[]string{"team/edge knative-serving Direct 1.23.0 REV True Ready 5m - team/edge"},
		},
		"a cluster without a work agent is paused": {
			func() Objects {
				return servings(serving("edge", onCluster("edge"), withFinalizer(api.DirectFinalizer), paused, withConditions("Ready Unknown Delivering", "InstallSucceeded Unknown Delivering")))
			},
			[]string{"team/edge knative-serving Direct 1.23.0 ->REV Unknown Delivering 5m True team/edge"},
		},
		"a status of an earlier generation does not count": {
			func() Objects {
				return servings(serving("edge", onCluster("edge"), withFinalizer(api.DirectFinalizer), withGeneration(2), withConditions(ready, applied)))
			},
			[]string{"team/edge knative-serving Direct 1.23.0 ->REV Unknown NotReported - - team/edge"},
		},
		"a reference without a ClusterProfile": {
			func() Objects {
				return servings(serving("typo", onCluster("nowhere"), withConditions("Ready False ClusterProfileNotFound")))
			},
			[]string{"team/nowhere knative-serving Unknown 1.23.0 ->REV False ClusterProfileNotFound 5m - team/typo"},
		},
		"a resource that is being removed": {
			func() Objects {
				return servings(serving("edge", onCluster("edge"), withFinalizer(api.DirectFinalizer), deleted, withConditions("Ready Unknown Removing")))
			},
			[]string{"team/edge knative-serving Direct 1.23.0 ->REV Unknown Removing 5m - team/edge"},
		},
		"two resources for one cluster": {
			func() Objects {
				first := serving("first", onCluster("cluster1"), withFinalizer(api.InstallFinalizer), withConditions(ready))
				o := servings(first, serving("second", onCluster("cluster1"), withConditions("Ready False TargetConflict")))
				o.AddOns = append(o.AddOns, addOn(t, "cluster1", first, hashOf(t, first), resolved, delivered, available))
				return o
			},
			[]string{
				"cluster1 knative-serving ManifestWork - REV True Ready 5m - team/first",
				"team/cluster1 knative-serving Unknown 1.23.0 ->HASH False TargetConflict 5m - team/second",
			},
		},
		"the hub itself": {
			func() Objects {
				return servings(serving("knative-serving", withFinalizer(api.DirectFinalizer), withConditions(ready, applied)))
			},
			[]string{"hub knative-serving Direct 1.23.0 REV True Ready 5m - team/knative-serving"},
		},
		"a fleet configuration is no installation": {func() Objects { return servings(fleet) }, nil},
		"control characters of a cluster are left out": {
			func() Objects {
				o := servings(fleet)
				a := addOn(t, "cluster1", fleet, "\x1b[31mred", resolved, delivered, "Available False \x1b[31mRed")
				o.AddOns = append(o.AddOns, a)
				return o
			},
			[]string{"cluster1 knative-serving ManifestWork - [31mred->REV False [31mRed 5m - cluster1/knative-serving"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			objects := tc.objects()
			var got []string
			var out strings.Builder
			if err := WriteTable(&out, Compose(objects), true, since().Add(5*time.Minute)); err != nil {
				t.Fatal(err)
			}
			for n, line := range strings.Split(strings.TrimSpace(out.String()), "\n") {
				if n > 0 {
					cells := strings.Fields(line)
					got = append(got, strings.Join(cells[:10], " "))
				}
			}
			var want []string
			for _, row := range tc.want {
				list := objects.Resources[api.Serving]
				row = strings.NewReplacer("REV", hashOf(t, list[0])[:8], "OTHER", other[:8], "HASH", hashOf(t, list[len(list)-1])[:8]).Replace(row)
				want = append(want, row)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("rows (-want +got):\n%s", diff)
			}
		})
	}
}

// state returns installations of several clusters.
func state(t *testing.T) []Installation {
	t.Helper()
	fleet := serving("default")
	o := servings(
		fleet,
		serving("edge-7", onCluster("edge"), withFinalizer(api.DirectFinalizer), paused, withConditions(ready, applied)),
		serving("typo", onCluster("nowhere"), withConditions("Ready False ClusterProfileNotFound no such profile")),
	)
	o.AddOns = append(o.AddOns,
		addOn(t, "cluster1", fleet, hashOf(t, fleet), resolved, delivered, available),
		addOn(t, "cluster2", fleet, "0123456789", resolved, delivered, "Available Unknown NoProbeResult nothing reported"))
	return Compose(o)
}

func TestSelect(t *testing.T) {
	for name, tc := range map[string]struct {
		filter  Filter
		want    []string
		unknown []string
	}{
		"everything":                       {Filter{}, []string{"cluster1", "cluster2", "team/edge", "team/nowhere"}, nil},
		"a managed cluster":                {Filter{Names: []string{"cluster1"}}, []string{"cluster1"}, nil},
		"a ClusterProfile":                 {Filter{Names: []string{"edge"}}, []string{"team/edge"}, nil},
		"a ClusterProfile with namespace":  {Filter{Names: []string{"team/edge"}}, []string{"team/edge"}, nil},
		"a resource":                       {Filter{Names: []string{"typo"}}, []string{"team/nowhere"}, nil},
		"a resource with namespace":        {Filter{Names: []string{"team/edge-7", "cluster2"}}, []string{"cluster2", "team/edge"}, nil},
		"another namespace":                {Filter{Names: []string{"other/edge"}}, nil, []string{"other/edge"}},
		"the name of the add-on":           {Filter{Names: []string{"knative-serving"}}, nil, []string{"knative-serving"}},
		"a mode":                           {Filter{Mode: api.ModeDirect}, []string{"team/edge"}, nil},
		"installations that are not ready": {Filter{NotReady: true}, []string{"cluster2", "team/nowhere"}, nil},
		"labels": {
			Filter{Clusters: sets.New("cluster1", "team/edge")}, []string{"cluster1", "team/edge"}, nil,
		},
		"labels without a cluster": {Filter{Clusters: sets.New[string]()}, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			selected, unknown := tc.filter.Select(state(t))
			var got []string
			for _, i := range selected {
				got = append(got, i.Cluster)
			}
			if diff := cmp.Diff(tc.want, got) + cmp.Diff(tc.unknown, unknown); diff != "" {
				t.Errorf("clusters and unknown names (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSummary(t *testing.T) {
	now := since().Add(3 * time.Hour)
	all := state(t)
	for _, tc := range []struct {
		of   []Installation
		want string
	}{
		{nil, "no installation"},
		{all[:1], "1 of 1 ready"},
		{all[:2], "1 of 2 ready; worst: cluster2 knative-serving is NoProbeResult for 3h"},
		{[]Installation{{Ready: "True", PendingChange: "a change"}}, "1 of 1 ready, 1 with a pending change"},
		{all, "2 of 4 ready, 1 paused; worst: team/nowhere knative-serving is ClusterProfileNotFound for 3h"},
	} {
		if got := Summarize(tc.of).Text(now); got != tc.want {
			t.Errorf("summary is %q, want %q", got, tc.want)
		}
	}
}

func TestDiff(t *testing.T) {
	before, after := state(t), state(t)
	later := since()
	later.Time = later.Add(time.Minute)
	after[0].Since = &later
	if changes := Diff(before, after); len(changes) > 0 {
		t.Errorf("a new time alone is a change: %+v", changes)
	}
	after[1].Ready, after[1].Reason, after[1].Message = "True", "Ready", ""
	fresh := after[2]
	fresh.Object.Name = "edge-8"
	var got []string
	for _, c := range Diff(before, append(after[:3:3], fresh)) {
		got = append(got, strings.Join(strings.Fields(c.Text()), " "))
	}
	revision := shortHash(before[2].Revision)
	want := []string{
		"MODIFIED cluster2 knative-serving ManifestWork - 01234567->" + shortHash(before[0].Revision) + " True Ready",
		"ADDED team/edge knative-serving Direct 1.23.0 " + revision + " True Ready (paused)",
		"DELETED team/nowhere knative-serving Unknown 1.23.0 ->" + shortHash(before[3].NextRevision) + " False ClusterProfileNotFound: no such profile",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("changes (-want +got):\n%s", diff)
	}
}
