// Copyright Contributors to the Open Cluster Management project

package lab

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"golang.org/x/sync/errgroup"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/restmapper"
)

// fieldManager owns what the lab applies.
const fieldManager = "lab"

// applyWorkers is how many objects of one stream are applied at a time.
const applyWorkers = 8

// Apply applies a YAML stream with admin rights, server-side and in parallel; the order of its objects means nothing.
func (c *Cluster) Apply(ctx context.Context, stream []byte) error {
	objects, err := decode(stream)
	if err != nil {
		return fmt.Errorf("cannot read the objects for %s: %w", c.Name, err)
	}
	client, err := dynamic.NewForConfig(c.Config)
	if err != nil {
		return fmt.Errorf("cannot create a client for %s: %w", c.Name, err)
	}
	disco, err := discovery.NewDiscoveryClientForConfig(c.Config)
	if err != nil {
		return fmt.Errorf("cannot create a client for %s: %w", c.Name, err)
	}
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(disco))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(applyWorkers)
	for _, o := range objects {
		g.Go(func() error {
			resource, err := resourceFor(client, mapper, o)
			if err == nil {
				_, err = resource.Apply(ctx, o.GetName(), o, metav1.ApplyOptions{FieldManager: fieldManager, Force: true})
			}
			if err != nil {
				return fmt.Errorf("cannot apply %s %q to %s: %w", o.GetKind(), o.GetName(), c.Name, err)
			}
			return nil
		})
	}
	return g.Wait()
}

func resourceFor(client dynamic.Interface, mapper apimeta.RESTMapper, o *unstructured.Unstructured) (dynamic.ResourceInterface, error) {
	gvk := o.GroupVersionKind()
	mapping, err := mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil {
		return nil, err
	}
	if mapping.Scope.Name() == apimeta.RESTScopeNameRoot {
		return client.Resource(mapping.Resource), nil
	}
	return client.Resource(mapping.Resource).Namespace(o.GetNamespace()), nil
}

func decode(stream []byte) ([]*unstructured.Unstructured, error) {
	d := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(stream), 4096)
	var out []*unstructured.Unstructured
	for {
		o := &unstructured.Unstructured{}
		err := d.Decode(&o.Object)
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
		if len(o.Object) > 0 {
			out = append(out, o)
		}
	}
}
