// Copyright Contributors to the Open Cluster Management project

package knative

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"open-cluster-management.io/knative-addon/pkg/api"
	fleetv1alpha1 "open-cluster-management.io/knative-addon/pkg/api/fleet/v1alpha1"
	"open-cluster-management.io/knative-addon/pkg/hub"
	"open-cluster-management.io/knative-addon/pkg/message"
	"open-cluster-management.io/knative-addon/pkg/reconciler"
	"open-cluster-management.io/knative-addon/pkg/status"
)

// resourceStatus is the part of a resource's status that a StatusWriter writes.
type resourceStatus struct {
	ObservedGeneration int64              `json:"observedGeneration,omitempty"`
	Version            string             `json:"version,omitempty"`
	Conditions         []metav1.Condition `json:"conditions,omitempty"`
	Annotations        map[string]string  `json:"annotations,omitempty"`
	// Rollout has the counts of a resource that configures many clusters; nil for any other resource.
	Rollout *fleetv1alpha1.RolloutStatus `json:"rollout,omitempty"`
}

// conditionTypes lists every type of condition that this manager, or an earlier version, writes into a resource. A type that is not in
// the list belongs to another writer, such as a newer manager.
func conditionTypes() []string {
	return slices.Concat(api.ConditionTypes(), api.OptionalConditionTypes())
}

// readStatus returns the status of a resource, without conditions of other writers.
func readStatus(config *unstructured.Unstructured) (resourceStatus, error) {
	var out resourceStatus
	have, _, err := unstructured.NestedMap(config.Object, "status")
	if err == nil {
		err = runtime.DefaultUnstructuredConverter.FromUnstructured(have, &out)
	}
	if err != nil {
		return resourceStatus{}, fmt.Errorf("cannot read the status of %s %q: %w", config.GetKind(), client.ObjectKeyFromObject(config), err)
	}
	known := conditionTypes()
	out.Conditions = slices.DeleteFunc(out.Conditions, func(c metav1.Condition) bool { return !slices.Contains(known, c.Type) })
	return out, nil
}

// StatusWriter writes the status of a component's resources and emits an Event for every transition of a condition.
type StatusWriter struct {
	Component api.Component
	Client    dynamic.Interface
	Events    events.EventRecorder
	Clock     clock.PassiveClock
	// ReadyAfter receives how long a resource was not Ready before the resource became Ready; nil drops the time.
	ReadyAfter func(component api.Component, config *unstructured.Unstructured, after time.Duration)

	transitions reconciler.WriteLimiter
}

// writeInstallation writes the conditions of an installation. The version in the status, and without a work agent the rendering, are
// those of the last bundle that the cluster got completely. wait is the time until the resource may report that the cluster became reachable or unreachable; 0
// means that the status is written.
func (w *StatusWriter) writeInstallation(
	ctx context.Context, config *unstructured.Unstructured, in *status.Installation,
) (wait time.Duration, err error) {
	last, err := readStatus(config)
	if err != nil {
		return 0, err
	}
	now := resourceStatus{
		ObservedGeneration: config.GetGeneration(), Version: last.Version, Conditions: status.Conditions(in, last.Conditions), Annotations: last.Annotations,
	}
	if in.Bundle != nil && apimeta.IsStatusConditionTrue(now.Conditions, api.InstallSucceeded) && in.Observation.Waiting == "" {
		now.Version = in.Bundle.Version
		if in.Bundle.Digest != "" && slices.Contains(config.GetFinalizers(), api.DirectFinalizer) { // a kept rendering has no digest
			now.Annotations = setAnnotation(last.Annotations, api.DeliveredRenderingAnnotation, in.Bundle.RenderingName())
		}
	}
	if isTransition(last, now) {
		if wait := w.transitions.Take(client.ObjectKeyFromObject(config), w.Clock.Now(), transitionInterval, transitionBurst); wait > 0 {
			return wait, nil
		}
	}
	return 0, w.writeStatus(ctx, config, last, now)
}

// setAnnotation returns annotations of a status with another value of one annotation: other writers may have written other annotations.
func setAnnotation(annotations map[string]string, key, value string) map[string]string {
	out := map[string]string{}
	maps.Copy(out, annotations)
	out[key] = value
	return out
}

// writeStatus patches the status of a resource, unless users would see no difference. A resource that is gone is no error. The status of a child
// has the revision of the KnativeFleet that the pass has read: a revision that changes metadata alone keeps the generation.
func (w *StatusWriter) writeStatus(ctx context.Context, config *unstructured.Unstructured, last, now resourceStatus) error {
	if revision, isChild := config.GetAnnotations()[api.FleetRevisionAnnotation]; isChild {
		now.Annotations = setAnnotation(now.Annotations, api.FleetRevisionAnnotation, revision)
	}
	setTransitionTimes(now.Conditions, last.Conditions, metav1.NewTime(w.Clock.Now()))
	if last.equalsIgnoringTimes(now) {
		return nil
	}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&now)
	if err != nil {
		return fmt.Errorf("cannot encode the status of %s %q: %w", w.Component.Kind(), client.ObjectKeyFromObject(config), err)
	}
	_, err = hub.Patch(ctx, w.Client.Resource(w.Component.Resource()).Namespace(config.GetNamespace()), config, func(changed *unstructured.Unstructured) {
		have, ok := changed.Object["status"].(map[string]any)
		if !ok {
			have = map[string]any{}
			changed.Object["status"] = have
		}
		conditions, _ := fields["conditions"].([]any)
		conditions = append(conditions, hub.ConditionsOfOthers(have["conditions"], conditionTypes())...)
		maps.Copy(have, fields) // other writers may have written other fields
		have["conditions"] = conditions
	}, "status")
	if err != nil {
		return client.IgnoreNotFound(err)
	}
	w.reportReady(config, last, now)
	for _, e := range transitionEvents(last.Conditions, now.Conditions) {
		w.Events.Eventf(config, nil, e.kind, e.reason, "Report", "%s", message.Shorten(e.message, message.MaxNote))
	}
	return nil
}

// reportReady passes the time to Ready on when a resource has become Ready. Without an earlier status the time begins with the
// creation of the resource.
func (w *StatusWriter) reportReady(config *unstructured.Unstructured, last, now resourceStatus) {
	became := apimeta.FindStatusCondition(now.Conditions, api.Ready)
	if w.ReadyAfter == nil || became == nil || became.Status != metav1.ConditionTrue || apimeta.IsStatusConditionTrue(last.Conditions, api.Ready) {
		return
	}
	since := config.GetCreationTimestamp()
	if before := apimeta.FindStatusCondition(last.Conditions, api.Ready); before != nil {
		since = before.LastTransitionTime
	}
	w.ReadyAfter(w.Component, config, became.LastTransitionTime.Sub(since.Time))
}

// setTransitionTimes sets the time of each condition: the last time if the status of the condition is the same, otherwise now.
func setTransitionTimes(conditions, last []metav1.Condition, now metav1.Time) {
	for i := range conditions {
		conditions[i].LastTransitionTime = now
		if c := apimeta.FindStatusCondition(last, conditions[i].Type); c != nil && c.Status == conditions[i].Status {
			conditions[i].LastTransitionTime = c.LastTransitionTime
		}
	}
}

// equalsIgnoringTimes reports whether two statuses look the same to users. The API server keeps times to the second, and the
// order of conditions has no meaning.
func (s resourceStatus) equalsIgnoringTimes(b resourceStatus) bool {
	return s.ObservedGeneration == b.ObservedGeneration && s.Version == b.Version && maps.Equal(s.Annotations, b.Annotations) &&
		equality.Semantic.DeepEqual(s.Rollout, b.Rollout) &&
		len(s.Conditions) == len(b.Conditions) &&
		!slices.ContainsFunc(s.Conditions, func(x metav1.Condition) bool {
			y := apimeta.FindStatusCondition(b.Conditions, x.Type)
			return y == nil || x.Status != y.Status || x.Reason != y.Reason || x.Message != y.Message
		})
}

// transitionEvent is the Event of one transition.
type transitionEvent struct{ kind, reason, message string }

// transitionEvents returns the Events of a change of conditions: a condition that is now True or False, with the reason. An
// intermediate state, Unknown, has no Event unless a pause lasts.
func transitionEvents(last, now []metav1.Condition) []transitionEvent {
	var out []transitionEvent
	for _, c := range now {
		before := apimeta.FindStatusCondition(last, c.Type)
		if before != nil && before.Status == c.Status && before.Reason == c.Reason {
			continue
		}
		switch {
		case c.Status == metav1.ConditionUnknown && c.Type == api.Ready && c.Reason == api.ReasonPaused:
			out = append(out, transitionEvent{corev1.EventTypeNormal, c.Reason, c.Message})
		case c.Status == metav1.ConditionFalse && c.Type == api.RenderingCurrent: // a cluster that waits for its turn is no fault
			out = append(out, transitionEvent{corev1.EventTypeNormal, c.Reason, c.Message})
		case c.Type == api.RolledOut && c.Status == metav1.ConditionFalse && c.Reason != api.ReasonClustersFailed: // another condition tells, or nothing failed
		case c.Status == metav1.ConditionFalse && c.Type != api.Ready: // Ready repeats another condition
			out = append(out, transitionEvent{corev1.EventTypeWarning, c.Reason, c.Type + " is False: " + c.Message})
		case c.Status == metav1.ConditionTrue && (c.Type == api.Ready || before != nil && before.Status == metav1.ConditionFalse):
			out = append(out, transitionEvent{corev1.EventTypeNormal, c.Reason, c.Type + " is True"})
		}
	}
	return out
}

const (
	// transitionInterval is the time between two transitions of a cluster between reachable and unreachable that the status of a
	// resource reports, after the first transitionBurst transitions. Each such transition is a write and an Event.
	transitionInterval = 20 * time.Second
	transitionBurst    = 3
)

// isTransition reports whether the cluster of a resource became reachable or unreachable since the last status of the same spec.
func isTransition(last, now resourceStatus) bool {
	before := apimeta.FindStatusCondition(last.Conditions, api.TargetClusterResolved)
	after := apimeta.FindStatusCondition(now.Conditions, api.TargetClusterResolved)
	return before != nil && after != nil && before.Status != after.Status && last.ObservedGeneration == now.ObservedGeneration
}
