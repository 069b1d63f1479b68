// Copyright Contributors to the Open Cluster Management project

package comparison

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/pmezard/go-difflib/difflib"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/message"
	"open-cluster-management.io/knative-addon/pkg/render"
)

// Action names the change of an object of a cluster.
type Action string

const (
	// Create is the action for an object that the cluster does not get now.
	Create Action = "create"
	// Update is the action for an object with other content.
	Update Action = "update"
	// Delete is the action for an object that the cluster no longer gets.
	Delete Action = "delete"
	// Keep is the action for a Namespace or CRD that the cluster no longer gets, and that stays on the cluster.
	Keep Action = "keep"
)

// Change is the change of one object.
type Change struct {
	Action Action `json:"action"`
	// Object is the kind with the group, the namespace and the name.
	Object string `json:"object"`
	// Diff is the unified difference of the YAML.
	Diff string `json:"diff"`
}

// objectSet holds objects by identity.
type objectSet map[render.ObjectID]map[string]any

// add decodes and adds an object. Fields that the manager records for itself are left out.
func (s objectSet) add(component api.Component, encoded []byte) error {
	u := &unstructured.Unstructured{}
	if err := utiljson.Unmarshal(encoded, &u.Object); err != nil {
		return err
	}
	gvk := u.GroupVersionKind()
	id := render.ObjectID{Group: gvk.Group, Kind: gvk.Kind, Namespace: u.GetNamespace(), Name: u.GetName()}
	if gvk.Kind == "ConfigMap" && strings.HasPrefix(id.Name, component.AddOnName()+"-bundle-") {
		return nil // the mark of the bundle, which repeats the digest of all objects
	}
	if annotations := u.GetAnnotations(); annotations[api.CreatedByHubAnnotation] != "" {
		delete(annotations, api.CreatedByHubAnnotation)
		if len(annotations) == 0 {
			annotations = nil // removes the field, which the rendered object lacks
		}
		u.SetAnnotations(annotations)
	}
	s[id] = u.Object
	return nil
}

// compareObjects returns the changes from one set to another, in the order of the objects.
func compareObjects(before, after objectSet) ([]Change, error) {
	all := maps.Clone(before)
	maps.Copy(all, after)
	var out []Change
	for _, id := range slices.SortedFunc(maps.Keys(all), func(a, b render.ObjectID) int { return cmp.Compare(a.String(), b.String()) }) {
		old, existed := before[id]
		wanted, remains := after[id]
		maskSecret(id, old, wanted)
		object := message.OneLine(id.String(), message.MaxNote) // the agent of a cluster may write any text into a ManifestWork
		diff, err := diffYAML(object, old, wanted)
		if err != nil {
			return nil, err
		}
		change := Change{Action: Update, Object: object, Diff: diff}
		switch {
		case !existed:
			change.Action = Create
		case !remains && render.KindNamed(id.Kind).Orphan:
			change.Action = Keep
		case !remains:
			change.Action = Delete
		case diff == "":
			continue
		}
		out = append(out, change)
	}
	return out, nil
}

// diffYAML returns the unified difference of two objects; a nil object is empty.
func diffYAML(object string, before, after map[string]any) (string, error) {
	var texts [2]string
	for n, content := range []map[string]any{before, after} {
		if content == nil {
			continue
		}
		text, err := yaml.Marshal(content)
		if err != nil {
			return "", fmt.Errorf("cannot print %s: %w", object, err)
		}
		texts[n] = string(text)
	}
	if texts[0] == texts[1] {
		return "", nil
	}
	var out bytes.Buffer
	err := difflib.WriteUnifiedDiff(&out, difflib.UnifiedDiff{
		A: slices.Collect(strings.Lines(texts[0])), B: slices.Collect(strings.Lines(texts[1])), FromFile: object, ToFile: object, Context: 3,
	})
	return out.String(), err
}

// maskSecret replaces the values of a Secret by texts that differ as the values differ.
func maskSecret(id render.ObjectID, before, after map[string]any) {
	if id.Kind != "Secret" || id.Group != "" {
		return
	}
	for _, field := range []string{"data", "stringData"} {
		maskInvalid(before, field)
		maskInvalid(after, field)
		old, _ := before[field].(map[string]any)
		wanted, _ := after[field].(map[string]any)
		masked := map[string]any{}
		for key, value := range wanted {
			masked[key] = "***"
			if previous, existed := old[key]; existed && !reflect.DeepEqual(previous, value) { // a value of an invalid Secret may be a map
				masked[key] = "*** (after)"
			}
		}
		if wanted != nil {
			after[field] = masked
		}
		maskBefore(before, field, masked)
	}
	maskLastApplied(before, after)
}

// maskLastApplied masks the copy of a Secret that kubectl apply writes into an annotation.
func maskLastApplied(before, after map[string]any) {
	const key = corev1.LastAppliedConfigAnnotation
	old, wanted := &unstructured.Unstructured{Object: before}, &unstructured.Unstructured{Object: after}
	oldCopy, wantedCopy := old.GetAnnotations()[key], wanted.GetAnnotations()[key]
	mask := func(u *unstructured.Unstructured, masked string) {
		annotations := u.GetAnnotations()
		annotations[key] = masked
		u.SetAnnotations(annotations)
	}
	if oldCopy != "" {
		mask(old, "*** (before)")
	}
	if wantedCopy != "" {
		mask(wanted, "*** (after)")
	}
	if oldCopy != "" && oldCopy == wantedCopy {
		mask(old, "***")
		mask(wanted, "***")
	}
}

// maskInvalid masks a field that is no map. Only a ManifestWork can hold such a Secret, because no API server accepts the Secret.
func maskInvalid(secret map[string]any, field string) {
	if _, isMap := secret[field].(map[string]any); !isMap && secret[field] != nil {
		secret[field] = "***"
	}
}

// maskBefore masks the values of the Secret before the change. A value that changes is masked as in masked.
func maskBefore(before map[string]any, field string, masked map[string]any) {
	old, _ := before[field].(map[string]any)
	if old == nil {
		return
	}
	out := map[string]any{}
	for key := range old {
		out[key] = "***"
		if masked[key] == "*** (after)" {
			out[key] = "*** (before)"
		}
	}
	before[field] = out
}
