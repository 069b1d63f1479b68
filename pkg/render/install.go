// Copyright Contributors to the Open Cluster Management project

package render

import (
	"crypto/sha256"
	"encoding/json"

	"k8s.io/apimachinery/pkg/util/validation"
	"knative.dev/operator/pkg/apis/operator/base"
	"knative.dev/operator/pkg/apis/operator/v1beta1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/values"
)

// Install is a decoded CR: the typed resource, and the fields that the operator's Go types lack. An Install is immutable
// and safe for concurrent use.
type Install struct {
	component api.Component
	name      string
	namespace string // of the CR
	target    string // the install namespace on the spoke
	installed string // status.version
	deletion  string // of api.DeletionPolicyAnnotation
	// verification is the value of api.VerificationAnnotation; empty without the annotation.
	verification string
	reference    *base.ClusterProfileReference
	patches      []Patch

	// Exactly one of the two is set; neither has a status or a clusterProfileRef.
	serving  *v1beta1.KnativeServing
	eventing *v1beta1.KnativeEventing

	content [sha256.Size]byte // of the spec that is rendered

	// references are the spec's references to values of a cluster, sorted; mentioned reports whether the spec contains
	// references or escaped references. On sets values, one for each reference, and deployment; cluster is the identity of
	// both, and zero without both.
	references []values.Reference
	mentioned  bool
	values     []string
	deployment *Deployment
	cluster    [sha256.Size]byte
}

// Component returns the component that the CR installs.
func (i *Install) Component() api.Component { return i.component }

// Name returns the name of the CR.
func (i *Install) Name() string { return i.name }

// Namespace returns the namespace of the CR, which has no relation to namespaces of the cluster.
func (i *Install) Namespace() string { return i.namespace }

// InstallNamespace returns the namespace on the cluster: the value of annotation api.InstallNamespaceAnnotation, or the
// component's own namespace.
func (i *Install) InstallNamespace() string { return i.target }

// SpecVersion returns spec.version of the CR.
func (i *Install) SpecVersion() string { return i.componentSpec().GetVersion() }

// InstalledVersion returns status.version.
func (i *Install) InstalledVersion() string { return i.installed }

// DeletionPolicy returns the value of annotation api.DeletionPolicyAnnotation. A bundle does not depend on the policy.
func (i *Install) DeletionPolicy() string { return i.deletion }

// ClusterProfileRef returns spec.clusterProfileRef, or nil. The reference selects the cluster; a bundle does not depend on
// the reference.
func (i *Install) ClusterProfileRef() *base.ClusterProfileReference { return i.reference.DeepCopy() }

// WithVersion returns the Install with another spec.version. Callers pin an empty version to the resolved version.
func (i *Install) WithVersion(version string) *Install {
	if version == i.SpecVersion() {
		return i
	}
	out := *i
	if i.serving != nil {
		out.serving = i.serving.DeepCopy()
		out.serving.Spec.Version = version
	} else {
		out.eventing = i.eventing.DeepCopy()
		out.eventing.Spec.Version = version
	}
	out.content = out.contentHash()
	return &out
}

// In returns the Install with another install namespace, which overrides the annotation of the CR; an empty namespace
// changes nothing.
func (i *Install) In(namespace string) *Install {
	if namespace == "" || namespace == i.target {
		return i
	}
	out := *i
	out.target = namespace
	return &out
}

func (i *Install) componentSpec() base.KComponentSpec {
	if i.serving != nil {
		return &i.serving.Spec.CommonSpec
	}
	return &i.eventing.Spec.CommonSpec
}

// fetchesDocuments reports whether the spec names documents by URL.
func (i *Install) fetchesDocuments() bool {
	return len(i.componentSpec().GetManifests())+len(i.componentSpec().GetAdditionalManifests()) > 0
}

// enabledIngresses returns the ingresses that a KnativeServing enables; none with spec.manifests, which may contain any
// ingress.
func (i *Install) enabledIngresses() []string {
	if i.serving == nil || len(i.serving.Spec.Manifests) > 0 {
		return nil
	}
	return ingressesOf(i.serving)
}

// newResource returns a deep copy of the CR for the operator's functions: in the install namespace, at one exact version.
func (i *Install) newResource(version string) base.KComponent {
	if i.serving != nil {
		ks := i.serving.DeepCopy()
		ks.Namespace, ks.Spec.Version = i.target, version
		return ks
	}
	ke := i.eventing.DeepCopy()
	ke.Namespace, ke.Spec.Version = i.target, version
	return ke
}

// contentHash identifies the rendered spec: Installs with equal hashes and install namespaces have equal renderings.
func (i *Install) contentHash() [sha256.Size]byte {
	content := struct {
		Component api.Component
		Serving   *v1beta1.KnativeServingSpec  `json:",omitempty"`
		Eventing  *v1beta1.KnativeEventingSpec `json:",omitempty"`
		Patches   []Patch                      `json:",omitempty"`
	}{Component: i.component, Patches: i.patches}
	if i.serving != nil {
		content.Serving = &i.serving.Spec
	} else {
		content.Eventing = &i.eventing.Spec
	}
	// JSON was the source of the fields, so that the fields can be marshalled.
	data, err := json.Marshal(content)
	if err != nil {
		panic("cannot marshal a spec that was unmarshalled: " + err.Error())
	}
	return sha256.Sum256(data)
}

func installNamespace(component api.Component, annotations map[string]string) (string, error) {
	ns, ok := annotations[api.InstallNamespaceAnnotation]
	if !ok {
		return component.InstallNamespace(), nil
	}
	if problems := validation.IsDNS1123Label(ns); len(problems) > 0 {
		return "", newError(api.ReasonInvalidSpec, "annotation %s names %q, which is no namespace name: %s",
			api.InstallNamespaceAnnotation, ns, problems[0])
	}
	for _, other := range api.Components() {
		if other != component && ns == other.InstallNamespace() {
			return "", newError(api.ReasonInvalidSpec, "annotation %s names %q, the namespace of %s, and both components have ConfigMaps of the same names: name another namespace",
				api.InstallNamespaceAnnotation, ns, other)
		}
	}
	return ns, nil
}
