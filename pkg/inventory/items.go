// Copyright Contributors to the Open Cluster Management project

package inventory

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"open-cluster-management.io/knative-addon/pkg/clustercache"
	"open-cluster-management.io/knative-addon/pkg/render"
)

// maxPlaces is how many resources and namespaces an installation may have objects in.
const maxPlaces = 100

// Item records an object that was applied, or is about to be applied.
type Item struct {
	Group     string    `json:"group,omitempty"`
	Version   string    `json:"version"`
	Resource  string    `json:"resource"`
	Kind      string    `json:"kind"`
	Namespace string    `json:"namespace,omitempty"`
	Name      string    `json:"name"`
	UID       types.UID `json:"uid,omitempty"`
	// Digest is the digest of the applied object, empty until the object was applied.
	Digest string `json:"digest,omitempty"`
	// Fields is the digest of the fields that this add-on owned after the object was applied. The digest of the object on
	// the cluster differs as soon as another client has changed one of these fields.
	Fields string `json:"fields,omitempty"`
	// Done records that a Job has completed, so that the cluster may delete the Job, or that the cluster had the Namespace before
	// the installation, so that the Namespace stays unchanged.
	Done bool `json:"done,omitempty"`
}

// ID returns the identity of the object.
func (e *Item) ID() render.ObjectID {
	return render.ObjectID{Group: e.Group, Kind: e.Kind, Namespace: e.Namespace, Name: e.Name}
}

// GVR returns the resource of the object.
func (e *Item) GVR() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: e.Group, Version: e.Version, Resource: e.Resource}
}

// Place returns where the cache of the cluster has the object.
func (e *Item) Place() clustercache.Place {
	return clustercache.Place{GroupVersionResource: e.GVR(), Namespace: e.Namespace}
}

// Stage returns the stage of the object.
func (e *Item) Stage() render.Stage {
	return render.KindOf(schema.GroupKind{Group: e.Group, Kind: e.Kind}).Stage
}

// Items are the objects that an installation has on its cluster.
type Items map[render.ObjectID]Item

// Encode returns the items as JSON, one item a line, sorted.
func (items Items) Encode() (string, error) {
	var out bytes.Buffer
	for _, e := range items.Sorted() {
		line, err := json.Marshal(e)
		if err != nil {
			return "", fmt.Errorf("cannot encode the inventory: %w", err)
		}
		out.Write(line)
		out.WriteByte('\n')
	}
	return out.String(), nil
}

// Sorted returns the items by group, kind, namespace and name.
func (items Items) Sorted() []Item {
	return slices.SortedFunc(maps.Values(items), func(a, b Item) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
}

// Places returns the places of the applied items, sorted.
func (items Items) Places() []clustercache.Place {
	places := map[clustercache.Place]bool{}
	for _, e := range items {
		if e.Digest != "" {
			places[e.Place()] = true
		}
	}
	return slices.SortedFunc(maps.Keys(places), func(a, b clustercache.Place) int {
		return cmp.Or(cmp.Compare(a.String(), b.String()), cmp.Compare(a.Namespace, b.Namespace))
	})
}

// Decode decodes the result of Encode. The text comes from the cluster: Decode bounds the number of items and places.
func Decode(text string) (Items, error) {
	items, places := Items{}, map[clustercache.Place]bool{}
	decoder := json.NewDecoder(bytes.NewReader([]byte(text)))
	decoder.DisallowUnknownFields()
	for {
		var e Item
		err := decoder.Decode(&e)
		if errors.Is(err, io.EOF) {
			return items, nil
		}
		if err == nil {
			err = e.validate()
		}
		if err != nil {
			return nil, fmt.Errorf("entry %d: %w", len(items)+1, err)
		}
		items[e.ID()] = e
		if len(items) > clustercache.MaxObjects {
			return nil, fmt.Errorf("it records more than %d objects", clustercache.MaxObjects)
		}
		places[e.Place()] = true
		if len(places) > maxPlaces {
			return nil, fmt.Errorf("it records objects of more than %d resources and namespaces", maxPlaces)
		}
	}
}

func (e *Item) validate() error {
	if e.Version == "" || e.Resource == "" || e.Kind == "" || e.Name == "" {
		return errors.New("version, resource, kind or name is missing")
	}
	if e.Group == "" && (e.Kind == "Namespace") != (e.Resource == "namespaces") {
		return fmt.Errorf("kind %s and resource %s do not belong together", e.Kind, e.Resource)
	}
	crds := schema.GroupResource{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"}
	if e.Kind == "CustomResourceDefinition" && (e.GVR().GroupResource() != crds || e.Namespace != "") {
		return fmt.Errorf("kind %s, resource %s and namespace %q do not belong together", e.Kind, e.GVR().GroupResource(), e.Namespace)
	}
	return nil
}
