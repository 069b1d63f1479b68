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

// Install is what one CR asks for: the typed resource, and the fields that the operator's Go types do not carry yet.
// It never changes after Decode made it and may be shared between goroutines.
type Install struct {
	component api.Component
	name      string
	namespace string // of the CR
	target    string // the install namespace on the spoke
	installed string // status.version
	deletion  string // what becomes of the foundation
	reference *base.ClusterProfileReference
	patches   []Patch

	// Exactly one of the two is set; neither has a status or a clusterProfileRef.
	serving  *v1beta1.KnativeServing
	eventing *v1beta1.KnativeEventing

	content [sha256.Size]byte // of the spec that is rendered

	// references are what the spec asks of a cluster, sorted, and mentioned tells that it has any or an escaped one. On sets
	// values, one for each, and deployment; cluster is the identity of both, and zero without them.
	references []values.Reference
	mentioned  bool
	values     []string
	deployment *Deployment
	cluster    [sha256.Size]byte
}

// Component is the component that the CR installs.
func (i *Install) Component() api.Component { return i.component }

// Name is the name of the CR.
func (i *Install) Name() string { return i.name }

// Namespace is the namespace of the CR, which says nothing about the spoke.
func (i *Install) Namespace() string { return i.namespace }

// InstallNamespace is the namespace on the spoke: the component's own, or what annotation
// api.InstallNamespaceAnnotation names.
func (i *Install) InstallNamespace() string { return i.target }

// SpecVersion is spec.version as the user wrote it.
func (i *Install) SpecVersion() string { return i.spec().GetVersion() }

// InstalledVersion is status.version.
func (i *Install) InstalledVersion() string { return i.installed }

// DeletionPolicy is the value of annotation api.DeletionPolicyAnnotation. It is no part of a bundle.
func (i *Install) DeletionPolicy() string { return i.deletion }

// ClusterProfileRef is spec.clusterProfileRef, or nil. It decides where, never what, and so is no part of a bundle.
func (i *Install) ClusterProfileRef() *base.ClusterProfileReference { return i.reference.DeepCopy() }

// WithVersion is the same Install with another spec.version: how an empty version is pinned to what it resolved to.
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
	out.content = out.sum()
	return &out
}

func (i *Install) spec() base.KComponentSpec {
	if i.serving != nil {
		return &i.serving.Spec.CommonSpec
	}
	return &i.eventing.Spec.CommonSpec
}

// ingresses are the ingresses that a KnativeServing enables. What spec.manifests bring along instead nobody knows.
func (i *Install) ingresses() []string {
	if i.serving == nil || len(i.serving.Spec.Manifests) > 0 {
		return nil
	}
	return ingressesOf(i.serving)
}

// resource is a deep copy of the CR as the operator's functions want it: in the namespace that it installs into, at
// one exact version.
func (i *Install) resource(version string) base.KComponent {
	if i.serving != nil {
		ks := i.serving.DeepCopy()
		ks.Namespace, ks.Spec.Version = i.target, version
		return ks
	}
	ke := i.eventing.DeepCopy()
	ke.Namespace, ke.Spec.Version = i.target, version
	return ke
}

// sum is the identity of what is rendered: two Installs with the same sum and install namespace render alike.
func (i *Install) sum() [sha256.Size]byte {
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
	// The fields came out of JSON, so they go into it.
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
		return "", refuse(ReasonInvalidSpec, "annotation %s names %q, which is no namespace name: %s",
			api.InstallNamespaceAnnotation, ns, problems[0])
	}
	return ns, nil
}
