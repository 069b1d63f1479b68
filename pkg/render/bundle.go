// Copyright Contributors to the Open Cluster Management project

package render

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/workload"
)

// Bundle is the complete set of objects that an Install puts on a cluster. Bundles are shared: callers must not change a
// bundle or its objects.
type Bundle struct {
	// Component and Version identify the installation; Version is exact.
	Component api.Component
	Version   string
	// Namespace is the install namespace on the cluster.
	Namespace string
	// Digest is the hex SHA-256 over the JSON of all objects in order.
	Digest string
	// FoundationDigest is the hex SHA-256 over the version and the JSON of the foundation's objects. Changes of the
	// configuration usually keep this digest.
	FoundationDigest string
	// Inputs is a hash of what the bundle was rendered from besides the spec: the requested version, the install namespace and the
	// values of the cluster. Another bundle with the same spec and the same inputs is another rendering.
	Inputs string
	// Foundation holds the Namespace and the CRDs, which outlive the payload.
	Foundation []Object
	// Payload holds all other objects in an order of application.
	Payload []Object
	// Workloads are the Deployments and StatefulSets to expect, sorted by namespace, kind and name.
	Workloads []workload.Expected
	// Jobs are the Jobs to expect, sorted.
	Jobs []workload.JobRef
	// Size, FoundationSize and PayloadSize are bytes of compact JSON.
	Size, FoundationSize, PayloadSize int
	// Verification is the check of the installation; nil when nobody requests a verification.
	Verification *Verification
	// Warnings name settings of the spec that have no effect or another effect than expected. Warnings are no failures.
	Warnings []string

	// unshared is the number of bytes of JSON that no other bundle had when the bundle was made.
	unshared int
}

// renderingDigits is the number of digits of a bundle's digest that name a rendering.
const renderingDigits = 12

// RenderingName names the rendering of the bundle.
func (b *Bundle) RenderingName() string { return fmt.Sprintf("%.*s", renderingDigits, b.Digest) }

// Objects returns foundation and payload in order.
func (b *Bundle) Objects() []Object {
	return append(append(make([]Object, 0, len(b.Foundation)+len(b.Payload)), b.Foundation...), b.Payload...)
}

// Object is an object of a bundle.
type Object struct {
	// Unstructured is the object; read only.
	*unstructured.Unstructured
	// Class is the strategy that keeps the object on the cluster.
	Class Class
	// Orphan reports whether the object outlives the installation, unless a deletion policy requests deletion.
	Orphan bool
	// Resource is the plural resource of the object's kind.
	Resource schema.GroupVersionResource
	// JSON is the object's compact JSON with sorted keys; read only.
	JSON []byte
}

// ID returns the identity of the object without the API version.
func (o Object) ID() ObjectID { return objectIDOf(o.Unstructured) }

// ObjectID identifies an object on a cluster without the API version. ObjectIDs are comparable.
type ObjectID struct{ Group, Kind, Namespace, Name string }

// String returns "Kind.group namespace/name".
func (id ObjectID) String() string {
	return fmt.Sprintf("%s %s", id.groupKind(), objectName(id.Namespace, id.Name))
}

func (id ObjectID) groupKind() schema.GroupKind {
	return schema.GroupKind{Group: id.Group, Kind: id.Kind}
}

func objectIDOf(u *unstructured.Unstructured) ObjectID {
	gvk := u.GroupVersionKind()
	return ObjectID{Group: gvk.Group, Kind: gvk.Kind, Namespace: u.GetNamespace(), Name: u.GetName()}
}

// newBundle makes the bundle of finished, ordered objects.
func newBundle(d *draft) (*Bundle, error) {
	b := &Bundle{Component: d.component, Version: d.version, Namespace: d.namespace, Warnings: d.warnings}
	digest, foundation := sha256.New(), sha256.New()
	foundation.Write([]byte(d.version + "\n"))
	encoded, err := d.encodeObjects()
	if err != nil {
		return nil, err
	}
	resources := resourcesOf(d.objects)
	for n, u := range d.objects {
		data, known := encoded[n], false
		o := Object{Resource: resources.resourceOf(u.GroupVersionKind()), Class: d.classOf(u), Orphan: isFoundation(u)}
		if o.Unstructured, o.JSON, known = d.store.shareObject(u, data); !known {
			b.unshared += len(data)
		}
		if o.Orphan {
			b.Foundation = append(b.Foundation, o)
			b.FoundationSize += len(data)
			foundation.Write(data)
			foundation.Write([]byte{'\n'})
		} else {
			b.Payload = append(b.Payload, o)
			b.PayloadSize += len(data)
		}
		digest.Write(data)
		digest.Write([]byte{'\n'})
	}
	b.Size = b.FoundationSize + b.PayloadSize
	b.Digest, b.FoundationDigest = hex.EncodeToString(digest.Sum(nil)), hex.EncodeToString(foundation.Sum(nil))
	b.Workloads, b.Jobs = d.listWorkloads(), d.listJobs()
	return b, nil
}

// encodeObjects returns the JSON of all objects, within the bounds.
func (d *draft) encodeObjects() ([][]byte, error) {
	out := make([][]byte, 0, len(d.objects))
	for _, u := range d.objects {
		data, err := json.Marshal(u.Object)
		if err != nil {
			return nil, newError(api.ReasonInvalidSpec, "cannot marshal %s: %w", objectIDOf(u), err)
		}
		out = append(out, data)
	}
	return out, d.checkBounds(out)
}
