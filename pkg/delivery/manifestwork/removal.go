// Copyright Contributors to the Open Cluster Management project

package manifestwork

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/delivery"
	"open-cluster-management.io/knative-addon/pkg/render"
)

// Knative makes its Namespace the only owner of its webhook configurations, and the work agent deletes only owned objects:
// a plain deletion of the payload would leave the configurations on the cluster, with failurePolicy Fail and without a webhook. A
// removal has four steps: the workloads stop, the agent applies again and becomes an owner, the agent stops applying
// (readonly.go), and the hub deletes the work. All workloads stop, not only the webhooks, because the agent deletes all objects of a
// work at once: a controller without its permissions cannot release its Leases, and the next installation would wait for each Lease
// to expire. The spec and the status of a payload show its step at any time, without any other state.

// RemovalStep is the next step in the removal of a payload.
type RemovalStep string

const (
	// StopWorkloads means to write Removal.Payload, in which the workloads have no replicas.
	StopWorkloads RemovalStep = "StopWorkloads"
	// AwaitStop means to wait until the agent reports that the workloads have no pods, at the longest for delivery.LongestStop after the agent
	// has applied the stop. Removal.Payload records the time; nil after the record.
	AwaitStop RemovalStep = "AwaitStop"
	// RetryStop means to make the agent apply again: another writer, such as a controller of Knative that ends, has started a workload again.
	RetryStop RemovalStep = "RetryStop"
	// Reclaim means to write Removal.Payload, without the webhooks' Deployments, so that the agent applies the rest again.
	Reclaim RemovalStep = "Reclaim"
	// AwaitReclaim means to wait until the agent reports its ownership of the webhook configurations.
	AwaitReclaim RemovalStep = "AwaitReclaim"
	// RetryReclaim means to make the agent apply again: another writer took the ownership after the agent had applied.
	RetryReclaim RemovalStep = "RetryReclaim"
	// StopApplying means to write Removal.Payload, whose objects the agent only reads.
	StopApplying RemovalStep = "StopApplying"
	// AwaitStopApplying means to wait until the agent reports that the agent has read the objects.
	AwaitStopApplying RemovalStep = "AwaitStopApplying"
	// Delete means to delete the work.
	Delete RemovalStep = "Delete"
	// AwaitDelete means to wait until the agent has removed all objects.
	AwaitDelete RemovalStep = "AwaitDelete"
)

// Removal is the next step in the removal of a payload.
type Removal struct {
	Step RemovalStep
	// Why names the event that the step waits for.
	Why string
	// Payload is the changed work for a step that writes; nil for any other step.
	Payload *workv1.ManifestWork
	// Retry is the time until the step changes without an event; 0 means that only an event changes the step.
	Retry time.Duration
}

// IsStop reports whether workloads of the payload may run.
func (r *Removal) IsStop() bool {
	return r.Step == StopWorkloads || r.Step == AwaitStop || r.Step == RetryStop
}

// IsReclaim reports whether the agent still applies the payload, and takes the webhook configurations back.
func (r *Removal) IsReclaim() bool {
	return r.Step == Reclaim || r.Step == AwaitReclaim || r.Step == RetryReclaim
}

// NextRemoval determines the next step of the removal.
func NextRemoval(payload *workv1.ManifestWork, now time.Time) (Removal, error) {
	if payload.DeletionTimestamp != nil {
		return Removal{Step: AwaitDelete, Why: DescribeDeletion(payload)}, nil
	}
	if !HasAgent(payload) {
		return Removal{Step: Delete, Why: "the work agent never saw the work"}, nil
	}
	objects, err := manifestsOf(payload)
	if err != nil {
		return Removal{}, err
	}
	carried, mayComplete := carriedWorkloads(payload, objects), hasCompleteRules(payload)
	webhooks, readOnly := webhooksAmong(carried), isReadOnly(payload)
	running, isRestarted := runningWorkloads(payload, carried)
	left, isBounded := timeToStop(payload, now)
	if isBounded && left <= 0 {
		running = nil
	}
	switch {
	case len(webhooks) > 0 && mayComplete, slices.ContainsFunc(carried, carriedWorkload.mayRun):
		changed, err := withWorkloadsStopped(payload, carried)
		return Removal{Step: StopWorkloads, Why: "the workloads of Knative are being stopped", Payload: changed}, err
	case len(running) > 0 && !readOnly:
		out := Removal{Step: AwaitStop, Why: "waiting for the workloads of Knative to stop: " + delivery.Listed(running), Retry: left}
		isApplied := observedBy(payload, workv1.WorkApplied)
		switch {
		case isApplied && !isBounded:
			out.Payload = withStopBegun(payload, now)
		case isApplied && isRestarted && observedBy(payload, workv1.WorkAvailable):
			out.Step = RetryStop
		}
		return out, nil
	case len(webhooks) > 0, !reportsOwners(payload), payload.Spec.DeleteOption != nil, mayComplete,
		readOnly && (len(running) > 0 || len(unownedConfigurations(payload)) > 0):
		changed, err := payloadForReclaim(payload, objects, webhooks)
		return Removal{Step: Reclaim, Why: "the work agent takes the webhook configurations back", Payload: changed}, err
	}
	return determineReclaim(payload), nil
}

// DescribeDeletion names the objects that the deletion of a work waits for. The work agent deletes all objects at once, waits as long as one
// exists, and reports on the objects meanwhile.
func DescribeDeletion(w *workv1.ManifestWork) string {
	var left []string
	for _, m := range w.Status.ResourceStatus.Manifests {
		if isMissing(m) || keeps(w, m.ResourceMeta) {
			continue
		}
		name := m.ResourceMeta.Name
		if m.ResourceMeta.Namespace != "" {
			name = m.ResourceMeta.Namespace + "/" + name
		}
		left = append(left, m.ResourceMeta.Kind+" "+name)
	}
	if len(left) == 0 {
		return "the work agent removes the objects"
	}
	slices.Sort(left)
	text := "waiting for these to be gone: " + delivery.Listed(left)
	if holdsOthers(left) {
		text += "; an object with a finalizer keeps its CustomResourceDefinition and its Namespace"
	}
	return text
}

// holdsOthers reports whether the remaining objects are CustomResourceDefinitions and Namespaces, which wait for the objects that they hold.
func holdsOthers(left []string) bool {
	return !slices.ContainsFunc(left, func(name string) bool {
		return !strings.HasPrefix(name, "CustomResourceDefinition ") && !strings.HasPrefix(name, "Namespace ")
	})
}

// keeps reports whether a deletion of the work keeps the object.
func keeps(w *workv1.ManifestWork, object workv1.ManifestResourceMeta) bool {
	switch o := w.Spec.DeleteOption; {
	case o == nil:
		return false
	case o.PropagationPolicy == workv1.DeletePropagationPolicyTypeOrphan:
		return true
	case o.SelectivelyOrphan == nil:
		return false
	default:
		return slices.Contains(o.SelectivelyOrphan.OrphaningRules, workv1.OrphaningRule{
			Group: object.Group, Resource: object.Resource, Namespace: object.Namespace, Name: object.Name,
		})
	}
}

// carriedWorkload is the manifest of a Deployment or StatefulSet in a payload.
type carriedWorkload struct {
	index    int
	object   *unstructured.Unstructured
	replicas int64 // -1 for an absent field
	// webhook reports whether the pods answer Knative's webhooks.
	webhook bool
}

func (c carriedWorkload) mayRun() bool { return c.replicas != 0 }

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

// carriedWorkloads returns the workloads of the payload, in its order, without those of a kind that the cluster does not serve.
func carriedWorkloads(payload *workv1.ManifestWork, objects []*unstructured.Unstructured) []carriedWorkload {
	var out []carriedWorkload
	for _, w := range render.WorkloadsOf(objects) {
		i := slices.IndexFunc(objects, func(o *unstructured.Unstructured) bool {
			return o.GetKind() == w.Kind && o.GetNamespace() == w.Namespace && o.GetName() == w.Name
		})
		if hasMissingKind(payload, objects[i]) {
			continue
		}
		c := carriedWorkload{index: i, object: objects[i], replicas: -1, webhook: w.Webhook}
		if n, found, err := unstructured.NestedInt64(objects[i].Object, "spec", "replicas"); err == nil && found {
			c.replicas = n
		}
		out = append(out, c)
	}
	slices.SortFunc(out, func(a, b carriedWorkload) int { return a.index - b.index })
	return out
}

func webhooksAmong(carried []carriedWorkload) []carriedWorkload {
	return slices.DeleteFunc(slices.Clone(carried), func(c carriedWorkload) bool { return !c.webhook })
}

// timeToStop returns how long the removal waits for the workloads. isBounded is false before the agent has applied the stop, as long as the agent
// is away, and for a time ahead, which another clock has written.
func timeToStop(payload *workv1.ManifestWork, now time.Time) (left time.Duration, isBounded bool) {
	seconds, err := strconv.ParseInt(payload.Annotations[api.StopBegunAnnotation], 10, 64)
	if err != nil {
		return 0, false
	}
	if left = time.Unix(seconds, 0).Add(delivery.LongestStop).Sub(now); left > delivery.LongestStop {
		return 0, false
	}
	return left, true
}

// withStopBegun returns the payload with the time at which the agent has applied the stop of the workloads.
func withStopBegun(payload *workv1.ManifestWork, now time.Time) *workv1.ManifestWork {
	out := payload.DeepCopy()
	metav1.SetMetaDataAnnotation(&out.ObjectMeta, api.StopBegunAnnotation, strconv.FormatInt(now.Unix(), 10))
	return out
}

// withWorkloadsStopped returns the payload with zero replicas of the workloads.
func withWorkloadsStopped(payload *workv1.ManifestWork, carried []carriedWorkload) (*workv1.ManifestWork, error) {
	out := notOrphaned(payload)
	delete(out.Annotations, api.StopBegunAnnotation) // of a removal that was given up
	for _, c := range carried {
		if err := unstructured.SetNestedField(c.object.Object, int64(0), "spec", "replicas"); err != nil {
			return nil, fmt.Errorf("cannot stop %s %q: %w", c.object.GetKind(), c.object.GetName(), err)
		}
		raw, err := json.Marshal(c.object.Object)
		if err != nil {
			return nil, fmt.Errorf("cannot stop %s %q: %w", c.object.GetKind(), c.object.GetName(), err)
		}
		out.Spec.Workload.Manifests[c.index].Raw = raw
	}
	return out, nil
}

// payloadForReclaim returns the payload without its webhooks, in which the agent reports the owners of the webhook
// configurations. Objects of a kind that the cluster does not serve leave the payload, too: one such object keeps the agent
// from recording the ownership of all others.
//
// The webhook configurations ignore failures: an apply that is under way during the deletion creates objects again, and makes the
// AppliedManifestWork their owner by a second request. A webhook that ended in between would refuse this request, and
// an object without an owner stays on the cluster for ever.
func payloadForReclaim(payload *workv1.ManifestWork, objects []*unstructured.Unstructured, webhooks []carriedWorkload) (*workv1.ManifestWork, error) {
	out := notOrphaned(payload)
	out.Spec.Workload.Manifests = nil
	for i, m := range payload.Spec.Workload.Manifests {
		isWebhook := slices.ContainsFunc(webhooks, func(c carriedWorkload) bool { return c.index == i })
		if isWebhook || hasMissingKind(payload, objects[i]) {
			continue
		}
		if delivery.IsWebhookConfiguration(objects[i]) {
			ignoreFailures(objects[i])
			raw, err := json.Marshal(objects[i].Object)
			if err != nil {
				return nil, fmt.Errorf("cannot change the failurePolicy of %s %q: %w", objects[i].GetKind(), objects[i].GetName(), err)
			}
			m.Raw = raw
		}
		out.Spec.Workload.Manifests = append(out.Spec.Workload.Manifests, m)
	}
	if !reportsOwners(payload) {
		out.Spec.ManifestConfigs = append(ownershipFeedback(), out.Spec.ManifestConfigs...)
	}
	for i := range out.Spec.ManifestConfigs { // the last matching entry decides how the agent observes
		if isWebhookConfiguration(out.Spec.ManifestConfigs[i].ResourceIdentifier.Resource) {
			out.Spec.ManifestConfigs[i].FeedbackScrapeType = workv1.FeedbackWatchType
		}
	}
	return out, nil
}

// hasMissingKind reports whether the agent could not apply the object because the cluster does not serve the kind.
func hasMissingKind(payload *workv1.ManifestWork, u *unstructured.Unstructured) bool {
	m := findManifest(payload, u)
	if m == nil {
		return false
	}
	c := apimeta.FindStatusCondition(m.Conditions, workv1.ManifestApplied)
	return c != nil && c.Status == metav1.ConditionFalse && saysKindMissing(c.Message)
}

func reportsOwners(payload *workv1.ManifestWork) bool {
	return slices.ContainsFunc(payload.Spec.ManifestConfigs, reportsOwner)
}

func reportsOwner(c workv1.ManifestConfigOption) bool {
	return isWebhookConfiguration(c.ResourceIdentifier.Resource) && len(c.FeedbackRules) > 0
}

// runningWorkloads lists the workloads that the agent has not reported as stopped. isRestarted reports whether a workload has replicas to start.
func runningWorkloads(payload *workv1.ManifestWork, carried []carriedWorkload) (out []string, isRestarted bool) {
	for _, c := range carried {
		m := findManifest(payload, c.object)
		if m != nil && isMissing(*m) {
			continue
		}
		if m != nil {
			state := workloadState(m.ResourceMeta.Resource, m.ResourceMeta.Namespace, m.ResourceMeta.Name, m.StatusFeedbacks.Values)
			if state.IsStopped() {
				continue
			}
			isRestarted = isRestarted || state.Desired > 0
		}
		out = append(out, c.object.GetKind()+" "+c.object.GetNamespace()+"/"+c.object.GetName())
	}
	slices.Sort(out)
	return out, isRestarted
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
	for _, k := range kindsWhere(func(k render.Kind) bool { return k.Stage == render.StageWebhook }) {
		out = append(out, workv1.ManifestConfigOption{
			ResourceIdentifier: resourceIdentifier(k.Group, k.Resource, "**"),
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

// determineReclaim determines the step after a reclaim: the agent stops applying when the agent owns, and thus deletes, every
// existing webhook configuration.
func determineReclaim(payload *workv1.ManifestWork) Removal {
	observed, readOnly := observedBy(payload, workv1.WorkApplied) && observedBy(payload, workv1.WorkAvailable), isReadOnly(payload)
	switch unowned := unownedConfigurations(payload); {
	case !observed && readOnly:
		return Removal{Step: AwaitStopApplying, Why: "waiting for the work agent to report that no pass applies the payload any more"}
	case !observed:
		return Removal{Step: AwaitReclaim, Why: "waiting for the work agent to apply the payload again and to report"}
	case len(unowned) > 0:
		return Removal{Step: RetryReclaim, Why: "the work agent does not own yet: " + strings.Join(unowned, ", ")}
	case !readOnly && len(readOnlyEntries(payload)) > 0:
		return Removal{Step: StopApplying, Why: "the work agent stops applying the payload", Payload: readOnlyPayload(payload)}
	}
	return Removal{Step: Delete, Why: "everything can be removed"}
}

// unownedConfigurations lists the existing webhook configurations that the agent does not own, sorted.
func unownedConfigurations(payload *workv1.ManifestWork) []string {
	var out []string
	for _, m := range payload.Status.ResourceStatus.Manifests {
		if !isWebhookConfiguration(m.ResourceMeta.Resource) || isMissing(m) {
			continue
		}
		if !slices.ContainsFunc(m.StatusFeedbacks.Values, func(v workv1.FeedbackValue) bool { return v.Name == ownerValue }) {
			out = append(out, m.ResourceMeta.Name)
		}
	}
	slices.Sort(out)
	return out
}

// observedBy reports whether the condition is of the latest generation, with any status: a removal also removes a payload
// that the agent could not apply.
func observedBy(payload *workv1.ManifestWork, condition string) bool {
	c := apimeta.FindStatusCondition(payload.Status.Conditions, condition)
	return c != nil && c.ObservedGeneration == payload.Generation
}
