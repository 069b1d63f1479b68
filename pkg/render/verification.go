// Copyright Contributors to the Open Cluster Management project

package render

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"knative.dev/operator/pkg/apis/operator/base"

	"open-cluster-management.io/knative-addon/pkg/api"
)

// VerificationImage is the image of the Service of a verification unless spec.registry or a mirror replaces the image.
const VerificationImage = "ghcr.io/knative/helloworld-go:latest"

// Verification describes the Knative Service that has to become Ready before an installation of Serving counts as complete. The digest
// of a bundle does not depend on the verification: another image of the Service is no other rendering.
type Verification struct {
	// Keep reports whether the Service stays on the cluster after the verification has succeeded.
	Keep bool
	// Namespace is the install namespace, Image the image of the Service, and PullSecrets are the Secrets of the image.
	Namespace   string
	Image       string
	PullSecrets []corev1.LocalObjectReference
}

// verificationModes returns the values of api.VerificationAnnotation.
func verificationModes() []string {
	return []string{api.VerificationNone, api.VerificationService, api.VerificationKeptService}
}

// CheckVerificationMode refuses a value that is no value of api.VerificationAnnotation. source names the place of the value.
func CheckVerificationMode(source, mode string) error {
	if mode == "" || slices.Contains(verificationModes(), mode) {
		return nil
	}
	return newError(api.ReasonInvalidSpec, "%s is %q: use one of %s", source, mode, strings.Join(verificationModes(), ", "))
}

// readVerificationMode returns the mode in the annotations of a resource; empty without the annotation.
func readVerificationMode(component api.Component, annotations map[string]string) (string, error) {
	mode, found := annotations[api.VerificationAnnotation]
	switch {
	case !found:
		return "", nil
	case component != api.Serving:
		return "", newError(api.ReasonInvalidSpec, "annotation %s is for KnativeServings, and a %s has no Service to verify: remove the annotation",
			api.VerificationAnnotation, component.Kind())
	case mode == "":
		return "", newError(api.ReasonInvalidSpec, "annotation %s is empty: use one of %s", api.VerificationAnnotation, strings.Join(verificationModes(), ", "))
	}
	return mode, CheckVerificationMode("annotation "+api.VerificationAnnotation, mode)
}

// verificationMode returns the mode of an Install: the mode of the annotation, of the AddOnDeploymentConfig, or the default.
func (i *Install) verificationMode(o Options) (string, error) {
	if i.component != api.Serving {
		return api.VerificationNone, nil
	}
	mode := cmp.Or(i.verification, i.deployment.verificationMode(), o.Verification, api.VerificationNone)
	return mode, CheckVerificationMode("customized variable "+api.VerificationVariable+" of the AddOnDeploymentConfig", mode)
}

// newVerification returns the verification of an Install in a mode; nil for api.VerificationNone.
func newVerification(i *Install, mode string) *Verification {
	if mode == api.VerificationNone {
		return nil
	}
	registry := i.componentSpec().GetRegistry()
	return &Verification{
		Keep: mode == api.VerificationKeptService, Namespace: i.target,
		Image: replacedImage(registry, i.deployment.mirrorOf(VerificationImage)), PullSecrets: registry.ImagePullSecrets,
	}
}

// replacedImage returns the image that the Knative Operator's rules for spec.registry give to the container of the Service.
func replacedImage(registry *base.Registry, image string) string {
	for _, name := range []string{api.VerificationServiceName + "/" + api.VerificationServiceName, api.VerificationServiceName} {
		if override := registry.Override[name]; override != "" {
			return override
		}
	}
	if registry.Default != "" {
		return strings.ReplaceAll(registry.Default, "${NAME}", imageName(image))
	}
	return image
}

// Service returns the Service that verifies a rendering. The Service is not reachable from outside of the cluster, begins with a pod
// whatever the autoscaler's defaults are, and needs no permission on the cluster.
func (v *Verification) Service(rendering string) (Object, error) {
	pod := map[string]any{"containers": []any{map[string]any{
		"name": api.VerificationServiceName, "image": v.Image,
		"resources": map[string]any{"requests": map[string]any{"cpu": "10m", "memory": "32Mi"}},
		"securityContext": map[string]any{
			"allowPrivilegeEscalation": false, "capabilities": map[string]any{"drop": []any{"ALL"}},
			"seccompProfile": map[string]any{"type": "RuntimeDefault"},
		},
	}}}
	var secrets []any
	for _, s := range v.PullSecrets {
		secrets = append(secrets, map[string]any{"name": s.Name})
	}
	if len(secrets) > 0 {
		pod["imagePullSecrets"] = secrets
	}
	u := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "serving.knative.dev/v1", "kind": "Service",
		"metadata": map[string]any{
			"namespace": v.Namespace, "name": api.VerificationServiceName, "labels": map[string]any{"networking.knative.dev/visibility": "cluster-local"},
		},
		"spec": map[string]any{"template": map[string]any{
			"metadata": map[string]any{"annotations": map[string]any{
				api.VerifiesAnnotation: rendering, "autoscaling.knative.dev/initial-scale": "1",
			}},
			"spec": pod,
		}},
	}}
	data, err := json.Marshal(u.Object)
	if err != nil {
		return Object{}, newError(api.ReasonRenderFailed, "cannot marshal the Service of the verification: %w", err)
	}
	return Object{Unstructured: u, Class: Apply, Resource: VerificationResource(), JSON: data}, nil
}

// VerificationResource returns the resource of the Service of a verification.
func VerificationResource() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "serving.knative.dev", Version: "v1", Resource: "services"}
}

// ID returns the identity of the Service of a verification.
func (v *Verification) ID() ObjectID {
	return ObjectID{Group: "serving.knative.dev", Kind: "Service", Namespace: v.Namespace, Name: api.VerificationServiceName}
}
