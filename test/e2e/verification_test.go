// Copyright Contributors to the Open Cluster Management project

package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/delivery/manifestwork"
	"open-cluster-management.io/knative-addon/pkg/render"
	"open-cluster-management.io/knative-addon/test/e2e/harness"
	"open-cluster-management.io/knative-addon/test/lab"
)

// verifications returns the client of the Services that verify installations of a cluster.
func (s spoke) verifications() dynamic.ResourceInterface {
	return s.dynamic.Resource(render.VerificationResource()).Namespace(api.Serving.InstallNamespace())
}

// reportVerification waits for the Service of a verification, and sets the status as Knative does. No Knative runs on the cluster.
func reportVerification(t *testing.T, s spoke, ready, reason string) {
	t.Helper()
	eventually(t, fmt.Sprintf("the Service of %s is reported with Ready %s", s.Name, ready), 3*time.Minute, func(ctx context.Context) error {
		u, err := s.verifications().Get(ctx, api.VerificationServiceName, metav1.GetOptions{})
		if err != nil {
			return err
		}
		u.Object["status"] = map[string]any{"observedGeneration": u.GetGeneration(), "conditions": []any{map[string]any{
			"type": "Ready", "status": ready, "reason": reason, "message": "played by the story", "lastTransitionTime": time.Now().UTC().Format(time.RFC3339),
		}}}
		_, err = s.verifications().UpdateStatus(ctx, u, metav1.UpdateOptions{})
		return err
	})
}

// awaitNoVerification waits until the Service of the cluster is gone.
func awaitNoVerification(t *testing.T, s spoke) {
	t.Helper()
	eventually(t, "the Service of the verification of "+s.Name+" is gone", 2*time.Minute, func(ctx context.Context) error {
		_, err := s.verifications().Get(ctx, api.VerificationServiceName, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return errors.Join(errors.New("the Service exists"), err)
	})
}

// awaitVerified waits until condition Verified of the add-on is as wanted and has the text in its message, and Serving is Available.
func (m team) awaitVerified(t *testing.T, c *lab.Cluster, reason, text string) {
	t.Helper()
	eventually(t, fmt.Sprintf("Serving on %s is Available, and Verified has reason %s", c.Name, reason), 3*time.Minute, func(ctx context.Context) error {
		a, err := m.current(ctx, c)
		if err != nil || a == nil {
			return fmt.Errorf("the add-on is %v, error %w", a, err)
		}
		verified := apimeta.FindStatusCondition(a.Status.Conditions, api.Verified)
		if verified == nil || verified.Reason != reason || !strings.Contains(verified.Message, text) ||
			!apimeta.IsStatusConditionTrue(a.Status.Conditions, addonv1beta1.ManagedClusterAddOnConditionAvailable) {
			return fmt.Errorf("the conditions are %+v", a.Status.Conditions)
		}
		return nil
	})
}

// TestVerification rolls an edit out to two managed clusters, whose installations a Service has to verify.
func TestVerification(t *testing.T) {
	startNightlyStory(t)
	f := ownFleet(t, lab.Options{ManagedClusters: 2, StatusSyncInterval: statusSync}, "--leader-elect=false")
	m := newTeam(t, f, "platform")
	m.createPlacement(t)
	available(t, f, []api.Component{api.Serving}, f.Managed...)
	m.setRolloutStrategy(t, `{"type":"Progressive","progressive":{"maxConcurrency":1,"minSuccessTime":"0s","progressDeadline":"10m","maxFailures":0}}`)

	t.Run("a request verifies clusters that run Knative", func(t *testing.T) { requestVerification(t, m) })
	t.Run("a wave stops at the first cluster, and continues when the Service is Ready", func(t *testing.T) { holdWave(t, m) })
	t.Run("a removal during a verification leaves nothing", func(t *testing.T) { removeDuringVerification(t, m) })
}

func requestVerification(t *testing.T, m team) {
	m.patchDefault(t, fmt.Sprintf(`{"metadata":{"annotations":{%q:"Service"}}}`, api.VerificationAnnotation))
	for _, c := range m.Managed {
		s := connect(t, c)
		reportVerification(t, s, "True", "")
		m.awaitVerified(t, c, api.ReasonVerificationSucceeded, "")
		awaitNoVerification(t, s)
	}
}

func holdWave(t *testing.T, m team) {
	good := m.specHash(t)
	m.patchDefault(t, `{"spec":{"config":{"deployment":{"progress-deadline":"7003s"}}}}`)
	edited := m.specHash(t)
	first, second := m.Managed[0], m.Managed[1]
	s := connect(t, first)
	m.awaitVerified(t, first, api.ReasonVerifying, "the cluster runs Knative")
	reportVerification(t, s, "False", "RevisionFailed")
	m.awaitVerified(t, first, api.ReasonVerificationFailed, "RevisionFailed: played by the story")
	m.awaitNoWrites(t, first)
	m.replaceManager(t)
	m.awaitNoWrites(t, first)
	m.only(t, edited, first)
	if _, completed, err := m.specHashesOf(t.Context(), first.Name); err != nil || completed != good {
		t.Errorf("the first cluster has completed %.8s before the Service is Ready, error %v", completed, err)
	}
	reportVerification(t, s, "True", "")
	m.awaitVerified(t, first, api.ReasonVerificationSucceeded, "")
	awaitNoVerification(t, s)
	reportVerification(t, connect(t, second), "True", "")
	eventually(t, "all clusters have completed the edit", 3*time.Minute, m.checkCompleted(edited, len(m.Managed)))
	awaitNoVerification(t, connect(t, second))
	settled(t, m.Fleet, api.Serving, m.Managed...)
	m.awaitNoWrites(t, m.Managed...)
	for _, c := range m.Managed {
		works, err := m.ComponentWorks(t.Context(), api.Serving, c.Name)
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range works {
			if w.Name == manifestwork.VerificationName(api.Serving) {
				t.Errorf("the hub keeps ManifestWork %s/%s", w.Namespace, w.Name)
			}
		}
	}
}

func removeDuringVerification(t *testing.T, m team) {
	m.patchDefault(t, `{"spec":{"config":{"deployment":{"progress-deadline":"7004s"}}}}`)
	first := m.Managed[0]
	m.awaitVerified(t, first, api.ReasonVerifying, "the cluster runs Knative")
	reportVerification(t, connect(t, first), "Unknown", "Deploying")
	m.setInstallStrategy(t, api.Serving, `{"type":"Manual"}`)
	m.disable(t, first)
	m.removed(t, first)
	awaitNoVerification(t, connect(t, first))
	second := connect(t, m.Managed[1])
	reportVerification(t, second, "True", "")
	awaitNoVerification(t, second)
}

// TestDirectVerification rolls Serving out to two clusters without a work agent, whose installations a Service has to verify.
func TestDirectVerification(t *testing.T) {
	startNightlyStory(t)
	l := ownLab(t, lab.Options{Spokes: 2, StatusSyncInterval: statusSync})
	p := installDeliveryHub(t, l, harness.Options{})
	p.bind(t)
	f := knativeFleet{push: p}
	for _, c := range p.Spokes {
		p.token(t, c.Name, c, c.Credential.Token)
		f.clusters = append(f.clusters, c.Name)
	}
	t.Run("the second cluster follows when the Service of the first is Ready", func(t *testing.T) { f.holdDirectWave(t) })
	t.Run("an edit is verified anew, across a restart of the manager", func(t *testing.T) { f.verifyEdit(t) })
	t.Run("a removal during a verification leaves nothing", func(t *testing.T) { f.removeDuringVerification(t) })
}

func (f knativeFleet) holdDirectWave(t *testing.T) {
	web := f.web(kourier())
	if err := unstructured.SetNestedStringMap(web.Object, map[string]string{api.VerificationAnnotation: api.VerificationService}, "spec", "serving", "metadata", "annotations"); err != nil {
		t.Fatal(err)
	}
	if _, err := f.fleets().Create(t.Context(), web, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	first, second := connect(t, f.Spokes[0]), connect(t, f.Spokes[1])
	f.becomes(t, api.Serving, first.Name, conditionState{api.DeploymentsAvailable, metav1.ConditionTrue, ""})
	f.becomes(t, api.Serving, first.Name, conditionState{api.Ready, metav1.ConditionFalse, api.ReasonVerifying})
	reportVerification(t, first, "False", "RevisionFailed")
	f.becomes(t, api.Serving, first.Name, conditionState{api.Ready, metav1.ConditionFalse, api.ReasonVerificationFailed},
		"RevisionFailed: played by the story")
	if _, err := f.resources(api.Serving).Get(t.Context(), second.Name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the second cluster gets Knative before the Service of the first is Ready: %v", err)
	}
	for _, s := range []spoke{first, second} {
		reportVerification(t, s, "True", "")
		f.ready(t, api.Serving, s.Name)
		awaitNoVerification(t, s)
	}
	f.becomesReady(t, 2)
}

func (f knativeFleet) verifyEdit(t *testing.T) {
	spec := kourier()
	spec["config"] = map[string]any{"deployment": map[string]any{"progress-deadline": "7003s"}}
	f.setServing(t, spec)
	for _, c := range f.Spokes {
		s := connect(t, c)
		f.becomes(t, api.Serving, s.Name, conditionState{api.Ready, metav1.ConditionFalse, api.ReasonVerifying})
		f.runManager(t)
		reportVerification(t, s, "True", "")
		f.ready(t, api.Serving, s.Name)
		awaitNoVerification(t, s)
	}
	f.becomesReady(t, 2)
}

func (f knativeFleet) removeDuringVerification(t *testing.T) {
	spec := kourier()
	spec["config"] = map[string]any{"deployment": map[string]any{"progress-deadline": "7004s"}}
	f.setServing(t, spec)
	first := connect(t, f.Spokes[0])
	f.becomes(t, api.Serving, first.Name, conditionState{api.Ready, metav1.ConditionFalse, api.ReasonVerifying})
	reportVerification(t, first, "Unknown", "Deploying")
	if err := f.fleets().Delete(t.Context(), "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, name := range f.clusters {
		f.gone(t, api.Serving, name)
	}
	awaitNoVerification(t, first)
}
