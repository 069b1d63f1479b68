// Copyright Contributors to the Open Cluster Management project

package played

import (
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clienttesting "k8s.io/client-go/testing"

	workfake "open-cluster-management.io/api/client/work/clientset/versioned/fake"
	workv1 "open-cluster-management.io/api/work/v1"
)

// TestSuspendedAgent holds that the agent of a cluster does nothing while suspended, and then continues; other agents do not stop.
func TestSuspendedAgent(t *testing.T) {
	client := workfake.NewSimpleClientset()
	agents, err := StartAgents(t.Context(), client)
	if err != nil {
		t.Fatal(err)
	}
	isWatch := func(a clienttesting.Action) bool { return a.Matches("watch", "manifestworks") }
	for deadline := time.Now().Add(time.Minute); !slices.ContainsFunc(client.Actions(), isWatch); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) { // the fake tells a watch no earlier change
			t.Fatal("the agents do not watch works")
		}
	}
	isAdopted := func(cluster string) bool {
		w, err := client.WorkV1().ManifestWorks(cluster).Get(t.Context(), "payload", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return slices.Contains(w.Finalizers, workv1.ManifestWorkFinalizer)
	}
	awaitAdoption := func(cluster string) {
		for deadline := time.Now().Add(time.Minute); !isAdopted(cluster); time.Sleep(10 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("the agent of %s does not adopt the work", cluster)
			}
		}
	}
	agents.SuspendAgent("away")
	for _, cluster := range []string{"away", "near"} {
		w := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Namespace: cluster, Name: "payload"}}
		if _, err := client.WorkV1().ManifestWorks(cluster).Create(t.Context(), w, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	awaitAdoption("near")
	if isAdopted("away") {
		t.Error("a suspended agent has adopted a work")
	}
	if err := agents.ResumeAgent("away"); err != nil {
		t.Fatal(err)
	}
	awaitAdoption("away")
}
