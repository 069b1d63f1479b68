// Copyright Contributors to the Open Cluster Management project

package direct

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"open-cluster-management.io/knative-addon/pkg/boundedhttp"
	"open-cluster-management.io/knative-addon/pkg/clustercache"
	"open-cluster-management.io/knative-addon/pkg/inventory"
	"open-cluster-management.io/knative-addon/pkg/render"
)

const (
	servedTimeout = 30 * time.Second
	servedPoll    = 50 * time.Millisecond
)

// needsServedKinds reports whether the objects of a stage need the kinds of the CRDs at once. Workloads retry by themselves.
func needsServedKinds(s render.Stage) bool {
	return s == render.StageJob || s == render.StageDependent
}

// awaitServedKinds waits until the cluster serves the kinds of the CRDs. The requests have the context of the pass, because a request that exceeds
// a deadline counts as not answered.
func (i *Installation) awaitServedKinds(ctx context.Context, batch []desiredObject) error {
	wait, cancel := context.WithTimeout(ctx, servedTimeout)
	defer cancel()
	for gv, kinds := range definedKinds(batch) {
		for {
			served, err := i.servesKinds(ctx, gv, kinds)
			if err != nil {
				return err
			}
			if served {
				break
			}
			select {
			case <-wait.Done():
				return fmt.Errorf("cannot continue: the cluster does not serve all kinds of %s: %w", gv, wait.Err())
			case <-time.After(servedPoll):
			}
		}
	}
	return nil
}

func (i *Installation) servesKinds(ctx context.Context, gv schema.GroupVersion, kinds map[string]bool) (bool, error) {
	list, err := i.listServedResources(ctx, gv)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("cannot list the served kinds of %s: %w", gv, err)
	}
	missing := maps.Clone(kinds)
	for _, r := range list.APIResources {
		delete(missing, r.Kind)
	}
	return len(missing) == 0, nil
}

// listServedResources returns the resources of a group version that the cluster serves. The discovery client of client-go has no method with a
// context.
func (i *Installation) listServedResources(ctx context.Context, gv schema.GroupVersion) (*metav1.APIResourceList, error) {
	ctx, release := boundedhttp.Hold(ctx)
	defer release()
	path := "/apis/" + gv.String()
	if gv.Group == "" {
		path = "/api/" + gv.Version
	}
	list := &metav1.APIResourceList{}
	return list, i.cluster.Discovery.RESTClient().Get().AbsPath(path).Do(ctx).Into(list)
}

// isAlwaysServed reports whether every API server with an installation serves the group version.
func isAlwaysServed(gv schema.GroupVersion) bool {
	switch gv.String() {
	case "v1", "apps/v1", "autoscaling/v2", "batch/v1", "policy/v1", "rbac.authorization.k8s.io/v1", "admissionregistration.k8s.io/v1",
		"apiextensions.k8s.io/v1":
		return true
	}
	return false
}

// confirmGone returns an error unless the response NotFound to a request for an object, or for a list with an empty name, proves that the object
// or the list is missing. The API server names the missing object, but not for a resource that the API server does not serve. A proxy that answers
// in place of the API server, such as an ingress without a route for a moment, names no object either. The error means that the cluster is
// unavailable.
func (i *Installation) confirmGone(ctx context.Context, gvr schema.GroupVersionResource, name string, notFound error) error {
	gv := gvr.GroupVersion()
	if inventory.IsMissing(notFound, name) || !isAlwaysServed(gv) {
		return nil
	}
	list, err := i.listServedResources(ctx, gv)
	isServed := func(r metav1.APIResource) bool { return r.Name == gvr.Resource }
	switch {
	case clustercache.IsUnavailable(err):
		return fmt.Errorf("cannot list the served kinds of %s: %w", gv, err)
	case err == nil && list.GroupVersion == gv.String() && !slices.ContainsFunc(list.APIResources, isServed):
		return nil // such as admission policies before Kubernetes 1.30
	}
	return fmt.Errorf("the server answers 404 without the name of an object for a request for %s, and an API server does not; check the proxy, or the ingress, before the API server",
		gvr.GroupResource())
}
