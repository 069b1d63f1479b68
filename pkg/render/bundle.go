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
)

// Bundle is everything that one Install puts on a cluster. It is shared and must not be changed, nor its objects.
type Bundle struct {
	// Component and Version say what is installed; Version is exact.
	Component api.Component
	Version   string
	// Namespace is the install namespace on the spoke.
	Namespace string
	// Digest is the hex SHA-256 over the JSON of all objects in order.
	Digest string
	// FoundationDigest is the hex SHA-256 over the version and the JSON of the foundation's objects. A change of the
	// configuration leaves it alone, as a rule.
	FoundationDigest string
	// Foundation are the Namespace and the CRDs: what stays when everything else goes.
	Foundation []Object
	// Payload is everything else, in an order in which it can be applied.
	Payload []Object
	// Workloads are the Deployments and StatefulSets to expect, sorted by namespace, kind and name.
	Workloads []Workload
	// Jobs are the Jobs to expect, sorted.
	Jobs []JobRef
	// Size, FoundationSize and PayloadSize are bytes of compact JSON.
	Size, FoundationSize, PayloadSize int
	// Warnings say what was rendered otherwise than the spec may suggest. They are no failures.
	Warnings []string
}

// Objects are foundation and payload in order.
func (b *Bundle) Objects() []Object {
	return append(append(make([]Object, 0, len(b.Foundation)+len(b.Payload)), b.Foundation...), b.Payload...)
}

// Object is one object of a bundle.
type Object struct {
	// Unstructured is the object; read only.
	*unstructured.Unstructured
	// Class says how it is kept on the spoke.
	Class Class
	// Orphan says that it stays on the spoke when the installation is removed, unless deletion is asked for.
	Orphan bool
	// Resource is the plural resource of the object's kind.
	Resource schema.GroupVersionResource
	// JSON is the object's compact JSON with sorted keys; read only.
	JSON []byte
}

// ID names the object regardless of its API version.
func (o Object) ID() ObjectID { return idOf(o.Unstructured) }

// ObjectID names an object on a cluster, regardless of its API version. It is comparable.
type ObjectID struct{ Group, Kind, Namespace, Name string }

// String is "Kind.group namespace/name".
func (id ObjectID) String() string {
	return fmt.Sprintf("%s %s", schema.GroupKind{Group: id.Group, Kind: id.Kind}, objectName(id.Namespace, id.Name))
}

func idOf(u *unstructured.Unstructured) ObjectID {
	gvk := u.GroupVersionKind()
	return ObjectID{Group: gvk.Group, Kind: gvk.Kind, Namespace: u.GetNamespace(), Name: u.GetName()}
}

// Workload is a Deployment or StatefulSet that the installation must bring up.
type Workload struct {
	Kind, Namespace, Name string
	// Replicas is how many are expected; nil when something on the spoke decides.
	Replicas *int32
	// ScaledBy is what decides then, as in "HorizontalPodAutoscaler/activator" or "eventing-controller".
	ScaledBy string
	// Webhook says that its pods answer admission or conversion webhooks: it must be stopped before the webhook
	// configurations are removed, and only then, because it puts back what it owns.
	Webhook bool
}

// JobRef names a Job that must complete once for the bundle's version.
type JobRef struct{ Namespace, Name string }

// newBundle makes the bundle of finished, ordered objects.
func newBundle(d *draft) (*Bundle, error) {
	b := &Bundle{Component: d.component, Version: d.version, Namespace: d.namespace, Warnings: d.warnings}
	digest, foundation := sha256.New(), sha256.New()
	foundation.Write([]byte(d.version + "\n"))
	resources := resourcesOf(d.objects)
	for _, u := range d.objects {
		data, err := json.Marshal(u.Object)
		if err != nil {
			return nil, refuse(ReasonInvalidSpec, "cannot marshal %s: %w", idOf(u), err)
		}
		o := Object{Resource: resources.of(u.GroupVersionKind())}
		o.Class, o.Orphan = d.classify(u)
		o.Unstructured, o.JSON = d.store.share(u, data)
		if isFoundation(u) {
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
	b.Workloads, b.Jobs = d.workloads(), d.jobs()
	return b, nil
}
