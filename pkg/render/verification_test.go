// Copyright Contributors to the Open Cluster Management project

package render

import (
	"context"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"open-cluster-management.io/knative-addon/pkg/api"
)

// requesting returns a resource with a verification in the annotations; the empty mode adds no annotation.
func requesting(t *testing.T, component api.Component, spec, mode string) *unstructured.Unstructured {
	t.Helper()
	u := resource(t, component, spec)
	if mode != "" {
		u.SetAnnotations(map[string]string{api.VerificationAnnotation: mode})
	}
	return u
}

// TestVerificationMode holds which request for a verification counts.
func TestVerificationMode(t *testing.T) {
	for name, tc := range map[string]struct {
		component                       api.Component
		annotation, variable, byDefault string
		requested, keep                 bool
	}{
		"no request":                             {component: api.Serving},
		"the annotation":                         {component: api.Serving, annotation: "Service", requested: true},
		"the annotation keeps the Service":       {component: api.Serving, annotation: "KeptService", requested: true, keep: true},
		"the variable":                           {component: api.Serving, variable: "Service", requested: true},
		"the default":                            {component: api.Serving, byDefault: "KeptService", requested: true, keep: true},
		"the annotation wins over the variable":  {component: api.Serving, annotation: "None", variable: "Service", byDefault: "Service"},
		"the variable wins over the default":     {component: api.Serving, variable: "None", byDefault: "Service"},
		"no Eventing is verified by the default": {component: api.Eventing, variable: "Service", byDefault: "Service"},
	} {
		t.Run(name, func(t *testing.T) {
			in, err := Decode(requesting(t, tc.component, "{}", tc.annotation))
			if err != nil {
				t.Fatal(err)
			}
			if in, err = in.On(nil, NewDeployment(DeploymentSpec{Verification: tc.variable})); err != nil {
				t.Fatal(err)
			}
			options := DefaultOptions(api.ModeManifestWork)
			options.Verification = tc.byDefault
			b, err := shared.Render(t.Context(), in, options)
			if err != nil {
				t.Fatal(err)
			}
			if (b.Verification != nil) != tc.requested || tc.requested && b.Verification.Keep != tc.keep {
				t.Errorf("the verification is %+v", b.Verification)
			}
		})
	}
}

// TestVerificationIsNoRendering holds that a request for a verification changes no object and no digest.
func TestVerificationIsNoRendering(t *testing.T) {
	plain := bundle(t, api.Serving, kourier)
	in, err := Decode(requesting(t, api.Serving, kourier, "Service"))
	if err != nil {
		t.Fatal(err)
	}
	b, err := shared.Render(t.Context(), in, DefaultOptions(api.ModeManifestWork))
	if err != nil {
		t.Fatal(err)
	}
	if b.Verification == nil || plain.Verification != nil {
		t.Fatalf("the verifications are %+v and %+v", b.Verification, plain.Verification)
	}
	if b.Digest != plain.Digest || b.Inputs != plain.Inputs || len(b.Payload) != len(plain.Payload) {
		t.Error("the request changes the rendering")
	}
}

// TestVerificationRefused holds the errors of a request that is not understood.
func TestVerificationRefused(t *testing.T) {
	for name, tc := range map[string]struct {
		component                     api.Component
		annotation, variable, mention string
	}{
		"another value":      {component: api.Serving, annotation: "service", mention: "None, Service, KeptService"},
		"an empty value":     {component: api.Serving, annotation: " ", mention: "None, Service, KeptService"},
		"Eventing":           {component: api.Eventing, annotation: "Service", mention: "KnativeEventing"},
		"a wrong variable":   {component: api.Serving, variable: "yes", mention: api.VerificationVariable},
		"a wrong annotation": {component: api.Serving, annotation: "yes", mention: api.VerificationAnnotation},
	} {
		t.Run(name, func(t *testing.T) {
			in, err := Decode(requesting(t, tc.component, "{}", tc.annotation))
			if err == nil {
				if in, err = in.On(nil, NewDeployment(DeploymentSpec{Verification: tc.variable})); err != nil {
					t.Fatal(err)
				}
				_, err = shared.Render(t.Context(), in, DefaultOptions(api.ModeManifestWork))
			}
			if ReasonOf(err) != api.ReasonInvalidSpec || !strings.Contains(err.Error(), tc.mention) {
				t.Errorf("the error is %v", err)
			}
		})
	}
	u := resource(t, api.Serving, "{}")
	u.SetAnnotations(map[string]string{api.VerificationAnnotation: ""})
	if _, err := Decode(u); ReasonOf(err) != api.ReasonInvalidSpec {
		t.Errorf("an empty annotation has error %v", err)
	}
}

// TestVerificationService holds the Service: another one for each rendering, in the install namespace, with an image that follows the rules
// of the spec.
func TestVerificationService(t *testing.T) {
	mirrors := NewDeployment(DeploymentSpec{Mirrors: []Mirror{{Source: "ghcr.io/knative", Mirror: "mirror.example/k"}}})
	for name, tc := range map[string]struct {
		registry   string
		deployment *Deployment
		want       string
	}{
		"the default":  {want: VerificationImage},
		"an override":  {registry: "override: {knative-verification: registry.example/hello:v1}", deployment: mirrors, want: "registry.example/hello:v1"},
		"a long name":  {registry: "override: {knative-verification/knative-verification: registry.example/hello:v2}", want: "registry.example/hello:v2"},
		"a registry":   {registry: "default: 'registry.example/${NAME}:v3'", want: "registry.example/helloworld-go:v3"},
		"a mirror":     {deployment: mirrors, want: "mirror.example/k/helloworld-go:latest"},
		"pull secrets": {registry: "imagePullSecrets: [{name: mirror}]", want: VerificationImage},
	} {
		t.Run(name, func(t *testing.T) {
			u := requesting(t, api.Serving, kourier+"registry: {"+tc.registry+"}\n", "Service")
			annotations := u.GetAnnotations()
			annotations[api.InstallNamespaceAnnotation] = "kn"
			u.SetAnnotations(annotations)
			in, err := Decode(u)
			if err != nil {
				t.Fatal(err)
			}
			b := on(t, in, nil, tc.deployment)
			first := twoServices(t, b)
			if first.GetNamespace() != "kn" || first.GetName() != api.VerificationServiceName || first.ID() != b.Verification.ID() {
				t.Errorf("the Service is %s/%s", first.GetNamespace(), first.GetName())
			}
			if json := string(first.JSON); !strings.Contains(json, `"image":"`+tc.want+`"`) || strings.Contains(json, "imagePullSecrets") != (name == "pull secrets") {
				t.Errorf("the Service is %s", json)
			}
			if !slices.ContainsFunc(Images(b), func(i Image) bool { return i.Reference == tc.want }) {
				t.Errorf("the images lack %s", tc.want)
			}
		})
	}
}

// twoServices returns the Service of a rendering, and holds that another rendering has another Service.
func twoServices(t *testing.T, b *Bundle) Object {
	t.Helper()
	first, err := b.Verification.Service("r1")
	if err != nil {
		t.Fatal(err)
	}
	second, err := b.Verification.Service("r2")
	if err != nil || string(first.JSON) == string(second.JSON) {
		t.Errorf("two renderings have the same Service, error %v", err)
	}
	return first
}

// TestVerificationNeedsNoTrust holds that a tenant may verify, and that the image of the verification passes the rules for images.
func TestVerificationNeedsNoTrust(t *testing.T) {
	for spec, permitted := range map[string]bool{
		kourier: true,
		kourier + "registry: {override: {knative-verification: registry.example.com/hello}}": true,
		kourier + "registry: {override: {knative-verification: evil.example/hello}}":         false,
	} {
		in, err := Decode(requesting(t, api.Serving, spec, "Service"))
		if err != nil {
			t.Fatal(err)
		}
		_, err = restrictedRenderer(t).Render(context.Background(), in, DefaultOptions(api.ModeManifestWork))
		if (err == nil) != permitted || err != nil && ReasonOf(err) != api.ReasonEscalationNotPermitted {
			t.Errorf("%s: error %v", spec, err)
		}
	}
}
