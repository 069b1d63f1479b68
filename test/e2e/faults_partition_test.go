// Copyright Contributors to the Open Cluster Management project

package e2e

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/test/e2e/harness"
	"open-cluster-management.io/knative-addon/test/lab"
	"open-cluster-management.io/knative-addon/test/lab/faultproxy"
	"open-cluster-management.io/knative-addon/test/lab/process"
)

// partitionStory has two managers, of which one leads, and an installation in each mode.
type partitionStory struct {
	push
	ways      []way
	histories writeHistories
}

const (
	// secondManager is the component of the second manager.
	secondManager = harness.Manager + "-2"
	// lastDeadline is the progress deadline of the last edit.
	lastDeadline = "702s"
)

// TestPartition separates the manager that leads from the hub, but not from the clusters, and later suspends the manager that leads.
// Another manager leads and delivers an edit. The former leader undoes nothing, and ends.
func TestPartition(t *testing.T) {
	startNightlyStory(t)
	l := ownLab(t, lab.Options{ManagedClusters: 1, Spokes: 1, StatusSyncInterval: statusSync})
	proxy := startProxy(t, l.Hub)
	s := newPartitionStory(t, l, proxy)

	t.Run("the leader does not reach the hub", func(t *testing.T) {
		proxy.Inject(neverAnswer)
		proxy.Disconnect()
		s.deliverEdit(t, "701s")
		s.awaitEnd(t, harness.Manager)
		if log := s.LogTail(harness.Manager); !strings.Contains(log, `cannot renew Lease "`+harness.Namespace+"/") {
			t.Errorf("the former leader does not name the Lease:\n%s", log)
		}
		proxy.Inject(nil)
		s.restart(t, harness.Manager)
		s.histories.checkWrites(t, "partition")
	})
	t.Run("the leader is suspended, and continues", func(t *testing.T) {
		if err := s.Pause(secondManager); err != nil {
			t.Fatal(err)
		}
		s.deliverEdit(t, lastDeadline)
		if err := s.Resume(secondManager); err != nil {
			t.Fatal(err)
		}
		s.awaitEnd(t, secondManager)
		s.histories.checkWrites(t, "suspension")
		// A manager that waits to lead keeps objects in the queues of addon-framework, and is never at rest.
		if err := s.Stop(secondManager); err != nil {
			t.Fatal(err)
		}
	})
	s.checkRest(t)
	s.histories.checkPhase(t, "end")
	for _, w := range s.ways {
		if err := w.checkDeadlineIs(lastDeadline)(t.Context()); err != nil {
			t.Errorf("%s does not have the last edit at the end: %v", w.Name, err)
		}
	}
}

// newPartitionStory runs two managers, and installs Serving in both modes. The first manager leads, and reaches the hub through the proxy.
func newPartitionStory(t *testing.T, l *lab.Lab, proxy *faultproxy.Proxy) *partitionStory {
	t.Helper()
	p := installDeliveryHub(t, l, harness.Options{HubProxy: proxy, LeaderElection: true})
	kubeconfig, err := p.Hub.ServiceAccountKubeconfig(t.Context(), harness.Namespace, harness.ManagerAccount)
	if err != nil {
		t.Fatal(err)
	}
	pulled, direct := way{push: p, spoke: connect(t, l.Managed[0])}, way{push: p, spoke: connect(t, l.Spokes[0])}
	p.bind(t)
	p.token(t, direct.Name, direct.Cluster, direct.Credential.Token)
	s := &partitionStory{push: p, ways: []way{pulled, direct}}
	for _, w := range s.ways {
		w.apply(t, api.Serving, w.Name, kourier())
	}
	for _, w := range s.ways {
		w.shows(t, verdicts{})
	}
	settled(t, p.Fleet, api.Serving, pulled.Cluster)
	if err := p.RunManager(t.Context(), secondManager, "--kubeconfig="+kubeconfig); err != nil {
		t.Fatal(err)
	}
	s.histories = p.followWrites(t, pulled, direct)
	t.Cleanup(func() { s.histories.logViolations(t) })
	return s
}

// neverAnswer keeps a request until the client gives up, as a network that drops packets does.
func neverAnswer(_ http.ResponseWriter, r *http.Request, _ http.Handler) {
	<-r.Context().Done()
	panic(http.ErrAbortHandler)
}

// deliverEdit edits both resources, and waits until another manager has delivered the edit.
func (s *partitionStory) deliverEdit(t *testing.T, deadline string) {
	t.Helper()
	for _, w := range s.ways {
		w.spec(t, config("deployment", "progress-deadline", deadline))
	}
	for _, w := range s.ways {
		eventually(t, "the edit is on "+w.Name, 3*time.Minute, w.checkDeadlineIs(deadline))
		w.shows(t, verdicts{})
	}
	settled(t, s.Fleet, api.Serving, s.ways[0].Cluster)
}

// checkDeadlineIs returns a check whether the ConfigMap of Deployments has the progress deadline.
func (w way) checkDeadlineIs(deadline string) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		c, err := w.kube.CoreV1().ConfigMaps(installNamespace).Get(ctx, "config-deployment", metav1.GetOptions{})
		if err == nil && c.Data["progress-deadline"] != deadline {
			err = fmt.Errorf("the progress deadline is %q", c.Data["progress-deadline"])
		}
		return err
	}
}

// awaitEnd waits until a manager has ended by itself.
func (s *partitionStory) awaitEnd(t *testing.T, manager string) {
	t.Helper()
	eventually(t, "the end of "+manager, time.Minute, func(context.Context) error {
		for _, c := range s.Components() {
			if c.Name == manager && c.State == process.Failed {
				return nil
			}
		}
		return fmt.Errorf("%s runs", manager)
	})
}

// restart starts an ended manager again, as a kubelet does, and waits until the manager reaches the hub.
func (s *partitionStory) restart(t *testing.T, manager string) {
	t.Helper()
	if err := s.Start(manager); err != nil {
		t.Fatal(err)
	}
	eventually(t, manager+" reaches the hub", time.Minute, func(ctx context.Context) error { return s.Probe(ctx, manager, "/readyz") })
}
