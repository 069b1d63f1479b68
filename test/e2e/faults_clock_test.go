// Copyright Contributors to the Open Cluster Management project

package e2e

import (
	"slices"
	"testing"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	workclient "open-cluster-management.io/api/client/work/clientset/versioned"
	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/test/e2e/harness"
	"open-cluster-management.io/knative-addon/test/lab"
)

// TestSkewedClock reports a refused object in place of the work agent, with the times of a clock that is 10 minutes ahead and of a clock
// that is 10 minutes behind. The resource names the object, and is Ready again after the next report of the agent.
func TestSkewedClock(t *testing.T) {
	startNightlyStory(t)
	p := newPush(t, lab.Options{ManagedClusters: 1, StatusSyncInterval: statusSync}, harness.Options{})
	w := way{push: p, spoke: connect(t, p.Managed[0])}
	p.bind(t)
	w.apply(t, api.Serving, w.Name, kourier())
	w.runs(t)
	agent := w.Name + "-agent"
	for _, skew := range []time.Duration{10 * time.Minute, -10 * time.Minute} {
		t.Run("a clock that is ahead by "+skew.String(), func(t *testing.T) {
			if err := w.Stop(agent); err != nil {
				t.Fatal(err)
			}
			w.reportRefusal(t, "activator", time.Now().Add(skew))
			w.becomes(t, api.Serving, w.Name, conditionState{api.InstallSucceeded, metav1.ConditionFalse, api.ReasonApplyFailed},
				"Deployment knative-serving/activator")
			if err := w.Start(agent); err != nil {
				t.Fatal(err)
			}
			w.runs(t)
		})
	}
}

// reportRefusal reports, as the work agent of the cluster does, that a Deployment of the payload is refused since a time.
func (w way) reportRefusal(t *testing.T, deployment string, since time.Time) {
	t.Helper()
	config, err := w.Klusterlet(w.Cluster)
	if err != nil {
		t.Fatal(err)
	}
	client, err := workclient.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	works, err := client.WorkV1().ManifestWorks(w.Name).List(t.Context(), metav1.ListOptions{LabelSelector: harness.Payloads(api.Serving)})
	if err != nil || len(works.Items) != 1 {
		t.Fatalf("%d payloads, error %v", len(works.Items), err)
	}
	payload := &works.Items[0]
	manifests := payload.Status.ResourceStatus.Manifests
	i := slices.IndexFunc(manifests, func(m workv1.ManifestCondition) bool {
		return m.ResourceMeta.Kind == "Deployment" && m.ResourceMeta.Name == deployment
	})
	if i < 0 {
		t.Fatalf("the payload reports no Deployment %s", deployment)
	}
	refused := metav1.Condition{
		Status: metav1.ConditionFalse, Reason: "AppliedManifestFailed", Message: "refused by the test", ObservedGeneration: payload.Generation,
		LastTransitionTime: metav1.NewTime(since), Type: workv1.ManifestApplied,
	}
	apimeta.SetStatusCondition(&manifests[i].Conditions, refused)
	refused.Type, refused.Reason = workv1.WorkApplied, "AppliedManifestWorkFailed"
	apimeta.SetStatusCondition(&payload.Status.Conditions, refused)
	if _, err := client.WorkV1().ManifestWorks(w.Name).UpdateStatus(t.Context(), payload, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}
