// Copyright Contributors to the Open Cluster Management project

package render

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/api/validation/path"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"

	"open-cluster-management.io/knative-addon/pkg/api"
)

const (
	// maxPayload leaves room in a ManifestWork. addon-framework splits a payload at 409,600 bytes.
	maxPayload = 380_000
	// maxFoundation leaves room below the 512,000 bytes at which OCM refuses a ManifestWork.
	maxFoundation = 480_000
)

// checkIdentity refuses objects that no API server or ManifestWork accepts, so that users read one clear error instead of
// an error from every cluster.
func checkIdentity(d *draft) error {
	for _, u := range d.objects {
		if err := d.allowed.checkKind(u); err != nil {
			return err
		}
		if problem := objectProblem(u); problem != "" {
			return newError(api.ReasonInvalidSpec, "cannot render %s: %s", describeObject(u), problem)
		}
	}
	return nil
}

// isRecordName reports whether a ConfigMap has the name of an anchor or of the mark of a payload, which the manager writes on clusters.
func isRecordName(u *unstructured.Unstructured) bool {
	return isKind(u, "", "ConfigMap") && slices.ContainsFunc(api.Components(), func(c api.Component) bool {
		return strings.HasPrefix(u.GetName(), strings.ToLower(c.Kind())+"-") && strings.HasSuffix(u.GetName(), "-root-owner") ||
			strings.HasPrefix(u.GetName(), c.AddOnName()+"-bundle-")
	})
}

func objectProblem(u *unstructured.Unstructured) string {
	if u.GetAPIVersion() == "" || u.GetKind() == "" {
		return "apiVersion or kind is empty"
	}
	if problem := nameProblem(u); problem != "" {
		return problem
	}
	if isRecordName(u) {
		return "a record of the add-on on the cluster has this name; choose another name"
	}
	if ns := u.GetNamespace(); ns != "" {
		if p := utilvalidation.IsDNS1123Label(ns); len(p) > 0 {
			return fmt.Sprintf("namespace %q: %s", ns, p[0])
		}
	}
	for _, name := range []string{"labels", "annotations"} {
		if _, _, err := unstructured.NestedStringMap(u.Object, "metadata", name); err != nil {
			return fmt.Sprintf("metadata.%s is no map of strings", name)
		}
	}
	if problem := frameworkProblem(u); problem != "" {
		return problem
	}
	metadata := field.NewPath("metadata")
	errs := metav1validation.ValidateLabels(u.GetLabels(), metadata.Child("labels"))
	errs = append(errs, validation.ValidateAnnotations(u.GetAnnotations(), metadata.Child("annotations"))...)
	if template, found, _ := unstructured.NestedStringMap(u.Object, "spec", "template", "metadata", "labels"); found {
		errs = append(errs, metav1validation.ValidateLabels(template, field.NewPath("spec", "template", "metadata", "labels"))...)
	}
	errs = append(errs, keyProblems(u)...)
	if len(errs) == 0 {
		return ""
	}
	texts := make([]string, 0, len(errs))
	for _, e := range errs {
		texts = append(texts, e.Error())
	}
	return slices.Min(texts)
}

// frameworkProblem refuses labels and annotations that change how addon-framework treats an object. A hook is not part of
// the payload, runs before a removal is permitted, and keeps the payload applied during the removal; an object with the
// orphan annotation cannot be removed.
func frameworkProblem(u *unstructured.Unstructured) string {
	for _, key := range []string{addonv1beta1.AddonPreDeleteHookAnnotationKey, addonv1beta1.DeletionOrphanAnnotationKey} {
		_, label := u.GetLabels()[key]
		_, annotation := u.GetAnnotations()[key]
		if label || annotation {
			return fmt.Sprintf("label or annotation %q would interfere with the removal of Knative; remove the label or annotation", key)
		}
	}
	return ""
}

func keyProblems(u *unstructured.Unstructured) field.ErrorList {
	if !isKind(u, "", "ConfigMap") && !isKind(u, "", "Secret") {
		return nil
	}
	var errs field.ErrorList
	data, _, _ := unstructured.NestedMap(u.Object, "data")
	for key := range data {
		for _, p := range utilvalidation.IsConfigMapKey(key) {
			errs = append(errs, field.Invalid(field.NewPath("data").Key(key), key, p))
		}
	}
	return errs
}

func nameProblem(u *unstructured.Unstructured) string {
	name := u.GetName()
	var problems []string
	switch {
	case name == "":
		problems = []string{"it has no name"}
	case isKind(u, "", "Namespace"):
		problems = utilvalidation.IsDNS1123Label(name)
	case u.GroupVersionKind().Group == "rbac.authorization.k8s.io":
		problems = path.IsValidPathSegmentName(name)
	default:
		problems = utilvalidation.IsDNS1123Subdomain(name)
	}
	if len(problems) == 0 {
		return ""
	}
	return problems[0]
}

// checkSize refuses a bundle that exceeds a ManifestWork. addon-framework splits a payload that only the user's additional
// manifests make too large.
func (d *draft) checkSize(b *Bundle) error {
	if d.options.Mode != api.ModeManifestWork {
		return nil
	}
	own := 0
	for _, o := range b.Payload {
		if d.additional[o.ID()] {
			own += len(o.JSON)
		}
	}
	switch {
	case b.PayloadSize-own > maxPayload:
		return newError(api.ReasonTooLarge, "the payload of %s has %d bytes, %d is the limit; the largest objects are %s: "+
			"move what they hold to spec.additionalManifests, or shorten it", b.Component, b.PayloadSize, maxPayload, nameLargest(b.Payload))
	case b.FoundationSize > maxFoundation:
		return newError(api.ReasonTooLarge, "the CRDs of %s have %d bytes, %d is the limit; the largest objects are %s: "+
			"let descriptions be trimmed, or leave out additional CRDs", b.Component, b.FoundationSize, maxFoundation, nameLargest(b.Foundation))
	default:
		return nil
	}
}

// nameLargest names the three largest objects.
func nameLargest(objects []Object) string {
	sorted := slices.Clone(objects)
	slices.SortStableFunc(sorted, func(a, b Object) int { return cmp.Compare(len(b.JSON), len(a.JSON)) })
	var names []string
	for _, o := range sorted[:min(3, len(sorted))] {
		names = append(names, fmt.Sprintf("%s (%d)", describeObject(o.Unstructured), len(o.JSON)))
	}
	return strings.Join(names, ", ")
}
