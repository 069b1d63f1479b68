// Copyright Contributors to the Open Cluster Management project

package render

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	kjson "sigs.k8s.io/json"
)

// Patch is an entry of spec.patches, which changes exactly one rendered object.
type Patch struct {
	// Target names the object.
	Target PatchTarget `json:"target"`
	// Patch is the change.
	Patch PatchSpec `json:"patch"`
}

// PatchTarget names one rendered object.
type PatchTarget struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Name       string `json:"name"`
	// Namespace is necessary only when two objects differ in the namespace alone.
	Namespace string `json:"namespace,omitempty"`
}

// String returns the target as messages name the target.
func (t PatchTarget) String() string {
	ns := t.Namespace
	if ns == "" {
		ns = "*"
	}
	return fmt.Sprintf("%s %s %s/%s", t.APIVersion, t.Kind, ns, t.Name)
}

// PatchSpec is a patch document with the algorithm of the patch.
type PatchSpec struct {
	Type PatchType `json:"type"`
	// Content is JSON or YAML.
	Content string `json:"content"`
}

// PatchType is an algorithm.
type PatchType string

const (
	// JSONPatch is RFC 6902.
	JSONPatch PatchType = "json"
	// MergePatch is RFC 7386.
	MergePatch PatchType = "merge"
	// StrategicPatch is Kubernetes' strategic merge patch, for kinds that Kubernetes itself has.
	StrategicPatch PatchType = "strategic"
)

// takePatches removes the patches from spec.
func takePatches(spec map[string]any) ([]Patch, error) {
	value, found := spec["patches"]
	if !found || value == nil {
		return nil, nil
	}
	delete(spec, "patches")
	data, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	var patches []Patch
	strict, err := kjson.UnmarshalStrict(data, &patches)
	if err != nil {
		return nil, fmt.Errorf("spec.patches: %w", err)
	}
	if len(strict) > 0 {
		return nil, fmt.Errorf("spec.patches: %w", strict[0])
	}
	for n, p := range patches {
		if err := p.validatePatch(); err != nil {
			return nil, fmt.Errorf("spec.patches[%d]: %w", n, err)
		}
	}
	return patches, checkPatchesBytes(patches)
}

func (p Patch) validatePatch() error {
	for _, f := range []struct{ name, value string }{
		{"apiVersion", p.Target.APIVersion}, {"kind", p.Target.Kind}, {"name", p.Target.Name},
	} {
		if f.value == "" {
			return fmt.Errorf("target.%s is empty", f.name)
		}
	}
	switch p.Patch.Type {
	case JSONPatch, MergePatch, StrategicPatch:
	default:
		return fmt.Errorf("patch.type is %q, want json, merge or strategic", p.Patch.Type)
	}
	if strings.TrimSpace(p.Patch.Content) == "" {
		return errors.New("patch.content is empty")
	}
	if err := checkAliases([]byte(p.Patch.Content)); err != nil {
		return fmt.Errorf("patch.content: %w", err)
	}
	return nil
}
