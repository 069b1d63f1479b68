// Copyright Contributors to the Open Cluster Management project

package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/test/lab"
)

// awaitUnresolved waits until the resource says that its target is not resolved, for that reason, with a message that holds the texts.
func (m team) awaitUnresolved(t *testing.T, c api.Component, name, reason string, says ...string) {
	t.Helper()
	m.becomes(t, c, name, conditionState{api.TargetClusterResolved, metav1.ConditionFalse, reason}, says...)
}

// setInstallStrategy sets how the component's add-on comes to clusters.
func (m team) setInstallStrategy(t *testing.T, c api.Component, strategy string) {
	t.Helper()
	patch := fmt.Sprintf(`{"spec":{"installStrategy":%s}}`, strategy)
	_, err := m.AddOns.AddonV1beta1().ClusterManagementAddOns().Patch(t.Context(), c.AddOnName(), types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// addOn is the component's add-on on the cluster, nil when there is none.
func (m team) addOn(ctx context.Context, t *testing.T, c api.Component, cluster string) *addonv1beta1.ManagedClusterAddOn {
	t.Helper()
	a, err := m.AddOns.AddonV1beta1().ManagedClusterAddOns(cluster).Get(ctx, c.AddOnName(), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// checkConflict requests Eventing on one cluster for several owners, one after the other. At the end, the resource of second owns the add-on.
func checkConflict(t *testing.T, first, second team, c *lab.Cluster) {
	const placements = `{"type":"Placements","placements":[{"namespace":"default","name":"none"}]}`
	const manual = `{"type":"Manual","placements":null}`
	first.setInstallStrategy(t, api.Eventing, placements)
	first.apply(t, api.Eventing, c.Name, map[string]any{"version": "1.23"})
	first.awaitUnresolved(t, api.Eventing, c.Name, api.ReasonPlacementManaged, "knative-eventing")
	if a := first.addOn(t.Context(), t, api.Eventing, c.Name); a != nil {
		t.Fatalf("an add-on was made against the Placements: %v", a)
	}

	// Enabled before the strategy allows the resource to do the same.
	first.setInstallStrategy(t, api.Eventing, manual)
	first.ready(t, api.Eventing, c.Name)

	// Another namespace has another ClusterProfile of the same cluster.
	second.apply(t, api.Eventing, c.Name, map[string]any{"version": "1.23"})
	second.awaitUnresolved(t, api.Eventing, c.Name, api.ReasonTargetConflict, first.namespace+"/"+c.Name)
	before := first.addOn(t.Context(), t, api.Eventing, c.Name)
	if err := second.resources(api.Eventing).Delete(t.Context(), c.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	second.gone(t, api.Eventing, c.Name)
	if after := first.addOn(t.Context(), t, api.Eventing, c.Name); after == nil || after.UID != before.UID || after.Generation != before.Generation || after.DeletionTimestamp != nil {
		t.Errorf("deleting the one that lost has touched the add-on: %v", after)
	}
	first.ready(t, api.Eventing, c.Name)

	// It takes over when the first is gone.
	second.apply(t, api.Eventing, c.Name, map[string]any{"version": "1.23"})
	second.awaitUnresolved(t, api.Eventing, c.Name, api.ReasonTargetConflict)
	if err := first.resources(api.Eventing).Delete(t.Context(), c.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	first.gone(t, api.Eventing, c.Name)
	second.ready(t, api.Eventing, c.Name)
	if a := second.addOn(t.Context(), t, api.Eventing, c.Name); a == nil || a.UID == before.UID {
		t.Errorf("the add-on is %v, want a new one", a)
	}
}

// enableByUser has a resource for a cluster whose add-on a user has enabled.
func enableByUser(t *testing.T, m team, c *lab.Cluster) {
	if err := m.Enable(t.Context(), []string{api.Serving.AddOnName()}, []string{c.Name}); err != nil {
		t.Fatal(err)
	}
	m.apply(t, api.Serving, c.Name, kourier())
	m.awaitUnresolved(t, api.Serving, c.Name, api.ReasonTargetConflict, "clusteradm addon disable")
	if a := m.addOn(t.Context(), t, api.Serving, c.Name); a == nil || len(a.Spec.Configs) != 0 || a.Annotations[api.InstalledForAnnotation] != "" {
		t.Errorf("the user's add-on was changed: %v", a)
	}
	if err := m.Disable(t.Context(), []string{api.Serving.AddOnName()}, []string{c.Name}); err != nil {
		t.Fatal(err)
	}
	m.ready(t, api.Serving, c.Name)
	if err := m.resources(api.Serving).Delete(t.Context(), c.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	m.gone(t, api.Serving, c.Name)
}

var clusterProfiles = schema.GroupVersionResource{Group: "multicluster.x-k8s.io", Version: "v1alpha1", Resource: "clusterprofiles"}

// forgeProfile has profiles that lead to a managed cluster by their looks only. None may make an add-on.
func forgeProfile(t *testing.T, bound team, c *lab.Cluster) {
	mallory := team{Fleet: bound.Fleet, namespace: "mallory", configs: bound.configs}
	if _, err := mallory.Command(t.Context(), "kubectl", "create", "namespace", mallory.namespace); err != nil {
		t.Fatal(err)
	}
	original, err := bound.configs.Resource(clusterProfiles).Namespace(bound.namespace).Get(t.Context(), c.Name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		to      team
		forge   func(u *unstructured.Unstructured)
		reasons []string
	}{
		"a copy where no set is bound": {
			to: mallory, forge: func(*unstructured.Unstructured) {},
			// OCM may take the forgery away before it is looked at.
			reasons: []string{api.ReasonReferenceNotPermitted, api.ReasonClusterProfileNotFound},
		},
		"the label of a cluster under another name": {
			to: bound, forge: func(u *unstructured.Unstructured) { u.SetName("forged") },
			reasons: []string{api.ReasonManagedClusterNotFound, api.ReasonClusterProfileNotFound},
		},
		"the name of a cluster by another manager": {
			to: mallory, forge: func(u *unstructured.Unstructured) {
				_ = unstructured.SetNestedField(u.Object, "acme", "spec", "clusterManager", "name")
				u.SetLabels(map[string]string{"x-k8s.io/cluster-manager": "acme"})
				u.SetName("acme")
			},
			reasons: []string{api.ReasonMulticlusterDisabled, api.ReasonClusterProfileNotReady},
		},
	} {
		t.Run(name, func(t *testing.T) {
			forgery := original.DeepCopy()
			forgery.SetNamespace(tc.to.namespace)
			for _, field := range []string{"resourceVersion", "uid", "ownerReferences", "creationTimestamp", "finalizers"} {
				unstructured.RemoveNestedField(forgery.Object, "metadata", field)
			}
			tc.forge(forgery)
			profiles := tc.to.configs.Resource(clusterProfiles).Namespace(tc.to.namespace)
			if created, err := profiles.Create(t.Context(), forgery, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			} else if status, found := original.Object["status"]; found {
				created.Object["status"] = status
				_, _ = profiles.UpdateStatus(t.Context(), created, metav1.UpdateOptions{}) // OCM may have removed it
			}
			tc.to.apply(t, api.Serving, forgery.GetName(), kourier())
			eventually(t, "the forgery is refused", time.Minute, func(ctx context.Context) error {
				s, err := tc.to.read(ctx, api.Serving, forgery.GetName())
				if c := s.conditions[api.TargetClusterResolved]; err == nil && !slices.Contains(tc.reasons, c.Reason) {
					err = fmt.Errorf("%v", c)
				}
				return err
			})
			if a := tc.to.addOn(t.Context(), t, api.Serving, c.Name); a != nil {
				t.Errorf("the forgery has made an add-on: %v", a)
			}
			if err := tc.to.resources(api.Serving).Delete(t.Context(), forgery.GetName(), metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			tc.to.gone(t, api.Serving, forgery.GetName())
			_ = profiles.Delete(t.Context(), forgery.GetName(), metav1.DeleteOptions{})
		})
	}
}

// revokeBinding takes consent away from a team whose Eventing is installed, and gives it back.
func revokeBinding(t *testing.T, m team, c *lab.Cluster) {
	m.ready(t, api.Eventing, c.Name)
	before := m.payload(t, api.Eventing, c.Name)
	if _, err := m.Command(t.Context(), "clusteradm", "clusterset", "unbind", "default", "--namespace", m.namespace); err != nil {
		t.Fatal(err)
	}
	m.becomes(t, api.Eventing, c.Name, conditionState{api.TargetClusterResolved, metav1.ConditionFalse, ""})
	m.becomes(t, api.Eventing, c.Name, conditionState{api.DeploymentsAvailable, metav1.ConditionTrue, api.ReasonWorkloadsAvailable})

	patch := `{"spec":{"config":{"features":{"kreference-group":"enabled"}}}}`
	if _, err := m.resources(api.Eventing).Patch(t.Context(), c.Name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	// OCM has handed the new configuration to the add-on, and the framework has refused to follow it.
	eventually(t, "the add-on says why it does not follow", time.Minute, func(ctx context.Context) error {
		for _, cond := range m.addOn(ctx, t, api.Eventing, c.Name).Status.Conditions {
			if cond.Type == addonv1beta1.ManagedClusterAddOnManifestApplied && strings.Contains(cond.Message, "nothing new is delivered") {
				return nil
			}
		}
		return fmt.Errorf("its conditions are %v", m.addOn(ctx, t, api.Eventing, c.Name).Status.Conditions)
	})
	if now := m.payload(t, api.Eventing, c.Name); now.UID != before.UID || now.Generation != before.Generation {
		t.Errorf("the payload went from generation %d to %d without consent", before.Generation, now.Generation)
	}

	m.bind(t)
	m.ready(t, api.Eventing, c.Name)
	if now := m.payload(t, api.Eventing, c.Name); now.UID != before.UID || now.Generation == before.Generation {
		t.Errorf("the payload (UID %s, generation %d) has not followed from UID %s, generation %d", now.UID, now.Generation, before.UID, before.Generation)
	}
}

// runOperatorOnHub has the Knative Operator's Deployment on the hub for a while.
func runOperatorOnHub(t *testing.T, m team, c *lab.Cluster) {
	m.ready(t, api.Serving, c.Name)
	hub := connect(t, m.Hub)
	labels := map[string]string{"name": "knative-operator"}
	const namespace = "knative-operator"
	if _, err := m.Command(t.Context(), "kubectl", "create", "namespace", namespace); err != nil {
		t.Fatal(err)
	}
	_, err := hub.kube.AppsV1().Deployments(namespace).Create(t.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "knative-operator"},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "operator", Image: "gcr.io/knative-releases/operator"}}},
			},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the add-on tells of the conflict", time.Minute, func(ctx context.Context) error {
		cond := apimeta.FindStatusCondition(m.addOn(ctx, t, api.Serving, c.Name).Status.Conditions, api.TargetClusterResolved)
		if cond == nil || cond.Reason != api.ReasonConflict {
			return fmt.Errorf("%v", cond)
		}
		return nil
	})
	event(t, m, api.ReasonConflict, "knative-operator/knative-operator")
	// The resource that was Ready says so too; a new resource gets neither finalizer nor pin.
	conflict := conditionState{api.TargetClusterResolved, metav1.ConditionFalse, api.ReasonConflict}
	m.becomes(t, api.Serving, c.Name, conflict)
	other := m.Managed[1].Name
	m.apply(t, api.Serving, other, map[string]any{})
	eventually(t, "an Event for the new resource", time.Minute, func(ctx context.Context) error {
		list, err := hub.kube.CoreV1().Events(m.namespace).List(ctx, metav1.ListOptions{FieldSelector: "reason=" + api.ReasonConflict + ",involvedObject.name=" + other})
		if err == nil && len(list.Items) == 0 {
			err = errors.New("there is none")
		}
		return err
	})
	m.becomes(t, api.Serving, other, conflict)
	u, err := m.resources(api.Serving).Get(t.Context(), other, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(u.GetFinalizers()) > 0 || len(u.GetAnnotations()) > 0 {
		t.Errorf("the resource was written to: %v", u.Object)
	}
	if err := m.resources(api.Serving).Delete(t.Context(), other, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := hub.kube.CoreV1().Namespaces().Delete(t.Context(), namespace, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the add-on no longer tells of a conflict", time.Minute, func(ctx context.Context) error {
		if a := m.addOn(ctx, t, api.Serving, c.Name); !apimeta.IsStatusConditionTrue(a.Status.Conditions, api.TargetClusterResolved) {
			return fmt.Errorf("%v", a.Status.Conditions)
		}
		return nil
	})
	m.ready(t, api.Serving, c.Name)
}
