// Copyright Contributors to the Open Cluster Management project

package manifestwork

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	workv1 "open-cluster-management.io/api/work/v1"
)

// TestDeletionWithoutWrites holds that no pass of the work agent writes an object when the payload is deleted: the agent has reported a spec
// whose objects are all read-only.
func TestDeletionWithoutWrites(t *testing.T) {
	w := payloadWork(t, webhookManifests())
	var steps []RemovalStep
	for range 10 {
		r := next(t, w)
		steps = append(steps, r.Step)
		if r.Step == Delete {
			break
		}
		if r.Payload == nil {
			t.Fatalf("after steps %v the removal does not continue: %s", steps, r.Why)
		}
		w = r.Payload
		w.Generation++
		report(w, reportedObjects(t, w)...)
	}
	if diff := cmp.Diff([]RemovalStep{StopWorkloads, Reclaim, StopApplying, Delete}, steps); diff != "" {
		t.Errorf("steps (-want +got):\n%s", diff)
	}
	for _, m := range w.Status.ResourceStatus.Manifests {
		if got := appliedStrategy(w, m.ResourceMeta); got != workv1.UpdateStrategyTypeReadOnly {
			t.Errorf("a pass of the agent that is under way writes %s %s with strategy %s", m.ResourceMeta.Kind, m.ResourceMeta.Name, got)
		}
	}
	if len(w.Status.ResourceStatus.Manifests) != 3 {
		t.Errorf("the deletion removes %d objects, want 3", len(w.Status.ResourceStatus.Manifests))
	}
}

// TestReadOnlyPayload holds what follows the step in which the agent stops applying.
func TestReadOnlyPayload(t *testing.T) {
	owned, stopped := configurationStatus(true), stoppedStatus("controller")
	reclaimed := reclaimedPayload(t)
	report(reclaimed, owned, stopped)
	r := next(t, reclaimed)
	if r.Step != StopApplying {
		t.Fatalf("step is %s (%s), want %s", r.Step, r.Why, StopApplying)
	}
	r.Payload.Generation++
	for name, tc := range map[string]struct {
		reported []workv1.ManifestCondition
		older    bool
		want     RemovalStep
	}{
		"a report of an older generation":     {[]workv1.ManifestCondition{owned, stopped}, true, AwaitStopApplying},
		"a report":                            {[]workv1.ManifestCondition{owned, stopped}, false, Delete},
		"a webhook takes its configuration":   {[]workv1.ManifestCondition{configurationStatus(false), stopped}, false, Reclaim},
		"a workload gets pods again":          {[]workv1.ManifestCondition{owned, deploymentStatus("controller", map[string]int64{desiredValue: 1})}, false, Reclaim},
		"a configuration and a workload gone": {[]workv1.ManifestCondition{configurationStatus(false, gone), deploymentStatus("controller", nil, gone)}, false, Delete},
	} {
		t.Run(name, func(t *testing.T) {
			w := r.Payload.DeepCopy()
			report(w, tc.reported...)
			if tc.older {
				older(w, workv1.WorkApplied)
			}
			got := next(t, w)
			if got.Step != tc.want {
				t.Fatalf("step is %s (%s), want %s", got.Step, got.Why, tc.want)
			}
			if got.Payload != nil && isReadOnly(got.Payload) {
				t.Error("the agent cannot take the configuration back: the payload is read-only")
			}
		})
	}
	t.Run("a payload that is orphaned", func(t *testing.T) {
		w := Orphaned(r.Payload)
		if isReadOnly(w) || !isReadOnly(r.Payload) {
			t.Error("the agent does not apply that the work owns no objects")
		}
	})
	t.Run("a payload without a reported object", func(t *testing.T) {
		w := next(t, payloadWork(t, webhookManifests()[3:])).Payload
		report(w)
		if got := next(t, w); got.Step != Delete {
			t.Errorf("step is %s (%s), want %s: no entry would make another spec", got.Step, got.Why, Delete)
		}
	})
}

// reclaimedPayload returns a payload without the webhook, whose objects the agent applies as their owner.
func reclaimedPayload(t *testing.T) *workv1.ManifestWork {
	t.Helper()
	w := payloadWork(t, webhookManifests())
	for _, want := range []RemovalStep{StopWorkloads, Reclaim} {
		r := next(t, w)
		if r.Step != want {
			t.Fatalf("step is %s (%s), want %s", r.Step, r.Why, want)
		}
		w = r.Payload
		w.Generation++
		report(w, reportedObjects(t, w)...)
	}
	return w
}

// reportedObjects returns the report of an agent that owns all objects of the work, whose Deployments have no pods.
func reportedObjects(t *testing.T, w *workv1.ManifestWork) []workv1.ManifestCondition {
	t.Helper()
	objects, err := manifestsOf(w)
	if err != nil {
		t.Fatal(err)
	}
	var out []workv1.ManifestCondition
	for _, o := range objects {
		switch o.GetKind() {
		case "Deployment":
			m := stoppedStatus(o.GetName())
			m.ResourceMeta.Group = "apps"
			out = append(out, m)
		case "ValidatingWebhookConfiguration":
			m := configurationStatus(true)
			m.ResourceMeta.Group = "admissionregistration.k8s.io"
			out = append(out, m)
		default:
			out = append(out, workv1.ManifestCondition{ResourceMeta: workv1.ManifestResourceMeta{
				Kind: o.GetKind(), Resource: "services", Namespace: o.GetNamespace(), Name: o.GetName(),
			}})
		}
	}
	return out
}

// appliedStrategy returns the strategy by which the agent applies an object: the strategy of the first matching entry, or else Update.
func appliedStrategy(w *workv1.ManifestWork, m workv1.ManifestResourceMeta) workv1.UpdateStrategyType {
	i := slices.IndexFunc(w.Spec.ManifestConfigs, func(c workv1.ManifestConfigOption) bool {
		id := c.ResourceIdentifier
		return c.UpdateStrategy != nil && id.Group == m.Group && id.Resource == m.Resource &&
			slices.Contains([]string{"*", everyNamespace, m.Namespace}, id.Namespace) && slices.Contains([]string{"*", m.Name}, id.Name)
	})
	if i < 0 {
		return workv1.UpdateStrategyTypeUpdate
	}
	return w.Spec.ManifestConfigs[i].UpdateStrategy.Type
}
