// Copyright Contributors to the Open Cluster Management project

package work

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/knative-addon/pkg/delivery"
	"open-cluster-management.io/knative-addon/pkg/render"
)

// Knative makes its Namespace the only owner of its webhook configurations, and the work agent does not delete what it
// does not own: a plain delete of the payload leaves them behind, with failurePolicy Fail and nobody to answer. So the
// webhooks are stopped first; then the agent applies once more and becomes an owner again; then the work goes. Where a
// payload is on this way can be read from its spec and status alone, at any time, by anybody.

// RemovalStep is what a payload needs next on its way out.
type RemovalStep string

const (
	// StopWebhooks means to write Removal.Payload, in which the webhooks' Deployments have no replicas.
	StopWebhooks RemovalStep = "StopWebhooks"
	// AwaitStop means to wait until the agent reports that they have no pods.
	AwaitStop RemovalStep = "AwaitStop"
	// Reclaim means to write Removal.Payload, without those Deployments, at which the agent applies the rest again.
	Reclaim RemovalStep = "Reclaim"
	// AwaitReclaim means to wait until the agent reports that it owns the webhook configurations.
	AwaitReclaim RemovalStep = "AwaitReclaim"
	// RetryReclaim means to make the agent apply again: it has applied, and somebody took the ownership since.
	RetryReclaim RemovalStep = "RetryReclaim"
	// Delete means to delete the work.
	Delete RemovalStep = "Delete"
	// AwaitDelete means to wait until the agent has removed everything.
	AwaitDelete RemovalStep = "AwaitDelete"
)

// Removal is the next step of a payload on its way out.
type Removal struct {
	Step RemovalStep
	// Why says what is waited for.
	Why string
	// Payload is the changed work where Step says to write one.
	Payload *workv1.ManifestWork
}

// NextRemoval tells what the payload needs next.
func NextRemoval(payload *workv1.ManifestWork) (Removal, error) {
	if payload.DeletionTimestamp != nil {
		return Removal{Step: AwaitDelete, Why: "the work agent removes the objects"}, nil
	}
	if !slices.Contains(payload.Finalizers, workv1.ManifestWorkFinalizer) {
		return Removal{Step: Delete, Why: "the work agent never saw the work"}, nil
	}
	objects, err := manifestsOf(payload)
	if err != nil {
		return Removal{}, err
	}
	carried := carriedWebhooks(objects)
	switch {
	case slices.ContainsFunc(carried, func(c carriedWebhook) bool { return c.replicas != 0 }):
		changed, err := withWebhooksStopped(payload, carried)
		return Removal{Step: StopWebhooks, Why: "Knative's webhooks are being stopped", Payload: changed}, err
	case len(carried) > 0:
		if running := runningWebhooks(payload, carried); len(running) > 0 {
			return Removal{Step: AwaitStop, Why: "waiting for Knative's webhooks to stop: " + strings.Join(running, ", ")}, nil
		}
		return Removal{Step: Reclaim, Why: "the work agent takes the webhook configurations back", Payload: reclaiming(payload, objects, carried)}, nil
	case !looksAtOwners(payload) || payload.Spec.DeleteOption != nil:
		return Removal{Step: Reclaim, Why: "the work agent takes the webhook configurations back", Payload: reclaiming(payload, objects, nil)}, nil
	}
	return reclaimed(payload), nil
}

// carriedWebhook is the manifest of a Deployment in a payload whose pods answer Knative's webhooks.
type carriedWebhook struct {
	index    int
	object   *unstructured.Unstructured
	replicas int64 // -1 when the manifest does not say
}

func manifestsOf(payload *workv1.ManifestWork) ([]*unstructured.Unstructured, error) {
	objects := make([]*unstructured.Unstructured, len(payload.Spec.Workload.Manifests))
	for i, m := range payload.Spec.Workload.Manifests {
		objects[i] = &unstructured.Unstructured{}
		if err := objects[i].UnmarshalJSON(m.Raw); err != nil {
			return nil, fmt.Errorf("cannot read manifest %d of ManifestWork %q: %w", i, payload.Name, err)
		}
	}
	return objects, nil
}

func carriedWebhooks(objects []*unstructured.Unstructured) []carriedWebhook {
	var out []carriedWebhook
	for _, w := range render.WorkloadsOf(objects) {
		if !w.Webhook {
			continue
		}
		i := slices.IndexFunc(objects, func(o *unstructured.Unstructured) bool {
			return o.GetKind() == w.Kind && o.GetNamespace() == w.Namespace && o.GetName() == w.Name
		})
		c := carriedWebhook{index: i, object: objects[i], replicas: -1}
		if n, found, err := unstructured.NestedInt64(objects[i].Object, "spec", "replicas"); err == nil && found {
			c.replicas = n
		}
		out = append(out, c)
	}
	slices.SortFunc(out, func(a, b carriedWebhook) int { return a.index - b.index })
	return out
}

// withWebhooksStopped is the payload with no replicas of its webhooks.
func withWebhooksStopped(payload *workv1.ManifestWork, carried []carriedWebhook) (*workv1.ManifestWork, error) {
	out := notOrphaned(payload)
	for _, c := range carried {
		if err := unstructured.SetNestedField(c.object.Object, int64(0), "spec", "replicas"); err != nil {
			return nil, fmt.Errorf("cannot stop Deployment %q: %w", c.object.GetName(), err)
		}
		raw, err := json.Marshal(c.object.Object)
		if err != nil {
			return nil, fmt.Errorf("cannot stop Deployment %q: %w", c.object.GetName(), err)
		}
		out.Spec.Workload.Manifests[c.index].Raw = raw
	}
	return out, nil
}

// reclaiming is the payload without its webhooks, in which the agent reports who owns their configurations. Objects of a
// kind that the cluster does not know leave too: one of them keeps the agent from recording all the others as its own.
func reclaiming(payload *workv1.ManifestWork, objects []*unstructured.Unstructured, carried []carriedWebhook) *workv1.ManifestWork {
	out := notOrphaned(payload)
	out.Spec.Workload.Manifests = nil
	for i, m := range payload.Spec.Workload.Manifests {
		isWebhook := slices.ContainsFunc(carried, func(c carriedWebhook) bool { return c.index == i })
		if !isWebhook && !unservable(payload, objects[i]) {
			out.Spec.Workload.Manifests = append(out.Spec.Workload.Manifests, m)
		}
	}
	if !looksAtOwners(payload) {
		out.Spec.ManifestConfigs = append(ownershipFeedback(), out.Spec.ManifestConfigs...)
	}
	for i := range out.Spec.ManifestConfigs { // the last entry that matches decides how the agent looks
		if isWebhookConfiguration(out.Spec.ManifestConfigs[i].ResourceIdentifier.Resource) {
			out.Spec.ManifestConfigs[i].FeedbackScrapeType = workv1.FeedbackWatchType
		}
	}
	return out
}

// unservable tells that the agent could not apply the object because the cluster does not know its kind.
func unservable(payload *workv1.ManifestWork, u *unstructured.Unstructured) bool {
	m := findManifest(payload, u)
	if m == nil {
		return false
	}
	c := apimeta.FindStatusCondition(m.Conditions, workv1.ManifestApplied)
	return c != nil && c.Status == metav1.ConditionFalse && kindMissing(c.Message)
}

func looksAtOwners(payload *workv1.ManifestWork) bool {
	return slices.ContainsFunc(payload.Spec.ManifestConfigs, looksAtOwner)
}

func looksAtOwner(c workv1.ManifestConfigOption) bool {
	return isWebhookConfiguration(c.ResourceIdentifier.Resource) && len(c.FeedbackRules) > 0
}

// runningWebhooks are the webhooks that the agent has not reported as stopped.
func runningWebhooks(payload *workv1.ManifestWork, carried []carriedWebhook) []string {
	var out []string
	for _, c := range carried {
		m := findManifest(payload, c.object)
		if m != nil && missing(*m) {
			continue
		}
		if m != nil && stopped(workloadState(m.ResourceMeta.Resource, m.ResourceMeta.Namespace, m.ResourceMeta.Name, m.StatusFeedbacks.Values)) {
			continue
		}
		out = append(out, c.object.GetNamespace()+"/"+c.object.GetName())
	}
	slices.Sort(out)
	return out
}

func stopped(s delivery.WorkloadState) bool {
	return s.Generation > 0 && s.ObservedGeneration >= s.Generation && s.Desired == 0 && s.Total == 0
}

func findManifest(payload *workv1.ManifestWork, u *unstructured.Unstructured) *workv1.ManifestCondition {
	manifests := payload.Status.ResourceStatus.Manifests
	i := slices.IndexFunc(manifests, func(m workv1.ManifestCondition) bool {
		return m.ResourceMeta.Kind == u.GetKind() && m.ResourceMeta.Namespace == u.GetNamespace() && m.ResourceMeta.Name == u.GetName()
	})
	if i < 0 {
		return nil
	}
	return &manifests[i]
}

// ownerValue is the name under which the agent reports the AppliedManifestWorks that own a webhook configuration.
const ownerValue = "AppliedManifestWorkOwner"

func ownershipFeedback() []workv1.ManifestConfigOption {
	var out []workv1.ManifestConfigOption
	for _, resource := range []string{"mutatingwebhookconfigurations", "validatingwebhookconfigurations"} {
		out = append(out, workv1.ManifestConfigOption{
			ResourceIdentifier: identifier("admissionregistration.k8s.io", resource, "**"),
			FeedbackScrapeType: workv1.FeedbackWatchType,
			FeedbackRules: []workv1.FeedbackRule{{Type: workv1.JSONPathsType, JsonPaths: []workv1.JsonPath{
				{Name: ownerValue, Path: `.metadata.ownerReferences[?(@.kind=="AppliedManifestWork")].name`},
			}}},
		})
	}
	return out
}

func isWebhookConfiguration(resource string) bool {
	return resource == "mutatingwebhookconfigurations" || resource == "validatingwebhookconfigurations"
}

// reclaimed tells whether the agent owns every webhook configuration that exists, so that it will delete them.
func reclaimed(payload *workv1.ManifestWork) Removal {
	if !observedBy(payload, workv1.WorkApplied) || !observedBy(payload, workv1.WorkAvailable) {
		return Removal{Step: AwaitReclaim, Why: "waiting for the work agent to apply the payload again and to report"}
	}
	var lost []string
	for _, m := range payload.Status.ResourceStatus.Manifests {
		if !isWebhookConfiguration(m.ResourceMeta.Resource) || missing(m) {
			continue
		}
		if !slices.ContainsFunc(m.StatusFeedbacks.Values, func(v workv1.FeedbackValue) bool { return v.Name == ownerValue }) {
			lost = append(lost, m.ResourceMeta.Name)
		}
	}
	if len(lost) == 0 {
		return Removal{Step: Delete, Why: "everything can be removed"}
	}
	slices.Sort(lost)
	return Removal{Step: RetryReclaim, Why: "the work agent does not own yet: " + strings.Join(lost, ", ")}
}

// observedBy tells that the condition is of the present generation, whatever it says: what the agent could not apply must
// be removed all the same.
func observedBy(payload *workv1.ManifestWork, condition string) bool {
	c := apimeta.FindStatusCondition(payload.Status.Conditions, condition)
	return c != nil && c.ObservedGeneration == payload.Generation
}
