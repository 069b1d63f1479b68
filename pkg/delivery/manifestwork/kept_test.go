// Copyright Contributors to the Open Cluster Management project

package manifestwork

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/knative-addon/pkg/workload"
)

func workOf(manifests ...string) *workv1.ManifestWork {
	w := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Generation: 1}}
	for _, m := range manifests {
		w.Spec.Workload.Manifests = append(w.Spec.Workload.Manifests, workv1.Manifest{RawExtension: runtime.RawExtension{Raw: []byte(m)}})
	}
	return w
}

const (
	fixedDeployment  = `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"namespace":"` + ns + `","name":"webhook"},"spec":{"replicas":2}}`
	scaledDeployment = `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"namespace":"` + ns + `","name":"activator"},"spec":{}}`
	autoscaler       = `{"apiVersion":"autoscaling/v2","kind":"HorizontalPodAutoscaler","metadata":{"namespace":"` + ns + `","name":"activator"},"spec":{"scaleTargetRef":{"kind":"Deployment","name":"activator"}}}`
	oneJob           = `{"apiVersion":"batch/v1","kind":"Job","metadata":{"namespace":"` + ns + `","name":"migration"}}`
	configWithKind   = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"` + ns + `","name":"config"},"data":{"kind":"Deployment"}}`
)

// TestObserveKept holds that the payload alone tells what should run.
func TestObserveKept(t *testing.T) {
	w := workOf(fixedDeployment, scaledDeployment, autoscaler, oneJob, configWithKind)
	report(w, deploymentStatus("webhook", map[string]int64{generationValue: 1, observedValue: 1, desiredValue: 2, totalValue: 2, updatedValue: 2, availableValue: 1}))
	kept, err := ObserveKept([]*workv1.ManifestWork{w})
	if err != nil {
		t.Fatal(err)
	}
	want := []workload.Expected{
		{Kind: "Deployment", Namespace: ns, Name: "activator", ScaledBy: "HorizontalPodAutoscaler/activator"},
		{Kind: "Deployment", Namespace: ns, Name: "webhook", Replicas: new(int32(2))},
	}
	if diff := cmp.Diff(want, kept.Workloads); diff != "" {
		t.Errorf("workloads (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{
		"Deployment " + ns + "/activator: not seen yet", "Deployment " + ns + "/webhook: 1 of 2 pods are available", "Job " + ns + "/migration: the Job has not completed yet",
	}, kept.NotReady()); diff != "" {
		t.Errorf("not ready (-want +got):\n%s", diff)
	}
	if w.Generation++; true {
		kept, err = ObserveKept([]*workv1.ManifestWork{w})
	}
	if err != nil || kept.Observation.Waiting == "" {
		t.Errorf("the report is of an earlier generation: %+v, %v", kept, err)
	}
	apimeta.FindStatusCondition(w.Status.Conditions, workv1.WorkAvailable).ObservedGeneration = w.Generation
	kept, err = ObserveKept([]*workv1.ManifestWork{w})
	if err != nil || !strings.Contains(kept.Observation.Waiting, "to apply") {
		t.Errorf("the report is of the objects before the apply: %+v, %v", kept, err)
	}
}

func TestObserveKeptWithoutInstallation(t *testing.T) {
	if kept, err := ObserveKept(nil); kept != nil || err != nil {
		t.Errorf("got %+v, %v", kept, err)
	}
	if _, err := ObserveKept([]*workv1.ManifestWork{workOf(`{"kind":"Deployment"`)}); err == nil {
		t.Error("a manifest that cannot be read is an error")
	}
}

// TestRefusedIsNotGone holds that an object which the cluster refuses is reported with the cause, and without a slash when the object has
// no namespace.
func TestRefusedIsNotGone(t *testing.T) {
	w := workOf()
	denied := metav1.Condition{Type: workv1.ManifestApplied, Status: metav1.ConditionFalse, Message: "denied by\npolicy"}
	role := manifestStatus("ClusterRole", "admin", denied, gone)
	role.ResourceMeta.Namespace = ""
	webhook := deploymentStatus("webhook", nil, gone, denied)
	lost := manifestStatus("ClusterRole", "view", gone)
	lost.ResourceMeta.Namespace = ""
	report(w, role, webhook, lost)
	workloads := []workload.Expected{{Kind: "Deployment", Namespace: ns, Name: "webhook"}}
	wrong, _ := Health(workloads, []*workv1.ManifestWork{w})
	if diff := cmp.Diff([]string{
		"ClusterRole admin was not applied: denied by policy", "ClusterRole view: the object is gone", "Deployment " + ns + "/webhook was not applied: denied by policy",
	}, wrong); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{
		"ClusterRole admin was not applied: denied by policy", "Deployment " + ns + "/webhook was not applied: denied by policy",
	}, Refusals(w, nil)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	w.Status.ResourceStatus.Manifests[0].Conditions[0].Message = strings.Repeat("x", 1000)
	if got := Refusals(w); len(got[0]) > 2*maxRefusal {
		t.Errorf("a text of the cluster has %d bytes in a message", len(got[0]))
	}
	if w.Generation++; len(Refusals(w)) != 0 {
		t.Errorf("a report of an earlier generation counts: %q", Refusals(w))
	}
}
