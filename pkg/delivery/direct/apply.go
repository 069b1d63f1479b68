// Copyright Contributors to the Open Cluster Management project

package direct

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/boundedhttp"
	"open-cluster-management.io/knative-addon/pkg/clustercache"
	"open-cluster-management.io/knative-addon/pkg/inventory"
	"open-cluster-management.io/knative-addon/pkg/render"
)

const (
	// closingTimeout bounds recording the results of a pass that took too long.
	closingTimeout = 10 * time.Second
	// firstRetry and longestRetry bound the pause before a refused object is tried again. Each pause is twice the pause before.
	firstRetry, longestRetry = time.Second, time.Minute
	// cacheRetry is the time after which a pass compares the objects with the cache again that were written.
	cacheRetry = 15 * time.Second
)

// ErrPassTimeout is the cause of the cancellation of a pass that took too long. The context of a pass has no deadline: a request that exceeds a
// deadline counts as not answered, and a cancelled request says nothing about the cluster.
var ErrPassTimeout = errors.New("the pass over the cluster takes too long")

// executePlan applies and prunes as planned and returns the anchor that records the results. executePlan records the items
// before the first change and after the last change: a later pass detects the changes in between on the cluster.
func (i *Installation) executePlan(ctx context.Context, a *inventory.Anchor, p *changePlan) (*inventory.Anchor, error) {
	// Objects that the pass does not come to keep the record from before the changes: otherwise each pass would write two records in turn, and each
	// write would cause the next pass.
	inv := p.itemsBeforeChanges()
	a, err := i.store.Write(ctx, a, p.installed, maps.Clone(inv))
	if err != nil {
		return nil, err
	}
	// The items of unblocking webhook configurations stay recorded: a pass that ends before their stage leaves the configurations to repair.
	applyErr := i.deleteItems(ctx, p.unblock, maps.Clone(inv))
	if applyErr == nil {
		applyErr = i.applyStages(ctx, a, p, inv)
	}
	if applyErr == nil && !i.hasBlockingFailureBefore(render.Stages) {
		applyErr = i.deleteItems(ctx, p.prune, inv)
	}
	if errors.Is(context.Cause(ctx), ErrPassTimeout) { // the next pass continues from the recorded results
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), closingTimeout)
		defer cancel()
	}
	written, err := i.store.Write(ctx, a, p.installed, inv)
	return written, errors.Join(applyErr, err)
}

// itemsBeforeChanges returns the items to record before the first change. Objects that the pass may recreate have no UID: a removal that
// follows an interrupted pass would leave the new object, as if the object belonged to another owner.
func (p *changePlan) itemsBeforeChanges() inventory.Items {
	out := maps.Clone(p.items)
	for _, batch := range p.apply {
		for _, it := range batch {
			p.forgetUID(out, &it)
			forgetFields(out, &it)
		}
	}
	return out
}

// forgetFields removes the digest of the applied fields of an object that the pass changes. Managed fields have no values, so that an object with
// the values of a change that was interrupted looks like the recorded object: without a digest, the object counts as changed when the spec
// returns.
func forgetFields(items inventory.Items, it *desiredObject) {
	if e, recorded := items[it.id]; recorded && e.Digest != it.digest {
		e.Fields = ""
		items[it.id] = e
	}
}

// forgetUID removes the UID of an object that the pass may recreate. A Namespace or CRD keeps the UID, which tells our object from an object
// that the cluster had before.
func (p *changePlan) forgetUID(items inventory.Items, it *desiredObject) {
	isUnblocked := slices.ContainsFunc(p.unblock, func(e inventory.Item) bool { return e.ID() == it.id })
	isRecreated := p.missing[it.id] || isUnblocked || isBinding(it.id) || it.Class == render.OncePerVersion
	if e, recorded := items[it.id]; recorded && isRecreated && it.stage != render.StageFoundation {
		e.UID = ""
		items[it.id] = e
	}
}

// applyStages applies stage after stage. Refused objects are recorded as failures. An error means that the cluster is
// unavailable.
func (i *Installation) applyStages(ctx context.Context, a *inventory.Anchor, p *changePlan, inv inventory.Items) error {
	defined := p.apply[render.StageFoundation]
	for s, batch := range p.apply {
		if render.Stage(s) == render.StageWebhook && i.hasFailureIn(render.StageWorkload) {
			continue // no workload would serve the webhooks
		}
		if render.Stage(s) == render.StageJob && i.hasBlockingFailureBefore(render.StageJob) {
			continue // the completed Job of a version means that the version runs
		}
		if needsServedKinds(render.Stage(s)) && len(batch) > 0 {
			if err := i.awaitServedKinds(ctx, defined); err != nil {
				return err
			}
			defined = nil
		}
		if err := i.applyStage(ctx, a, p, batch, inv); err != nil {
			return err
		}
		if render.Stage(s) == render.StageFoundation && i.hasFailureIn(render.StageFoundation) {
			return nil // every other object needs the foundation
		}
	}
	return nil
}

// applyResult is the result of applying one object.
type applyResult struct {
	entry   inventory.Item
	version string
	err     error
}

func (i *Installation) applyStage(ctx context.Context, a *inventory.Anchor, p *changePlan, batch []desiredObject, inv inventory.Items) error {
	var mu sync.Mutex
	results := make(map[render.ObjectID]applyResult, len(batch))
	requests := newRequestBatch(ctx)
	for _, it := range batch {
		requests.run(func(ctx context.Context) error {
			r := i.applyObject(ctx, a, &it)
			mu.Lock()
			defer mu.Unlock()
			results[it.id] = r
			if r.err != nil {
				return fmt.Errorf("cannot apply %s: %w", it.id, r.err)
			}
			return nil
		})
	}
	err := requests.wait()
	for _, it := range batch {
		r, done := results[it.id]
		switch {
		case !done || clustercache.IsUnavailable(r.err):
			p.forgetUID(inv, &it) // the cluster may have executed a request without an answer
			forgetFields(inv, &it)
		case r.err != nil:
			forgetFields(inv, &it) // a server may fail after the write
			i.recordFailure(&it, r.err)
			forgetMissingNamespace(inv, &it, r.err)
		default:
			delete(i.failedObjects, it.id)
			inv[it.id], i.writtenVersions[it.id], p.applied[it.id] = r.entry, r.version, true
		}
	}
	return err
}

// forgetMissingNamespace lets the next pass create the Namespace that an object lacks. A Namespace that the cluster had before is not observed, so
// that only the refusal of an object tells of its deletion.
func forgetMissingNamespace(inv inventory.Items, it *desiredObject, err error) {
	var status apierrors.APIStatus
	if !apierrors.IsNotFound(err) || !errors.As(err, &status) {
		return
	}
	details := status.Status().Details
	id := render.ObjectID{Kind: "Namespace", Name: it.id.Namespace}
	if e, recorded := inv[id]; recorded && e.Done && details != nil && details.Kind == "namespaces" && details.Name == id.Name {
		e.Digest, e.Done = "", false
		inv[id] = e
	}
}

func (i *Installation) applyObject(ctx context.Context, a *inventory.Anchor, it *desiredObject) applyResult {
	var m *metav1.ObjectMeta
	var err error
	ctx, release := boundedhttp.Hold(ctx)
	defer release()
	switch it.Class {
	case render.CreateOnly:
		m, err = i.createObject(ctx, a, it)
	case render.OncePerVersion:
		m, err = i.createJob(ctx, a, it)
	default:
		existed, checkErr := i.keepExisting(ctx, a, it)
		if existed && it.id.Kind == "Namespace" {
			e := it.inventoryItem()
			e.Digest, e.Done = it.digest, true
			return applyResult{entry: e}
		}
		if err = checkErr; err == nil {
			m, err = i.applyServerSide(ctx, a, it)
		}
	}
	if err == nil {
		err = clustercache.CheckMetadata(m)
	}
	if err != nil {
		return applyResult{err: err}
	}
	e := it.inventoryItem()
	e.UID, e.Digest, e.Fields = m.UID, it.digest, clustercache.DigestOwnedFields(m.ManagedFields)
	return applyResult{entry: e, version: m.ResourceVersion}
}

// applyServerSide applies an object. A role binding whose role has changed is recreated, because the API server refuses to
// change the role.
func (i *Installation) applyServerSide(ctx context.Context, a *inventory.Anchor, it *desiredObject) (*metav1.ObjectMeta, error) {
	data, err := it.encodeManifest(i.owner.Component, a)
	if err != nil {
		return nil, err
	}
	client := i.cluster.Metadata.Resource(it.Resource).Namespace(it.id.Namespace)
	force := true
	apply := func() (*metav1.PartialObjectMetadata, error) {
		return client.Patch(ctx, it.id.Name, types.ApplyPatchType, data, metav1.PatchOptions{FieldManager: clustercache.FieldManager, Force: &force})
	}
	out, err := apply()
	if isBinding(it.id) && hasCause(err, "roleRef") {
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

// hasCause reports whether the cluster refuses the value of a field.
func hasCause(err error, field string) bool {
	var status apierrors.APIStatus
	if !apierrors.IsInvalid(err) || !errors.As(err, &status) || status.Status().Details == nil {
		return false
	}
	return slices.ContainsFunc(status.Status().Details.Causes, func(c metav1.StatusCause) bool { return c.Field == field })
}

func isBinding(id render.ObjectID) bool {
	return id.Group == "rbac.authorization.k8s.io" && (id.Kind == "RoleBinding" || id.Kind == "ClusterRoleBinding")
}

// createObject creates an object whose content the cluster fills in. An existing object is only labelled.
func (i *Installation) createObject(ctx context.Context, a *inventory.Anchor, it *desiredObject) (*metav1.ObjectMeta, error) {
	created, err := i.cluster.Dynamic.Resource(it.Resource).Namespace(it.id.Namespace).Create(
		ctx, it.manifest(i.owner.Component, a), metav1.CreateOptions{FieldManager: clustercache.FieldManager})
	if err == nil {
		return &metav1.ObjectMeta{UID: created.GetUID(), ResourceVersion: created.GetResourceVersion()}, nil
	}
	if !apierrors.IsAlreadyExists(err) {
		return nil, err
	}
	return i.labelObject(ctx, a, it)
}

// labelObject applies only the component label and the owner reference, and leaves the rest of the object alone.
func (i *Installation) labelObject(ctx context.Context, a *inventory.Anchor, it *desiredObject) (*metav1.ObjectMeta, error) {
	bare := desiredObject{Object: render.Object{Unstructured: identityOf(it.Unstructured)}, id: it.id}
	data, err := bare.encodeManifest(i.owner.Component, a)
	if err != nil {
		return nil, err
	}
	force := true
	out, err := i.cluster.Metadata.Resource(it.Resource).Namespace(it.id.Namespace).Patch(
		ctx, it.id.Name, types.ApplyPatchType, data, metav1.PatchOptions{FieldManager: clustercache.FieldManager, Force: &force})
	if err != nil {
		return nil, err
	}
	return &out.ObjectMeta, nil
}

// createJob creates a Job. An existing Job stays if the Job has this digest or has completed. Any other Job may never complete,
// and is replaced.
func (i *Installation) createJob(ctx context.Context, a *inventory.Anchor, it *desiredObject) (*metav1.ObjectMeta, error) {
	client := i.cluster.Dynamic.Resource(it.Resource).Namespace(it.id.Namespace)
	have, err := client.Get(ctx, it.id.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return i.createObject(ctx, a, it)
	}
	if err != nil {
		return nil, err
	}
	s, err := clustercache.ReadObject(have)
	if err != nil {
		return nil, err
	}
	before, recorded := a.Items[it.id]
	if s.Job != nil && s.Job.Complete || !recorded || before.Digest == "" || before.Digest == it.digest {
		return i.labelObject(ctx, a, it)
	}
	uid, background := have.GetUID(), metav1.DeletePropagationBackground
	err = client.Delete(ctx, it.id.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}, PropagationPolicy: &background})
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, err
	}
	return i.createObject(ctx, a, it)
}

// createNamespace creates the install namespace for the anchor. existed reports whether the cluster had the namespace before.
func (i *Installation) createNamespace(ctx context.Context, b *render.Bundle) (existed bool, err error) {
	it := installNamespace(b)
	if it == nil {
		return false, nil
	}
	if existed, err = i.existedBefore(ctx, nil, it); err != nil || existed {
		return existed, err
	}
	if _, err := i.applyServerSide(ctx, nil, it); err != nil {
		return false, fmt.Errorf("cannot apply %s: %w", it.id, err)
	}
	return false, nil
}

// installNamespace returns the install namespace of a bundle; nil if the bundle does not have the namespace.
func installNamespace(b *render.Bundle) *desiredObject {
	for _, it := range desiredObjects(b, "") {
		if it.id.Kind == "Namespace" && it.id.Group == "" && it.id.Name == b.Namespace {
			return &it
		}
	}
	return nil
}

// existedBefore reports whether the cluster had an object before the installation: the object has no label of the component, or
// has the mark of markKept. An object that the anchor records as applied may have lost the label.
func (i *Installation) existedBefore(ctx context.Context, a *inventory.Anchor, it *desiredObject) (bool, error) {
	have, err := i.cluster.Metadata.Resource(it.Resource).Get(ctx, it.id.Name, metav1.GetOptions{})
	if inventory.IsMissing(err, it.id.Name) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("cannot get %s: %w", it.id, err)
	}
	if have.Annotations[inventory.KeepAnnotation] != "" {
		return true, nil
	}
	applied := a != nil && a.Items[it.id].UID == have.UID
	return have.Labels[api.ComponentLabel] != string(i.owner.Component) && !applied, nil
}

// checkNewNamespace returns an *ExistingNamespaceError if the cluster had the install namespace before.
func (i *Installation) checkNewNamespace(ctx context.Context, b *render.Bundle) error {
	it := installNamespace(b)
	if it == nil {
		return nil
	}
	existed, err := i.existedBefore(ctx, nil, it)
	if err == nil && existed {
		err = &ExistingNamespaceError{Namespace: b.Namespace}
	}
	return err
}

// keepExisting reports whether the cluster had a Namespace or CRD before the installation, and marks such a CRD at the first apply.
// No removal deletes a CRD with the mark, whatever the deletion policy. A Namespace needs no mark, because the add-on does not
// label the Namespace.
func (i *Installation) keepExisting(ctx context.Context, a *inventory.Anchor, it *desiredObject) (existed bool, err error) {
	isNamespace := it.id.Kind == "Namespace"
	if it.stage != render.StageFoundation || !isNamespace && a.Items[it.id].Digest != "" {
		return false, nil
	}
	if existed, err = i.existedBefore(ctx, a, it); err != nil || !existed || isNamespace {
		return existed, err
	}
	return true, i.markKept(ctx, it)
}

// markKept marks an object that the cluster had before. The mark outlives the anchor. The mark has a field manager of its own,
// so that no apply removes the mark.
func (i *Installation) markKept(ctx context.Context, it *desiredObject) error {
	_, err := i.cluster.Metadata.Resource(it.Resource).Patch(ctx, it.id.Name, types.MergePatchType,
		fmt.Appendf(nil, `{"metadata":{"annotations":{%q:"true"}}}`, inventory.KeepAnnotation), metav1.PatchOptions{FieldManager: clustercache.FieldManager + "-keep"})
	if err != nil {
		return fmt.Errorf("cannot annotate %s: %w", it.id, err)
	}
	return nil
}
