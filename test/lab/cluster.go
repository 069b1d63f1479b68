// Copyright Contributors to the Open Cluster Management project

package lab

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"open-cluster-management.io/knative-addon/test/lab/pki"
	"open-cluster-management.io/knative-addon/test/lab/realnode"
)

// Cluster is one Kubernetes control plane of the lab.
type Cluster struct {
	// Name is "hub", "cluster<n>", "spoke<n>" or "light<n>"; components of the cluster start with it, for example "cluster1-apiserver".
	Name string
	// URL of the API server.
	URL string
	// CA of the API server, PEM.
	CA []byte
	// Kubeconfig is a file with admin rights.
	Kubeconfig string
	// Config has admin rights and no client-side throttling.
	Config *rest.Config
	// Credential is what someone would register by hand for a cluster that OCM does not manage; nil for others.
	Credential *Credential
	// EvictionGracePeriod is how long the work agent keeps the objects of a work that its hub does not have; 0 means 60 min, as
	// OCM has. Lab.Rejoin starts an agent with the current value.
	EvictionGracePeriod time.Duration

	dir        string
	serviceIPs *serviceIPs
	// slot is what the cluster's real node uses of the machine; nil for a cluster without a real node.
	slot *realnode.Slot
	// node is the real node after the start of its network.
	node *realnode.Node
	// hubSecret is the Secret in which the agent keeps its certificate for the hub.
	hubSecret string
	// agentName names the agent of a cluster that Lab.Reimport has renamed; empty means Name.
	agentName string
}

// Credential is a service account's access to a cluster, with the rights of an administrator.
type Credential struct {
	Server string
	CA     []byte
	Token  string
}

func (l *Lab) newCluster(name string) *Cluster {
	dir := filepath.Join(l.Dir, name)
	return &Cluster{
		Name: name, dir: dir, Kubeconfig: filepath.Join(dir, "admin.kubeconfig"), serviceIPs: &serviceIPs{},
		hubSecret: hubIdentity,
	}
}

func (c *Cluster) path(name string) string { return filepath.Join(c.dir, name) }

func (c *Cluster) write(name string, content []byte) error {
	if err := os.WriteFile(c.path(name), content, 0o600); err != nil {
		return fmt.Errorf("cannot write a file of %s: %w", c.Name, err)
	}
	return nil
}

// ServiceAccountKubeconfig writes a kubeconfig with a token of the service account and returns its file.
func (c *Cluster) ServiceAccountKubeconfig(ctx context.Context, namespace, name string) (string, error) {
	token, err := c.token(ctx, namespace, name)
	if err != nil {
		return "", err
	}
	file := c.path(namespace + "-" + name + ".kubeconfig")
	return file, pki.WriteKubeconfig(file, c.Name, c.URL, c.CA, pki.User{Token: token})
}

const tokenLifetime = 24 * time.Hour

func (c *Cluster) token(ctx context.Context, namespace, name string) (string, error) {
	client, err := kubernetes.NewForConfig(c.Config)
	if err != nil {
		return "", fmt.Errorf("cannot create a client for %s: %w", c.Name, err)
	}
	seconds := int64(tokenLifetime.Seconds())
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}
	token, err := client.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, name, request, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("cannot create a token of service account %s/%s on %s: %w", namespace, name, c.Name, err)
	}
	return token.Status.Token, nil
}

// register makes the credential that someone would register by hand for a cluster that OCM does not manage.
func (l *Lab) register(ctx context.Context, c *Cluster) error {
	const namespace, account = "kube-system", "fleet-access"
	err := c.Apply(ctx, []byte(`
apiVersion: v1
kind: ServiceAccount
metadata: {name: fleet-access, namespace: kube-system}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: fleet-access}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}
subjects: [{kind: ServiceAccount, name: fleet-access, namespace: kube-system}]
`))
	if err != nil {
		return err
	}
	token, err := c.token(ctx, namespace, account)
	if err != nil {
		return err
	}
	c.Credential = &Credential{Server: c.URL, CA: c.CA, Token: token}
	l.logf("%s: credential is ready", c.Name)
	return nil
}

// waitFor polls every 100 ms until check returns nil or ctx ends; its error says what was waited for.
func waitFor(ctx context.Context, what string, check func(context.Context) error) error {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		err := check(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("gave up waiting for %s: %w", what, err)
		case <-tick.C:
		}
	}
}

func nodeObject() *corev1.Node {
	return &corev1.Node{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"},
		ObjectMeta: metav1.ObjectMeta{
			Name:        "kwok-0",
			Annotations: map[string]string{"node.alpha.kubernetes.io/ttl": "0", "kwok.x-k8s.io/node": "fake"},
			Labels: map[string]string{
				corev1.LabelHostname: "kwok-0", corev1.LabelOSStable: "linux", corev1.LabelArchStable: "amd64", "type": "kwok",
			},
		},
	}
}
