// Copyright Contributors to the Open Cluster Management project

package lab

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"open-cluster-management.io/knative-addon/test/lab/pki"
	"open-cluster-management.io/knative-addon/test/lab/process"
)

const (
	agentAccount = "klusterlet-agent-sa"
	// defaultStatusSync is the agent's own default; the klusterlet's Deployment sets 60 s where one replica runs.
	defaultStatusSync = 10 * time.Second
	// defaultEviction is the agent's own default.
	defaultEviction = time.Hour
	// defaultAgentQPS is how many requests a second an agent may make to its cluster, and half of a burst.
	defaultAgentQPS = 50
)

// aggregateRole is the ClusterRole that OCM's operator creates at run time: the role aggregates the permissions that add-ons give to the work agent.
const aggregateRole = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: "open-cluster-management:klusterlet-work:aggregate"}
aggregationRule: {clusterRoleSelectors: [{matchLabels: {open-cluster-management.io/aggregate-to-work: "true"}}]}
`

// Join starts a second agent on a managed cluster of another lab, as a second klusterlet does. The second agent joins the hub of this lab.
// An agent of OCM runs in the namespace that the token of the pod names, so that both agents run in one namespace. The second agent stores the
// certificate in a Secret of another name: agents that share a Secret overwrite the certificates of each other.
func (l *Lab) Join(ctx context.Context, c *Cluster) error {
	shared := *c
	shared.dir, shared.hubSecret = filepath.Join(l.Dir, c.Name), hubIdentity+"-2"
	if err := os.MkdirAll(shared.dir, 0o700); err != nil {
		return fmt.Errorf("cannot create the directory of %s: %w", c.Name, err)
	}
	return l.startMembership(ctx, &shared)
}

// Reimport imports a cluster of Lab.Spokes as the managed cluster with the name, whose former agent has ended, and returns the cluster with that
// name. The new agent is component "<spoke>-agent".
func (l *Lab) Reimport(ctx context.Context, c *Cluster, name string) (*Cluster, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := l.reserve(ctx, managedInstances-spokeInstances); err != nil {
		return nil, err
	}
	imported := *c
	imported.Name, imported.agentName = name, c.Name
	if err := l.join(ctx, &imported); err != nil {
		return nil, fmt.Errorf("cannot import %s as %s: %w", c.Name, name, err)
	}
	return &imported, nil
}

// ReimportUnapproved is Reimport with an agent whose certificate an administrator has to approve. The agent has requested the certificate
// when ReimportUnapproved returns. approve approves the certificate, and waits until the hub calls the cluster Available.
func (l *Lab) ReimportUnapproved(ctx context.Context, c *Cluster, name string) (imported *Cluster, approve func(context.Context) error, err error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := l.reserve(ctx, managedInstances-spokeInstances); err != nil {
		return nil, nil, err
	}
	joining := *c
	joining.Name, joining.agentName = name, c.Name
	if err := errors.Join(l.prepareMembership(ctx, &joining), l.Hub.Apply(ctx, []byte(unapprovedAccount))); err != nil {
		return nil, nil, err
	}
	agent, err := l.requestMembership(ctx, &joining, unapprovedName)
	if err != nil {
		return nil, nil, err
	}
	hub, err := kubernetes.NewForConfig(l.Hub.Config)
	if err != nil {
		return nil, nil, fmt.Errorf("cannot create a client for the hub: %w", err)
	}
	var request *certificatesv1.CertificateSigningRequest
	err = waitFor(ctx, "a certificate request of "+name, func(ctx context.Context) error {
		request, err = findPendingRequest(ctx, hub, name)
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	return &joining, func(ctx context.Context) error {
		request.Status.Conditions = append(request.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
			Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "Approved",
		})
		if _, err := hub.CertificatesV1().CertificateSigningRequests().UpdateApproval(ctx, request.Name, request, metav1.UpdateOptions{}); err != nil {
			return fmt.Errorf("cannot approve the certificate of %s: %w", name, err)
		}
		return l.awaitMembership(ctx, &joining, agent)
	}, nil
}

// findPendingRequest returns the certificate request of a cluster that nobody has approved or denied.
func findPendingRequest(ctx context.Context, hub kubernetes.Interface, cluster string) (*certificatesv1.CertificateSigningRequest, error) {
	list, err := hub.CertificatesV1().CertificateSigningRequests().List(ctx, metav1.ListOptions{
		LabelSelector: "open-cluster-management.io/cluster-name=" + cluster,
	})
	if err != nil {
		return nil, fmt.Errorf("cannot list the certificate requests of %s: %w", cluster, err)
	}
	for i := range list.Items {
		if len(list.Items[i].Status.Conditions) == 0 {
			return &list.Items[i], nil
		}
	}
	return nil, fmt.Errorf("none of %d certificate requests of %s is pending", len(list.Items), cluster)
}

// unapprovedName is the ServiceAccount of agents whose certificates an administrator has to approve.
const unapprovedName = "agent-registration-unapproved"

const unapprovedAccount = `
apiVersion: v1
kind: ServiceAccount
metadata: {name: agent-registration-unapproved, namespace: open-cluster-management}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: "open-cluster-management:bootstrap:unapproved"}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: "open-cluster-management:bootstrap"}
subjects: [{kind: ServiceAccount, name: agent-registration-unapproved, namespace: open-cluster-management}]
`

// join starts a klusterlet agent (registration and work in one process) under OCM's own RBAC and waits until the hub
// calls the cluster Available.
func (l *Lab) join(ctx context.Context, c *Cluster) error {
	if err := l.prepareMembership(ctx, c); err != nil {
		return err
	}
	return l.startMembership(ctx, c)
}

// prepareMembership gives a cluster the namespaces and roles of the agent.
func (l *Lab) prepareMembership(ctx context.Context, c *Cluster) error {
	if err := c.Apply(ctx, namespaces(agentNamespace, agentNamespace+"-addon")); err != nil {
		return err
	}
	return all(
		func() error { return l.applyOCM(ctx, c, "managed") },
		func() error { return c.Apply(ctx, []byte(aggregateRole)) },
	)
}

// startMembership registers a cluster that is ready for agents.
func (l *Lab) startMembership(ctx context.Context, c *Cluster) error {
	agent, err := l.requestMembership(ctx, c, bootstrapName)
	if err != nil {
		return err
	}
	return l.awaitMembership(ctx, c, agent)
}

// requestMembership starts the agent of a cluster, which registers with an account of the hub.
func (l *Lab) requestMembership(ctx context.Context, c *Cluster, account string) (*process.Process, error) {
	token, err := l.Hub.token(ctx, ocmNamespace, account)
	if err != nil {
		return nil, err
	}
	if err := l.announce(ctx, c, token); err != nil {
		return nil, err
	}
	return l.startAgent(ctx, c, token)
}

// awaitMembership waits until the hub calls the cluster Available.
func (l *Lab) awaitMembership(ctx context.Context, c *Cluster, agent *process.Process) error {
	clusters, err := managedClusters(l.Hub.Config)
	if err != nil {
		return err
	}
	err = agent.WaitReady(ctx, func(ctx context.Context) error {
		mc, err := clusters.Get(ctx, c.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, cond := range []string{"HubAcceptedManagedCluster", "ManagedClusterJoined", "ManagedClusterConditionAvailable"} {
			if !isTrue(mc, cond) {
				return fmt.Errorf("managed cluster %q is not %s", c.Name, cond)
			}
		}
		return nil
	})
	if err == nil {
		l.logf("%s: joined and Available", c.Name)
	}
	return err
}

// announce creates the ManagedCluster with the bootstrap token of the agent, as the agent would. The agent requests a certificate and creates the
// ManagedCluster at the same time, and ends both attempts when the agent has the certificate: on a busy hub, a cluster would have a certificate,
// and would never have a ManagedCluster.
func (l *Lab) announce(ctx context.Context, c *Cluster, token string) error {
	clusters, err := managedClusters(&rest.Config{
		Host: l.Hub.URL, BearerToken: token, TLSClientConfig: rest.TLSClientConfig{CAData: l.Hub.CA},
	})
	if err != nil {
		return err
	}
	cluster := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "cluster.open-cluster-management.io/v1", "kind": "ManagedCluster",
		"metadata": map[string]any{"name": c.Name},
		"spec": map[string]any{
			"hubAcceptsClient": false,
			"managedClusterClientConfigs": []any{
				map[string]any{"url": c.URL, "caBundle": base64.StdEncoding.EncodeToString(c.CA)},
			},
		},
	}}
	return waitFor(ctx, "the hub to take ManagedCluster "+c.Name, func(ctx context.Context) error {
		_, err := clusters.Create(ctx, cluster, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			return nil
		}
		return err
	})
}

func managedClusters(config *rest.Config) (dynamic.ResourceInterface, error) {
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("cannot create a client for the hub: %w", err)
	}
	return client.Resource(schema.GroupVersionResource{Group: "cluster.open-cluster-management.io", Version: "v1", Resource: "managedclusters"}), nil
}

func (l *Lab) startAgent(ctx context.Context, c *Cluster, token string) (*process.Process, error) {
	bootstrap, hubDir := c.path("bootstrap.kubeconfig"), c.path("hub-kubeconfig")
	if err := pki.WriteKubeconfig(bootstrap, "hub", l.Hub.URL, l.Hub.CA, pki.User{Token: token}); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(hubDir, 0o700); err != nil {
		return nil, fmt.Errorf("cannot create the directory of %s: %w", c.Name, err)
	}
	kubeconfig, err := c.ServiceAccountKubeconfig(ctx, agentNamespace, agentAccount)
	if err != nil {
		return nil, err
	}
	listen, err := l.portsFor(1)
	if err != nil {
		return nil, err
	}
	interval := l.opts.StatusSyncInterval
	if interval == 0 {
		interval = defaultStatusSync
	}
	// Each poll gets every applied object. An agent that polls more often than by default may make as many more requests, or the
	// polls would take the requests of the agent's other work.
	qps := defaultAgentQPS * max(1, int(defaultStatusSync/interval))
	agent := cmp.Or(c.agentName, c.Name)
	id := "agent-" + agent
	if c.hubSecret != hubIdentity { // an agent would take works with the ID of the agent for works of a hub that the agent has left
		id = "second-" + id
	}
	env := []string{"POD_NAME=klusterlet-agent-" + agent, "POD_NAMESPACE=" + agentNamespace, rareCollection}
	if l.opts.ResyncInterval > 0 {
		env = append(env, "LAB_WORK_RESYNC_INTERVAL="+l.opts.ResyncInterval.String())
	}
	eviction := c.EvictionGracePeriod
	if eviction == 0 {
		eviction = defaultEviction
	}
	return l.procs.Start(process.Spec{
		Name: agent + "-agent", Path: l.Bin.Path("ocm"), Dir: c.dir, Env: env,
		Args: []string{
			"agent", "--spoke-cluster-name=" + c.Name, "--agent-id=" + id,
			"--bootstrap-kubeconfig=" + bootstrap, "--hub-kubeconfig-dir=" + hubDir, "--hub-kubeconfig=" + hubDir + "/kubeconfig",
			"--workload-source-driver=kube", "--workload-source-config=" + hubDir + "/kubeconfig",
			"--kubeconfig=" + kubeconfig, "--spoke-kubeconfig=" + kubeconfig,
			"--hub-kubeconfig-secret=" + c.hubSecret, "--spoke-external-server-urls=" + c.URL, "--namespace=" + agentNamespace,
			"--listen=127.0.0.1:" + listen[0], "--disable-leader-election", "--status-sync-interval=" + interval.String(),
			"--appliedmanifestwork-eviction-grace-period=" + eviction.String(),
			fmt.Sprintf("--kube-api-qps=%d", qps), fmt.Sprintf("--kube-api-burst=%d", 2*qps),
		},
	})
}
