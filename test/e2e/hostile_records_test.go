// Copyright Contributors to the Open Cluster Management project

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"
	clusterv1 "open-cluster-management.io/api/cluster/v1"
	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/delivery/manifestwork"
	"open-cluster-management.io/knative-addon/test/e2e/harness"
)

// forgePausedPayload has the payload of a paused cluster say that it was made of the other team's configuration.
func (k *hostileAgent) forgePausedPayload(t *testing.T, private *addonv1beta1.ConfigSpecHash) {
	before, err := k.readPayload(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	k.annotate(t, k.cluster, api.PausedAnnotation, "true")
	works, err := k.ComponentWorks(t.Context(), api.Serving, k.cluster.Name)
	if err != nil {
		t.Fatal(err)
	}
	configs := manifestwork.ConfigsText(map[string]string{fmt.Sprintf("knativeservings.%s/%s/private", api.Group, k.namespace): private.SpecHash})
	for _, w := range works {
		if w.Labels[api.FoundationLabel] == "" {
			k.patchWork(t, w.Name, fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, workv1.ManifestConfigSpecHashAnnotationKey, configs))
		}
	}
	// Before the forgery, ManifestApplied does not report the pause: the cluster has the configuration that OCM wants.
	eventually(t, "the manager sees the forgery in the pause", time.Minute, func(ctx context.Context) error {
		c, err := manifestApplied(ctx, k.Fleet, k.cluster)
		if err != nil || c.Status != metav1.ConditionFalse || !strings.Contains(c.Message, "paused by annotation") {
			return fmt.Errorf("ManifestApplied is %+v, error %w", c, err)
		}
		return nil
	})
	k.annotate(t, k.cluster, api.PausedAnnotation, "false")
	k.awaitPayload(t, before)
	k.awaitRecovery(t)
}

// forgeWorks changes whatever of the works a record could be in.
func (k *hostileAgent) forgeWorks(t *testing.T) {
	other := k.Managed[1]
	before := workGenerations(t, k.Fleet, other)
	foundation, gate := manifestwork.FoundationName(api.Serving), manifestwork.GateName(api.Serving)
	for _, patch := range []string{
		fmt.Sprintf(`{"metadata":{"annotations":{%q:"forged",%q:"knative-serving/forged"}}}`, api.DigestAnnotation, api.FinishedJobsAnnotation),
		fmt.Sprintf(`{"metadata":{"annotations":{%q:"true",%q:"true"}}}`, api.OrphanedAnnotation, api.KeptAnnotation),
		`{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"gone","uid":"4f1f3a34-2b5e-4b1e-9d57-0a9d0f3c0f11"}]}}`,
		`{"spec":{"workload":{"manifests":[{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"forged","namespace":"default"}}]}}}`,
	} {
		k.patchWork(t, foundation, patch)
		eventually(t, "the foundation is the hub's again after "+patch, 3*time.Minute, func(ctx context.Context) error {
			return k.checkFoundationRestored(ctx, foundation)
		})
	}
	k.forgeVersion(t, foundation)
	k.forgePayload(t)
	k.forgeManifest(t)
	k.forgeLabels(t)
	k.patchWork(t, gate, fmt.Sprintf(`{"metadata":{"labels":{%q:%q}}}`, addonv1beta1.AddonLabelKey, "somebody-else"))
	k.patchWork(t, gate, fmt.Sprintf(`{"metadata":{"labels":{%q:null}}}`, addonv1beta1.AddonLabelKey))
	k.awaitRecovery(t)
	if now := workGenerations(t, k.Fleet, other); fmt.Sprint(now) != fmt.Sprint(before) {
		t.Errorf("the works of the other cluster went from %v to %v", before, now)
	}
}

// firstPayload is the payload of an installation.
const firstPayload = "addon-knative-serving-deploy-0"

// forgePayload changes the metadata of the payload, which the hub restores each time.
func (k *hostileAgent) forgePayload(t *testing.T) {
	t.Helper()
	before, err := k.readPayload(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, patch := range []string{
		`{"metadata":{"annotations":null}}`,
		fmt.Sprintf(`{"metadata":{"annotations":{%q:"{\"forged\":\"hash\"}"}}}`, workv1.ManifestConfigSpecHashAnnotationKey),
		`{"metadata":{"ownerReferences":[]}}`,
		fmt.Sprintf(`{"metadata":{"labels":{%q:"forged"}}}`, addonv1beta1.AddonLabelKey),
		fmt.Sprintf(`{"metadata":{"labels":{%q:null},"annotations":null,"ownerReferences":[]}}`, addonv1beta1.AddonLabelKey),
	} {
		k.patchWork(t, firstPayload, patch)
		k.awaitPayload(t, before)
	}
}

// forgeManifest adds a manifest to the payload that addon-framework cannot read, so that the framework cannot write the payload.
func (k *hostileAgent) forgeManifest(t *testing.T) {
	t.Helper()
	works := k.Works.WorkV1().ManifestWorks(k.cluster.Name)
	before, err := works.Get(t.Context(), firstPayload, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	forged := workv1.Manifest{RawExtension: runtime.RawExtension{
		Raw: []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"default","name":"forged"},"items":[]}`),
	}}
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"workload": workv1.ManifestsTemplate{
		Manifests: append(slices.Clone(before.Spec.Workload.Manifests), forged),
	}}})
	if err != nil {
		t.Fatal(err)
	}
	k.patchWork(t, firstPayload, string(patch))
	eventually(t, "the payload has the manifests of the hub again", time.Minute, func(ctx context.Context) error {
		got, err := works.Get(ctx, firstPayload, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if !manifestwork.SameManifests(got, before) {
			return fmt.Errorf("the payload has %d manifests, want the %d manifests of before", len(got.Spec.Workload.Manifests), len(before.Spec.Workload.Manifests))
		}
		return nil
	})
}

// forgeLabels takes the labels by which the hub finds foundation and gate, and gives the foundation the label by which OCM counts works.
func (k *hostileAgent) forgeLabels(t *testing.T) {
	t.Helper()
	removed, added := map[string]any{api.FoundationLabel: nil}, map[string]any{addonv1beta1.AddonLabelKey: api.Serving.AddOnName()}
	ofFoundation := map[string]string{api.FoundationLabel: string(api.Serving)}
	ofGate := map[string]string{api.FoundationLabel: string(api.Serving), addonv1beta1.AddonLabelKey: api.Serving.AddOnName()}
	for _, forgery := range []struct {
		work   string
		labels map[string]any
		want   map[string]string
	}{
		{manifestwork.FoundationName(api.Serving), removed, ofFoundation},
		{manifestwork.FoundationName(api.Serving), added, ofFoundation},
		{manifestwork.GateName(api.Serving), removed, ofGate},
	} {
		patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": forgery.labels}})
		if err != nil {
			t.Fatal(err)
		}
		k.patchWork(t, forgery.work, string(patch))
		eventually(t, fmt.Sprintf("work %s has its labels again after %s", forgery.work, patch), 2*time.Minute, func(ctx context.Context) error {
			w, err := k.Works.WorkV1().ManifestWorks(k.cluster.Name).Get(ctx, forgery.work, metav1.GetOptions{})
			if err != nil {
				return err
			}
			if !maps.Equal(w.Labels, forgery.want) {
				return fmt.Errorf("the labels are %v, want %v", w.Labels, forgery.want)
			}
			return nil
		})
		k.awaitRecovery(t)
	}
}

// awaitPayload waits until the payload has the metadata again.
func (k *hostileAgent) awaitPayload(t *testing.T, want metav1.ObjectMeta) {
	t.Helper()
	eventually(t, "the metadata of the payload is the hub's again", time.Minute, func(ctx context.Context) error {
		got, err := k.readPayload(ctx)
		if err != nil {
			return err
		}
		if diff := cmp.Diff(want, got); diff != "" {
			return fmt.Errorf("the payload has other metadata (-want +got):\n%s", diff)
		}
		return nil
	})
}

// readPayload returns UID, labels, configurations and owners of the payload.
func (k *hostileAgent) readPayload(ctx context.Context) (metav1.ObjectMeta, error) {
	w, err := k.Works.WorkV1().ManifestWorks(k.cluster.Name).Get(ctx, firstPayload, metav1.GetOptions{})
	if err != nil {
		return metav1.ObjectMeta{}, err
	}
	configs := map[string]string{workv1.ManifestConfigSpecHashAnnotationKey: w.Annotations[workv1.ManifestConfigSpecHashAnnotationKey]}
	return metav1.ObjectMeta{UID: w.UID, Labels: w.Labels, Annotations: configs, OwnerReferences: w.OwnerReferences}, nil
}

// forgeVersion has the cluster report another version: the add-on of that cluster refuses, and nothing else changes.
func (k *hostileAgent) forgeVersion(t *testing.T, foundation string) {
	t.Helper()
	w, err := k.Works.WorkV1().ManifestWorks(k.cluster.Name).Get(t.Context(), foundation, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	version := w.Annotations[api.VersionAnnotation]
	k.patchWork(t, foundation, fmt.Sprintf(`{"metadata":{"annotations":{%q:"9.9.9"}}}`, api.VersionAnnotation))
	eventually(t, "the add-on says that no version can be reached", 2*time.Minute, func(ctx context.Context) error {
		a, err := k.AddOns.AddonV1beta1().ManagedClusterAddOns(k.cluster.Name).Get(ctx, api.Serving.AddOnName(), metav1.GetOptions{})
		if err != nil {
			return err
		}
		if c := apimeta.FindStatusCondition(a.Status.Conditions, api.VersionMigrationEligible); c == nil || c.Reason != api.ReasonNotEligible {
			return fmt.Errorf("the condition is %v", c)
		}
		return nil
	})
	k.patchWork(t, foundation, fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, api.VersionAnnotation, version))
}

// checkFoundationRestored reports whether a foundation is as the hub made it.
func (k *hostileAgent) checkFoundationRestored(ctx context.Context, name string) error {
	w, err := k.Works.WorkV1().ManifestWorks(k.cluster.Name).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	a, err := k.AddOns.AddonV1beta1().ManagedClusterAddOns(k.cluster.Name).Get(ctx, api.Serving.AddOnName(), metav1.GetOptions{})
	if err != nil {
		return err
	}
	switch {
	case w.DeletionTimestamp != nil, len(w.OwnerReferences) != 1 || w.OwnerReferences[0].UID != a.UID:
		return fmt.Errorf("it has owners %v and is deleted: %t", w.OwnerReferences, w.DeletionTimestamp != nil)
	case w.Annotations[api.DigestAnnotation] == "forged", w.Annotations[api.OrphanedAnnotation] != "", w.Annotations[api.KeptAnnotation] != "",
		strings.Contains(w.Annotations[api.FinishedJobsAnnotation], "forged"):
		return fmt.Errorf("it has annotations %v", w.Annotations)
	case len(w.Spec.Workload.Manifests) < 2:
		return fmt.Errorf("it has %d manifests", len(w.Spec.Workload.Manifests))
	}
	return nil
}

// longText is more than a condition holds, and not all of it can be printed.
var longText = "\x1b[31mforged\u202e\n" + strings.Repeat("forged ", 6000)

// floodFeedback has the cluster say more of an object than a condition of the hub may hold.
func (k *hostileAgent) floodFeedback(t *testing.T) {
	flood := workv1.ManifestCondition{
		ResourceMeta: workv1.ManifestResourceMeta{Kind: "ConfigMap", Name: longText, Namespace: longText, Version: "v1", Resource: "configmaps"},
		Conditions: []metav1.Condition{
			{Type: workv1.ManifestApplied, Status: metav1.ConditionFalse, Reason: "Forged", Message: longText[:30000], LastTransitionTime: metav1.Now()},
			{Type: workv1.ManifestAvailable, Status: metav1.ConditionFalse, Reason: "ResourceNotAvailable", Message: "x", LastTransitionTime: metav1.Now()},
		},
	}
	agent := k.cluster.Name + "-agent"
	if err := k.Stop(agent); err != nil { // the agent would report the truth
		t.Fatal(err)
	}
	defer func() {
		if err := k.Start(agent); err != nil {
			t.Error(err)
		}
		available(t, k.Fleet, []api.Component{api.Serving}, k.cluster)
		k.awaitRecovery(t)
	}()
	works, err := k.ComponentWorks(t.Context(), api.Serving, k.cluster.Name)
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range works {
		if w.Labels[api.FoundationLabel] != "" {
			continue
		}
		raw, err := json.Marshal(map[string]any{"status": map[string]any{"resourceStatus": map[string]any{
			"manifests": append(slices.Clone(w.Status.ResourceStatus.Manifests), flood),
		}}})
		if err != nil {
			t.Fatal(err)
		}
		k.patchWork(t, w.Name, string(raw), "status")
	}
	message := ""
	eventually(t, "the add-on says what the cluster says", 2*time.Minute, func(ctx context.Context) error {
		a, err := k.AddOns.AddonV1beta1().ManagedClusterAddOns(k.cluster.Name).Get(ctx, api.Serving.AddOnName(), metav1.GetOptions{})
		if err != nil {
			return err
		}
		c := apimeta.FindStatusCondition(a.Status.Conditions, addonv1beta1.ManagedClusterAddOnConditionAvailable)
		if c == nil || !strings.Contains(c.Message, "forged") {
			return fmt.Errorf("the condition is %v", c)
		}
		message = c.Message
		return nil
	})
	if len(message) > 5000 || strings.ContainsAny(message, "\x1b\u202e\n") {
		t.Errorf("the condition has %d bytes: %.200q", len(message), message)
	}
}

// forgeCompletion has a fleet go back while the cluster says that it completed a revision which was never rolled out.
func (k *hostileAgent) forgeCompletion(t *testing.T) {
	first := k.specHash(t)
	k.awaitCompletion(t, first)
	k.pauseOCM(t) // no cluster gets the second spec
	k.patchDefault(t, `{"spec":{"config":{"deployment":{"progress-deadline":"601s"}}}}`)
	second := k.specHash(t)
	k.completionOwner(t, second)
	k.patchDefault(t, `{"spec":{"config":{"deployment":{"progress-deadline":"602s"}}}}`)
	third := k.specHash(t)
	k.resumeOCM(t)
	eventually(t, "all clusters have completed the third spec", 5*time.Minute, k.checkCompleted(third, len(k.Managed)))
	k.awaitCompletion(t, third)

	k.pauseOCM(t)
	here := func(hash string) *addonv1beta1.ConfigSpecHash {
		return &addonv1beta1.ConfigSpecHash{ConfigReferent: addonv1beta1.ConfigReferent{Namespace: harness.Namespace, Name: "default"}, SpecHash: hash}
	}
	const writes = 20 // the manager may write the hash that the resource has now
	for range writes {
		k.patchStatus(t, map[string]any{"status": map[string]any{"configReferences": []addonv1beta1.ConfigReference{{
			ConfigGroupResource: addonv1beta1.ConfigGroupResource{Group: api.Group, Resource: "knativeservings"},
			DesiredConfig:       here(second), LastAppliedConfig: here(second),
		}}}})
	}
	if by := k.completionOwner(t, second); by != "" {
		t.Errorf("%s is noted to have completed what was never rolled out", by)
	}
	k.patchDefault(t, fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, api.RollbackAnnotation, api.RollbackLastKnownGood))
	eventually(t, "the fleet goes back", 2*time.Minute, func(ctx context.Context) error {
		u, err := k.readDefault(ctx)
		if err != nil {
			return err
		}
		if _, asked := u.GetAnnotations()[api.RollbackAnnotation]; asked {
			return errors.New("the annotation is there")
		}
		return nil
	})
	if got := k.specHash(t); got != first {
		t.Errorf("the fleet has gone back to %.12s, want the first spec %.12s and not the second %.12s", got, first, second)
	}
	k.resumeOCM(t)
	eventually(t, "all clusters have completed the first spec", 5*time.Minute, k.checkCompleted(first, len(k.Managed)))
}

func (k *hostileAgent) pauseOCM(t *testing.T) {
	t.Helper()
	if err := k.Pause(ocmAddOnManager); err != nil {
		t.Fatal(err)
	}
}

func (k *hostileAgent) resumeOCM(t *testing.T) {
	t.Helper()
	if err := k.Resume(ocmAddOnManager); err != nil {
		t.Fatal(err)
	}
}

// completionOwner waits until the spec with the hash is recorded, and returns the cluster that is noted to have completed it.
func (k *hostileAgent) completionOwner(t *testing.T, hash string) string {
	t.Helper()
	s, completed := connect(t, k.Hub), ""
	eventually(t, "the spec is recorded", 2*time.Minute, func(ctx context.Context) error {
		list, err := s.kube.AppsV1().ControllerRevisions(harness.Namespace).List(ctx, metav1.ListOptions{LabelSelector: api.RevisionLabel})
		if err != nil {
			return err
		}
		for _, r := range list.Items {
			if r.Annotations[api.SpecHashAnnotation] == hash {
				completed = r.Annotations[api.CompletedAnnotation]
				return nil
			}
		}
		return fmt.Errorf("no revision has hash %.12s", hash)
	})
	return completed
}

// awaitCompletion waits until the hub has noted that a cluster completed the spec with the hash.
func (k *hostileAgent) awaitCompletion(t *testing.T, hash string) {
	t.Helper()
	eventually(t, "it is noted that a cluster completed the spec", 3*time.Minute, func(context.Context) error {
		if k.completionOwner(t, hash) == "" { //nolint:contextcheck // completerOf has a deadline of its own
			return fmt.Errorf("nobody is noted to have completed %.12s", hash)
		}
		return nil
	})
}

// recreateManagedCluster deletes and recreates the ManagedCluster while the hub records a handover for the deleted ManagedCluster.
func (k *hostileAgent) recreateManagedCluster(t *testing.T, private *addonv1beta1.ConfigSpecHash) {
	clusters := k.Clusters.ClusterV1().ManagedClusters()
	old, err := clusters.Get(t.Context(), k.cluster.Name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	configs, err := json.Marshal(map[string]any{"configs": []addonv1beta1.AddOnConfig{{
		ConfigGroupResource: addonv1beta1.ConfigGroupResource{Group: api.Group, Resource: "knativeservings"}, ConfigReferent: private.ConfigReferent,
	}}})
	if err != nil {
		t.Fatal(err)
	}
	record := &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: old.Name, Name: "knative-serving-handover", Labels: map[string]string{api.RevisionLabel: string(api.Serving)},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: clusterv1.GroupVersion.String(), Kind: "ManagedCluster", Name: old.Name, UID: old.UID,
			}},
		},
		Data: runtime.RawExtension{Raw: configs}, Revision: 1,
	}
	if err := clusters.Delete(t.Context(), old.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	k.worksGone(t, k.cluster)
	eventually(t, "the ManagedCluster is gone", 3*time.Minute, func(ctx context.Context) error {
		if _, err := clusters.Get(ctx, old.Name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("it is there: %w", err)
		}
		return nil
	})
	recreated := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: old.Name}, Spec: old.Spec}
	recreated.Spec.HubAcceptsClient, recreated.Spec.Taints = true, nil
	if _, err := clusters.Create(t.Context(), recreated, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	k.clusterBecomes(t, old.Name, metav1.ConditionTrue)
	if _, err := connect(t, k.Hub).kube.AppsV1().ControllerRevisions(old.Name).Create(t.Context(), record, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := k.Enable(t.Context(), []string{api.Serving.AddOnName()}, []string{old.Name}); err != nil {
		t.Fatal(err)
	}
	available(t, k.Fleet, []api.Component{api.Serving}, k.cluster)
	k.checkConfigurationKept(t)
	now, err := clusters.Get(t.Context(), old.Name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got := k.readAddOn(t).Annotations[api.ClusterUIDAnnotation]; got != string(now.UID) || now.UID == old.UID {
		t.Errorf("the add-on is recorded to be on ManagedCluster %s, want %s and not %s", got, now.UID, old.UID)
	}
}
