// Copyright Contributors to the Open Cluster Management project

package memoryspoke

import (
	"context"
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"open-cluster-management.io/knative-addon/test/e2e/harness/played"
)

// clients are the clients that direct delivery uses, for one Spoke.
type clients struct {
	*Spoke

	kube     kubernetes.Interface
	dynamic  dynamic.Interface
	metadata metadata.Interface
}

func start(t *testing.T) clients {
	t.Helper()
	s := Start("spoke1", &played.Watchers[Write]{})
	t.Cleanup(s.Close)
	return connect(t, s, s.Token)
}

func connect(t *testing.T, s *Spoke, token string) clients {
	t.Helper()
	config := &rest.Config{Host: s.URL, BearerToken: token, TLSClientConfig: rest.TLSClientConfig{CAData: s.CA}}
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	dyn, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	meta, err := metadata.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return clients{Spoke: s, kube: kube, dynamic: dyn, metadata: meta}
}

func deployments() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
}

// apply applies an object as direct delivery does.
func (c clients) apply(t *testing.T, gvr schema.GroupVersionResource, namespace, text string) *unstructured.Unstructured {
	t.Helper()
	o := &unstructured.Unstructured{}
	if err := o.UnmarshalJSON([]byte(text)); err != nil {
		t.Fatal(err)
	}
	force := true
	out, err := c.dynamic.Resource(gvr).Namespace(namespace).Patch(t.Context(), o.GetName(), types.ApplyPatchType, []byte(text),
		metav1.PatchOptions{FieldManager: "knative-addon", Force: &force})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func deployment(replicas int) string {
	return fmt.Sprintf(`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web","namespace":"default","labels":{"of":"us"}},"spec":{"replicas":%d}}`, replicas)
}

func TestIdentity(t *testing.T) {
	c := start(t)
	version, err := c.kube.Discovery().ServerVersion()
	if err != nil || version.GitVersion != kubernetesVersion {
		t.Errorf("the version is %v, error %v", version, err)
	}
	first, err := c.kube.CoreV1().Namespaces().Get(t.Context(), metav1.NamespaceSystem, metav1.GetOptions{})
	if err != nil || first.UID == "" {
		t.Fatalf("namespace kube-system has UID %q, error %v", first.UID, err)
	}
	second, err := start(t).kube.CoreV1().Namespaces().Get(t.Context(), metav1.NamespaceSystem, metav1.GetOptions{})
	if err != nil || second.UID == first.UID {
		t.Errorf("two spokes have UID %q, error %v", second.UID, err)
	}
	if _, err := connect(t, c.Spoke, "wrong").kube.CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{}); !apierrors.IsUnauthorized(err) {
		t.Errorf("a wrong token ends with %v", err)
	}
}

// TestApply holds that an apply creates and replaces an object, that only another spec raises the generation, and that an apply without
// a difference makes no version.
func TestApply(t *testing.T) {
	c := start(t)
	var writes []Write
	defer c.AddWatcher(func(w Write) { writes = append(writes, w) })()
	created := c.apply(t, deployments(), "default", deployment(2))
	same := c.apply(t, deployments(), "default", deployment(2))
	changed := c.apply(t, deployments(), "default", deployment(3))
	if created.GetUID() == "" || created.GetGeneration() != 1 || created.GetManagedFields()[0].Manager != "knative-addon" {
		t.Errorf("the created object is %v", created)
	}
	if same.GetResourceVersion() != created.GetResourceVersion() {
		t.Errorf("an equal apply makes version %s of %s", same.GetResourceVersion(), created.GetResourceVersion())
	}
	if changed.GetGeneration() != 2 || changed.GetUID() != created.GetUID() || changed.GetResourceVersion() == created.GetResourceVersion() {
		t.Errorf("the changed object is %v", changed)
	}
	if len(writes) != 3 || writes[0].Spoke != "spoke1" || writes[0].Resource.Resource != "deployments" || writes[0].Name != "web" {
		t.Errorf("the writes are %+v", writes)
	}
	before, after := fmt.Sprint(created.GetManagedFields()[0].FieldsV1), fmt.Sprint(changed.GetManagedFields()[0].FieldsV1)
	if before == after {
		t.Errorf("the managed fields of two contents are both %s", before)
	}
}

func TestWorkloadsAreRolledOut(t *testing.T) {
	c := start(t)
	c.apply(t, deployments(), "default", deployment(2))
	c.apply(t, deployments(), "default", deployment(3))
	d, err := c.kube.AppsV1().Deployments("default").Get(t.Context(), "web", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if want := (appsv1.DeploymentStatus{ObservedGeneration: 2, Replicas: 3, UpdatedReplicas: 3, ReadyReplicas: 3, AvailableReplicas: 3}); d.Status.String() != want.String() {
		t.Errorf("the status is %v", d.Status)
	}
	job, err := c.kube.BatchV1().Jobs("default").Create(t.Context(), &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "migrate"}}, metav1.CreateOptions{})
	if err != nil || len(job.Status.Conditions) != 1 || job.Status.Conditions[0].Type != batchv1.JobComplete {
		t.Errorf("the status of a Job is %v, error %v", job.Status, err)
	}
}

func TestRefusals(t *testing.T) {
	c := start(t)
	maps := func(namespace string) func(name string) error {
		return func(name string) error {
			_, err := c.kube.CoreV1().ConfigMaps(namespace).Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
			return err
		}
	}
	if err := maps("default")("a"); err != nil {
		t.Fatal(err)
	}
	stale, err := c.kube.CoreV1().ConfigMaps("default").Get(t.Context(), "a", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	fresh := stale.DeepCopy()
	fresh.Data = map[string]string{"k": "v"}
	if _, err := c.kube.CoreV1().ConfigMaps("default").Update(t.Context(), fresh, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	other := types.UID("other")
	for name, tc := range map[string]struct {
		err  func() error
		want func(error) bool
	}{
		"a second create":             {func() error { return maps("default")("a") }, apierrors.IsAlreadyExists},
		"a namespace that is missing": {func() error { return maps("none")("a") }, apierrors.IsNotFound},
		"an update of an earlier state": {func() error {
			_, err := c.kube.CoreV1().ConfigMaps("default").Update(t.Context(), stale, metav1.UpdateOptions{})
			return err
		}, apierrors.IsConflict},
		"an object that is missing": {func() error {
			return c.kube.CoreV1().ConfigMaps("default").Delete(t.Context(), "b", metav1.DeleteOptions{})
		}, apierrors.IsNotFound},
		"a deletion of another object": {func() error {
			return c.kube.CoreV1().ConfigMaps("default").Delete(t.Context(), "a", metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &other}})
		}, apierrors.IsConflict},
		"a kind without a CustomResourceDefinition": {func() error {
			_, err := c.dynamic.Resource(schema.GroupVersionResource{Group: "serving.knative.dev", Version: "v1", Resource: "services"}).List(t.Context(), metav1.ListOptions{})
			return err
		}, apierrors.IsNotFound},
		"a merge patch": {func() error {
			_, err := c.kube.CoreV1().ConfigMaps("default").Patch(t.Context(), "a", types.MergePatchType, []byte("{}"), metav1.PatchOptions{})
			return err
		}, apierrors.IsNotFound},
	} {
		if err := tc.err(); !tc.want(err) {
			t.Errorf("%s: the error is %v", name, err)
		}
	}
}

// TestDiscovery holds that a CustomResourceDefinition makes its kind served.
func TestDiscovery(t *testing.T) {
	c := start(t)
	crds := schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	c.apply(t, crds, "", `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"services.serving.knative.dev"},
		"spec":{"group":"serving.knative.dev","names":{"kind":"Service","plural":"services"}}}`)
	list, err := c.kube.Discovery().ServerResourcesForGroupVersion("serving.knative.dev/v1")
	if err != nil || len(list.APIResources) != 1 || list.APIResources[0].Kind != "Service" {
		t.Errorf("the kinds are %v, error %v", list, err)
	}
	if _, err := c.dynamic.Resource(schema.GroupVersionResource{Group: "serving.knative.dev", Version: "v1", Resource: "services"}).List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Error(err)
	}
}

// TestWatch holds that a watch of metadata begins at the version of a list, selects by label, and delivers every change.
func TestWatch(t *testing.T) {
	c := start(t)
	c.apply(t, deployments(), "default", deployment(1))
	options := metav1.ListOptions{LabelSelector: "of=us"}
	list, err := c.metadata.Resource(deployments()).Namespace("default").List(t.Context(), options)
	if err != nil || len(list.Items) != 1 || list.Items[0].Name != "web" {
		t.Fatalf("the list is %v, error %v", list, err)
	}
	options.ResourceVersion = list.ResourceVersion
	w, err := c.metadata.Resource(deployments()).Namespace("default").Watch(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	c.apply(t, deployments(), "default", `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"other","namespace":"default"}}`)
	c.apply(t, deployments(), "default", deployment(2))
	if err := c.kube.AppsV1().Deployments("default").Delete(t.Context(), "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []watch.EventType{watch.Modified, watch.Deleted} {
		e := receive(t, w)
		o, ok := e.Object.(*metav1.PartialObjectMetadata)
		if !ok || e.Type != want || o.Name != "web" {
			t.Errorf("the event is %s %v, want %s of web", e.Type, e.Object, want)
		}
	}
}

func receive(t *testing.T, w watch.Interface) watch.Event {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	select {
	case e, open := <-w.ResultChan():
		if !open {
			t.Fatal("the watch has ended")
		}
		return e
	case <-ctx.Done():
		t.Fatal("no event")
	}
	return watch.Event{}
}

// TestNamespaceTakesItsObjects holds that the deletion of a Namespace deletes the objects of the Namespace.
func TestNamespaceTakesItsObjects(t *testing.T) {
	c := start(t)
	if _, err := c.kube.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.kube.CoreV1().ConfigMaps("team").Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	objects := c.CountObjects()
	if err := c.kube.CoreV1().Namespaces().Delete(t.Context(), "team", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if left := c.CountObjects(); left != objects-2 {
		t.Errorf("%d of %d objects are left", left, objects)
	}
}
