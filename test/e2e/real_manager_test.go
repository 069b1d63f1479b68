// Copyright Contributors to the Open Cluster Management project

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/test/e2e/harness"
	"open-cluster-management.io/knative-addon/test/e2e/harness/invariants"
	"open-cluster-management.io/knative-addon/test/lab"
	"open-cluster-management.io/knative-addon/test/lab/process"
)

// pluginImage is the image of an access provider, which has the plugin at pluginPath.
const (
	pluginImage = "lab.local/secretreader:v1"
	pluginPath  = "/bin/secretreader-plugin"
)

// pluginValues are the values of the chart for the access provider, with the delivery of plugins. The API servers of clusters with real
// nodes are in the network.
const pluginValues = `
multicluster:
  enabled: true
  pluginDelivery: %s
  plugins:
  - {name: secretreader, image: "` + pluginImage + `", mountPath: /plugins/secretreader}
  accessProvidersConfig:
    providers:
    - name: secretreader
      execConfig:
        apiVersion: client.authentication.k8s.io/v1
        command: /plugins/secretreader` + pluginPath + `
        provideClusterInfo: true
  inventories:
  - {namespace: blue, secretNamespace: default, providers: [secretreader], servers: [10.99.0.0/16], secrets: [spoke1]}
`

// managerPods is a hub whose manager runs as pods of the chart on a real node, and a cluster with a real node that OCM does not manage.
type managerPods struct {
	push

	on spoke
}

// TestRealManager runs the manager as pods of the chart from the image of `make image`. The manager installs Knative on a cluster with a
// real node directly, with a plugin for the credential. Each step continues the step before.
func TestRealManager(t *testing.T) {
	startRealStory(t)
	m := newManagerPods(t, ownLab(t, lab.Options{Spokes: 1, RealNodes: []string{"hub", "spoke1"}, RealEventing: true, Log: os.Stderr}))
	if !takeSteps(t, []realStep{
		{"the chart runs two pods from the image, and helm test succeeds", m.installChart},
		{"init containers bring the plugin into the pods", m.addPlugin("InitContainer")},
		{"a Service of a user answers after a direct installation", m.installServing},
		{"the installation of Eventing begins", m.applyEventing},
		{"an edit arrives after the deletion of the leader, and restarts no pod", m.editWithoutLeader},
		{"a user applies a broker and a PingSource", m.applyEventKinds},
		{"image volumes bring the plugin into the pods", m.addPlugin("ImageVolume")},
		{"events reach a pod through a broker and from a PingSource", m.deliverEvents},
		{"a removal leaves no pod, and no object for which a pod waits", m.removeBoth},
	}) {
		return
	}
	m.replaceByProcess(t)
}

// newManagerPods gives the hub's node the images of the manager and of the plugin.
func newManagerPods(t *testing.T, l *lab.Lab) managerPods {
	t.Helper()
	f, err := harness.Prepare(l, harness.Options{})
	if err != nil {
		t.Fatal(err)
	}
	root, err := harness.Repository()
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Hub.ImportArchive(t.Context(), filepath.Join(root, "bin", "knative-addon-image.tar")); err != nil {
		t.Fatalf("cannot import the image of the manager, which `make image` builds: %v", err)
	}
	if err := l.Hub.ImportProgram(t.Context(), pluginImage, pluginPath, l.Bin.Path("secretreader")); err != nil {
		t.Fatal(err)
	}
	m := managerPods{on: connect(t, l.Spokes[0])}
	m.hub = connect(t, l.Hub)
	m.team = team{Fleet: f, namespace: "blue", configs: m.hub.dynamic}
	t.Cleanup(func() {
		m.on.logPodsOnFailure(t, f)
		m.logManagersOnFailure(t)
		if t.Failed() { // else the pods are gone
			m.recordPods(t)
		}
	})
	return m
}

// logManagersOnFailure logs the state and the logs of the manager's pods when the test has failed.
func (m managerPods) logManagersOnFailure(t *testing.T) {
	t.Helper()
	if !t.Failed() {
		return
	}
	for _, args := range [][]string{
		{"get", "pods", "--namespace", harness.Namespace, "--output", "yaml"},
		{"get", "events", "--namespace", harness.Namespace},
		{"logs", "--namespace", harness.Namespace, "--selector", managerSelector, "--all-containers", "--prefix", "--tail", "60"},
	} {
		out, err := m.Command(context.WithoutCancel(t.Context()), "kubectl", args...)
		t.Logf("kubectl %s (error %v):\n%s", strings.Join(args, " "), err, out)
	}
}

// managerSelector selects the pods of the manager.
const managerSelector = "app.kubernetes.io/component=manager"

// recordPods has invariants I5, I6 and I9 checked for the present pods of the manager, before the pods end: a node keeps no log of a deleted pod.
// The latest passes of I9 and the metrics of I4 and I8 are of a fleet at rest, and replaceByProcess leaves these to a process. recordPods
// returns the number of passes in the logs.
func (m managerPods) recordPods(t *testing.T) (passes int) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context()) // a failed story has ended
	pods, err := m.hub.kube.CoreV1().Pods(harness.Namespace).List(ctx, metav1.ListOptions{LabelSelector: managerSelector})
	if err != nil || len(pods.Items) == 0 {
		t.Errorf("the manager has no pods to record, error %v", err)
		return 0
	}
	for i := range pods.Items {
		p, err := m.readPod(ctx, &pods.Items[i])
		if err != nil {
			t.Errorf("cannot record pod %q: %v", pods.Items[i].Name, err)
			continue
		}
		recordPod(t, m.Lab, p)
		passes += len(invariants.LatestPasses(p.log))
	}
	return passes
}

// readPod reads the log of the manager in a pod, also of the container before a restart.
func (m managerPods) readPod(ctx context.Context, pod *corev1.Pod) (program, error) {
	out := program{Component: lab.Component{Name: "pod " + pod.Name, State: process.Stopped}}
	for _, s := range pod.Status.ContainerStatuses {
		if s.RestartCount > 0 {
			if before := s.LastTerminationState.Terminated; before != nil && before.ExitCode != 0 {
				out.State = process.Failed
			}
			log, err := m.readLog(ctx, pod.Name, true)
			if err != nil {
				return out, err
			}
			out.log += log
		}
	}
	log, err := m.readLog(ctx, pod.Name, false)
	if out.log += log; err == nil && log == "" {
		err = errors.New("the log is empty")
	}
	return out, err
}

func (m managerPods) readLog(ctx context.Context, pod string, previous bool) (string, error) {
	log, err := m.hub.kube.CoreV1().Pods(harness.Namespace).GetLogs(pod, &corev1.PodLogOptions{Container: "manager", Previous: previous}).DoRaw(ctx)
	return string(log), err
}

// helm installs or upgrades the chart with arguments. The log of the manager has every pass, as recordPods needs.
func (m managerPods) helm(t *testing.T, args ...string) {
	t.Helper()
	root, err := harness.Repository()
	if err != nil {
		t.Fatal(err)
	}
	args = append([]string{
		"upgrade", "--install", "knative-addon", filepath.Join(root, "charts", "knative-addon"), "--namespace", harness.Namespace, "--create-namespace",
		"--set", "extraArgs={--v=1}",
	}, args...)
	if _, err := m.Command(t.Context(), "helm", args...); err != nil {
		t.Fatal(err)
	}
}

// installChart installs the chart with its default values but for the verbosity.
func (m managerPods) installChart(t *testing.T) {
	start := time.Now()
	m.helm(t)
	m.awaitManagers(t)
	t.Logf("two managers were Ready after %s", time.Since(start).Round(100*time.Millisecond))
	m.awaitOtherLeader(t, "")
	if _, err := m.Command(t.Context(), "helm", "test", "knative-addon", "--namespace", harness.Namespace); err != nil {
		t.Error(err)
	}
}

// awaitManagers waits until the Deployment of the manager has two available pods of its present spec, and no other pod.
func (m managerPods) awaitManagers(t *testing.T) {
	t.Helper()
	eventually(t, "two managers run", 3*time.Minute, func(ctx context.Context) error {
		d, err := m.hub.kube.AppsV1().Deployments(harness.Namespace).Get(ctx, harness.ManagerAccount, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if s := d.Status; s.ObservedGeneration != d.Generation || s.UpdatedReplicas != 2 || s.AvailableReplicas != 2 || s.Replicas != 2 {
			return fmt.Errorf("the status is %+v", s)
		}
		return nil
	})
}

// leader returns the holder of the manager's Lease: the name of a pod, and a UUID.
func (m managerPods) leader(ctx context.Context) (string, error) {
	lease, err := m.hub.kube.CoordinationV1().Leases(harness.Namespace).Get(ctx, "knative-addon", metav1.GetOptions{})
	if err != nil || lease.Spec.HolderIdentity == nil {
		return "", err
	}
	return *lease.Spec.HolderIdentity, nil
}

// awaitOtherLeader waits until another manager leads than the former leader.
func (m managerPods) awaitOtherLeader(t *testing.T, former string) {
	t.Helper()
	eventually(t, "a manager leads", time.Minute, func(ctx context.Context) error {
		leader, err := m.leader(ctx)
		if err == nil && (leader == "" || leader == former) {
			err = fmt.Errorf("the leader is %q", leader)
		}
		return err
	})
}

// addPlugin upgrades the chart with an access provider, whose plugin comes into the pods by the delivery. A following step needs a
// credential of the plugin: the pods are new.
func (m managerPods) addPlugin(delivery string) func(t *testing.T) {
	return func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "values.yaml")
		if err := os.WriteFile(file, fmt.Appendf(nil, pluginValues, delivery), 0o600); err != nil {
			t.Fatal(err)
		}
		m.recordPods(t)
		start := time.Now()
		m.helm(t, "--values", file)
		m.awaitManagers(t)
		t.Logf("two managers with the plugin were Ready after %s", time.Since(start).Round(100*time.Millisecond))
	}
}

// installServing registers the cluster by hand, and creates a KnativeServing for the cluster.
func (m managerPods) installServing(t *testing.T) {
	if _, err := m.Command(t.Context(), "kubectl", "create", "namespace", m.namespace); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	m.token(t, m.on.Name, m.on.Cluster, m.on.Credential.Token)
	m.apply(t, api.Serving, m.on.Name, harness.SmallServing("1.23"))
	m.on.acceptUser(t)
	m.on.answers(t)
	t.Logf("the first answer came after %s", time.Since(start).Round(100*time.Millisecond))
	m.ready(t, api.Serving, m.on.Name)
	t.Logf("the resource was Ready after %s", time.Since(start).Round(100*time.Millisecond))
}

// editWithoutLeader deletes the pod that leads, and edits the configuration at once.
func (m managerPods) editWithoutLeader(t *testing.T) {
	m.on.keepPods(t, func() {
		leader, err := m.leader(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		pod, _, _ := strings.Cut(leader, "_")
		m.recordPods(t)
		start := time.Now()
		if err := m.hub.kube.CoreV1().Pods(harness.Namespace).Delete(t.Context(), pod, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		patch, err := json.Marshal(map[string]any{"spec": movedConfig()})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := m.resources(api.Serving).Patch(t.Context(), m.on.Name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
		m.on.moved(t)
		t.Logf("the edit arrived after %s", time.Since(start).Round(100*time.Millisecond))
		m.awaitOtherLeader(t, leader)
		m.ready(t, api.Serving, m.on.Name)
	})
	m.awaitManagers(t)
}

// applyEventing creates a KnativeEventing for the cluster. Another manager takes the installation over in the following step.
func (m managerPods) applyEventing(t *testing.T) {
	m.apply(t, api.Eventing, m.on.Name, map[string]any{"version": "1.23"})
}

// applyEventKinds waits until the KnativeEventing is Ready, and applies the objects of the user.
func (m managerPods) applyEventKinds(t *testing.T) {
	m.ready(t, api.Eventing, m.on.Name)
	m.on.applyEventKinds(t)
}

// deliverEvents waits until the new managers have reported the KnativeEventing, and checks that events arrive.
func (m managerPods) deliverEvents(t *testing.T) {
	m.ready(t, api.Eventing, m.on.Name)
	m.on.deliverEvents(t)
}

// removeBoth deletes the KnativeServing and the KnativeEventing. Another story may act while the pods of Knative drain,
// which takes most of a minute.
func (m managerPods) removeBoth(t *testing.T) {
	start := time.Now()
	for _, component := range api.Components() {
		if err := m.resources(component).Delete(t.Context(), m.on.Name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	restStory(t)
	for _, component := range api.Components() {
		m.gone(t, component, m.on.Name)
		t.Logf("the removal of %s took %s", component, time.Since(start).Round(100*time.Millisecond))
		m.on.checkEnded(t, component)
	}
	m.on.awaitRemovedExcept(t, bucketService)
}

// replaceByProcess ends the pods and runs the manager as a process: the invariants at the end of a story read metrics and log of a process.
func (m managerPods) replaceByProcess(t *testing.T) {
	t.Helper()
	if m.recordPods(t) == 0 {
		t.Error("the logs of the pods have no pass for the invariants")
	}
	m.helm(t, "--set", "replicaCount=0")
	eventually(t, "the pods of the manager have ended", time.Minute, func(ctx context.Context) error {
		pods, err := m.hub.kube.CoreV1().Pods(harness.Namespace).List(ctx, metav1.ListOptions{LabelSelector: managerSelector})
		if err == nil && len(pods.Items) > 0 {
			err = errors.New("there are pods")
		}
		return err
	})
	if err := m.RunManager(t.Context(), harness.Manager); err != nil {
		t.Fatal(err)
	}
}
