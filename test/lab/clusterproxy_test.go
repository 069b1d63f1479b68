// Copyright Contributors to the Open Cluster Management project

package lab

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"open-cluster-management.io/knative-addon/test/lab/process"
)

// clusterProxyEnv makes TestClusterProxy run: `make test-nightly` builds the programs of cluster-proxy first.
const clusterProxyEnv = "LAB_TEST_CLUSTER_PROXY"

// TestClusterProxy holds that two managed clusters answer through the tunnel of cluster-proxy, each for itself, and that all programs
// listen on loopback addresses only.
func TestClusterProxy(t *testing.T) {
	if os.Getenv(clusterProxyEnv) == "" {
		t.Skipf("%s is not set", clusterProxyEnv)
	}
	l := Start(t, Options{ManagedClusters: 2, ClusterProxy: true})
	var pids []int
	for _, c := range l.Components() {
		if c.State != process.Running {
			t.Errorf("%s is %s; the end of its log is in %s", c.Name, c.State, c.Log)
		}
		pids = append(pids, c.PID)
	}
	for _, address := range listening(t, pids) {
		if !strings.HasPrefix(address, "127.") {
			t.Errorf("a component listens on %s", address)
		}
	}
	ca, err := os.ReadFile(filepath.Join(l.Hub.dir, "cluster-proxy-user-server", "user-tls", "tls.crt"))
	if err != nil {
		t.Fatal(err)
	}
	proxy, err := url.Parse(l.HubServicesProxy())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range l.Managed {
		direct, err := kubernetes.NewForConfig(c.Config)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Apply(t.Context(), []byte(tunnelUser)); err != nil {
			t.Fatal(err)
		}
		token, err := c.token(t.Context(), metav1.NamespaceSystem, "tunnel-user")
		if err != nil {
			t.Fatal(err)
		}
		tunnelled, err := kubernetes.NewForConfig(&rest.Config{
			Host: "https://" + UserServer + "/" + c.Name, BearerToken: token, TLSClientConfig: rest.TLSClientConfig{CAData: ca},
			Proxy: http.ProxyURL(proxy),
		})
		if err != nil {
			t.Fatal(err)
		}
		want, err := direct.CoreV1().Namespaces().Get(t.Context(), metav1.NamespaceSystem, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		awaitAnswer(t, "an answer through the tunnel", func(ctx context.Context) error { // the cluster may know the new role a moment later
			got, err := tunnelled.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
			if err == nil && got.UID != want.UID {
				err = fmt.Errorf("the tunnel of %s leads to another cluster", c.Name)
			}
			return err
		})
	}
}

// tunnelUser may read the Namespace that identifies a cluster.
const tunnelUser = `
apiVersion: v1
kind: ServiceAccount
metadata: {name: tunnel-user, namespace: kube-system}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: tunnel-user}
rules: [{apiGroups: [""], resources: [namespaces], verbs: [get]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: tunnel-user}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: tunnel-user}
subjects: [{kind: ServiceAccount, name: tunnel-user, namespace: kube-system}]
`
