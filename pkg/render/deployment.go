// Copyright Contributors to the Open Cluster Management project

package render

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"open-cluster-management.io/knative-addon/pkg/api"
)

// Deployment holds the settings of a cluster's administrator for the workloads of Knative: placement, proxies and mirrors.
// The settings enter the release manifests before those of the CR, so that the CR wins where both set a field. A Deployment
// is immutable.
type Deployment struct {
	spec DeploymentSpec
	sum  [sha256.Size]byte
}

// DeploymentSpec has the settings of a Deployment.
type DeploymentSpec struct {
	NodeSelector map[string]string
	Tolerations  []corev1.Toleration
	// Mirrors replace the beginning of images; of several that match, the last one counts.
	Mirrors []Mirror
	// HTTPProxy, HTTPSProxy and NoProxy are the values of the variables HTTP_PROXY, HTTPS_PROXY and NO_PROXY.
	HTTPProxy, HTTPSProxy, NoProxy string
	// Verification is the value of api.VerificationVariable.
	Verification string
	// CABundle tells that a CA of the proxy was given, which is not delivered.
	CABundle bool
}

// Mirror replaces the registry of images. An empty Source matches every image, and the last path element of the image
// follows Mirror then.
type Mirror struct{ Source, Mirror string }

// NewDeployment returns a Deployment; nil for an empty spec.
func NewDeployment(spec DeploymentSpec) *Deployment {
	spec.Mirrors = slices.DeleteFunc(slices.Clone(spec.Mirrors), func(m Mirror) bool { return m.Mirror == "" })
	proxy := cmp.Or(spec.HTTPProxy, spec.HTTPSProxy, spec.NoProxy)
	if len(spec.NodeSelector)+len(spec.Tolerations)+len(spec.Mirrors) == 0 && proxy+spec.Verification == "" && !spec.CABundle {
		return nil
	}
	data, err := json.Marshal(spec)
	if err != nil {
		panic("cannot marshal what is made of texts: " + err.Error())
	}
	return &Deployment{spec: spec, sum: sha256.Sum256(data)}
}

func (d *Deployment) listWarnings() []string {
	if d == nil || !d.spec.CABundle {
		return nil
	}
	return []string{"proxyConfig.caBundle of the AddOnDeploymentConfig is not delivered: Knative has no place for it; name a ConfigMap or " +
		"Secret with the CA in spec.controller-custom-certs"}
}

// applyTo changes one object of the manifests.
func (d *Deployment) applyTo(u *unstructured.Unstructured) error {
	if d == nil {
		return nil
	}
	d.mirrorImages(u)
	pod, found, _ := unstructured.NestedFieldNoCopy(u.Object, "spec", "template", "spec")
	template, ok := pod.(map[string]any)
	if !found || !ok || !kindOf(u).hasPods {
		return nil
	}
	d.addNodeSelector(template)
	if u.GetName() != pingAdapter { // the eventing controller owns the environment
		eachContainer(u, d.setProxy)
	}
	return d.addTolerations(template)
}

func (d *Deployment) addNodeSelector(template map[string]any) {
	if len(d.spec.NodeSelector) == 0 {
		return
	}
	selector, _ := template["nodeSelector"].(map[string]any)
	if selector == nil {
		selector = map[string]any{}
	}
	for key, value := range d.spec.NodeSelector {
		selector[key] = value // a map[string]any holds any
	}
	template["nodeSelector"] = selector
}

func (d *Deployment) addTolerations(template map[string]any) error {
	tolerations, _ := template["tolerations"].([]any)
	for i := range d.spec.Tolerations {
		t, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&d.spec.Tolerations[i])
		if err != nil {
			return newError(api.ReasonRenderFailed, "cannot render a toleration: %w", err)
		}
		tolerations = append(tolerations, t)
	}
	if len(tolerations) > 0 {
		template["tolerations"] = tolerations
	}
	return nil
}

func (d *Deployment) setProxy(container map[string]any) {
	env, _ := container["env"].([]any)
	for _, v := range []struct{ name, value string }{
		{"HTTP_PROXY", d.spec.HTTPProxy}, {"HTTPS_PROXY", d.spec.HTTPSProxy}, {"NO_PROXY", d.spec.NoProxy},
	} {
		if v.value != "" && !slices.ContainsFunc(env, func(e any) bool { return variableName(e) == v.name }) {
			env = append(env, map[string]any{"name": v.name, "value": v.value})
		}
	}
	if len(env) > 0 {
		container["env"] = env
	}
}

// mirrorImages replaces every image of an object, in all places that Images reads.
func (d *Deployment) mirrorImages(u *unstructured.Unstructured) {
	if len(d.spec.Mirrors) == 0 || isFoundation(u) {
		return
	}
	if isKind(u, "", "ConfigMap") {
		data, _ := u.Object["data"].(map[string]any)
		for key, value := range data {
			text, ok := value.(string)
			if !ok || strings.HasPrefix(key, "_") {
				continue
			}
			if namesImage(u.GetName(), key) {
				data[key] = d.mirrorImage(text)
			} else {
				data[key] = d.mirrorImagesInText(text)
			}
		}
		return
	}
	d.mirrorFields(u.Object)
}

func (d *Deployment) mirrorFields(value any) {
	switch v := value.(type) {
	case map[string]any:
		names := strings.Contains(strings.ToUpper(stringOf(v["name"])), "IMAGE")
		for key, nested := range v {
			text, isText := nested.(string)
			switch {
			case !isText:
				d.mirrorFields(nested)
			case key == "image", key == "value" && names:
				v[key] = d.mirrorImage(text)
			default:
				v[key] = d.mirrorImagesInText(text)
			}
		}
	case []any:
		for i, nested := range v {
			if text, ok := nested.(string); ok {
				v[i] = d.mirrorImagesInText(text)
			} else {
				d.mirrorFields(nested)
			}
		}
	}
}

// mirrorImagesInText replaces the images with a digest within a text.
func (d *Deployment) mirrorImagesInText(text string) string {
	if !strings.Contains(text, "@sha256:") {
		return text
	}
	return pinnedImage.ReplaceAllStringFunc(text, d.mirrorImage)
}

// mirrorOf returns the place of an image in the mirrors; d may be nil.
func (d *Deployment) mirrorOf(image string) string {
	if d == nil {
		return image
	}
	return d.mirrorImage(image)
}

// verificationMode returns the mode of the settings; empty without a mode.
func (d *Deployment) verificationMode() string {
	if d == nil {
		return ""
	}
	return d.spec.Verification
}

// mirrorImage returns the place of an image in the mirrors.
func (d *Deployment) mirrorImage(image string) string {
	if image == "" || strings.ContainsAny(image, " \n\t{}") {
		return image
	}
	out := image
	for _, m := range d.spec.Mirrors {
		source, mirror := strings.TrimSuffix(m.Source, "/"), strings.TrimSuffix(m.Mirror, "/")
		if source == "" {
			out = mirror + "/" + image[strings.LastIndex(image, "/")+1:]
			continue
		}
		// A source ends where a part of the image does: example.com/a is no beginning of example.com/ab.
		rest, found := strings.CutPrefix(image, source)
		if found && (rest == "" || strings.ContainsAny(rest[:1], "/:@")) {
			out = mirror + rest
		}
	}
	return out
}
