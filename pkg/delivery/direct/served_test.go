// Copyright Contributors to the Open Cluster Management project

package direct

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/clustercache"
	"open-cluster-management.io/knative-addon/pkg/render"
)

const (
	webhooks = "validatingwebhookconfigurations/config.webhook"
	imageCRD = "customresourcedefinitions/images.caching.knative.dev"
	// discoveryRequest is a request for the resources of a group version.
	discoveryRequest = "list "
)

// refusesOnce answers each of the requests with the error once.
func refusesOnce(err error, requests ...string) func(string) error {
	var mu sync.Mutex
	left := sets.New(requests...)
	return func(request string) error {
		mu.Lock()
		defer mu.Unlock()
		if !left.Has(request) {
			return nil
		}
		left.Delete(request)
		return err
	}
}

// TestRemovalBehindProxy holds that one 404 of a proxy in place of the API server neither makes a removal leave an object behind, nor delete workloads with
// pods.
func TestRemovalBehindProxy(t *testing.T) {
	statusOnly := &apierrors.StatusError{ErrStatus: metav1.Status{Reason: metav1.StatusReasonNotFound, Code: http.StatusNotFound}}
	for name, tc := range map[string]struct {
		answer   error
		requests []string
	}{
		"deletion":                      {unserved(path{}), []string{"get " + webhooks}},
		"deletion and discovery":        {unserved(path{}), []string{"get " + webhooks, discoveryRequest}},
		"deletion, in form of a Status": {statusOnly, []string{"get " + webhooks}},
		"stop of a workload":            {unserved(path{}), []string{"get " + activator}},
		"deletion of the anchor":        {unserved(path{}), []string{"delete " + anchorPath}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newClusterFixture(t)
			s.settle(t, bundleOf(t))
			s.disturb(refusesOnce(tc.answer, tc.requests...))
			options := RemoveOptions{Namespace: installed, Foundation: true}
			if waiting, err := s.Remove(t.Context(), options); err == nil {
				t.Errorf("behind the proxy, the removal waits for %q without an error", waiting)
			}
			s.disturb(nil)
			if waiting, err := s.Remove(t.Context(), options); err != nil || waiting != "" {
				t.Errorf("waiting %q, %v", waiting, err)
			}
			for _, name := range []string{webhooks, activator, anchorPath} {
				if s.find(name) != nil {
					t.Errorf("%s is left", name)
				}
			}
		})
	}
}

// TestRemovalOfPoliciesBehindProxy holds that the autoscalers and disruption budgets, which every API server serves, do not count as gone because a
// proxy answers 404.
func TestRemovalOfPoliciesBehindProxy(t *testing.T) {
	const autoscaler, budget = "horizontalpodautoscalers/knative-serving/activator", "poddisruptionbudgets/knative-serving/activator-pdb"
	for _, name := range []string{autoscaler, budget} {
		s := newClusterFixture(t)
		s.settle(t, bundleOf(t, func(b *render.Bundle) {
			b.Payload = append(b.Payload,
				rendered(t, "autoscaling/v2/horizontalpodautoscalers", "HorizontalPodAutoscaler knative-serving/activator", nil),
				rendered(t, "policy/v1/poddisruptionbudgets", "PodDisruptionBudget knative-serving/activator-pdb", nil))
		}))
		s.disturb(refusesOnce(unserved(path{}), "get "+name))
		options := RemoveOptions{Namespace: installed}
		if waiting, err := s.Remove(t.Context(), options); err == nil {
			t.Errorf("behind the proxy, the removal waits for %q without an error", waiting)
		}
		s.disturb(nil)
		if waiting, err := s.Remove(t.Context(), options); err != nil || waiting != "" || s.find(name) != nil {
			t.Errorf("waiting %q, %v, and %s is left: %t", waiting, err, name, s.find(name) != nil)
		}
	}
}

// TestUnrecordedRemovalBehindProxy holds that a list that a proxy answers with 404 does not end a removal without an anchor.
func TestUnrecordedRemovalBehindProxy(t *testing.T) {
	s := newClusterFixture(t)
	s.settle(t, bundleOf(t))
	s.lose(anchorPath)
	s.disturb(refuses(unserved(path{}), "list validatingwebhookconfigurations"))
	if waiting, err := s.Remove(t.Context(), RemoveOptions{Namespace: installed}); err == nil {
		t.Errorf("the removal waits for %q without an error, and the webhook configuration is left: %t", waiting, s.find(webhooks) != nil)
	}
}

// TestUserResourcesBehindProxy holds that neither a CRD counts as gone nor its resource as empty because a proxy answers 404: the CRD would be deleted
// with resources of users.
func TestUserResourcesBehindProxy(t *testing.T) {
	for _, request := range []string{"get " + imageCRD, "list images"} {
		s, b := newClusterFixture(t), bundleOf(t)
		s.settle(t, b)
		s.add(b.Payload[len(b.Payload)-1].Resource, &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "caching.knative.dev/v1", "kind": "Image", "metadata": map[string]any{"namespace": "team", "name": "mine"},
		}})
		s.disturb(refusesOnce(unserved(path{}), request))
		waiting, err := s.Remove(t.Context(), RemoveOptions{Namespace: installed, Foundation: true})
		if err == nil || s.find(imageCRD) == nil {
			t.Errorf("%s: waiting %q, %v, and the CRD is there: %t", request, waiting, err, s.find(imageCRD) != nil)
		}
	}
}

// TestRemovalOfNeverServedCRD holds that a CRD whose names another CRD has does not keep the installation.
func TestRemovalOfNeverServedCRD(t *testing.T) {
	s := newClusterFixture(t)
	s.settle(t, bundleOf(t))
	s.edit(imageCRD, func(crd *unstructured.Unstructured) {
		crd.Object["status"] = map[string]any{"conditions": []any{map[string]any{"type": "Established", "status": "False"}}}
	})
	s.disturb(refuses(unserved(path{}), "list images"))
	if waiting, err := s.Remove(t.Context(), RemoveOptions{Namespace: installed, Foundation: true}); err != nil || waiting != "" || s.find(imageCRD) != nil {
		t.Errorf("waiting %q, %v, and the CRD is left: %t", waiting, err, s.find(imageCRD) != nil)
	}
}

// TestRemovalOfUnservedKinds holds that an object of a kind that the cluster does not serve counts as gone.
func TestRemovalOfUnservedKinds(t *testing.T) {
	const policy = "validatingadmissionpolicies/start"
	s := newClusterFixture(t)
	s.settle(t, bundleOf(t, func(b *render.Bundle) {
		b.Payload = append(b.Payload, rendered(t, "admissionregistration.k8s.io/v1/validatingadmissionpolicies", "ValidatingAdmissionPolicy start", nil))
	}))
	s.lose(policy)
	s.lose(imageCRD)
	s.disturb(func(request string) error {
		if strings.HasSuffix(request, policy) {
			return unserved(path{})
		}
		return nil
	})
	if waiting, err := s.Remove(t.Context(), RemoveOptions{Namespace: installed, Foundation: true}); err != nil || waiting != "" {
		t.Errorf("waiting %q, %v", waiting, err)
	}
}

// TestNamespaceBehindProxy holds that the add-on does not take a Namespace for its own because a proxy answers 404.
func TestNamespaceBehindProxy(t *testing.T) {
	s, b := newClusterFixture(t), bundleOf(t)
	s.add(b.Foundation[0].Resource, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": installed},
	}})
	s.disturb(func(request string) error {
		if request == "get namespaces/"+installed {
			return unserved(path{})
		}
		return nil
	})
	_, err := s.Sync(t.Context(), b, SyncOptions{})
	if label := s.find("namespaces/" + installed).GetLabels()[api.ComponentLabel]; err == nil || label != "" {
		t.Errorf("the Namespace has label %q: %v", label, err)
	}
}

// TestDiscoveryEndsWithPass holds that a cluster that does not answer discovery does not outlast the pass.
func TestDiscoveryEndsWithPass(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	t.Cleanup(server.Close)
	c, err := clustercache.Connect(&rest.Config{Host: server.URL}, &http.Client{Timeout: 30 * time.Second}, clustercache.Options{Changed: func(api.Component) {}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	i := NewInstallation(c, ownerNamed("self"), clocktesting.NewFakePassiveClock(time.Unix(1000, 0)))
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(100*time.Millisecond, cancel)
	if _, err := i.servesKinds(ctx, schema.GroupVersion{Group: "a", Version: "v1"}, map[string]bool{"B": true}); !errors.Is(err, context.Canceled) {
		t.Errorf("discovery ends with %v", err)
	}
}

// TestRecreatedCRD holds that the removal of users' resources spares the resources of a CRD that another client created in place of the recorded one.
func TestRecreatedCRD(t *testing.T) {
	s, b := newClusterFixture(t), bundleOf(t)
	s.settle(t, b)
	s.edit(imageCRD, func(u *unstructured.Unstructured) { u.SetUID("another") })
	s.add(b.Payload[len(b.Payload)-1].Resource, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "caching.knative.dev/v1", "kind": "Image", "metadata": map[string]any{"namespace": "team", "name": "mine"},
	}})
	waiting, err := s.Remove(t.Context(), RemoveOptions{Namespace: installed, Foundation: true, UserResources: true})
	if err != nil || waiting != "" {
		t.Errorf("waiting %q, %v", waiting, err)
	}
	for _, name := range []string{imageCRD, "images/team/mine"} {
		if s.find(name) == nil {
			t.Errorf("%s is gone", name)
		}
	}
}

// TestLongRefusal holds that a failure keeps only the begin of a refusal: a hostile cluster refuses every object with a long text.
func TestLongRefusal(t *testing.T) {
	s := newClusterFixture(t)
	it, long := &desiredObject{id: render.ObjectID{Kind: "Secret", Name: "a"}}, errors.New(strings.Repeat("x", 256<<10))
	s.recordFailure(it, long)
	s.recordFailedDeletion(it.id, long)
	for _, f := range []*failedObject{s.failedObjects[it.id], s.failedDeletions[it.id]} {
		if len(f.Cause) > maxCause+100 {
			t.Errorf("%d bytes of a refusal are kept", len(f.Cause))
		}
	}
}
