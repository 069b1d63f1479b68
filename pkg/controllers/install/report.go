// Copyright Contributors to the Open Cluster Management project

package install

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

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/status"
)

// reported is the part of a resource's status that is written here.
type reported struct {
	ObservedGeneration int64              `json:"observedGeneration,omitempty"`
	Version            string             `json:"version,omitempty"`
	Conditions         []metav1.Condition `json:"conditions,omitempty"`
}

func reportedOf(config *unstructured.Unstructured) (reported, error) {
	var out reported
	have, _, err := unstructured.NestedMap(config.Object, "status")
	if err == nil {
		err = runtime.DefaultUnstructuredConverter.FromUnstructured(have, &out)
	}
	if err != nil {
		return reported{}, fmt.Errorf("cannot read the status of %s \"%s/%s\": %w", config.GetKind(), config.GetNamespace(), config.GetName(), err)
	}
	return out, nil
}

// report writes the status of an installation if it has changed, and then tells of the change in Events.
func (r *Reconciler) report(ctx context.Context, s *scope, in *status.Installation) error {
	last, err := reportedOf(s.config)
	if err != nil {
		return err
	}
	now := reported{ObservedGeneration: s.config.GetGeneration(), Version: last.Version, Conditions: status.Conditions(in, last.Conditions)}
	if in.Bundle != nil && apimeta.IsStatusConditionTrue(now.Conditions, api.InstallSucceeded) && in.Observation.Waiting == "" {
		now.Version = in.Bundle.Version
	}
	return r.write(ctx, s, last, now)
}

func (r *Reconciler) write(ctx context.Context, s *scope, last, now reported) error {
	since(now.Conditions, last.Conditions, metav1.NewTime(r.Clock.Now()))
	if same(last, now) {
		return nil
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": s.config.GetResourceVersion()}, "status": now,
	})
	if err != nil {
		return fmt.Errorf("cannot encode the status of %s %q: %w", r.Component.Kind(), key(s), err)
	}
	_, err = r.ConfigClient.Resource(r.Component.Resource()).Namespace(s.config.GetNamespace()).Patch(
		ctx, s.config.GetName(), types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("cannot write the status of %s %q: %w", r.Component.Kind(), key(s), err)
	}
	for _, e := range transitions(last.Conditions, now.Conditions) {
		r.Events.Eventf(s.config, nil, e.kind, e.reason, "Report", "%s", note(e.message))
	}
	return nil
}

// maxNote is how many bytes the API server accepts as the note of an Event.
const maxNote = 1024

func note(text string) string {
	if len(text) <= maxNote {
		return text
	}
	return strings.ToValidUTF8(text[:maxNote-len("...")], "") + "..."
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

// same compares what users see; the API server keeps times to the second, and conditions may be in any order.
func same(a, b reported) bool {
	return a.ObservedGeneration == b.ObservedGeneration && a.Version == b.Version && len(a.Conditions) == len(b.Conditions) &&
		!slices.ContainsFunc(a.Conditions, func(x metav1.Condition) bool {
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
