// Copyright Contributors to the Open Cluster Management project

package installations

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"

	"open-cluster-management.io/knative-addon/pkg/api"
	fleetv1alpha1 "open-cluster-management.io/knative-addon/pkg/api/fleet/v1alpha1"
	"open-cluster-management.io/knative-addon/pkg/message"
)

// fieldManager is the field manager of every write of a request.
const fieldManager = "knative-addon-cli"

// DryRun says whether a request writes.
type DryRun string

const (
	// DryRunNone writes.
	DryRunNone DryRun = "none"
	// DryRunClient reads the object, and sends no write.
	DryRunClient DryRun = "client"
	// DryRunServer sends the write, which the API server checks and does not store.
	DryRunServer DryRun = "server"
)

// Request asks the manager for an action by an annotation of an object of the hub.
type Request struct {
	Object Object
	// Annotation is the key of the annotation. An empty Value removes the annotation.
	Annotation, Value string
	// NeedsDeletion refuses an object without a removal that waits: the annotation would count for a later removal.
	NeedsDeletion bool
}

// kinds are the resources that requests annotate, by the words of the command line.
func kinds() map[string]schema.GroupVersionResource {
	out := map[string]schema.GroupVersionResource{}
	for _, component := range api.Components() {
		out[strings.ToLower(component.Kind())] = component.Resource()
	}
	for _, kind := range []string{AddOnKind, DefinitionKind} {
		out[strings.ToLower(kind)] = schema.GroupVersion(addonv1beta1.GroupVersion).WithResource(strings.ToLower(kind) + "s")
	}
	out[strings.ToLower(FleetKind)] = fleetv1alpha1.Resource()
	return out
}

const (
	// AddOnKind is the kind of the add-on of one cluster.
	AddOnKind = "ManagedClusterAddOn"
	// DefinitionKind is the kind of the add-on of all clusters.
	DefinitionKind = "ClusterManagementAddOn"
	// FleetKind is the kind whose objects install Knative on selected clusters.
	FleetKind = fleetv1alpha1.Kind
)

// ParseObject returns the object that a user names as KIND/NAME. allowed are the kinds that the command annotates.
func ParseObject(text, namespace string, allowed ...string) (Object, error) {
	kind, name, _ := strings.Cut(text, "/")
	i := slices.IndexFunc(allowed, func(known string) bool {
		return strings.TrimSuffix(strings.ToLower(kind), "s") == strings.ToLower(known)
	})
	switch {
	case i < 0 || name == "":
		return Object{}, fmt.Errorf("cannot use object %q: name the object as KIND/NAME, where KIND is %s", text, strings.ToLower(strings.Join(allowed, ", ")))
	case allowed[i] == DefinitionKind:
		return Object{Kind: DefinitionKind, Name: name}, nil
	case namespace == "":
		return Object{}, fmt.Errorf("cannot use object %q without its namespace: name the namespace with --namespace; for a %s that is the cluster", text, AddOnKind)
	default:
		return Object{Kind: allowed[i], Namespace: namespace, Name: name}, nil
	}
}

// Apply writes the annotation. isChanged is false when the object has the value already.
func (h *Hub) Apply(ctx context.Context, r Request, dryRun DryRun) (isChanged bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	client := h.clientFor(r.Object)
	o, err := client.Get(ctx, r.Object.Name, metav1.GetOptions{})
	if err != nil {
		return false, h.explain("read "+r.Object.String(), err)
	}
	if err := h.checkRequest(ctx, r, o); err != nil {
		return false, err
	}
	value, exists := o.GetAnnotations()[r.Annotation]
	if exists == (r.Value != "") && value == r.Value {
		return false, nil
	}
	if dryRun == DryRunClient {
		return true, nil
	}
	options := metav1.PatchOptions{FieldManager: fieldManager}
	if dryRun == DryRunServer {
		options.DryRun = []string{metav1.DryRunAll}
	}
	patch, err := json.Marshal(r.patch(o.GetUID()))
	if err != nil {
		return false, fmt.Errorf("cannot encode the change of %s: %w", r.Object, err)
	}
	if _, err := client.Patch(ctx, r.Object.Name, types.MergePatchType, patch, options); err != nil {
		return false, h.explain("annotate "+r.Object.String(), err)
	}
	return true, nil
}

// patch returns the annotation as a merge patch, which the API server refuses for another object of the same name.
func (r *Request) patch(uid types.UID) map[string]any {
	annotations := map[string]any{r.Annotation: nil}
	if r.Value != "" {
		annotations[r.Annotation] = r.Value
	}
	return map[string]any{"metadata": map[string]any{"uid": uid, "annotations": annotations}}
}

func (h *Hub) clientFor(o Object) dynamic.ResourceInterface {
	client := h.Dynamic.Resource(kinds()[strings.ToLower(o.Kind)])
	if o.Namespace == "" {
		return client
	}
	return client.Namespace(o.Namespace)
}

// checkRequest refuses a request about a removal when no removal waits, and a request that a KnativeFleet would undo.
func (h *Hub) checkRequest(ctx context.Context, r Request, o *unstructured.Unstructured) error {
	_, isFleetPaused := o.GetAnnotations()[api.FleetPausedAnnotation]
	fleet := fleetOf(o)
	switch {
	case r.Annotation == api.RollbackAnnotation && fleet != "":
		// The revisions of a KnativeFleet are not the revisions of its children.
		return fmt.Errorf("cannot roll back %s on %s: KnativeFleet %s writes its spec, and would write the same spec again; a rollback of the KnativeFleet concerns "+
			"all its clusters: `knative-addon rollback knativefleet/%s --namespace %s --to %s`, or a revision of kubectl get controllerrevisions --namespace %s --selector %s=%s,%s=%s",
			r.Object, h.Name, fleet, fleet, r.Object.Namespace, api.RollbackLastKnownGood, r.Object.Namespace,
			api.RevisionLabel, fleetv1alpha1.Resource().Resource, api.RevisionResourceLabel, fleet)
	case r.Annotation == api.PausedAnnotation && r.Value == "" && fleet != "" && isFleetPaused:
		return fmt.Errorf("cannot resume %s on %s: KnativeFleet %s is paused, and would pause its resource again; resume all its clusters: "+
			"`knative-addon resume knativefleet/%s --namespace %s`", r.Object, h.Name, fleet, fleet, r.Object.Namespace)
	case !r.NeedsDeletion:
		return nil
	case r.Object.Kind == AddOnKind:
		return h.checkAddOnRemoval(r, o)
	case r.Object.Kind == FleetKind:
		return h.checkFleetRemoval(r, o)
	}
	return h.checkMassRemoval(ctx, r)
}

// checkAddOnRemoval refuses a request about the removal of one add-on that has not begun to wait, or that waits no more.
func (h *Hub) checkAddOnRemoval(r Request, o *unstructured.Unstructured) error {
	if _, isAllowed := o.GetAnnotations()[api.RemovalAllowedAnnotation]; isAllowed {
		return fmt.Errorf("cannot annotate %s on %s: the removal has begun, and the annotation has no effect; `knative-addon status` has the reason", r.Object, h.Name)
	}
	if o.GetDeletionTimestamp() == nil {
		return fmt.Errorf("cannot annotate %s on %s: the add-on is not being deleted, and the annotation would count for a later deletion; `knative-addon status` lists the removals",
			r.Object, h.Name)
	}
	return nil
}

// checkFleetRemoval refuses a cancellation, which a KnativeFleet does not have, and a confirmation without a removal that waits for a confirmation.
func (h *Hub) checkFleetRemoval(r Request, o *unstructured.Unstructured) error {
	held := findCondition(o, fleetv1alpha1.RemovalHeld)
	confirmable := []string{fleetv1alpha1.ReasonMassRemoval, fleetv1alpha1.ReasonSelectionEmpty, fleetv1alpha1.ReasonPlacementUndecided}
	switch {
	case r.Value != api.RemovalConfirm:
		return fmt.Errorf("cannot cancel removals of %s on %s: its children stay while condition %s is True; to keep the children, select the clusters again, or pause "+
			"the KnativeFleet: `knative-addon pause knativefleet/%s --namespace %s`", r.Object, h.Name, fleetv1alpha1.RemovalHeld, r.Object.Name, r.Object.Namespace)
	case held.Status != metav1.ConditionTrue || held.ObservedGeneration != o.GetGeneration():
		return fmt.Errorf("cannot annotate %s on %s: condition %s reports no removal of the present spec that waits, and the annotation would count for a "+
			"later removal; `kubectl get knativefleet %s --namespace %s --output yaml` has the conditions", r.Object, h.Name, fleetv1alpha1.RemovalHeld, r.Object.Name, r.Object.Namespace)
	case !slices.Contains(confirmable, held.Reason):
		return fmt.Errorf("cannot annotate %s on %s: condition %s has reason %s, which a confirmation does not end; `knative-addon explain %s` says what to do: %s",
			r.Object, h.Name, held.Type, cleanText(held.Reason), cleanText(held.Reason), message.OneLine(held.Message, maxMessage))
	}
	return nil
}

// checkMassRemoval refuses a request about all removals of an add-on when no removal has reason MassRemoval.
func (h *Hub) checkMassRemoval(ctx context.Context, r Request) error {
	query := Query{Components: []api.Component{api.Component(r.Object.Name)}}
	objects, failed := h.List(ctx, query)
	for _, e := range failed {
		if !e.IsOptional {
			return e
		}
	}
	for _, i := range Compose(objects) {
		if i.Deleting && i.Reason == api.ReasonMassRemoval {
			return nil
		}
	}
	return fmt.Errorf("cannot annotate %s on %s: no removal of the add-on has reason %s; `knative-addon status` lists the removals", r.Object, h.Name, api.ReasonMassRemoval)
}

// Text returns the annotation as kubectl writes it.
func (r *Request) Text() string {
	if r.Value == "" {
		return r.Annotation + "-"
	}
	return r.Annotation + "=" + r.Value
}
