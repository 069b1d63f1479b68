// Copyright Contributors to the Open Cluster Management project

package foundation

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/delivery/work"
	"open-cluster-management.io/knative-addon/pkg/render"
)

// withdrawProof deletes the proof of what the cluster had before. addon-framework waits until it is gone.
func (r *Reconciler) withdrawProof(ctx context.Context, s *scope, bundle *render.Bundle) error {
	if s.proof == nil || work.Proves(s.proof, bundle, s.foundation) {
		return nil
	}
	return r.delete(ctx, s.proof)
}

// prove has it said on the cluster that the bundle runs, as soon as it does: OCM's rollout goes on when the work agent finds
// that. It stays said, whatever becomes of the workloads, until the cluster is to have something else.
func (r *Reconciler) prove(ctx context.Context, s *scope, bundle *render.Bundle) error {
	if s.proof == nil {
		if work.Runs(bundle, s.foundation, s.payloads) {
			return r.createProof(ctx, s, bundle)
		}
		return nil
	}
	since, lost := work.LostSince(s.proof)
	switch {
	case !work.Proves(s.proof, bundle, s.foundation):
		return nil // the next one comes when it is gone
	case len(s.proof.OwnerReferences) != 1 || s.proof.OwnerReferences[0].UID != s.addon.UID:
		return r.inheritProof(ctx, s, bundle)
	case lost:
		return r.bringAgain(ctx, s.proof, since)
	case !work.HasArrived(s.proof):
		return nil
	}
	for _, p := range s.payloads {
		if err := r.lookAgain(ctx, p, s.proof.UID, work.MissesProof(p, bundle, s.foundation)); err != nil {
			return fmt.Errorf("cannot annotate ManifestWork \"%s/%s\": %w", p.Namespace, p.Name, err)
		}
	}
	return nil
}

// bringAgain has the agent apply a proof that it does not find any more, once for each time that it says so.
func (r *Reconciler) bringAgain(ctx context.Context, proof *workv1.ManifestWork, lost time.Time) error {
	if proof.Labels[api.RepairLabel] == repairValue(lost) {
		return nil
	}
	return r.relabel(ctx, proof, lost)
}

// lookAgain has the agent look again, once, for the proof if the payload misses it: it does not watch for what it did not find.
// An annotation makes it look and not apply. Asking more often would do harm: what the agent has seen meets a payload that has
// changed since, and it looks anew. No annotation stays, because addon-framework would take it away when it next starts.
func (r *Reconciler) lookAgain(ctx context.Context, p *workv1.ManifestWork, proof types.UID, misses bool) error {
	id, have := p.Namespace+"/"+p.Name, types.UID(p.Annotations[api.LookAnnotation])
	var want any // null takes it away
	asked, _ := r.asked.Load(id)
	switch {
	case misses && (have == proof || asked == proof):
		return nil
	case misses:
		want = proof
	case have == "":
		r.asked.Delete(id)
		return nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]any{api.LookAnnotation: want}}})
	if err != nil {
		return err
	}
	if _, err := r.WorkClient.WorkV1().ManifestWorks(p.Namespace).Patch(ctx, p.Name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		return err
	}
	if want != nil {
		r.asked.Store(id, proof)
	}
	return nil
}

// createProof creates the proof, unless the add-on has changed meanwhile: it may be to have something else by now.
func (r *Reconciler) createProof(ctx context.Context, s *scope, bundle *render.Bundle) error {
	if a, err := r.AddOns.ManagedClusterAddOns(s.namespace).Get(s.addon.Name); err != nil || a.ResourceVersion != s.addon.ResourceVersion {
		return client.IgnoreNotFound(err) // an event follows
	}
	want := work.Proof(bundle, s.foundation, s.addon)
	if _, err := r.WorkClient.WorkV1().ManifestWorks(want.Namespace).Create(ctx, want, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("cannot create ManifestWork \"%s/%s\": %w", want.Namespace, want.Name, err)
	}
	return nil
}

// inheritProof makes a proof that was handed over the add-on's. Its spec does not change, so that the agent does nothing.
func (r *Reconciler) inheritProof(ctx context.Context, s *scope, bundle *render.Bundle) error {
	changed := s.proof.DeepCopy()
	changed.OwnerReferences = work.Proof(bundle, s.foundation, s.addon).OwnerReferences
	if _, err := r.WorkClient.WorkV1().ManifestWorks(changed.Namespace).Update(ctx, changed, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("cannot take over ManifestWork \"%s/%s\": %w", changed.Namespace, changed.Name, err)
	}
	return nil
}
