// Copyright Contributors to the Open Cluster Management project

package direct

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

	"open-cluster-management.io/knative-addon/pkg/render"
)

// entry records an object that was written, or is about to be.
type entry struct {
	Group     string    `json:"group,omitempty"`
	Version   string    `json:"version"`
	Resource  string    `json:"resource"`
	Kind      string    `json:"kind"`
	Namespace string    `json:"namespace,omitempty"`
	Name      string    `json:"name"`
	UID       types.UID `json:"uid,omitempty"`
	// Digest is of what was applied; empty as long as nothing was.
	Digest string `json:"digest,omitempty"`
	// Fields is the digest of the fields that were ours after that. It differs once somebody else has changed one.
	Fields string `json:"fields,omitempty"`
	// Done says of a Job that it has completed: it need not be there any more.
	Done bool `json:"done,omitempty"`
}

func (e *entry) id() render.ObjectID {
	return render.ObjectID{Group: e.Group, Kind: e.Kind, Namespace: e.Namespace, Name: e.Name}
}

func (e *entry) gvr() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: e.Group, Version: e.Version, Resource: e.Resource}
}

// inventory is everything that an installation has on its cluster.
type inventory map[render.ObjectID]entry

// encode writes one entry a line, sorted.
func (inv inventory) encode() (string, error) {
	var out bytes.Buffer
	for _, e := range inv.sorted() {
		line, err := json.Marshal(e)
		if err != nil {
			return "", fmt.Errorf("cannot encode the inventory: %w", err)
		}
		out.Write(line)
		out.WriteByte('\n')
	}
	return out.String(), nil
}

func (inv inventory) sorted() []entry {
	out := make([]entry, 0, len(inv))
	for _, e := range inv {
		out = append(out, e)
	}
	slices.SortFunc(out, func(a, b entry) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return out
}

// decode reads what encode wrote.
func decode(text string) (inventory, error) {
	inv := inventory{}
	decoder := json.NewDecoder(bytes.NewReader([]byte(text)))
	decoder.DisallowUnknownFields()
	for {
		var e entry
		err := decoder.Decode(&e)
		if errors.Is(err, io.EOF) {
			return inv, nil
		}
		if err == nil && (e.Version == "" || e.Resource == "" || e.Kind == "" || e.Name == "") {
			err = errors.New("version, resource, kind or name is missing")
		}
		if err == nil && e.Group == "" && (e.Kind == "Namespace") != (e.Resource == "namespaces") {
			err = fmt.Errorf("kind %s and resource %s do not belong together", e.Kind, e.Resource)
		}
		if err != nil {
			return nil, fmt.Errorf("entry %d: %w", len(inv)+1, err)
		}
		inv[e.id()] = e
	}
}

// place is where objects are looked for: a resource, and a namespace unless the resource is one of the cluster. A look at all
// namespaces would need a credential that may read everybody's Secrets.
type place struct {
	schema.GroupVersionResource

	namespace string
}

func (e *entry) place() place { return place{e.gvr(), e.Namespace} }

// places are where something was applied, each once.
func (inv inventory) places() []place {
	seen := map[place]bool{}
	for _, e := range inv {
		if e.Digest != "" {
			seen[e.place()] = true
		}
	}
	return slices.SortedFunc(maps.Keys(seen), func(a, b place) int {
		return cmp.Or(cmp.Compare(a.String(), b.String()), cmp.Compare(a.namespace, b.namespace))
	})
}
