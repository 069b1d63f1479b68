// Copyright Contributors to the Open Cluster Management project

package lab

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/keyutil"
	"sigs.k8s.io/yaml"

	"open-cluster-management.io/knative-addon/test/lab/pki"
	"open-cluster-management.io/knative-addon/test/lab/process"
	"open-cluster-management.io/knative-addon/test/lab/realnode"
)

// startEtcds starts the etcd that the control planes share, each with a prefix of its own, and with Options.OwnHubEtcd another etcd
// for the hub.
func (l *Lab) startEtcds(ctx context.Context) error {
	var err error
	if l.etcdURL, err = l.startEtcd(ctx, "etcd"); err != nil || !l.opts.OwnHubEtcd {
		return err
	}
	l.hubEtcdURL, err = l.startEtcd(ctx, hubEtcd)
	return err
}

// rareCollection is the environment of the servers of a lab. The collection of garbage is a sixth of the work of an API server, and a lab has more
// memory than processors.
const rareCollection = "GOGC=300"

// startEtcd starts an etcd and returns the URL for clients.
func (l *Lab) startEtcd(ctx context.Context, name string) (string, error) {
	ports, err := l.portsFor(2)
	if err != nil {
		return "", err
	}
	clients, peers := "http://127.0.0.1:"+ports[0], "http://127.0.0.1:"+ports[1]
	p, err := l.procs.Start(process.Spec{Name: name, Path: l.Bin.Path("etcd"), Dir: l.Dir, Env: []string{rareCollection}, Args: []string{
		"--data-dir=" + l.etcdDir(name), "--log-level=warn", "--unsafe-no-fsync",
		"--quota-backend-bytes=8589934592", // a thousand clusters need more than the default of 2 GiB during an edit
		"--listen-client-urls=" + clients, "--advertise-client-urls=" + clients,
		"--listen-peer-urls=" + peers, "--initial-advertise-peer-urls=" + peers, "--initial-cluster=default=" + peers,
	}})
	if err != nil {
		return "", err
	}
	return clients, awaitEtcd(ctx, p, clients)
}

func awaitEtcd(ctx context.Context, p *process.Process, url string) error {
	return p.WaitReady(ctx, func(ctx context.Context) error { return getOK(ctx, http.DefaultClient, url+"/health") })
}

// etcdURLOf returns the URL of the etcd of a control plane.
func (l *Lab) etcdURLOf(c *Cluster) string {
	if c == l.Hub && l.opts.OwnHubEtcd {
		return l.hubEtcdURL
	}
	return l.etcdURL
}

func (l *Lab) portsFor(n int) ([]string, error) {
	out := make([]string, n)
	for i := range out {
		port, err := l.ports.Next()
		if err != nil {
			return nil, err
		}
		out[i] = fmt.Sprint(port)
	}
	return out, nil
}

// startControlPlane starts API server, controller manager and scheduler and waits until service accounts work.
func (l *Lab) startControlPlane(ctx context.Context, c *Cluster) error {
	ports, err := l.portsFor(3)
	if err != nil {
		return err
	}
	if l.hasRealNode(c) {
		if err := l.claimNode(ctx, c); err != nil {
			return err
		}
	}
	if err := c.serviceIPs.claim(); err != nil {
		return err
	}
	c.URL = "https://" + c.address() + ":" + ports[0]
	if err := c.writeKeys(); err != nil {
		return err
	}
	if err := l.startAPIServer(ctx, c, ports[0], frontProxy()...); err != nil {
		return err
	}
	if c.slot == nil {
		if err := c.serviceIPs.forward(c.serviceIPs.first(), "127.0.0.1:"+ports[0]); err != nil { //nolint:contextcheck // connections outlive the call
			return err
		}
	}
	if err := l.startControllers(c, ports[1], ports[2]); err != nil {
		return err
	}
	if err := l.awaitControllers(ctx, c); err != nil {
		return err
	}
	l.logf("%s: control plane is ready", c.Name)
	return nil
}

// awaitControllers waits until service accounts work.
func (l *Lab) awaitControllers(ctx context.Context, c *Cluster) error {
	client, err := kubernetes.NewForConfig(c.Config)
	if err != nil {
		return fmt.Errorf("cannot create a client for %s: %w", c.Name, err)
	}
	kcm, err := l.procs.Get(c.Name + "-controller-manager")
	if err != nil {
		return err
	}
	return kcm.WaitReady(ctx, func(ctx context.Context) error {
		_, err := client.CoreV1().ServiceAccounts("default").Get(ctx, "default", metav1.GetOptions{})
		return err
	})
}

// frontProxy are the API server's arguments for aggregated APIs. Controllers want to know of them; a cluster without
// controllers does without, and needs fewer inotify instances.
func frontProxy() []string {
	return []string{
		"--requestheader-client-ca-file=ca.crt", "--requestheader-allowed-names=front-proxy-client",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-", "--requestheader-group-headers=X-Remote-Group",
		"--requestheader-username-headers=X-Remote-User",
		"--proxy-client-cert-file=front-proxy.crt", "--proxy-client-key-file=front-proxy.key",
	}
}

func (l *Lab) startAPIServer(ctx context.Context, c *Cluster, port string, args ...string) error {
	args = append([]string{
		"--etcd-servers=" + l.etcdURLOf(c), "--etcd-prefix=/" + c.Name,
		"--bind-address=" + c.address(), "--advertise-address=" + c.address(), "--external-hostname=" + c.address(), "--secure-port=" + port,
		"--tls-cert-file=apiserver.crt", "--tls-private-key-file=apiserver.key", "--client-ca-file=ca.crt",
		"--service-account-issuer=" + c.URL, "--service-account-key-file=sa.key", "--service-account-signing-key-file=sa.key",
		"--authorization-mode=Node,RBAC", "--service-cluster-ip-range=" + c.serviceRange(), "--allow-privileged",
		// Tests need no protection from themselves, and one lab has few clients with many requests.
		"--enable-priority-and-fairness=false", "--max-requests-inflight=1000", "--max-mutating-requests-inflight=500",
	}, append(c.nodeArguments(), args...)...)
	if policy := l.opts.auditPolicy(c == l.Hub); policy != "" {
		if err := c.write("audit.yaml", []byte(policy)); err != nil {
			return err
		}
		// The lab reads one file: a log of 100 MB, the default, would begin another file.
		args = append(args, "--audit-policy-file=audit.yaml", "--audit-log-path="+auditLog, "--audit-log-maxsize=10240")
	}
	p, err := l.procs.Start(process.Spec{
		Name: c.Name + "-apiserver", Path: l.Bin.Path("kube-apiserver"), Dir: c.dir, Args: args,
		Env: l.collectionOf(c),
	})
	if err != nil {
		return err
	}
	return c.awaitAPIServer(ctx, p)
}

// collectionOf returns the environment of an API server that decides when the API server collects garbage. The limits leave memory to the other
// servers. Near its limit an API server returns memory to the system and requests the memory again, for a third of its CPU: a fleet that comes
// near needs a LargeHub.
func (l *Lab) collectionOf(c *Cluster) []string {
	if c == l.Hub && l.opts.LargeHub {
		return []string{"GOGC=100", "GOMEMLIMIT=15GiB"}
	}
	return []string{rareCollection, "GOMEMLIMIT=12GiB"}
}

func (c *Cluster) awaitAPIServer(ctx context.Context, p *process.Process) error {
	ca := x509.NewCertPool()
	ca.AppendCertsFromPEM(c.CA)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: ca, MinVersion: tls.VersionTLS12}}}
	defer client.CloseIdleConnections()
	return p.WaitReady(ctx, func(ctx context.Context) error { return getOK(ctx, client, c.URL+"/readyz") })
}

func (l *Lab) startControllers(c *Cluster, managerPort, schedulerPort string) error {
	kubeconfigs := func(name string) []string {
		f := name + ".kubeconfig"
		return []string{"--kubeconfig=" + f, "--authentication-kubeconfig=" + f, "--authorization-kubeconfig=" + f, "--bind-address=127.0.0.1", "--leader-elect=false"}
	}
	manager := append(kubeconfigs("controller-manager"),
		"--secure-port="+managerPort, "--use-service-account-credentials=true",
		"--kube-api-qps=300", "--kube-api-burst=500", // its own default delays the first service account by 5 s
		// The controller manager takes the readiness from pods of a node without heartbeats, and KWOK never restores the readiness, as
		// a kubelet would: the node must outlast every interruption of the API server.
		"--node-monitor-grace-period=30m",
		"--service-account-private-key-file=sa.key", "--root-ca-file=ca.crt")
	if c == l.Hub {
		// Klusterlets ask for certificates on the hub only, and each of the four signers takes an inotify instance.
		manager = append(manager, "--cluster-signing-cert-file=ca.crt", "--cluster-signing-key-file=ca.key")
	}
	_, err := l.procs.Start(process.Spec{
		Name: c.Name + "-controller-manager", Path: l.Bin.Path("kube-controller-manager"), Dir: c.dir, Env: []string{rareCollection}, Args: manager,
	})
	if err != nil {
		return err
	}
	_, err = l.procs.Start(process.Spec{
		Name: c.Name + "-scheduler", Path: l.Bin.Path("kube-scheduler"), Dir: c.dir, Env: []string{rareCollection},
		Args: append(kubeconfigs("scheduler"), "--secure-port="+schedulerPort),
	})
	return err
}

// writeKeys makes the CA, certificates and kubeconfigs of a control plane and sets the cluster's access.
func (c *Cluster) writeKeys() error {
	if err := os.MkdirAll(c.dir, 0o700); err != nil {
		return fmt.Errorf("cannot create the directory of %s: %w", c.Name, err)
	}
	ca, err := pki.NewCA("lab-ca-" + c.Name)
	if err != nil {
		return err
	}
	c.CA = ca.CertPEM
	accountKey, err := keyutil.MakeEllipticPrivateKeyPEM()
	if err != nil {
		return fmt.Errorf("cannot generate the service account key of %s: %w", c.Name, err)
	}
	files := map[string][]byte{"ca.crt": ca.CertPEM, "ca.key": ca.KeyPEM, "sa.key": accountKey}
	serverNames := []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"}
	for _, w := range []string{"addon", "registration", "work"} {
		serverNames = append(serverNames, "cluster-manager-"+w+"-webhook.open-cluster-management-hub.svc")
	}
	for name, s := range map[string]pki.Subject{
		"apiserver":      {Name: "kube-apiserver", Hosts: append(serverNames, c.address(), c.firstServiceIP())},
		"front-proxy":    {Name: "front-proxy-client"},
		"kubelet-client": {Name: "kube-apiserver-kubelet-client", Groups: []string{"system:masters"}},
	} {
		if files[name+".crt"], files[name+".key"], err = ca.Issue(s); err != nil {
			return err
		}
	}
	for name, content := range files {
		if err := c.write(name, content); err != nil {
			return err
		}
	}
	return c.writeKubeconfigs(ca)
}

func (c *Cluster) writeKubeconfigs(ca *pki.CA) error {
	for name, s := range map[string]pki.Subject{
		"admin":              {Name: "admin", Groups: []string{"system:masters"}},
		"controller-manager": {Name: "system:kube-controller-manager"},
		"scheduler":          {Name: "system:kube-scheduler"},
		"kubelet":            {Name: "system:node:" + realnode.NodeName, Groups: []string{"system:nodes"}},
		"kube-proxy":         {Name: "system:kube-proxy"},
	} {
		cert, key, err := ca.Issue(s)
		if err != nil {
			return err
		}
		if err := pki.WriteKubeconfig(c.path(name+".kubeconfig"), c.Name, c.URL, c.CA, pki.User{Cert: cert, Key: key}); err != nil {
			return err
		}
	}
	config, err := clientcmd.BuildConfigFromFlags("", c.Kubeconfig)
	if err != nil {
		return fmt.Errorf("cannot read the kubeconfig of %s: %w", c.Name, err)
	}
	config.QPS = -1 // no client-side throttling
	c.Config = config
	return nil
}

// startNodes starts KWOK with one node and Knative's webhooks, which run as processes, or the programs of the real node.
func (l *Lab) startNodes(ctx context.Context, c *Cluster) error {
	if c.node != nil {
		return l.startRealNode(ctx, c)
	}
	port, err := l.portsFor(1)
	if err != nil {
		return err
	}
	kwok, err := l.procs.Start(process.Spec{Name: c.Name + "-kwok", Path: l.Bin.Path("kwok"), Dir: c.dir, Env: []string{rareCollection}, Args: []string{
		"--kubeconfig=" + c.Kubeconfig, "--config=" + l.Bin.Path("kwok-stages.yaml"), "--manage-all-nodes",
		"--node-lease-duration-seconds=40", "--cidr=10.244.0.0/16", "--node-ip=127.0.0.1", "--node-port=0",
		"--server-address=127.0.0.1:" + port[0],
	}})
	if err != nil {
		return err
	}
	node, err := yaml.Marshal(nodeObject())
	if err != nil {
		return fmt.Errorf("cannot encode the node of %s: %w", c.Name, err)
	}
	if err := c.Apply(ctx, node); err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(c.Config)
	if err != nil {
		return fmt.Errorf("cannot create a client for %s: %w", c.Name, err)
	}
	l.bg.Go(func() { l.runKnative(l.ctx, c, client) })
	return kwok.WaitReady(ctx, func(ctx context.Context) error { return checkNode(ctx, client, "kwok-0") })
}

// checkNode returns an error unless the Node is Ready.
func checkNode(ctx context.Context, client kubernetes.Interface, name string) error {
	n, err := client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	for _, cond := range n.Status.Conditions {
		if cond.Type == corev1.NodeReady && cond.Status == corev1.ConditionTrue {
			return nil
		}
	}
	return fmt.Errorf("node %s is not Ready", name)
}

const probeTimeout = 2 * time.Second

func getOK(ctx context.Context, client *http.Client, url string) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(io.LimitReader(resp.Body, 500))
		return fmt.Errorf("%s: %s: %s", url, resp.Status, body)
	}
	return nil
}

// all runs the functions at the same time and returns the first error.
func all(fs ...func() error) error {
	var g errgroup.Group
	for _, f := range fs {
		g.Go(f)
	}
	return g.Wait()
}
