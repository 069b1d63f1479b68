// Copyright Contributors to the Open Cluster Management project

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/test/e2e/harness"
	"open-cluster-management.io/knative-addon/test/lab"
)

// profileIdentity is a ClusterProfile that leads to one cluster first, and to another cluster later.
type profileIdentity struct {
	push
	one, two spoke
}

const (
	movedName = "moved"
	// otherNamespace is the namespace of the Knative of another installer.
	otherNamespace = "knative-legacy"
)

// TestInstallationIdentity has ClusterProfiles lead to other clusters, and Knatives of other installers adopted. No installation is
// forgotten, and no cluster gets a second Knative.
func TestInstallationIdentity(t *testing.T) {
	startRestStory(t)
	p := newPush(t, lab.Options{ManagedClusters: 1, Spokes: 2, StatusSyncInterval: statusSync}, harness.Options{})
	i := profileIdentity{push: p, one: connect(t, p.Spokes[0]), two: connect(t, p.Spokes[1])}
	i.token(t, movedName, i.one.Cluster, i.one.Credential.Token)
	i.token(t, i.one.Name, i.one.Cluster, i.one.Credential.Token)
	i.bind(t)
	t.Run("a Knative in another namespace is adopted in that namespace only, without a work agent", func(t *testing.T) {
		i.adoptInOtherNamespace(t, way{push: p, spoke: i.one})
	})
	t.Run("a Knative in another namespace is adopted in that namespace only, by the work agent", func(t *testing.T) {
		i.adoptInOtherNamespace(t, way{push: p, spoke: connect(t, p.Managed[0])})
	})
	t.Run("a removal waits for the cluster of the installation, with and without a record", func(t *testing.T) { i.removeFromOtherCluster(t) })
	t.Run("an installation moves when the user names the other cluster", func(t *testing.T) { i.moveInstallation(t) })
	t.Run("a finalizer of the Knative Operator that nobody removes is named", func(t *testing.T) { i.keepOperatorFinalizer(t) })
	t.Run("helm refuses an installation while the Knative Operator runs", func(t *testing.T) { i.installWithOperator(t) })
}

// adoptInOtherNamespace has Knative installed in another namespace than the component's, and adopts that Knative.
func (i profileIdentity) adoptInOtherNamespace(t *testing.T, w way) {
	directCluster{push: w.push, spoke: w.spoke}.installByHandIn(t, otherNamespace)
	i.createOperatorAnchor(t, w.spoke)
	pods := runningPodsIn(t, w.spoke, otherNamespace)
	w.apply(t, api.Serving, w.Name, kourier())
	w.annotate(t, api.AdoptAnnotation, "true")
	w.shows(t, untold(api.ReasonExistingInstallation), otherNamespace, api.InstallNamespaceAnnotation)
	deployments, err := w.kube.AppsV1().Deployments(api.Serving.InstallNamespace()).List(t.Context(), metav1.ListOptions{})
	if err != nil || len(deployments.Items) > 0 {
		t.Fatalf("the cluster has %d Deployments of a second Knative: %v", len(deployments.Items), err)
	}
	w.annotate(t, api.InstallNamespaceAnnotation, otherNamespace)
	w.shows(t, verdicts{})
	i.dropOperatorAnchor(t, w.spoke)
	w.shows(t, verdicts{})
	if diff := cmp.Diff(pods, runningPodsIn(t, w.spoke, otherNamespace)); diff != "" {
		t.Errorf("pods were restarted (-before +after):\n%s", diff)
	}
	w.delete(t)
	w.gone(t, api.Serving, w.Name)
	w.emptied(t)
}

const operatorAnchor = "knativeserving-by-hand-root-owner"

// createOperatorAnchor gives the Deployments in otherNamespace the owner that the Knative Operator gives objects of spokes.
func (i profileIdentity) createOperatorAnchor(t *testing.T, s spoke) {
	t.Helper()
	anchor, err := s.kube.CoreV1().ConfigMaps(otherNamespace).Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Name: operatorAnchor, Annotations: map[string]string{"operator.knative.dev/anchor": "true"},
	}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range i.listOperatorOwned(t.Context(), t, s) {
		// The cluster writes the status of the Deployment at any time, so that an update might conflict.
		patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"ownerReferences": append(d.OwnerReferences, metav1.OwnerReference{
			APIVersion: "v1", Kind: "ConfigMap", Name: anchor.Name, UID: anchor.UID, Controller: new(true),
		})}})
		if err == nil {
			_, err = s.kube.AppsV1().Deployments(otherNamespace).Patch(t.Context(), d.Name, types.MergePatchType, patch, metav1.PatchOptions{})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func (i profileIdentity) listOperatorOwned(ctx context.Context, t *testing.T, s spoke) []appsv1.Deployment {
	t.Helper()
	list, err := s.kube.AppsV1().Deployments(otherNamespace).List(ctx, metav1.ListOptions{})
	if err != nil || len(list.Items) == 0 {
		t.Fatalf("namespace %s has %d Deployments: %v", otherNamespace, len(list.Items), err)
	}
	return list.Items
}

// dropOperatorAnchor deletes the anchor of the Knative Operator, and waits for the garbage collector.
func (i profileIdentity) dropOperatorAnchor(t *testing.T, s spoke) {
	t.Helper()
	if err := s.kube.CoreV1().ConfigMaps(otherNamespace).Delete(t.Context(), operatorAnchor, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "no Deployment has the anchor as its owner", time.Minute, func(ctx context.Context) error {
		for _, d := range i.listOperatorOwned(ctx, t, s) {
			if slices.ContainsFunc(d.OwnerReferences, func(r metav1.OwnerReference) bool { return r.Name == operatorAnchor }) {
				return fmt.Errorf("Deployment %s has", d.Name)
			}
		}
		return nil
	})
}

// leadProfileTo has the ClusterProfile lead to the cluster.
func (i profileIdentity) leadProfileTo(t *testing.T, to spoke) {
	t.Helper()
	i.writeSecret(t, movedName, map[string][]byte{"token": []byte(to.Credential.Token)})
	i.profileStatus(t, movedName, map[string]any{"accessProviders": accessProviders(to.Cluster, "secretreader", map[string]any{"clusterName": movedName})})
}

func (i profileIdentity) uid(t *testing.T, s spoke) string {
	t.Helper()
	ns, err := s.kube.CoreV1().Namespaces().Get(t.Context(), metav1.NamespaceSystem, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return string(ns.UID)
}

// setRecordedCluster changes the record of the cluster; nil removes the record.
func (i profileIdentity) setRecordedCluster(t *testing.T, cluster any) {
	t.Helper()
	way{push: i.push, spoke: i.named()}.patch(t, map[string]any{"metadata": map[string]any{"annotations": map[string]any{api.InstalledOnAnnotation: cluster}}})
}

// named returns the first cluster under the name of the ClusterProfile.
func (i profileIdentity) named() spoke {
	c := *i.one.Cluster
	c.Name = movedName
	out := i.one
	out.Cluster = &c
	return out
}

// refuses waits until the resource names a cause and the texts.
func (i profileIdentity) refuses(t *testing.T, reason string, says ...string) {
	t.Helper()
	i.becomes(t, api.Serving, movedName, conditionState{api.TargetClusterResolved, metav1.ConditionFalse, reason}, says...)
}

// removeFromOtherCluster deletes a resource whose ClusterProfile leads elsewhere, and whose record of the cluster is gone.
func (i profileIdentity) removeFromOtherCluster(t *testing.T) {
	i.apply(t, api.Serving, movedName, kourier())
	i.ready(t, api.Serving, movedName)
	i.leadProfileTo(t, i.two)
	i.refuses(t, api.ReasonClusterReplaced, i.uid(t, i.one), i.uid(t, i.two), api.ForceOrphanAnnotation, api.InstalledOnAnnotation)
	i.setRecordedCluster(t, nil)
	i.refuses(t, api.ReasonClusterNotRecorded, i.uid(t, i.two), api.ForceOrphanAnnotation, api.InstalledOnAnnotation)
	if err := i.resources(api.Serving).Delete(t.Context(), movedName, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	i.becomes(t, api.Serving, movedName, conditionState{api.InstallSucceeded, metav1.ConditionUnknown, api.ReasonRemoving}, api.ForceOrphanAnnotation)
	i.untouched(t, i.two)
	i.checkInstallationKept(t, i.one)
	i.leadProfileTo(t, i.one)
	i.gone(t, api.Serving, movedName)
	event(t, i.team, "Removed")
	i.one.emptied(t)
}

// moveInstallation has the user say that the installation is to be on the other cluster.
func (i profileIdentity) moveInstallation(t *testing.T) {
	i.apply(t, api.Serving, movedName, kourier())
	i.ready(t, api.Serving, movedName)
	i.leadProfileTo(t, i.two)
	i.refuses(t, api.ReasonClusterReplaced)
	i.setRecordedCluster(t, i.uid(t, i.two))
	i.ready(t, api.Serving, movedName)
	i.checkInstallationKept(t, i.two)
	i.checkInstallationKept(t, i.one)
	i.setRecordedCluster(t, nil)
	two := i.uid(t, i.two)
	eventually(t, "the anchor proves the cluster", time.Minute, func(ctx context.Context) error {
		u, err := i.resources(api.Serving).Get(ctx, movedName, metav1.GetOptions{})
		if err == nil && u.GetAnnotations()[api.InstalledOnAnnotation] != two {
			err = fmt.Errorf("the record is %v", u.GetAnnotations())
		}
		return err
	})
}

func (i profileIdentity) checkInstallationKept(t *testing.T, s spoke) {
	t.Helper()
	list, err := s.kube.AppsV1().Deployments(api.Serving.InstallNamespace()).List(t.Context(), metav1.ListOptions{})
	if err != nil || len(list.Items) == 0 {
		t.Errorf("%s has %d Deployments: %v", s.Name, len(list.Items), err)
	}
}

func (i profileIdentity) untouched(t *testing.T, s spoke) {
	t.Helper()
	_, err := s.kube.CoreV1().Namespaces().Get(t.Context(), api.Serving.InstallNamespace(), metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		t.Errorf("%s has Namespace %s: %v", s.Name, api.Serving.InstallNamespace(), err)
	}
}

// keepOperatorFinalizer deletes a resource that the Knative Operator held and left.
func (i profileIdentity) keepOperatorFinalizer(t *testing.T) {
	const finalizer = "knativeservings.operator.knative.dev"
	w := way{push: i.push, spoke: i.named()}
	setFinalizers := func(change func([]string) []string) {
		u, err := i.resources(api.Serving).Get(t.Context(), movedName, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		w.patch(t, map[string]any{"metadata": map[string]any{"finalizers": change(u.GetFinalizers())}})
	}
	setFinalizers(func(held []string) []string { return append(held, finalizer) })
	w.delete(t)
	i.two.emptied(t)
	i.becomes(t, api.Serving, movedName, conditionState{api.Ready, metav1.ConditionUnknown, api.ReasonRemoving}, finalizer)
	setFinalizers(func(held []string) []string {
		return slices.DeleteFunc(held, func(f string) bool { return f == finalizer })
	})
	i.gone(t, api.Serving, movedName)
}

// installWithOperator installs a second release as long as the Knative Operator runs on the hub, and after its end.
func (i profileIdentity) installWithOperator(t *testing.T) {
	const namespace = "knative-operator"
	for _, command := range [][]string{
		{"create", "namespace", namespace},
		{"create", "deployment", "knative-operator", "-n", namespace, "--image=example.com/x:1"},
	} {
		if _, err := i.Command(t.Context(), "kubectl", command...); err != nil {
			t.Fatal(err)
		}
	}
	_, err := i.Template(t.Context(), "--dry-run=server")
	if err == nil {
		err = errors.New("helm installs the chart")
	}
	for _, want := range []string{"Deployment knative-operator/knative-operator", "kubectl scale", "--replicas=0"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not say %q: %v", want, err)
		}
	}
	if _, err := i.Command(t.Context(), "kubectl", "scale", "deployment", "knative-operator", "-n", namespace, "--replicas=0"); err != nil {
		t.Fatal(err)
	}
	if _, err := i.Template(t.Context(), "--dry-run=server"); err != nil {
		t.Errorf("helm still refuses: %v", err)
	}
}
