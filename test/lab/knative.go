// Copyright Contributors to the Open Cluster Management project

package lab

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	appslisters "k8s.io/client-go/listers/apps/v1"
	corelisters "k8s.io/client-go/listers/core/v1"

	"open-cluster-management.io/knative-addon/test/lab/process"
)

// knativeProgram is a program of Knative that runs as a process while its Deployment exists and has replicas: KWOK's
// pods answer nothing, and without its webhooks no installation of Knative can finish.
type knativeProgram struct {
	deployment string
	program    string
	// service and secret belong to a webhook: it is reached through the ClusterIP of the one and needs the other.
	service, secret string
}

func (l *Lab) knativePrograms() []knativeProgram {
	programs := []knativeProgram{
		{deployment: "webhook", program: "serving-webhook", service: "webhook", secret: "webhook-certs"},
		{deployment: "eventing-webhook", program: "eventing-webhook", service: "eventing-webhook", secret: "eventing-webhook-certs"},
	}
	if l.opts.KnativeControllers {
		programs = append(programs,
			knativeProgram{deployment: "controller", program: "serving-controller"},
			knativeProgram{deployment: "eventing-controller", program: "eventing-controller"})
	}
	return programs
}

// knativeProcess is a program that runs for a Deployment.
type knativeProcess struct {
	*process.Process
	identity string
}

// knativePoll is how often the lab looks whether a program of Knative should run.
const knativePoll = 200 * time.Millisecond

// runKnative starts and stops Knative's programs on a cluster until ctx ends.
func (l *Lab) runKnative(ctx context.Context, c *Cluster, client kubernetes.Interface) {
	known, stop := watchKnative(ctx, client)
	defer stop()
	tick := time.NewTicker(knativePoll)
	defer tick.Stop()
	running := map[string]*knativeProcess{}
	for {
		for _, k := range l.knativePrograms() {
			err := l.reconcileKnative(ctx, c, known, k, running)
			if err != nil && ctx.Err() == nil && !isUnreachable(err) {
				l.logf("%s: cannot run %s: %v", c.Name, k.program, err)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// knativeCache is what a cluster has of that which decides whether programs run. Asking its API server each time would be a
// tenth of all that a cluster at rest costs.
type knativeCache struct {
	client      kubernetes.Interface
	deployments appslisters.DeploymentLister
	accounts    corelisters.ServiceAccountLister
}

func watchKnative(ctx context.Context, client kubernetes.Interface) (known knativeCache, stop func()) {
	ofKnative := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTweakListOptions(func(o *metav1.ListOptions) {
		o.LabelSelector = "app.kubernetes.io/name in (knative-serving,knative-eventing)"
	}))
	all := informers.NewSharedInformerFactory(client, 0)
	known = knativeCache{client, ofKnative.Apps().V1().Deployments().Lister(), all.Core().V1().ServiceAccounts().Lister()}
	for _, f := range []informers.SharedInformerFactory{ofKnative, all} {
		f.Start(ctx.Done())
		f.WaitForCacheSync(ctx.Done())
	}
	return known, func() { ofKnative.Shutdown(); all.Shutdown() }
}

// deployment is the one of the name, in whichever namespace; nil when there is none.
func (k knativeCache) deployment(name string) (*appsv1.Deployment, error) {
	list, err := k.deployments.List(labels.Everything())
	i := slices.IndexFunc(list, func(d *appsv1.Deployment) bool { return d.Name == name })
	if i < 0 {
		return nil, err
	}
	return list[i], nil
}

// isUnreachable tells a stopped or paused API server, which is a test's own doing.
func isUnreachable(err error) bool {
	var netErr net.Error
	return errors.As(err, &netErr) || apierrors.IsTimeout(err) || apierrors.IsServiceUnavailable(err) || apierrors.IsUnauthorized(err)
}

func (l *Lab) reconcileKnative(ctx context.Context, c *Cluster, known knativeCache, k knativeProgram, running map[string]*knativeProcess) error {
	d, err := known.deployment(k.deployment)
	if err != nil {
		return err
	}
	p := running[k.program]
	if d == nil || !wanted(d) {
		if p == nil {
			return nil
		}
		delete(running, k.program)
		l.logf("%s: %s stops", c.Name, k.program)
		return p.Stop()
	}
	identity, err := known.identityOf(d)
	if err != nil || identity == "" {
		return err
	}
	if p != nil && p.identity == identity {
		if state, _ := p.State(); state == process.Failed { // as the kubelet would; what a test stopped stays stopped
			return p.Start()
		}
		return nil
	}
	ip, ready, err := k.clusterIP(ctx, known.client, d.Namespace)
	if err != nil || !ready {
		return err
	}
	started, err := l.startKnative(ctx, c, k, d, ip)
	if err != nil {
		return err
	}
	running[k.program] = &knativeProcess{Process: started, identity: identity}
	l.logf("%s: %s runs", c.Name, k.program)
	return nil
}

// identityOf returns the identity that distinguishes a new pod from an old pod: the UIDs of the Deployment and of the ServiceAccount. The
// identity is empty as long as the cluster has no ServiceAccount.
func (k knativeCache) identityOf(d *appsv1.Deployment) (string, error) {
	account, err := k.accounts.ServiceAccounts(d.Namespace).Get(d.Spec.Template.Spec.ServiceAccountName)
	if apierrors.IsNotFound(err) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	return string(d.UID) + " " + string(account.UID), nil
}

func wanted(d *appsv1.Deployment) bool {
	return d.DeletionTimestamp == nil && (d.Spec.Replicas == nil || *d.Spec.Replicas > 0)
}

// clusterIP is the address of the webhook's Service; not ready as long as the Service or the Secret is missing.
func (k knativeProgram) clusterIP(ctx context.Context, client kubernetes.Interface, namespace string) (ip string, ready bool, err error) {
	if k.service == "" {
		return "", true, nil
	}
	svc, err := client.CoreV1().Services(namespace).Get(ctx, k.service, metav1.GetOptions{})
	if err == nil {
		_, err = client.CoreV1().Secrets(namespace).Get(ctx, k.secret, metav1.GetOptions{})
	}
	if apierrors.IsNotFound(err) {
		return "", false, nil
	}
	if err != nil {
		return "", false, err
	}
	return svc.Spec.ClusterIP, true, nil
}

// startKnative runs the program with the environment and the service account of its Deployment.
func (l *Lab) startKnative(ctx context.Context, c *Cluster, k knativeProgram, d *appsv1.Deployment, ip string) (*process.Process, error) {
	kubeconfig, err := c.ServiceAccountKubeconfig(ctx, d.Namespace, d.Spec.Template.Spec.ServiceAccountName)
	if err != nil {
		return nil, err
	}
	ports, err := l.portsFor(4)
	if err != nil {
		return nil, err
	}
	env := environment(d, d.Spec.Template.Spec.Containers[0], map[string]string{
		"KUBECONFIG": kubeconfig, "WEBHOOK_PORT": ports[0], "METRICS_PROMETHEUS_PORT": ports[1], "PROBES_PORT": ports[2], "PROFILING_PORT": ports[3],
		"METRICS_PROMETHEUS_HOST": "127.0.0.1", "KUBERNETES_SERVICE_HOST": "", "KUBERNETES_SERVICE_PORT": "",
	})
	if k.service != "" {
		if err := c.serviceIPs.forward(ip, "127.0.0.1:"+ports[0]); err != nil { //nolint:contextcheck // connections outlive the call
			return nil, err
		}
	}
	name := c.Name + "-" + k.program
	if p, err := l.procs.Get(name); err == nil {
		_ = p.Stop()
	}
	return l.procs.Start(process.Spec{Name: name, Path: l.Bin.Path(k.program), Dir: c.dir, Env: env})
}

// environment is what a container of the Deployment would see, with overrides.
func environment(d *appsv1.Deployment, c corev1.Container, overrides map[string]string) []string {
	values := map[string]string{}
	for _, e := range c.Env {
		values[e.Name] = e.Value
		if e.ValueFrom != nil && e.ValueFrom.FieldRef != nil {
			values[e.Name] = field(d, e.ValueFrom.FieldRef)
		}
	}
	maps.Copy(values, overrides)
	out := make([]string, 0, len(values))
	for k, v := range values {
		out = append(out, fmt.Sprintf("%s=%s", k, v))
	}
	return out
}

func field(d *appsv1.Deployment, ref *corev1.ObjectFieldSelector) string {
	switch strings.TrimPrefix(ref.FieldPath, "metadata.") {
	case "name":
		return d.Name + "-0"
	case "namespace":
		return d.Namespace
	}
	return ""
}
