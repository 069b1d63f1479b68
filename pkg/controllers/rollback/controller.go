// Copyright Contributors to the Open Cluster Management project

package rollback

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/revision"
)

// Reconciler serves the KnativeServings or the KnativeEventings.
type Reconciler struct {
	Component api.Component
	Configs   cache.GenericLister
	// Revisions is the cache of ControllerRevisions with api.RevisionLabel, with the indexes of package revision.
	Revisions  cache.Indexer
	References *revision.References
	Client     dynamic.Interface
	Events     events.EventRecorder
	// Operator names what runs the Knative Operator on the hub, which then takes the resources for its own; empty when
	// nothing does.
	Operator func() string

	refusals refusals
}

// staleRetry is after how long a reconcile that has read an old object is done again.
const staleRetry = time.Second

// Reconcile follows the annotation of one resource.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	config, err := revision.Live(r.Configs, r.Component, req.NamespacedName)
	if err != nil {
		return reconcile.Result{}, err
	}
	if config == nil || !asked(config) || config.GetDeletionTimestamp() != nil || r.Operator() != "" {
		r.refusals.forget(req.NamespacedName)
		return reconcile.Result{}, nil
	}
	target, refusal, err := r.target(config)
	if err != nil {
		return reconcile.Result{}, err
	}
	if refusal == "" {
		err = r.goBack(ctx, config, target)
		switch {
		case apierrors.IsConflict(err):
			return reconcile.Result{RequeueAfter: staleRetry}, nil // the cache is behind; no fault
		case apierrors.IsInvalid(err), apierrors.IsForbidden(err): // what others have decided, such as an admission policy
			refusal = fmt.Sprintf("the hub refuses the spec of revision %d: %s", target.Revision, err)
		case err != nil && !apierrors.IsNotFound(err):
			return reconcile.Result{}, err
		default:
			r.refusals.forget(req.NamespacedName)
			return reconcile.Result{}, nil
		}
	}
	r.refuse(config, refusal)
	return reconcile.Result{}, nil
}

func asked(config *unstructured.Unstructured) bool {
	_, ok := config.GetAnnotations()[api.RollbackAnnotation]
	return ok
}

// target is the revision that is asked for. A refusal says why there is none.
func (r *Reconciler) target(config *unstructured.Unstructured) (target *appsv1.ControllerRevision, refusal string, err error) {
	name := client.ObjectKeyFromObject(config)
	history, err := revision.History(r.Revisions, r.Component, name)
	if err != nil {
		return nil, "", err
	}
	value := strings.TrimSpace(config.GetAnnotations()[api.RollbackAnnotation])
	if value == api.RollbackLastKnownGood {
		live, err := revision.Hash(config)
		if err != nil {
			return nil, "", err
		}
		referred, err := r.References.Of(r.Component, name)
		if err != nil {
			return nil, "", err
		}
		target, refusal = newestGood(history, referred.Good, live)
		return target, refusal, nil
	}
	target, refusal = named(history, value)
	return target, refusal, nil
}

// goBack writes the revision's spec into the resource and takes the annotation away.
func (r *Reconciler) goBack(ctx context.Context, config *unstructured.Unstructured, target *appsv1.ControllerRevision) error {
	changed, err := restored(config, target)
	if err != nil {
		return err
	}
	_, err = r.Client.Resource(r.Component.Resource()).Namespace(config.GetNamespace()).Update(ctx, changed, metav1.UpdateOptions{})
	if err != nil {
		return fmt.Errorf("cannot write the spec of revision %d into %s \"%s/%s\": %w",
			target.Revision, r.Component.Kind(), config.GetNamespace(), config.GetName(), err)
	}
	r.Events.Eventf(config, target, corev1.EventTypeNormal, "RolledBack", "Rollback",
		"The spec is that of revision %d (hash %.12s) again, as annotation %s asked for %q; it reaches the clusters as any change of the spec",
		target.Revision, revision.HashOf(target), api.RollbackAnnotation, brief(config.GetAnnotations()[api.RollbackAnnotation]))
	return nil
}

// restored is the resource with the revision's spec, and with the annotations that decided what was rendered of it. The
// reference to a ClusterProfile stays: it says where, and cannot change.
func restored(config *unstructured.Unstructured, target *appsv1.ControllerRevision) (*unstructured.Unstructured, error) {
	old, err := revision.Restore(target)
	if err != nil {
		return nil, err
	}
	spec, _, _ := unstructured.NestedMap(old.Object, "spec")
	if spec == nil {
		spec = map[string]any{}
	}
	delete(spec, "clusterProfileRef")
	if ref, ok, _ := unstructured.NestedMap(config.Object, "spec", "clusterProfileRef"); ok {
		spec["clusterProfileRef"] = ref
	}
	changed := config.DeepCopy()
	changed.Object["spec"] = spec
	annotations := changed.GetAnnotations()
	delete(annotations, api.RollbackAnnotation)
	for name := range revision.Annotations(annotations) {
		delete(annotations, name)
	}
	maps.Copy(annotations, old.GetAnnotations())
	changed.SetAnnotations(annotations)
	return changed, nil
}

// refuse tells once why nothing happens.
func (r *Reconciler) refuse(config *unstructured.Unstructured, refusal string) {
	text := fmt.Sprintf("Annotation %s asks for %q: %s", api.RollbackAnnotation, brief(config.GetAnnotations()[api.RollbackAnnotation]), refusal)
	if !r.refusals.isNew(client.ObjectKeyFromObject(config), text) {
		return
	}
	r.Events.Eventf(config, nil, corev1.EventTypeWarning, "RollbackRefused", "Rollback", "%s", strings.ToValidUTF8(text[:min(len(text), maxNote)], ""))
}

const (
	// maxNote is how long the note of an Event may be.
	maxNote = 1000
	// maxValue is how much of a user's text a note repeats.
	maxValue = 80
)

func brief(value string) string {
	if len(value) > maxValue {
		return strings.ToValidUTF8(value[:maxValue], "") + "..."
	}
	return value
}

// SetupWithManager makes the manager run the controller. A revision that is recorded later is found then.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager, configs, revisions cache.SharedIndexInformer) error {
	err := ctrl.NewControllerManagedBy(mgr).Named("rollback-" + r.Component.Resource().Resource).
		WatchesRawSource(&source.Informer{Informer: configs, Handler: &handler.EnqueueRequestForObject{}}).
		WatchesRawSource(&source.Informer{Informer: revisions, Handler: handler.EnqueueRequestsFromMapFunc(r.ofRevision)}).
		Complete(r)
	if err != nil {
		return fmt.Errorf("cannot set up the rollbacks of %s: %w", r.Component.Kind(), err)
	}
	return nil
}

func (r *Reconciler) ofRevision(_ context.Context, o client.Object) []reconcile.Request {
	rev, ok := o.(*appsv1.ControllerRevision)
	if !ok {
		return nil
	}
	component, name, ok := revision.ResourceOf(rev)
	if !ok || component != r.Component {
		return nil
	}
	return []reconcile.Request{{NamespacedName: name}}
}

// refusals remembers what was told last, by resource. Forgetting it costs one Event.
type refusals struct {
	mu   sync.Mutex
	told map[types.NamespacedName]string
}

func (t *refusals) isNew(name types.NamespacedName, text string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.told[name] == text {
		return false
	}
	if t.told == nil {
		t.told = map[types.NamespacedName]string{}
	}
	t.told[name] = text
	return true
}

func (t *refusals) forget(name types.NamespacedName) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.told, name)
}
