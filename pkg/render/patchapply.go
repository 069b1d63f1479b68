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

const patchDirective = "$patch"

// applyPatches applies spec.patches in order; each patch sees the results of the patches before.
func applyPatches(d *draft) error {
	if len(d.patches) == 0 {
		return nil
	}
	p := patcher{draft: d, types: patchTypes()}
	for n, patch := range d.patches {
		if err := d.checkStopped(); err != nil {
			return err
		}
		if err := p.applyPatch(patch); err != nil {
			return newError(reasonWithDefault(err, api.ReasonPatchFailed), "cannot apply spec.patches[%d] to %s: %w", n, patch.Target, err)
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

func (p patcher) applyPatch(patch Patch) error {
	at, err := p.findTarget(patch.Target)
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
		return p.removeObject(at)
	}
	patched, err := p.patchObject(u, patch.Patch.Type, document)
	if err != nil {
		return err
	}
	p.draft.objects[at] = patched
	p.draft.users[objectIDOf(patched)] = true
	return nil
}

// findTarget returns the index of the only object that matches a target.
func (p patcher) findTarget(t PatchTarget) (int, error) {
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

// removeObject removes an object. CRDs and Namespaces hold the objects of users, and no installation of Serving completes
// without the webhook.
func (p patcher) removeObject(at int) error {
	u := p.draft.objects[at]
	switch {
	case isFoundation(u):
		return fmt.Errorf("a %s cannot be left out", u.GetKind())
	case p.draft.component == api.Serving && isKind(u, "apps", "Deployment") && u.GetName() == "webhook":
		return errors.New("the webhook of Knative Serving cannot be left out")
	}
	p.draft.objects = slices.Delete(p.draft.objects, at, at+1)
	return nil
}

// patchObject returns u with the document applied.
func (p patcher) patchObject(u *unstructured.Unstructured, kind PatchType, document []byte) (*unstructured.Unstructured, error) {
	original, err := u.MarshalJSON()
	if err != nil {
		return nil, err
	}
	result, err := p.applyDocument(u, kind, original, document)
	if err != nil {
		return nil, err
	}
	if err := p.draft.recordPatched(len(original), len(result)); err != nil {
		return nil, err
	}
	out := &unstructured.Unstructured{}
	if err := out.UnmarshalJSON(result); err != nil {
		return nil, fmt.Errorf("the result is no Kubernetes object: %w", err)
	}
	if objectIDOf(out) != objectIDOf(u) || out.GetAPIVersion() != u.GetAPIVersion() {
		return nil, errors.New("a patch must not change apiVersion, kind, metadata.name or metadata.namespace")
	}
	return out, nil
}

// applyDocument applies the document to the JSON of u. The merging libraries panic on documents of an unexpected shape: strategicpatch
// compares the values of a merge key, and an object as the name of a container cannot be compared.
func (p patcher) applyDocument(u *unstructured.Unstructured, kind PatchType, original, document []byte) (result []byte, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			result, err = nil, fmt.Errorf("a value of patch.content has a type that a %s patch cannot merge (%v): "+
				"compare each value with the type of the field in the Kubernetes API", kind, cause)
		}
	}()
	switch kind {
	case JSONPatch:
		return applyJSONPatch(original, document)
	case MergePatch:
		return jsonpatch.MergePatch(original, document)
	case StrategicPatch:
		return p.applyStrategic(u, original, document)
	default:
		return nil, fmt.Errorf("patch.type %q is unknown", kind)
	}
}

func applyJSONPatch(original, document []byte) ([]byte, error) {
	decoded, err := jsonpatch.DecodePatch(document)
	if err != nil {
		return nil, fmt.Errorf("patch.content is no JSON patch: %w", err)
	}
	options := jsonpatch.NewApplyOptions()
	options.AccumulatedCopySizeLimit = maxObjectBytes
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

// refuseDirectives refuses directives of strategic patches in other patches, which would write the directives into the
// object.
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
