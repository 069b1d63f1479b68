// Copyright Contributors to the Open Cluster Management project

// Package report writes the status of KnativeServings and KnativeEventings, if it has changed, and tells of the change in
// Events.
package report

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/status"
)

// Status is the part of a resource's status that is written here.
type Status struct {
	ObservedGeneration int64              `json:"observedGeneration,omitempty"`
	Version            string             `json:"version,omitempty"`
	Conditions         []metav1.Condition `json:"conditions,omitempty"`
}

// StatusOf is what a resource says.
func StatusOf(config *unstructured.Unstructured) (Status, error) {
	var out Status
	have, _, err := unstructured.NestedMap(config.Object, "status")
	if err == nil {
		err = runtime.DefaultUnstructuredConverter.FromUnstructured(have, &out)
	}
	if err != nil {
		return Status{}, fmt.Errorf("cannot read the status of %s \"%s/%s\": %w", config.GetKind(), config.GetNamespace(), config.GetName(), err)
	}
	return out, nil
}

// Reporter writes the status of a component's resources.
type Reporter struct {
	Component api.Component
	Client    dynamic.Interface
	Events    events.EventRecorder
	Clock     clock.PassiveClock
}

// Installation reports on an installation.
func (r *Reporter) Installation(ctx context.Context, config *unstructured.Unstructured, in *status.Installation) error {
	last, err := StatusOf(config)
	if err != nil {
		return err
	}
	now := Status{ObservedGeneration: config.GetGeneration(), Version: last.Version, Conditions: status.Conditions(in, last.Conditions)}
	if in.Bundle != nil && apimeta.IsStatusConditionTrue(now.Conditions, api.InstallSucceeded) && in.Observation.Waiting == "" {
		now.Version = in.Bundle.Version
	}
	return r.Write(ctx, config, last, now)
}

// Write writes what is to be said now, where it differs from what was said last.
func (r *Reporter) Write(ctx context.Context, config *unstructured.Unstructured, last, now Status) error {
	since(now.Conditions, last.Conditions, metav1.NewTime(r.Clock.Now()))
	if last.Same(now) {
		return nil
	}
	name := types.NamespacedName{Namespace: config.GetNamespace(), Name: config.GetName()}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": config.GetResourceVersion()}, "status": now,
	})
	if err != nil {
		return fmt.Errorf("cannot encode the status of %s %q: %w", r.Component.Kind(), name, err)
	}
	_, err = r.Client.Resource(r.Component.Resource()).Namespace(name.Namespace).Patch(
		ctx, name.Name, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("cannot write the status of %s %q: %w", r.Component.Kind(), name, err)
	}
	for _, e := range transitions(last.Conditions, now.Conditions) {
		r.Events.Eventf(config, nil, e.kind, e.reason, "Report", "%s", Note(e.message))
	}
	return nil
}

// MaxNote is how many bytes the API server accepts as the note of an Event.
const MaxNote = 1024

// Note shortens a text to what an Event may say.
func Note(text string) string {
	if len(text) <= MaxNote {
		return text
	}
	return strings.ToValidUTF8(text[:MaxNote-len("...")], "") + "..."
}

// since gives each condition the time at which its status became what it is.
func since(conditions, last []metav1.Condition, now metav1.Time) {
	for i := range conditions {
		conditions[i].LastTransitionTime = now
		if c := apimeta.FindStatusCondition(last, conditions[i].Type); c != nil && c.Status == conditions[i].Status {
			conditions[i].LastTransitionTime = c.LastTransitionTime
		}
	}
}

// Same compares what users see; the API server keeps times to the second, and conditions may be in any order.
func (s Status) Same(b Status) bool {
	return s.ObservedGeneration == b.ObservedGeneration && s.Version == b.Version && len(s.Conditions) == len(b.Conditions) &&
		!slices.ContainsFunc(s.Conditions, func(x metav1.Condition) bool {
			y := apimeta.FindStatusCondition(b.Conditions, x.Type)
			return y == nil || x.Status != y.Status || x.Reason != y.Reason || x.Message != y.Message
		})
}

// event is one fact for users.
type event struct{ kind, reason, message string }

// transitions are the Events of a change of conditions: what became True or False, and why. Steps on the way, which are
// Unknown, are not worth one.
func transitions(last, now []metav1.Condition) []event {
	var out []event
	for _, c := range now {
		before := apimeta.FindStatusCondition(last, c.Type)
		if c.Status == metav1.ConditionUnknown || before != nil && before.Status == c.Status && before.Reason == c.Reason {
			continue
		}
		switch {
		case c.Status == metav1.ConditionFalse && c.Type != api.Ready: // Ready repeats another one
			out = append(out, event{corev1.EventTypeWarning, c.Reason, c.Type + " is False: " + c.Message})
		case c.Status == metav1.ConditionTrue && (c.Type == api.Ready || before != nil && before.Status == metav1.ConditionFalse):
			out = append(out, event{corev1.EventTypeNormal, c.Reason, c.Type + " is True"})
		}
	}
	return out
}
