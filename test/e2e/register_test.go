// Copyright Contributors to the Open Cluster Management project

package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/test/e2e/harness"
	"open-cluster-management.io/knative-addon/test/lab"
	"open-cluster-management.io/knative-addon/test/lab/pki"
)

// registeredName is the name of the ClusterProfile, the Secret and the resource of TestRegister.
const registeredName = "edge-7"

// commandUser is a user who connects a cluster with the command line only.
type commandUser struct {
	push
	cluster spoke
}

// TestRegister connects a cluster that OCM does not manage with `knative-addon register`, and disconnects the cluster.
func TestRegister(t *testing.T) {
	startRestStory(t)
	p := newPush(t, lab.Options{Spokes: 1}, harness.Options{})
	n := commandUser{push: p, cluster: connect(t, p.Spokes[0])}
	t.Run("wrong kubeconfigs are refused before a write", func(t *testing.T) { n.refuseKubeconfigs(t) })
	t.Run("a dry run prints the objects of both clusters and writes nothing", func(t *testing.T) { n.printObjects(t) })
	t.Run("a ClusterProfile and a ServiceAccount of others stay", func(t *testing.T) { n.keepObjectsOfOthers(t) })
	t.Run("a cluster is registered before the first resource", func(t *testing.T) { n.registerWithoutResource(t) })
	t.Run("a resource becomes Ready with the printed permissions", func(t *testing.T) {
		n.installDirectly(t, registeredName, api.Serving, kourier())
	})
	t.Run("a second run narrows the permissions to the resources of the hub", func(t *testing.T) { n.registerAgain(t) })
	t.Run("a rotated token ends, and the resource stays resolved", func(t *testing.T) { n.rotateToken(t) })
	t.Run("a cluster in use is not unregistered", func(t *testing.T) { n.refuseUnregister(t) })
	t.Run("a refused inventory is reported", func(t *testing.T) { n.reportRefusal(t) })
	t.Run("nothing is left after unregister", func(t *testing.T) { n.unregister(t) })
}

// command runs knative-addon with the hub of the lab, and returns standard output and standard error.
func (n *commandUser) command(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, n.Binary, args...) //nolint:gosec // the built program
	cmd.Env = append(os.Environ(), "KUBECONFIG="+n.Hub.Kubeconfig)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// register runs `knative-addon register` for the cluster.
func (n *commandUser) register(ctx context.Context, name string, args ...string) (string, error) {
	return n.command(ctx, append([]string{
		"register", name, "--kubeconfig", n.cluster.Kubeconfig, "--namespace", n.namespace, "--secret-namespace", "default", "--timeout", "5m",
	}, args...)...)
}

// refuses fails the test unless a command has failed with an output that has all words.
func refuses(t *testing.T, out string, err error, words ...string) {
	t.Helper()
	if err == nil {
		t.Errorf("the command succeeded: %s", out)
	}
	printed(t, out, words...)
}

func printed(t *testing.T, out string, words ...string) {
	t.Helper()
	for _, word := range words {
		if !strings.Contains(out, word) {
			t.Errorf("%q is not in: %s", word, out)
		}
	}
}

// registered returns descriptions of the objects with the label of registrations.
func registered(ctx context.Context, s spoke) ([]string, error) {
	var out []string
	for _, resource := range []schema.GroupVersionResource{
		{Version: "v1", Resource: "namespaces"},
		{Version: "v1", Resource: "serviceaccounts"},
		{Version: "v1", Resource: "secrets"},
		{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "roles"},
		{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "rolebindings"},
		{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterroles"},
		{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterrolebindings"},
		profileResource,
	} {
		list, err := s.dynamic.Resource(resource).List(ctx, metav1.ListOptions{LabelSelector: api.RegisteredLabel + "=true"})
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		for _, o := range list.Items {
			out = append(out, fmt.Sprintf("%s %s/%s", resource.Resource, o.GetNamespace(), o.GetName()))
		}
	}
	slices.Sort(out)
	return out, nil
}

func (n *commandUser) checkNothingRegistered(t *testing.T) {
	t.Helper()
	for _, s := range []spoke{n.hub, n.cluster} {
		objects, err := registered(t.Context(), s)
		if err != nil || len(objects) > 0 {
			t.Errorf("%s has %q, or cannot be read: %v", s.Name, objects, err)
		}
	}
}

func (n *commandUser) refuseKubeconfigs(t *testing.T) {
	wrong := func(name, url string, ca []byte, token string) string {
		file := filepath.Join(t.TempDir(), name)
		if err := pki.WriteKubeconfig(file, name, url, ca, pki.User{Token: token}); err != nil {
			t.Fatal(err)
		}
		return file
	}
	port, err := n.Port()
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		file string
		want []string
	}{
		"no file":                 {filepath.Join(t.TempDir(), "absent"), []string{"cannot read --kubeconfig=", "absent"}},
		"the hub's":               {n.Hub.Kubeconfig, []string{"is the hub itself", "localInstalls"}},
		"an unknown token":        {wrong("token", n.cluster.URL, n.cluster.CA, "no-token"), []string{"cannot read Namespace kube-system on the cluster of --kubeconfig", "renew the credentials"}},
		"a CA of another cluster": {wrong("ca", n.cluster.URL, n.Hub.CA, "no-token"), []string{"certificate", n.cluster.URL}},
		"an address without server": {
			wrong("server", fmt.Sprintf("https://127.0.0.1:%d", port), n.cluster.CA, "no-token"), []string{"connection refused", "reachable from this machine"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := n.command(t.Context(), "register", registeredName, "--namespace", n.namespace, "--kubeconfig", tc.file)
			refuses(t, out, err, tc.want...)
		})
	}
	out, err := n.command(t.Context(), "register", registeredName, "--namespace", "absent", "--kubeconfig", n.cluster.Kubeconfig)
	refuses(t, out, err, `no namespace "absent"`)
	n.checkNothingRegistered(t)
}

func (n *commandUser) printObjects(t *testing.T) {
	out, err := n.register(t.Context(), registeredName, "--dry-run")
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	printed(t, out, "kind: ClusterProfile", "kind: ClusterRole", "kind: ServiceAccount", "token: TOKEN-OF-THE-SERVICEACCOUNT", "server: "+n.cluster.URL,
		"clusterName: "+registeredName, "name: secretreader", "knativeserving-"+registeredName+"-root-owner", "knativeeventing-"+registeredName+"-root-owner")
	n.checkNothingRegistered(t)
}

func (n *commandUser) keepObjectsOfOthers(t *testing.T) {
	const other = "by-hand"
	n.publishProfile(t, other, n.cluster.Cluster, "secretreader", map[string]any{"clusterName": other})
	out, err := n.register(t.Context(), other)
	refuses(t, out, err, "ClusterProfile blue/by-hand", "was not created by `knative-addon register`", "another name")
	out, err = n.command(t.Context(), "unregister", other, "--namespace", n.namespace)
	refuses(t, out, err, "ClusterProfile blue/by-hand", "was not created by `knative-addon register`")
	if err := n.hub.dynamic.Resource(profileResource).Namespace(n.namespace).Delete(t.Context(), other, metav1.DeleteOptions{}); err != nil {
		t.Errorf("the ClusterProfile is gone: %v", err)
	}
	accounts := n.cluster.kube.CoreV1().ServiceAccounts("default")
	if _, err := accounts.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "theirs"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	out, err = n.register(t.Context(), registeredName, "--service-account", "default/theirs")
	refuses(t, out, err, "ServiceAccount default/theirs", "choose another --service-account")
	n.checkNothingRegistered(t)
}

func (n *commandUser) registerWithoutResource(t *testing.T) {
	out, err := n.register(t.Context(), registeredName)
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	t.Log(out)
	printed(t, out, "answers requests with the token", "wrote Secret default/edge-7 and ClusterProfile blue/edge-7 on the hub", "no resource refers to the ClusterProfile")
	objects, err := registered(t.Context(), n.cluster)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"clusterrolebindings /knative-addon", "clusterroles /knative-addon", "namespaces /knative-addon", "namespaces /knative-eventing", "namespaces /knative-serving",
		"rolebindings knative-eventing/knative-addon", "rolebindings knative-serving/knative-addon", "roles knative-eventing/knative-addon",
		"roles knative-serving/knative-addon", "secrets knative-addon/knative-addon-token", "serviceaccounts knative-addon/knative-addon",
	}
	if !slices.Equal(objects, want) {
		t.Errorf("the cluster has %q, want %q", objects, want)
	}
}

func (n *commandUser) registerAgain(t *testing.T) {
	before := n.readToken(t)
	out, err := n.register(t.Context(), registeredName)
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	t.Log(out)
	printed(t, out, "deleted Role knative-eventing/knative-addon", "KnativeServing blue/edge-7: TargetClusterResolved is True")
	if n.readToken(t) != before {
		t.Error("a second run replaced a token that lasts")
	}
	n.ready(t, api.Serving, registeredName)
}

// readToken returns the token on the hub.
func (n *commandUser) readToken(t *testing.T) string {
	t.Helper()
	secret, err := n.hub.kube.CoreV1().Secrets("default").Get(t.Context(), registeredName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(secret.Data["token"]) == 0 {
		t.Fatal("the Secret has no token")
	}
	return string(secret.Data["token"])
}

// rotateToken holds that a rotation ends the token on the hub, and a token that --token-duration has requested before.
func (n *commandUser) rotateToken(t *testing.T) {
	before := n.readToken(t)
	requested, err := n.cluster.kube.CoreV1().ServiceAccounts("knative-addon").CreateToken(
		t.Context(), "knative-addon", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	out, err := n.register(t.Context(), registeredName, "--rotate-token")
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if strings.Contains(out, n.readToken(t)) || n.readToken(t) == before {
		t.Errorf("the token was printed, or not replaced: %d bytes of output", len(out))
	}
	for _, token := range []string{before, requested.Status.Token} {
		config := rest.AnonymousClientConfig(n.cluster.Config)
		config.BearerToken = token
		client, err := kubernetes.NewForConfig(config)
		if err != nil {
			t.Fatal(err)
		}
		eventually(t, "the old token has ended", 3*time.Minute, func(ctx context.Context) error {
			_, err := client.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
			if apierrors.IsUnauthorized(err) {
				return nil
			}
			return fmt.Errorf("the answer is not 401, but %s", fmt.Sprint(err))
		})
	}
	n.repairDeployment(t, registeredName, n.cluster.Cluster)
}

func (n *commandUser) refuseUnregister(t *testing.T) {
	out, err := n.command(t.Context(), "unregister", registeredName, "--namespace", n.namespace, "--kubeconfig", n.cluster.Kubeconfig)
	refuses(t, out, err, "KnativeServing blue/edge-7", "Delete the resources first")
	n.ready(t, api.Serving, registeredName)
}

func (n *commandUser) reportRefusal(t *testing.T) {
	refusal := []string{"the manager does not use it", "KnativeServing blue/edge-7: " + api.ReasonAccessProviderNotConfigured}
	eventually(t, "the command reports the refusal", 3*time.Minute, func(ctx context.Context) error {
		out, err := n.register(ctx, registeredName, "--provider", "unknown", "--timeout", "20s")
		if missing := slices.DeleteFunc(slices.Clone(refusal), func(word string) bool { return strings.Contains(out, word) }); err == nil || len(missing) > 0 {
			return fmt.Errorf("%q is not in the output, error %w: %s", missing, err, out)
		}
		return nil
	})
	if out, err := n.register(t.Context(), registeredName); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	n.ready(t, api.Serving, registeredName)
}

func (n *commandUser) unregister(t *testing.T) {
	if err := n.resources(api.Serving).Delete(t.Context(), registeredName, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	n.gone(t, api.Serving, registeredName)
	requestRemoval(t, n.Lab, n.cluster.Cluster) // of the Namespaces that register has created
	args := []string{"unregister", registeredName, "--namespace", n.namespace, "--kubeconfig", n.cluster.Kubeconfig}
	out, err := n.command(t.Context(), args...)
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	t.Log(out)
	printed(t, out, "deleted ClusterProfile blue/edge-7", "deleted Secret default/edge-7", "deleted ServiceAccount knative-addon/knative-addon", "deleted Namespace knative-serving")
	eventually(t, "no object of the registration is left", 3*time.Minute, func(ctx context.Context) error {
		onHub, err := registered(ctx, n.hub)
		onCluster, err2 := registered(ctx, n.cluster)
		if err = errors.Join(err, err2); err == nil && len(onHub)+len(onCluster) > 0 {
			err = fmt.Errorf("the hub has %q, the cluster %q", onHub, onCluster)
		}
		return err
	})
	n.cluster.emptied(t)
	out, err = n.command(t.Context(), args...)
	refuses(t, out, err, "no object of the registration")
	out, err = n.command(t.Context(), args[:4]...)
	refuses(t, out, err, "no registration as ClusterProfile")
}
