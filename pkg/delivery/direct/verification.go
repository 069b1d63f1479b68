// Copyright Contributors to the Open Cluster Management project

package direct

import (
	"context"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/boundedhttp"
	"open-cluster-management.io/knative-addon/pkg/clustercache"
	"open-cluster-management.io/knative-addon/pkg/delivery"
	"open-cluster-management.io/knative-addon/pkg/inventory"
	"open-cluster-management.io/knative-addon/pkg/render"
)

// stepRetry is the time until the pass that takes the next step of a verification.
const stepRetry = time.Millisecond

// verification is the step of a verification that a pass takes. docs/design/0022-verification.md has the reasons.
type verification struct {
	// bundle is the bundle to apply: with the Service while the verification runs.
	bundle *render.Bundle
	// record names the rendering whose verification has succeeded, for the anchor; empty before.
	record string
	// state holds the facts for condition Verified; nil when nobody requests a verification.
	state *delivery.Verification
}

// planVerification determines the step of the verification of a bundle from the anchor and the cached objects. The Service joins the bundle
// when the cluster runs the bundle, and leaves when the Service was Ready. A kept Service stays outside of the bundle.
func (i *Installation) planVerification(b *render.Bundle, a *inventory.Anchor, seen clustercache.Views) (verification, error) {
	rendering, out := b.RenderingName(), verification{bundle: b}
	isRecorded := a.Installed().Verified == rendering
	if isRecorded {
		out.record = rendering
	}
	if b.Verification == nil {
		return out, nil
	}
	service, err := b.Verification.Service(rendering)
	if err != nil {
		return out, err
	}
	it := newDesiredObject(service, b.Component, a.UID)
	item := a.Items[it.id]
	hasBegun := isRecorded || item.Digest == it.digest
	out.state = &delivery.Verification{Rendering: rendering, Runs: hasBegun || i.runsBundle(b, a, seen)}
	if s, known := seen.Find(item.Place(), it.id.Name, i.writtenVersions[it.id]); known && s != nil && s.DeletionTimestamp == nil {
		out.state.Service = s.Service
	}
	if f := i.failedObjects[it.id]; f != nil {
		out.state.Refusal = f.Cause
	}
	out.state.Verified = isRecorded || out.state.Service.IsReady(rendering)
	switch {
	case out.state.Verified:
		out.record = rendering
	case out.state.Runs:
		out.bundle = withObject(b, service)
	}
	return out, nil
}

// withObject returns a bundle of the same rendering that has another object in its payload.
func withObject(b *render.Bundle, o render.Object) *render.Bundle {
	out := *b
	out.Payload = append(slices.Clip(b.Payload), o)
	return &out
}

// runsBundle reports whether the cluster has every object of the bundle, and every workload runs.
func (i *Installation) runsBundle(b *render.Bundle, a *inventory.Anchor, seen clustercache.Views) bool {
	o := i.observeBundle(b, a, seen)
	return o.Waiting == "" && len(o.Failed) == 0 && len(o.NotReady(b.Workloads, b.Jobs)) == 0
}

// observeVerification fills in the state of the verification after a pass, and requests another pass when the verification has a next step
// already: no event of the cluster may follow.
func (i *Installation) observeVerification(out *Outcome, b *render.Bundle, a *inventory.Anchor, seen clustercache.Views) error {
	next, err := i.planVerification(b, a, seen)
	if err != nil {
		return err
	}
	out.Verification = next.state
	hasStep := next.record != a.Installed().Verified
	if v := next.state; v != nil && !v.Verified && v.Runs && v.Refusal == "" {
		_, begun := a.Items[b.Verification.ID()]
		hasStep = hasStep || !begun
	}
	if hasStep {
		out.Retry = stepRetry
	}
	return nil
}

// isKeptService reports whether an object is the Service of an earlier verification, which stays as it is until the next verification.
func isKeptService(b *render.Bundle, id render.ObjectID) bool {
	return b.Verification != nil && b.Verification.Keep && b.Verification.ID() == id
}

// removeVerification deletes the Service of a verification before the workloads stop: Knative's controllers remove the finalizers of the
// resources that belong to the Service, and the Service goes after these resources. Where the controllers do not run, the removal continues
// after delivery.LongestStop.
func (i *Installation) removeVerification(ctx context.Context, inv inventory.Items) (waiting string, err error) {
	for id, e := range inv {
		if e.GVR() != render.VerificationResource() || e.Name != api.VerificationServiceName {
			continue
		}
		if i.verificationRemoval.IsZero() {
			i.verificationRemoval = i.clock.Now()
		}
		gone, err := i.deleteVerification(ctx, &e)
		switch {
		case clustercache.IsUnavailable(err):
			return "", fmt.Errorf("cannot delete %s: %w", id, err)
		case gone:
			delete(inv, id)
			delete(i.writtenVersions, id)
		case i.isVerificationOverdue():
		case err != nil:
			return fmt.Sprintf("waiting for %s to be gone: its deletion was refused: %v", id, err), nil
		default:
			return fmt.Sprintf("waiting for %s to be gone", id), nil
		}
	}
	return "", nil
}

// isVerificationOverdue reports whether the removal of the Service has lasted for delivery.LongestStop.
func (i *Installation) isVerificationOverdue() bool {
	return i.clock.Now().Sub(i.verificationRemoval) >= delivery.LongestStop
}

// deleteVerification deletes the Service of a verification after the resources that belong to the Service. An overdue Service goes without
// these resources. gone reports that the Service is gone or belongs to another owner.
func (i *Installation) deleteVerification(ctx context.Context, e *inventory.Item) (gone bool, err error) {
	ctx, release := boundedhttp.Hold(ctx)
	defer release()
	client := i.cluster.Metadata.Resource(e.GVR()).Namespace(e.Namespace)
	o, err := client.Get(ctx, e.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return true, nil
	case err != nil:
		return false, err
	case !i.mayRemove(o, e):
		return true, nil
	}
	policy := metav1.DeletePropagationForeground
	if i.isVerificationOverdue() {
		policy = metav1.DeletePropagationBackground
	} else if o.DeletionTimestamp != nil {
		return false, nil
	}
	err = client.Delete(ctx, e.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &o.UID}, PropagationPolicy: &policy})
	return apierrors.IsNotFound(err), ignoreNotFound(err)
}

func ignoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
