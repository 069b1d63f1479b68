// Copyright Contributors to the Open Cluster Management project

package register

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	kubefake "k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"
	clientcmdv1 "k8s.io/client-go/tools/clientcmd/api/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/delivery/direct"
)

var team = types.NamespacedName{Namespace: "team", Name: "edge-7"}

// newFake returns a cluster with the UID of its name, namespaces, and further objects.
func newFake(name string, objects ...*unstructured.Unstructured) (*Cluster, *dynamicfake.FakeDynamicClient) {
	kinds := map[schema.GroupVersionResource]string{
		profileResource(): "ClusterProfileList", api.Serving.Resource(): "KnativeServingList", api.Eventing.Resource(): "KnativeEventingList",
		namespaceResource(): "NamespaceList",
	}
	for _, r := range resources() {
		kinds[r] = "List"
	}
	var runtimeObjects []runtime.Object
	for _, o := range objects {
		runtimeObjects = append(runtimeObjects, o)
	}
	client := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), kinds, runtimeObjects...)
	kube := kubefake.NewClientset(
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-system", UID: types.UID(name)}}, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team"}},
	)
	return &Cluster{Name: name, Config: &rest.Config{}, Dynamic: client, Kube: kube}, client
}

func newObject(apiVersion, kind, namespace, name string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	o.SetAPIVersion(apiVersion)
	o.SetKind(kind)
	o.SetNamespace(namespace)
	o.SetName(name)
	return o
}

func newRequest() *Request {
	return &Request{
		Profile: team, SecretNamespace: "team", Provider: "secretreader", Account: types.NamespacedName{Namespace: "knative-addon", Name: "knative-addon"},
		Endpoint: clientcmdv1.Cluster{Server: "https://edge-7:6443"}, Grant: direct.GrantFor("knative-addon", nil), Timeout: time.Millisecond,
	}
}

// ofRegistration marks an object as one of a registration.
func ofRegistration(o *unstructured.Unstructured, hub string, profile types.NamespacedName) *unstructured.Unstructured {
	identity{types.UID(hub), profile}.mark(o)
	return o
}

func TestCheck(t *testing.T) {
	other := types.NamespacedName{Namespace: "team", Name: "edge-8"}
	const profileVersion = "multicluster.x-k8s.io/v1alpha1"
	deleted := newObject("v1", "Namespace", "", "knative-addon")
	deleted.SetDeletionTimestamp(&metav1.Time{Time: time.Unix(1, 0)})
	deleted.SetFinalizers([]string{"kubernetes"})
	for name, tc := range map[string]struct {
		hub, cluster []*unstructured.Unstructured
		same         bool
		namespace    string
		want         []string
	}{
		"new": {},
		"registered before": {
			hub: []*unstructured.Unstructured{
				ofRegistration(newObject(profileVersion, "ClusterProfile", "team", "edge-7"), "hub", team), ofRegistration(newObject("v1", "Secret", "team", "edge-7"), "hub", team),
			},
			cluster: []*unstructured.Unstructured{ofRegistration(newObject("v1", "ServiceAccount", "knative-addon", "knative-addon"), "hub", team)},
		},
		"a Namespace of the administrator serves": {cluster: []*unstructured.Unstructured{newObject("v1", "Namespace", "", "knative-addon")}},
		"a Namespace that is being deleted":       {cluster: []*unstructured.Unstructured{deleted}, want: []string{"Namespace knative-addon", "is being deleted"}},
		"the hub itself":                          {same: true, want: []string{"the hub itself", "localInstalls"}},
		"a namespace that the hub lacks":          {namespace: "absent", want: []string{`namespace "absent"`, "--secret-namespace"}},
		"a ClusterProfile of others": {
			hub: []*unstructured.Unstructured{newObject(profileVersion, "ClusterProfile", "team", "edge-7")}, want: []string{"ClusterProfile team/edge-7", "not created", "another name"},
		},
		"a Secret of others": {hub: []*unstructured.Unstructured{newObject("v1", "Secret", "team", "edge-7")}, want: []string{"Secret team/edge-7", "not created"}},
		"a ServiceAccount of others": {
			cluster: []*unstructured.Unstructured{newObject("v1", "ServiceAccount", "knative-addon", "knative-addon")},
			want:    []string{"ServiceAccount knative-addon/knative-addon", "not created", "--service-account"},
		},
		"a registration under another name": {
			cluster: []*unstructured.Unstructured{ofRegistration(newObject("v1", "ServiceAccount", "knative-addon", "knative-addon"), "hub", other)},
			want:    []string{`ClusterProfile "team/edge-8"`, "unregister"},
		},
		"a registration of another hub": {
			cluster: []*unstructured.Unstructured{ofRegistration(newObject("v1", "ServiceAccount", "knative-addon", "knative-addon"), "hub-2", team)},
			want:    []string{`"hub-2"`, "unregister"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			hub, _ := newFake("hub", tc.hub...)
			cluster, writes := newFake("cluster", tc.cluster...)
			if tc.same {
				cluster, writes = newFake("hub")
			}
			request := newRequest()
			request.SecretNamespace = cmp.Or(tc.namespace, request.SecretNamespace)
			_, err := Check(t.Context(), hub, cluster, request)
			checkNoWrites(t, writes)
			if len(tc.want) > 0 {
				checkError(t, err, tc.want...)
			} else if err != nil {
				t.Error(err)
			}
		})
	}
}

// checkNoWrites fails the test unless the client has sent reads only.
func checkNoWrites(t *testing.T, client *dynamicfake.FakeDynamicClient) {
	t.Helper()
	for _, action := range client.Actions() {
		if verb := action.GetVerb(); verb != "get" && verb != "list" {
			t.Errorf("a check sends %s %s", verb, action.GetResource())
		}
	}
}

func TestCheckWithoutClusterProfiles(t *testing.T) {
	hub, client := newFake("hub")
	client.PrependReactor("list", "clusterprofiles", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewNotFound(schema.GroupResource{Resource: "clusterprofiles"}, "")
	})
	cluster, _ := newFake("cluster")
	_, err := Check(t.Context(), hub, cluster, newRequest())
	checkError(t, err, "does not serve ClusterProfiles", "feature gate")
}

func TestExplain(t *testing.T) {
	c := &Cluster{Name: "the cluster"}
	resource := schema.GroupResource{Resource: "clusterroles"}
	for want, err := range map[string]error{
		"renew the credentials":       apierrors.NewUnauthorized("no"),
		"an administrator":            apierrors.NewForbidden(resource, "knative-addon", errors.New("no")),
		"correct the object":          apierrors.NewConflict(resource, "knative-addon", errors.New("no")),
		"reachable from this machine": errors.New("dial tcp: connection refused"),
	} {
		checkError(t, c.explain("write ClusterRole knative-addon", err), want, "the cluster", "ClusterRole knative-addon")
		if got := c.explain("write", err); !errors.Is(got, err) {
			t.Errorf("%v does not wrap %v", got, err)
		}
	}
}

func TestCheckCredential(t *testing.T) {
	for name, tc := range map[string]struct {
		status int
		want   string
	}{
		"an unknown token":             {http.StatusUnauthorized, "does not accept the token"},
		"a token without permissions":  {http.StatusForbidden, "ClusterRoleBinding"},
		"an API server that is broken": {http.StatusInternalServerError, "check the API server"},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
				if got := req.Header.Get("Authorization"); got != "Bearer secret-token" {
					t.Errorf("the request has credential %q", got)
				}
				w.WriteHeader(tc.status)
			}))
			defer server.Close()
			cluster, err := Connect("the cluster", &rest.Config{Host: server.URL, BearerToken: "admin"})
			if err != nil {
				t.Fatal(err)
			}
			r := &Registration{Request: *newRequest(), cluster: cluster}
			_, err = r.CheckCredential(t.Context(), "secret-token")
			checkError(t, err, tc.want, "knative-addon/knative-addon", server.URL)
			if strings.Contains(err.Error(), "secret-token") {
				t.Errorf("the error has the token: %v", err)
			}
		})
	}
}

func TestFetchTokenWithoutController(t *testing.T) {
	cluster, _ := newFake("cluster")
	cluster.Kube = kubefake.NewClientset(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "knative-addon", Name: "knative-addon-token"}})
	r := &Registration{Request: *newRequest(), cluster: cluster}
	_, _, err := r.FetchToken(t.Context())
	checkError(t, err, "knative-addon/knative-addon-token", "controller manager", "--token-duration")
}

func TestAwaitResolved(t *testing.T) {
	resource := func(status, reason, text string) *unstructured.Unstructured {
		o := newObject(api.Group+"/v1beta1", "KnativeServing", "blue", "edge")
		o.Object["spec"] = map[string]any{"clusterProfileRef": map[string]any{"namespace": team.Namespace, "name": team.Name}}
		if status != "" {
			o.Object["status"] = map[string]any{"conditions": []any{map[string]any{
				"type": api.TargetClusterResolved, "status": status, "reason": reason, "message": text, "lastTransitionTime": "2026-01-01T00:00:00Z",
			}}}
		}
		return o
	}
	for name, tc := range map[string]struct {
		resource *unstructured.Unstructured
		want     []string
	}{
		"a refused profile":   {resource("False", api.ReasonReferenceNotPermitted, "no inventory"), []string{"KnativeServing blue/edge", "ReferenceNotPermitted: no inventory"}},
		"no running manager":  {resource("", "", ""), []string{"KnativeServing blue/edge", "check that the manager runs"}},
		"a resolved resource": {resource("True", "Resolved", ""), nil},
	} {
		t.Run(name, func(t *testing.T) {
			hub, _ := newFake("hub", tc.resource)
			resolved, err := AwaitResolved(t.Context(), hub, team, time.Second)
			if tc.want != nil {
				checkError(t, err, tc.want...)
				return
			}
			checkError(t, err, "was not True for 5s within 1s", "--timeout")
			synctest.Test(t, func(t *testing.T) {
				if resolved, err = AwaitResolved(t.Context(), hub, team, time.Minute); err != nil || len(resolved) != 1 {
					t.Errorf("%v, %v", resolved, err)
				}
			})
			_, err = CheckRemoval(t.Context(), hub, nil, team)
			checkError(t, err, "KnativeServing blue/edge", "Delete the resources first")
		})
	}
}

func TestReviewInventories(t *testing.T) {
	for name, tc := range map[string]struct {
		inventories string
		request     func(*Request)
		want        []string
	}{
		"a permitted cluster": {`[{"namespace": "team", "providers": ["secretreader"], "servers": ["edge-7:6443"], "secrets": ["edge-7"]}]`, nil, nil},
		"another namespace":   {`[{"namespace": "blue", "providers": ["secretreader"], "servers": ["*"]}]`, nil, []string{`namespace "team" is not an inventory`, `"servers":["edge-7:6443"]`, `"secrets":["edge-7"]`}},
		"another Secret":      {`[{"namespace": "team", "providers": ["secretreader"], "servers": ["edge-7"], "secrets": ["edge-8"]}]`, nil, []string{"lists no Secret", "multicluster"}},
		"a proxy": {
			`[{"namespace": "team", "providers": ["secretreader"], "servers": ["edge-7"], "secrets": ["edge-7"]}]`,
			func(r *Request) { r.Endpoint.ProxyURL = "http://proxy:3128" },
			[]string{"does not list proxy", `"proxies":["proxy:3128"]`},
		},
		"another namespace of the Secrets": {
			`[{"namespace": "team", "providers": ["secretreader"], "servers": ["edge-7"], "secrets": ["edge-7"], "secretNamespace": "vault"}]`, nil, []string{"--secret-namespace vault"},
		},
		"no chart value": {"", nil, []string{"multicluster.enabled", `"namespace":"team"`}},
	} {
		t.Run(name, func(t *testing.T) {
			hub, _ := newFake("hub")
			if tc.inventories != "" {
				hub.Kube = kubefake.NewClientset(&corev1.ConfigMap{
					ObjectMeta: metav1.ObjectMeta{Namespace: "knative-addon", Name: configMap}, Data: map[string]string{"inventories.json": `{"inventories": ` + tc.inventories + `}`},
				})
			}
			request := newRequest()
			if tc.request != nil {
				tc.request(request)
			}
			r := &Registration{Request: *request, hub: hub}
			warning, err := r.ReviewInventories(context.WithoutCancel(t.Context()), "knative-addon")
			if err != nil {
				t.Fatal(err)
			}
			if len(tc.want) == 0 {
				if warning != "" {
					t.Errorf("the warning is %s", warning)
				}
				return
			}
			checkError(t, errors.New(warning), tc.want...)
		})
	}
}

func TestCheckRemoval(t *testing.T) {
	hub, _ := newFake("hub")
	_, err := CheckRemoval(t.Context(), hub, nil, team)
	checkError(t, err, "no registration", `"team/edge-7"`)
	cluster, _ := newFake("cluster", ofRegistration(newObject("v1", "ServiceAccount", "knative-addon", "knative-addon"), "hub-2", team))
	_, err = CheckRemoval(t.Context(), hub, cluster, team)
	checkError(t, err, "no object of the registration", "--kubeconfig")
	hub, _ = newFake("hub", newObject("multicluster.x-k8s.io/v1alpha1", "ClusterProfile", "team", "edge-7"))
	_, err = CheckRemoval(t.Context(), hub, nil, team)
	checkError(t, err, "ClusterProfile team/edge-7", "not created")
}

// TestRemovalDeletesSecretFirst holds that a removal which fails at the Secret leaves the ClusterProfile, which names the namespace of the Secret.
func TestRemovalDeletesSecretFirst(t *testing.T) {
	secret := ofRegistration(newObject("v1", "Secret", "vault", "edge-7"), "hub", team)
	profile := ofRegistration(newObject("multicluster.x-k8s.io/v1alpha1", "ClusterProfile", "team", "edge-7"), "hub", team)
	annotations := profile.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[api.RegisteredSecretAnnotation] = "vault/edge-7"
	profile.SetAnnotations(annotations)
	hub, client := newFake("hub", secret, profile)
	refused := true
	client.PrependReactor("delete", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) {
		return refused, nil, errors.New("no answer")
	})
	for _, want := range []int{0, 2} {
		r, err := CheckRemoval(t.Context(), hub, nil, team)
		if err != nil {
			t.Fatal(err)
		}
		removed, _, err := r.Run(t.Context())
		if len(removed) != want || (err != nil) != refused {
			t.Errorf("removed %q with error %v, want %d objects", removed, err, want)
		}
		refused = false
	}
}

func TestRemovalKeepsNamespacesWithContent(t *testing.T) {
	secret := newObject("v1", "Secret", "knative-serving", "of-a-user")
	namespace := ofRegistration(newObject("v1", "Namespace", "", "knative-serving"), "hub", team)
	cluster, _ := newFake("cluster", secret, namespace)
	kube := kubefake.NewClientset()
	kube.Resources = []*metav1.APIResourceList{{GroupVersion: "v1", APIResources: []metav1.APIResource{
		{Name: "secrets", Kind: "Secret", Namespaced: true, Verbs: metav1.Verbs{"list"}},
	}}}
	cluster.Kube = kube
	r := &Removal{cluster: cluster, namespaces: []*unstructured.Unstructured{namespace}}
	hub, _ := newFake("hub")
	r.hub = hub
	removed, kept, err := r.Run(t.Context())
	if err != nil || len(removed) > 0 || len(kept) != 1 || !strings.Contains(kept[0], "Secret of-a-user") {
		t.Errorf("removed %q, kept %q: %v", removed, kept, err)
	}
}
