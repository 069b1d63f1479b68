// Copyright Contributors to the Open Cluster Management project

package revision

import (
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
)

// Live returns a resource of the kind from the cache, or nil. Callers must not change the object.
func Live(lister cache.GenericLister, kind Kind, name types.NamespacedName) (*unstructured.Unstructured, error) {
	object, err := lister.ByNamespace(name.Namespace).Get(name.Name)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot get %s %q: %w", kind.Kind(), name, err)
	}
	config, ok := object.(*unstructured.Unstructured)
	if !ok {
		return nil, fmt.Errorf("cannot read %s %q: it is a %T", kind.Kind(), name, object)
	}
	return config, nil
}
