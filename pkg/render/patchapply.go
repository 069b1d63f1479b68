// Copyright Contributors to the Open Cluster Management project

package render

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	jsonpatch "github.com/evanphx/json-patch/v5"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"sigs.k8s.io/yaml"

	"open-cluster-management.io/knative-addon/pkg/api"
)

// maxPatchCopies bounds what the copy operations of one JSON patch may add.
const maxPatchCopies = 1 << 20

const patchDirective = "$patch"

// applyPatches applies spec.patches in order; each sees what the ones before it did.
func applyPatches(d *draft) error {
	if len(d.patches) == 0 {
		return nil
	}
	p := patcher{draft: d, types: patchTypes()}
	for n, patch := range d.patches {
		if err := p.apply(patch); err != nil {
			return refuse(ReasonPatchFailed, "cannot apply spec.patches[%d] to %s: %w", n, patch.Target, err)
		}
	}
	return nil
}

type patcher struct {
	draft *draft
	// types are the kinds whose lists a strategic merge patch knows how to merge.
	types *runtime.Scheme
}

func patchTypes() *runtime.Scheme {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		corev1.AddToScheme, appsv1.AddToScheme, batchv1.AddToScheme, rbacv1.AddToScheme, policyv1.AddToScheme,
		autoscalingv1.AddToScheme, autoscalingv2.AddToScheme, networkingv1.AddToScheme,
		admissionregistrationv1.AddToScheme,
	} {
		if err := add(s); err != nil {
			panic("cannot register Kubernetes' own types: " + err.Error())
		}
	}
	return s
}

func (p patcher) apply(patch Patch) error {
	at, err := p.find(patch.Target)
	if err != nil {
		return err
	}
	u := p.draft.objects[at]
	document, err := yaml.YAMLToJSON([]byte(patch.Patch.Content))
	if err != nil {
		return fmt.Errorf("patch.content is neither JSON nor YAML: %w", err)
	}
	directive := ""
	if patch.Patch.Type == StrategicPatch {
		document, directive, err = rootDirective(document, u)
	} else {
		err = refuseDirectives(document)
	}
	if err != nil {
		return err
	}
	if directive == "delete" {
		return p.remove(at)
	}
	patched, err := p.patched(u, patch.Patch.Type, document)
	if err != nil {
		return err
	}
	p.draft.objects[at] = patched
	p.draft.users[idOf(patched)] = true
	return nil
}

// find is the one object that a target names.
func (p patcher) find(t PatchTarget) (int, error) {
	var found []int
	for n, u := range p.draft.objects {
		if u.GetAPIVersion() == t.APIVersion && u.GetKind() == t.Kind && u.GetName() == t.Name &&
			(t.Namespace == "" || u.GetNamespace() == t.Namespace) {
			found = append(found, n)
		}
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) == 0:
		return 0, errors.New("no rendered object matches: check apiVersion, kind and name for this version")
	default:
		return 0, fmt.Errorf("%d rendered objects match: name one by target.namespace", len(found))
	}
}

// remove leaves an object out. CRDs and Namespaces hold what users made; the Serving webhook has to answer before an
// installation can complete.
func (p patcher) remove(at int) error {
	u := p.draft.objects[at]
	switch {
	case isFoundation(u):
		return fmt.Errorf("a %s cannot be left out", u.GetKind())
	case p.draft.component == api.Serving && is(u, "apps", "Deployment") && u.GetName() == "webhook":
		return errors.New("the webhook of Knative Serving cannot be left out")
	}
	p.draft.objects = slices.Delete(p.draft.objects, at, at+1)
	return nil
}

// patched is u with the document applied.
func (p patcher) patched(u *unstructured.Unstructured, kind PatchType, document []byte) (*unstructured.Unstructured, error) {
	original, err := u.MarshalJSON()
	if err != nil {
		return nil, err
	}
	var result []byte
	switch kind {
	case JSONPatch:
		result, err = applyJSONPatch(original, document)
	case MergePatch:
		result, err = jsonpatch.MergePatch(original, document)
	case StrategicPatch:
		result, err = p.applyStrategic(u, original, document)
	default:
		err = fmt.Errorf("patch.type %q is unknown", kind)
	}
	if err != nil {
		return nil, err
	}
	out := &unstructured.Unstructured{}
	if err := out.UnmarshalJSON(result); err != nil {
		return nil, fmt.Errorf("the result is no Kubernetes object: %w", err)
	}
	if idOf(out) != idOf(u) || out.GetAPIVersion() != u.GetAPIVersion() {
		return nil, errors.New("a patch must not change apiVersion, kind, metadata.name or metadata.namespace")
	}
	return out, nil
}

func applyJSONPatch(original, document []byte) ([]byte, error) {
	decoded, err := jsonpatch.DecodePatch(document)
	if err != nil {
		return nil, fmt.Errorf("patch.content is no JSON patch: %w", err)
	}
	options := jsonpatch.NewApplyOptions()
	options.AccumulatedCopySizeLimit = maxPatchCopies
	return decoded.ApplyWithOptions(original, options)
}

func (p patcher) applyStrategic(u *unstructured.Unstructured, original, document []byte) ([]byte, error) {
	gvk := u.GroupVersionKind()
	typed, err := p.types.New(gvk)
	if runtime.IsNotRegisteredError(err) {
		return nil, fmt.Errorf("a strategic patch needs a kind that Kubernetes itself has, %s is none: use json or merge", gvk.Kind)
	}
	if err != nil {
		return nil, err
	}
	return strategicpatch.StrategicMergePatch(original, document, typed)
}

// rootDirective reads the $patch directive at the root of a strategic patch. With "replace", the identity of the object
// need not be repeated.
func rootDirective(document []byte, u *unstructured.Unstructured) (patched []byte, directive string, err error) {
	var root map[string]any
	if err := json.Unmarshal(document, &root); err != nil {
		return nil, "", fmt.Errorf("patch.content is no strategic patch: %w", err)
	}
	value, found := root[patchDirective]
	if !found {
		return document, "", nil
	}
	directive, ok := value.(string)
	if !ok {
		return nil, "", fmt.Errorf("%s must be a string", patchDirective)
	}
	if directive != "replace" {
		return document, directive, nil
	}
	metadata, ok := root["metadata"].(map[string]any)
	if !ok && root["metadata"] != nil {
		return nil, "", errors.New("metadata must be an object")
	}
	if metadata == nil {
		metadata = map[string]any{}
		root["metadata"] = metadata
	}
	setDefault(root, "apiVersion", u.GetAPIVersion())
	setDefault(root, "kind", u.GetKind())
	setDefault(metadata, "name", u.GetName())
	setDefault(metadata, "namespace", u.GetNamespace())
	document, err = json.Marshal(root)
	return document, directive, err
}

func setDefault(m map[string]any, key, value string) {
	if _, found := m[key]; !found && value != "" {
		m[key] = value
	}
}

// refuseDirectives refuses what only a strategic patch understands: other patches would write it into the object.
func refuseDirectives(document []byte) error {
	var root any
	if err := json.Unmarshal(document, &root); err != nil {
		return fmt.Errorf("patch.content is neither JSON nor YAML: %w", err)
	}
	if hasDirective(root) {
		return fmt.Errorf("%s is for patch.type strategic only", patchDirective)
	}
	return nil
}

func hasDirective(value any) bool {
	switch v := value.(type) {
	case map[string]any:
		for key, nested := range v {
			if key == patchDirective || hasDirective(nested) {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(v, hasDirective)
	}
	return false
}
