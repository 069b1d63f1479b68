// Copyright Contributors to the Open Cluster Management project

package installations

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"
	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
)

// newWork returns a ManifestWork of Serving with three objects, of which the work agent reports those with conditions.
func newWork(name, label string, reports map[string][]string, conditions ...string) workv1.ManifestWork {
	out := workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Namespace: "cluster1", Name: name, Labels: map[string]string{label: string(api.Serving)}}}
	out.Spec.Workload.Manifests = []workv1.Manifest{{RawExtension: runtime.RawExtension{Raw: []byte("{}")}}, {}, {}}
	out.Status.Conditions = parseConditions(conditions)
	for _, object := range []string{"one", "two", "three"} {
		out.Status.ResourceStatus.Manifests = append(out.Status.ResourceStatus.Manifests, workv1.ManifestCondition{
			ResourceMeta: workv1.ManifestResourceMeta{Kind: "ConfigMap", Namespace: "knative-serving", Name: object}, Conditions: parseConditions(reports[object]),
		})
	}
	return out
}

// TestTree compares trees of each delivery mode, word for word.
func TestTree(t *testing.T) {
	fleet := serving("default", withConditions("Ready Unknown Delivering", "InstallSucceeded Unknown Delivering the present spec does not run yet on: cluster1"))
	gate := newWork("knative-serving-gate", api.FoundationLabel, nil, "Applied True A", "Available False A")
	gate.Labels[addonv1beta1.AddonLabelKey] = "knative-serving"
	unreported := newWork("addon-knative-serving-deploy-0", addonv1beta1.AddonLabelKey, nil, "Applied True A", "Available True A")
	unreported.Generation = 2
	works := []workv1.ManifestWork{
		newWork("knative-serving-foundation", api.FoundationLabel, nil, "Applied True A", "Available True A"),
		gate,
		newWork("addon-knative-serving-deploy-0", addonv1beta1.AddonLabelKey, map[string][]string{
			"one": {"Applied True A", "Available True A"}, "two": {"Applied False A exceeded quota: few", "Available False A not there"},
			"three": {"Applied True A", "Available False A 0 of 1\n replicas"},
		}, "Applied False A", "Available False A"),
		newWork("of-another-add-on", addonv1beta1.AddonLabelKey+"s", nil),
	}
	for name, tc := range map[string]struct {
		objects func() Objects
		works   []workv1.ManifestWork
		want    string
	}{
		"a payload that cannot be applied": {
			func() Objects {
				o := servings(fleet)
				a := addOn(t, "cluster1", fleet, "", resolved, "ManifestApplied False "+addonv1beta1.AddonManifestAppliedReasonManifestsApplyFailed+" ConfigMap two: exceeded quota; Service x: denied",
					"Available Unknown NoProbeResult nothing reported", "Configured True Any", "RemovalHeld False RemovalAllowed")
				a.Annotations = map[string]string{api.PausedAnnotation: "true"}
				o.AddOns = append(o.AddOns, a)
				return o
			},
			works, `
cluster1 knative-serving (ManifestWork, version -): Ready is False, ` + addonv1beta1.AddonManifestAppliedReasonManifestsApplyFailed + `, paused
└─ KnativeServing team/default
   ├─ InstallSucceeded is Unknown, Delivering: the present spec does not run yet on: cluster1
   └─ ManagedClusterAddOn cluster1/knative-serving, paused
      ├─ ManifestApplied is False, ` + addonv1beta1.AddonManifestAppliedReasonManifestsApplyFailed + `
      │  ├─ ConfigMap two: exceeded quota
      │  └─ Service x: denied
      ├─ Available is Unknown, NoProbeResult: nothing reported
      ├─ ManifestWork knative-serving-foundation: Applied is True, Available is True, 3 objects
      ├─ ManifestWork knative-serving-gate: holds the rollout
      └─ ManifestWork addon-knative-serving-deploy-0: Applied is False, Available is False, 3 objects
         ├─ ConfigMap knative-serving/two: not applied: exceeded quota: few
         └─ ConfigMap knative-serving/three: not available: 0 of 1 replicas
`,
		},
		"a work agent that does not report": {
			func() Objects {
				o := servings(fleet)
				o.AddOns = append(o.AddOns, addOn(t, "cluster1", fleet, "0123456789", resolved, delivered, available))
				return o
			},
			[]workv1.ManifestWork{unreported},
			`
cluster1 knative-serving (ManifestWork, version -): Ready is Unknown, Delivering
└─ KnativeServing team/default
   ├─ InstallSucceeded is Unknown, Delivering: the present spec does not run yet on: cluster1
   └─ ManagedClusterAddOn cluster1/knative-serving
      └─ ManifestWork addon-knative-serving-deploy-0: Applied is True, Available is True, 3 objects; the work agent has not reported on generation 2 yet
`,
		},
		"a cluster without a work agent": {
			func() Objects {
				return servings(serving("edge-7", onCluster("edge"), withFinalizer(api.DirectFinalizer), withConditions(
					"Ready False WorkloadsNotReady DeploymentsAvailable", resolved, applied,
					"DeploymentsAvailable False WorkloadsNotReady Deployment activator: 0 of 1; Deployment webhook: image pull")))
			},
			nil, `
team/edge knative-serving (Direct, version 1.23.0): Ready is False, WorkloadsNotReady
└─ KnativeServing team/edge-7
   └─ DeploymentsAvailable is False, WorkloadsNotReady
      ├─ Deployment activator: 0 of 1
      └─ Deployment webhook: image pull
`,
		},
		"a cluster that is not verified": {
			func() Objects {
				o := Objects{}
				o.AddOns = append(o.AddOns, addOn(t, "cluster1", fleet, "", resolved, available, "Verified False Verifying the verification waits for Service a"))
				return o
			},
			nil, `
cluster1 knative-serving (ManifestWork, version -): Ready is False, Verifying
└─ ManagedClusterAddOn cluster1/knative-serving
   └─ Verified is False, Verifying: the verification waits for Service a
`,
		},
		"a removal that is held": {
			func() Objects {
				o := Objects{}
				a := addOn(t, "cluster1", fleet, "", available, "RemovalHeld True MassRemoval confirm; or cancel")
				at := since()
				a.DeletionTimestamp = &at
				o.AddOns = append(o.AddOns, a)
				return o
			},
			nil, `
cluster1 knative-serving (ManifestWork, version -): Ready is Unknown, MassRemoval
└─ ManagedClusterAddOn cluster1/knative-serving, being deleted
   └─ RemovalHeld is True, MassRemoval: confirm; or cancel
`,
		},
		"an edit that nobody has reported on": {
			func() Objects {
				return servings(serving("edge-7", onCluster("edge"), withFinalizer(api.DirectFinalizer), withGeneration(3), withConditions(ready)))
			},
			nil, `
team/edge knative-serving (Direct, version 1.23.0): Ready is Unknown, NotReported
└─ KnativeServing team/edge-7
   └─ the manager has not reported on generation 3 yet
`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			objects := tc.objects()
			all := Compose(objects)
			if len(all) != 1 {
				t.Fatalf("%d installations, want 1", len(all))
			}
			var out strings.Builder
			node := Tree(&all[0], objects, tc.works)
			if err := node.Write(&out); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(strings.TrimPrefix(tc.want, "\n"), out.String()); diff != "" {
				t.Errorf("tree (-want +got):\n%s", diff)
			}
		})
	}
}
