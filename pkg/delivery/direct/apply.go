// Copyright Contributors to the Open Cluster Management project

package direct

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/render"
)

const (
	// inParallel is how many requests a pass has under way at a time.
	inParallel = 10
	// closingTimeout is how long it may take to record what was done when the time for doing it is over.
	closingTimeout = 10 * time.Second
	// firstRetry and longestRetry bound the pause after which an object that was refused is tried again; each doubles the last.
	firstRetry, longestRetry = time.Second, time.Minute
)

// carryOut does what is planned and returns the anchor that records it. The inventory is recorded before anything is done,
// and again at the end: what happens in between can be told from the cluster.
func (i *Installation) carryOut(ctx context.Context, b *render.Bundle, a *anchor, p *plan) (*anchor, error) {
	a, err := i.writeAnchor(ctx, b, a, p.inventory)
	if err != nil {
		return nil, err
	}
	inv := maps.Clone(p.inventory)
	applyErr := i.prune(ctx, p.unblock, inv)
	if applyErr == nil {
		applyErr = i.applyAll(ctx, a, p, inv)
	}
	if applyErr == nil && !i.blocked() {
		applyErr = i.prune(ctx, p.prune, inv)
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) { // the cluster is slow, and the next pass goes on from here
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), closingTimeout)
		defer cancel()
	}
	written, err := i.writeAnchor(ctx, b, a, inv)
	return written, errors.Join(applyErr, err)
}

// applyAll applies stage after stage. What the cluster refuses is remembered; an error means that it could not be used.
func (i *Installation) applyAll(ctx context.Context, a *anchor, p *plan, inv inventory) error {
	defined := p.apply[foundationStage]
	for s, batch := range p.apply {
		if stage(s) == webhookStage && i.failsIn(workloadStage) {
			continue // nobody would answer
		}
		if needsServed(stage(s)) && len(batch) > 0 {
			if err := i.awaitServed(ctx, defined); err != nil {
				return err
			}
			defined = nil
		}
		if err := i.applyStage(ctx, a, batch, inv); err != nil {
			return err
		}
		if stage(s) == foundationStage && i.failsIn(foundationStage) {
			return nil // nothing else can work
		}
	}
	return nil
}

// applied is what came of one object.
type applied struct {
	entry   entry
	version string
	err     error
}

func (i *Installation) applyStage(ctx context.Context, a *anchor, batch []item, inv inventory) error {
	var mu sync.Mutex
	results := make(map[render.ObjectID]applied, len(batch))
	g, groupCtx := errgroup.WithContext(ctx)
	g.SetLimit(inParallel)
	for _, it := range batch {
		g.Go(func() error {
			r := i.applyOne(groupCtx, a, &it)
			mu.Lock()
			defer mu.Unlock()
			results[it.id] = r
			if unusable(r.err) {
				return fmt.Errorf("cannot apply %s: %w", it.id, r.err)
			}
			return nil
		})
	}
	err := g.Wait()
	for _, it := range batch {
		r, done := results[it.id]
		switch {
		case !done || unusable(r.err):
		case r.err != nil:
			i.fail(&it, r.err)
		default:
			delete(i.failing, it.id)
			inv[it.id], i.written[it.id] = r.entry, r.version
		}
	}
	return err
}

// unusable tells that an error is not about the object: the cluster did not answer, or not now.
func unusable(err error) bool {
	var status apierrors.APIStatus
	return err != nil && (!errors.As(err, &status) || apierrors.IsUnauthorized(err) || apierrors.IsTooManyRequests(err) ||
		apierrors.IsServiceUnavailable(err))
}

func (i *Installation) applyOne(ctx context.Context, a *anchor, it *item) applied {
	var m *metav1.ObjectMeta
	var err error
	switch it.Class {
	case render.CreateOnly:
		m, err = i.create(ctx, a, it)
	case render.OncePerVersion:
		m, err = i.createJob(ctx, a, it)
	default:
		m, err = i.patch(ctx, a, it)
	}
	if err != nil {
		return applied{err: err}
	}
	e := it.entry()
	e.UID, e.Digest, e.Fields = m.UID, it.digest, ownedFields(m.ManagedFields)
	return applied{entry: e, version: m.ResourceVersion}
}

// patch applies server-side. A binding whose role has changed is made anew: it cannot be changed.
func (i *Installation) patch(ctx context.Context, a *anchor, it *item) (*metav1.ObjectMeta, error) {
	data, err := it.json(i.owner.Component, a)
	if err != nil {
		return nil, err
	}
	client := i.cluster.metadata.Resource(it.Resource).Namespace(it.id.Namespace)
	force := true
	apply := func() (*metav1.PartialObjectMetadata, error) {
		return client.Patch(ctx, it.id.Name, types.ApplyPatchType, data, metav1.PatchOptions{FieldManager: fieldManager, Force: &force})
	}
	out, err := apply()
	if apierrors.IsInvalid(err) && isBinding(it.id) {
		if err := client.Delete(ctx, it.id.Name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			return nil, err
		}
		out, err = apply()
	}
	if err != nil {
		return nil, err
	}
	return &out.ObjectMeta, nil
}

func isBinding(id render.ObjectID) bool {
	return id.Group == "rbac.authorization.k8s.io" && (id.Kind == "RoleBinding" || id.Kind == "ClusterRoleBinding")
}

// create makes an object that the cluster fills, unless it is there.
func (i *Installation) create(ctx context.Context, a *anchor, it *item) (*metav1.ObjectMeta, error) {
	created, err := i.cluster.dynamic.Resource(it.Resource).Namespace(it.id.Namespace).Create(
		ctx, it.object(i.owner.Component, a), metav1.CreateOptions{FieldManager: fieldManager})
	if err == nil {
		return &metav1.ObjectMeta{UID: created.GetUID(), ResourceVersion: created.GetResourceVersion()}, nil
	}
	if !apierrors.IsAlreadyExists(err) {
		return nil, err
	}
	return i.label(ctx, a, it)
}

// label gives an object our label and owner and leaves the rest of it alone.
func (i *Installation) label(ctx context.Context, a *anchor, it *item) (*metav1.ObjectMeta, error) {
	bare := item{Object: render.Object{Unstructured: bareOf(it.Unstructured)}, id: it.id}
	data, err := bare.json(i.owner.Component, a)
	if err != nil {
		return nil, err
	}
	force := true
	out, err := i.cluster.metadata.Resource(it.Resource).Namespace(it.id.Namespace).Patch(
		ctx, it.id.Name, types.ApplyPatchType, data, metav1.PatchOptions{FieldManager: fieldManager, Force: &force})
	if err != nil {
		return nil, err
	}
	return &out.ObjectMeta, nil
}

// createJob makes a Job. One that is there has run, or runs, as long as it is of this digest or has completed; another one,
// which may never complete, is replaced.
func (i *Installation) createJob(ctx context.Context, a *anchor, it *item) (*metav1.ObjectMeta, error) {
	client := i.cluster.dynamic.Resource(it.Resource).Namespace(it.id.Namespace)
	have, err := client.Get(ctx, it.id.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return i.create(ctx, a, it)
	}
	if err != nil {
		return nil, err
	}
	s, err := workloadSight(have)
	if err != nil {
		return nil, err
	}
	before, recorded := a.inventory[it.id]
	if s.job != nil && s.job.Complete || !recorded || before.Digest == "" || before.Digest == it.digest {
		return i.label(ctx, a, it)
	}
	uid, background := have.GetUID(), metav1.DeletePropagationBackground
	err = client.Delete(ctx, it.id.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}, PropagationPolicy: &background})
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, err
	}
	return i.create(ctx, a, it)
}

// applyNamespace makes the install namespace, in which the anchor will be, and tells whether somebody else had made it.
func (i *Installation) applyNamespace(ctx context.Context, b *render.Bundle) (existed bool, err error) {
	for _, it := range items(b, "") {
		if it.id.Kind != "Namespace" || it.id.Group != "" || it.id.Name != b.Namespace {
			continue
		}
		have, err := i.cluster.metadata.Resource(it.Resource).Get(ctx, it.id.Name, metav1.GetOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return false, fmt.Errorf("cannot get %s: %w", it.id, err)
		}
		existed = err == nil && (have.Labels[api.ComponentLabel] == "" || have.Annotations[keepNamespaceAnnotation] != "")
		if existed {
			if err := i.keepNamespace(ctx, &it); err != nil { // before it looks like ours
				return false, err
			}
		}
		if _, err := i.patch(ctx, nil, &it); err != nil {
			return false, fmt.Errorf("cannot apply %s: %w", it.id, err)
		}
	}
	return existed, nil
}

// keepNamespace says on the namespace too, which stays when the anchor goes, that it was there before; under another manager,
// so that no apply takes it away.
func (i *Installation) keepNamespace(ctx context.Context, it *item) error {
	_, err := i.cluster.metadata.Resource(it.Resource).Patch(ctx, it.id.Name, types.MergePatchType,
		fmt.Appendf(nil, `{"metadata":{"annotations":{%q:"true"}}}`, keepNamespaceAnnotation), metav1.PatchOptions{FieldManager: fieldManager + "-keep"})
	if err != nil {
		return fmt.Errorf("cannot annotate %s: %w", it.id, err)
	}
	return nil
}

const (
	servedTimeout = 30 * time.Second
	servedPoll    = 50 * time.Millisecond
)

// needsServed tells whether the objects of a stage need the kinds of the CRDs at once. Workloads wait for them by themselves.
func needsServed(s stage) bool { return s == jobStage || s == dependentStage }

// awaitServed waits until the cluster serves the kinds of the CRDs.
func (i *Installation) awaitServed(ctx context.Context, batch []item) error {
	ctx, cancel := context.WithTimeout(ctx, servedTimeout)
	defer cancel()
	for gv, kinds := range kindsOf(batch) {
		for {
			served, err := i.serves(gv, kinds)
			if err != nil {
				return err
			}
			if served {
				break
			}
			select {
			case <-ctx.Done():
				return fmt.Errorf("cannot go on: the cluster does not serve all kinds of %s: %w", gv, ctx.Err())
			case <-time.After(servedPoll):
			}
		}
	}
	return nil
}

func (i *Installation) serves(gv schema.GroupVersion, kinds map[string]bool) (bool, error) {
	list, err := i.cluster.discovery.ServerResourcesForGroupVersion(gv.String())
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("cannot list what the cluster serves of %s: %w", gv, err)
	}
	missing := maps.Clone(kinds)
	for _, r := range list.APIResources {
		delete(missing, r.Kind)
	}
	return len(missing) == 0, nil
}
