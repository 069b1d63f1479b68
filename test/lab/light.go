// Copyright Contributors to the Open Cluster Management project

package lab

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// lightStarts is how many light spokes start at a time: each needs about 4 s of one core.
const lightStarts = 3

// lightTimeout is how long one light spoke may take to start.
const lightTimeout = 2 * time.Minute

// AddLightSpokes starts n more light spokes, light1, light2, ..., and returns them; they are in Light too, and each has a
// Credential. It may be called again and again, but not twice at once.
//
// A light spoke is one process of about 200 MB, the API server "light<i>-apiserver", and the lab plays the rest: it sets
// the status of every Deployment, StatefulSet and Job as if it had been rolled out at once, and the rules of ClusterRoles that
// aggregate others. There is no garbage collection, no pod, and no webhook is asked: Namespaces stay Terminating, and what owns
// something is deleted without it. Take Spokes where that matters.
func (l *Lab) AddLightSpokes(ctx context.Context, n int) ([]*Cluster, error) {
	if err := l.reserve(ctx, n*lightInstances); err != nil {
		return nil, err
	}
	added := make([]*Cluster, n)
	for i := range added {
		added[i] = l.newCluster(fmt.Sprintf("light%d", len(l.Light)+i+1))
	}
	l.Light = append(l.Light, added...) // Close ends those that fail to start, too
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(lightStarts)
	for _, c := range added {
		g.Go(func() error { return l.startLight(ctx, c) })
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	l.logf("%d light spokes are up", len(l.Light))
	return added, nil
}

func (l *Lab) startLight(ctx context.Context, c *Cluster) error {
	ctx, cancel := context.WithTimeout(ctx, lightTimeout)
	defer cancel()
	port, err := l.portsFor(1)
	if err != nil {
		return err
	}
	if err := c.serviceIPs.claim(); err != nil {
		return err
	}
	c.URL = "https://127.0.0.1:" + port[0]
	if err := c.writeKeys(); err != nil {
		return err
	}
	// Knative's webhooks are not there to be asked.
	if err := l.startAPIServer(ctx, c, port[0], "--disable-admission-plugins=MutatingAdmissionWebhook,ValidatingAdmissionWebhook"); err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(c.Config)
	if err != nil {
		return fmt.Errorf("cannot create a client for %s: %w", c.Name, err)
	}
	err = waitFor(ctx, "namespace kube-system of "+c.Name, func(ctx context.Context) error {
		_, err := client.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
		return err
	})
	if err != nil {
		return err
	}
	if err := l.register(ctx, c); err != nil {
		return err
	}
	return l.rollOut(c, client)
}

// rollOut sets the status of workloads until the lab ends. What fails is tried again when the object changes next, or is
// listed again: a conflict means that it has changed, an API server that is away has all listed when it is back.
func (l *Lab) rollOut(c *Cluster, client kubernetes.Interface) error {
	factory := informers.NewSharedInformerFactory(client, 0)
	for _, informer := range []cache.SharedIndexInformer{
		factory.Apps().V1().Deployments().Informer(), factory.Apps().V1().StatefulSets().Informer(), factory.Batch().V1().Jobs().Informer(),
	} {
		do := func(o any) {
			if err := rolledOut(l.ctx, client, o); err != nil && l.ctx.Err() == nil && !isUnreachable(err) && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
				l.logf("%s: cannot roll out: %v", c.Name, err)
			}
		}
		handler := cache.ResourceEventHandlerFuncs{AddFunc: do, UpdateFunc: func(_, o any) { do(o) }}
		if _, err := informer.AddEventHandler(handler); err != nil {
			return fmt.Errorf("cannot watch the workloads of %s: %w", c.Name, err)
		}
	}
	if err := l.aggregate(c, client, factory.Rbac().V1().ClusterRoles()); err != nil {
		return err
	}
	factory.Start(l.ctx.Done())
	l.bg.Go(func() {
		<-l.ctx.Done()
		factory.Shutdown()
	})
	return nil
}

// rolledOut sets the status of a workload that has not been rolled out.
func rolledOut(ctx context.Context, client kubernetes.Interface, o any) error {
	var err error
	switch w := o.(type) {
	case *appsv1.Deployment:
		if w.Status.ObservedGeneration != w.Generation {
			w = w.DeepCopy()
			w.Status = deploymentStatus(w)
			_, err = client.AppsV1().Deployments(w.Namespace).UpdateStatus(ctx, w, metav1.UpdateOptions{})
		}
	case *appsv1.StatefulSet:
		if w.Status.ObservedGeneration != w.Generation {
			w = w.DeepCopy()
			n := *w.Spec.Replicas
			w.Status = appsv1.StatefulSetStatus{
				ObservedGeneration: w.Generation, Replicas: n, CurrentReplicas: n, UpdatedReplicas: n, ReadyReplicas: n, AvailableReplicas: n,
			}
			_, err = client.AppsV1().StatefulSets(w.Namespace).UpdateStatus(ctx, w, metav1.UpdateOptions{})
		}
	case *batchv1.Job:
		if w.Status.CompletionTime == nil {
			w = w.DeepCopy()
			w.Status = jobStatus(w)
			_, err = client.BatchV1().Jobs(w.Namespace).UpdateStatus(ctx, w, metav1.UpdateOptions{})
		}
	}
	return err
}

func deploymentStatus(d *appsv1.Deployment) appsv1.DeploymentStatus {
	now, n := metav1.Now(), *d.Spec.Replicas
	condition := func(t appsv1.DeploymentConditionType, reason string) appsv1.DeploymentCondition {
		return appsv1.DeploymentCondition{Type: t, Status: corev1.ConditionTrue, Reason: reason, LastUpdateTime: now, LastTransitionTime: now}
	}
	return appsv1.DeploymentStatus{
		ObservedGeneration: d.Generation, Replicas: n, UpdatedReplicas: n, ReadyReplicas: n, AvailableReplicas: n,
		Conditions: []appsv1.DeploymentCondition{
			condition(appsv1.DeploymentAvailable, "MinimumReplicasAvailable"), condition(appsv1.DeploymentProgressing, "NewReplicaSetAvailable"),
		},
	}
}

func jobStatus(j *batchv1.Job) batchv1.JobStatus {
	now, n := metav1.Now(), int32(1)
	if j.Spec.Completions != nil {
		n = *j.Spec.Completions
	}
	condition := func(t batchv1.JobConditionType) batchv1.JobCondition {
		return batchv1.JobCondition{Type: t, Status: corev1.ConditionTrue, Reason: batchv1.JobReasonCompletionsReached, LastProbeTime: now, LastTransitionTime: now}
	}
	return batchv1.JobStatus{
		StartTime: &now, CompletionTime: &now, Succeeded: n, Ready: new(int32(0)), UncountedTerminatedPods: &batchv1.UncountedTerminatedPods{},
		Conditions: []batchv1.JobCondition{condition(batchv1.JobSuccessCriteriaMet), condition(batchv1.JobComplete)},
	}
}
