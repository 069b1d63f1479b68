// Copyright Contributors to the Open Cluster Management project

package lab

import (
	"context"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"open-cluster-management.io/knative-addon/test/lab/process"
)

const (
	hubNamespace   = "open-cluster-management-hub"
	ocmNamespace   = "open-cluster-management"
	agentNamespace = "open-cluster-management-agent"
	bootstrapName  = "agent-registration-bootstrap"
)

// hubPrerequisites are what clusteradm and OCM's operator make on a hub: namespaces, the ways to the webhooks, and the
// account that new clusters register with.
const hubPrerequisites = `
apiVersion: v1
kind: ServiceAccount
metadata: {name: agent-registration-bootstrap, namespace: open-cluster-management}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: "open-cluster-management:bootstrap"}
rules:
- {apiGroups: [""], resources: [configmaps], verbs: [get]}
- {apiGroups: [certificates.k8s.io], resources: [certificatesigningrequests], verbs: [create, get, list, watch]}
- {apiGroups: [cluster.open-cluster-management.io], resources: [managedclusters], verbs: [get, create, list, watch]}
- {apiGroups: [cluster.open-cluster-management.io], resources: [managedclustersets/join], verbs: [create]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: "open-cluster-management:bootstrap:agent-registration"}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: "open-cluster-management:bootstrap"}
subjects: [{kind: ServiceAccount, name: agent-registration-bootstrap, namespace: open-cluster-management}]
---
apiVersion: v1
kind: Service
metadata: {name: cluster-manager-addon-webhook, namespace: open-cluster-management-hub}
spec: {type: ExternalName, externalName: localhost}
---
apiVersion: v1
kind: Service
metadata: {name: cluster-manager-registration-webhook, namespace: open-cluster-management-hub}
spec: {type: ExternalName, externalName: localhost}
---
apiVersion: v1
kind: Service
metadata: {name: cluster-manager-work-webhook, namespace: open-cluster-management-hub}
spec: {type: ExternalName, externalName: localhost}
`

// startHub installs OCM's CRDs, RBAC and webhooks and starts its controllers, each under its own service account.
func (l *Lab) startHub(ctx context.Context) error {
	port, err := l.ports.Next()
	if err != nil {
		return err
	}
	l.webhook = port
	if err := l.Hub.Apply(ctx, namespaces(ocmNamespace, hubNamespace)); err != nil {
		return err
	}
	err = all(
		func() error { return l.Hub.Apply(ctx, []byte(hubPrerequisites)) },
		func() error { return l.applyOCM(ctx, l.Hub, "hub-crds") },
	)
	if err != nil {
		return err
	}
	if err := l.startWebhooks(ctx); err != nil {
		return err
	}
	if err := l.Hub.WaitForCRDs(ctx); err != nil {
		return err
	}
	if err := l.applyOCM(ctx, l.Hub, "hub"); err != nil {
		return err
	}
	if err := l.startHubControllers(ctx); err != nil {
		return err
	}
	l.logf("hub: OCM's controllers and webhooks run")
	return nil
}

// defaultOCMQPS is how many requests a second each of OCM's controllers of the hub may make, and half of a burst.
const defaultOCMQPS = 50

func (l *Lab) startHubControllers(ctx context.Context) error {
	registration := gates(map[string]bool{
		"ClusterProfile": true, "DefaultClusterSet": true, "ManagedClusterAutoApproval": true, "ResourceCleanup": true,
	}, l.opts.RegistrationFeatureGates)
	work := gates(map[string]bool{"ManifestWorkReplicaSet": true}, l.opts.WorkFeatureGates)
	registrationQPS := defaultOCMQPS
	if l.opts.LargeHub {
		registrationQPS = 4 * defaultOCMQPS
	}
	g, ctx := errgroup.WithContext(ctx)
	for account, args := range map[string][]string{
		"registration-controller-sa": {
			"registration", "controller", registration,
			"--auto-approved-csr-users=system:serviceaccount:" + ocmNamespace + ":" + bootstrapName,
			fmt.Sprintf("--kube-api-qps=%d", registrationQPS), fmt.Sprintf("--kube-api-burst=%d", 2*registrationQPS),
		},
		"placement-controller-sa":     {"placement", "controller"},
		"work-controller-sa":          {"work", "manager", work},
		"addon-manager-controller-sa": {"addon", "manager"},
	} {
		g.Go(func() error {
			kubeconfig, err := l.Hub.ServiceAccountKubeconfig(ctx, hubNamespace, account)
			if err != nil {
				return err
			}
			listen, err := l.portsFor(1)
			if err != nil {
				return err
			}
			_, err = l.procs.Start(process.Spec{
				Name: "ocm-" + args[0], Path: l.Bin.Path("ocm"), Dir: l.Hub.dir,
				Env: []string{"POD_NAME=" + args[0] + "-0", "POD_NAMESPACE=" + hubNamespace, rareCollection},
				Args: append([]string{args[0]}, append(args[2:],
					"--kubeconfig="+kubeconfig, "--namespace="+hubNamespace, "--listen=127.0.0.1:"+listen[0], "--disable-leader-election")...),
			})
			return err
		})
	}
	return g.Wait()
}

// serverTimeout is how long an API server may take to start again.
const serverTimeout = 2 * time.Minute

// StartHubServer starts the stopped API server of the hub and waits until the API server is ready.
func (l *Lab) StartHubServer(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, serverTimeout)
	defer cancel()
	p, err := l.procs.Get(l.Hub.Name + "-apiserver")
	if err != nil {
		return err
	}
	if err := p.Start(); err != nil {
		return err
	}
	return l.Hub.awaitAPIServer(ctx, p)
}

// gates renders the feature gates as a flag; extra overrides base.
func gates(base, extra map[string]bool) string {
	maps.Copy(base, extra)
	out := make([]string, 0, len(base))
	for _, name := range slices.Sorted(maps.Keys(base)) {
		out = append(out, fmt.Sprintf("%s=%t", name, base[name]))
	}
	return "--feature-gates=" + strings.Join(out, ",")
}

func (l *Lab) startWebhooks(ctx context.Context) error {
	for from, to := range map[string]string{"apiserver.crt": "tls.crt", "apiserver.key": "tls.key"} {
		content, err := os.ReadFile(l.Hub.path(from))
		if err != nil {
			return fmt.Errorf("cannot read the certificate of the hub: %w", err)
		}
		if err := l.Hub.write(to, content); err != nil {
			return err
		}
	}
	p, err := l.procs.Start(process.Spec{
		Name: "ocm-webhooks", Path: l.Bin.Path("ocm"), Dir: l.Hub.dir, Env: []string{"KUBECONFIG=" + l.Hub.Kubeconfig, rareCollection},
		Args: []string{"webhooks", fmt.Sprintf("--port=%d", l.webhook), "--cert-dir=" + l.Hub.dir},
	})
	if err != nil {
		return err
	}
	return p.WaitReady(ctx, func(ctx context.Context) error {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", fmt.Sprintf("127.0.0.1:%d", l.webhook))
		if err != nil {
			return err
		}
		return conn.Close()
	})
}

// applyOCM applies OCM's own manifests: "hub-crds", "hub" or "managed".
func (l *Lab) applyOCM(ctx context.Context, c *Cluster, what string) error {
	cmd := exec.CommandContext(ctx, l.Bin.Path("ocm"), "manifests", what, //nolint:gosec // our own program
		"--ca-file="+l.Hub.path("ca.crt"), fmt.Sprintf("--webhook-port=%d", l.webhook))
	stream, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("cannot render OCM's manifests %q: %w", what, err)
	}
	return c.Apply(ctx, stream)
}

// WaitForCRDs waits until every CustomResourceDefinition of the cluster is Established. `kubectl wait` fails for one without conditions.
func (c *Cluster) WaitForCRDs(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	client, err := dynamic.NewForConfig(c.Config)
	if err != nil {
		return fmt.Errorf("cannot create a client for %s: %w", c.Name, err)
	}
	crds := client.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	return waitFor(ctx, "CRDs of "+c.Name, func(ctx context.Context) error {
		list, err := crds.List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for i := range list.Items {
			if !isTrue(&list.Items[i], "Established") {
				return fmt.Errorf("CRD %q is not Established", list.Items[i].GetName())
			}
		}
		return nil
	})
}

func isTrue(o *unstructured.Unstructured, condition string) bool {
	conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	for _, c := range conditions {
		if m, ok := c.(map[string]any); ok && m["type"] == condition {
			return m["status"] == "True"
		}
	}
	return false
}

func namespaces(names ...string) []byte {
	var b strings.Builder
	for _, n := range names {
		fmt.Fprintf(&b, "---\napiVersion: v1\nkind: Namespace\nmetadata: {name: %s}\n", n)
	}
	return []byte(b.String())
}
