// Copyright Contributors to the Open Cluster Management project

package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/test/e2e/harness"
	"open-cluster-management.io/knative-addon/test/lab"
)

// TestNamespaceFaults deletes the namespace of the add-on, deletes a CRD that a resource of a user holds, and fills the install namespaces
// with ConfigMaps of a user.
func TestNamespaceFaults(t *testing.T) {
	startNightlyStory(t)
	p := newPush(t, lab.Options{ManagedClusters: 1, Spokes: 1, StatusSyncInterval: statusSync}, harness.Options{})
	p.bind(t)
	p.token(t, p.Spokes[0].Name, p.Spokes[0], p.Spokes[0].Credential.Token)
	ways := []way{{push: p, spoke: connect(t, p.Managed[0])}, {push: p, spoke: connect(t, p.Spokes[0])}}
	for _, w := range ways {
		spec := kourier()
		spec["version"] = "1.22"
		w.apply(t, api.Serving, w.Name, spec)
	}
	for _, w := range ways {
		w.shows(t, verdicts{})
	}
	settled(t, p.Fleet, api.Serving, p.Managed[0])
	t.Run("the add-on's namespace is deleted, and the chart is installed again", func(t *testing.T) { p.deleteAddOnNamespace(t, ways) })
	t.Run("a CRD is deleted on the clusters while a resource of a user has a finalizer", func(t *testing.T) { deleteHeldCRD(t, ways) })
	t.Run("a thousand ConfigMaps of a user are in the install namespace", func(t *testing.T) { fillInstallNamespaces(t, ways) })
}

// deleteAddOnNamespace deletes the namespace of the chart, ends the manager as the deletion of its pod does, and installs the chart
// again.
func (p push) deleteAddOnNamespace(t *testing.T, ways []way) {
	before := restingSpecsOf(t, spokesOf(ways)...)
	namespaces := p.hub.kube.CoreV1().Namespaces()
	if err := namespaces.Delete(t.Context(), harness.Namespace, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := p.Stop(harness.Manager); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the namespace of the add-on is gone", 3*time.Minute, func(ctx context.Context) error {
		n, err := namespaces.Get(ctx, harness.Namespace, metav1.GetOptions{})
		if !apierrors.IsNotFound(err) {
			return fmt.Errorf("its status is %+v, error %w", n.Status, err)
		}
		return nil
	})
	if err := p.Reinstall(t.Context()); err != nil {
		t.Fatal(err)
	}
	time.Sleep(localNoWriteTime)
	for _, w := range ways {
		if diff := cmp.Diff(before[w.Name], specs(t, w.spoke)); diff != "" {
			t.Errorf("%s was written to (-before +after):\n%s", w.Name, diff)
		}
		w.spec(t, config("deployment", "progress-deadline", marker))
		eventually(t, "the new manager delivers an edit to "+w.Name, 3*time.Minute, w.checkDeadline(true))
		w.shows(t, verdicts{})
	}
}

// deleteHeldCRD deletes a CRD on the clusters while a resource of a user has a finalizer. CRD and resource stay until the finalizer is gone,
// edits are delivered in the meantime, and the CRD comes back.
func deleteHeldCRD(t *testing.T, ways []way) {
	const (
		crd      = "services.serving.knative.dev"
		deadline = "703s"
	)
	former := map[string]types.UID{}
	for _, w := range ways {
		w.createService(t, "example.com/hold")
		crds := w.dynamic.Resource(crdResource)
		held, err := crds.Get(t.Context(), crd, metav1.GetOptions{})
		if err == nil {
			former[w.Name], err = held.GetUID(), crds.Delete(t.Context(), crd, metav1.DeleteOptions{})
		}
		if err != nil {
			t.Fatal(err)
		}
		eventually(t, "the user's Service of "+w.Name+" is being deleted", time.Minute, func(ctx context.Context) error {
			service, err := w.knativeServices().Get(ctx, "hello", metav1.GetOptions{})
			if err == nil && service.GetDeletionTimestamp() == nil {
				err = errors.New("the Service is not being deleted")
			}
			return err
		})
		w.spec(t, config("deployment", "progress-deadline", deadline))
	}
	for _, w := range ways {
		eventually(t, "the edit is on "+w.Name, 3*time.Minute, w.checkDeadlineIs(deadline))
		held, err := w.dynamic.Resource(crdResource).Get(t.Context(), crd, metav1.GetOptions{})
		if err != nil || held.GetUID() != former[w.Name] {
			t.Fatalf("%s: the CRD did not wait for the user's Service, error %v", w.Name, err)
		}
		if _, err := w.knativeServices().Patch(t.Context(), "hello", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for _, w := range ways {
		eventually(t, "the CRD is on "+w.Name+" again", 3*time.Minute, func(ctx context.Context) error {
			now, err := w.dynamic.Resource(crdResource).Get(ctx, crd, metav1.GetOptions{})
			if err == nil && now.GetUID() == former[w.Name] {
				err = errors.New("the CRD is the former CRD")
			}
			return err
		})
		w.shows(t, verdicts{})
		w.createService(t)
		if err := w.knativeServices().Delete(t.Context(), "hello", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

const (
	userConfigMaps = 1000
	// userPrefix begins the name of each ConfigMap of the user.
	userPrefix = "of-user-"
)

// fillInstallNamespaces upgrades, removes and installs Serving beside the ConfigMaps.
func fillInstallNamespaces(t *testing.T, ways []way) {
	before := map[string]map[string]types.UID{}
	for _, w := range ways {
		for i := range userConfigMaps {
			c := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s%d", userPrefix, i)}, Data: map[string]string{"key": "value"}}
			if _, err := w.kube.CoreV1().ConfigMaps(installNamespace).Create(t.Context(), c, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		before[w.Name] = w.userConfigMapUIDs(t)
		if n := len(before[w.Name]); n != userConfigMaps {
			t.Fatalf("%s has %d ConfigMaps of the user", w.Name, n)
		}
	}
	check := func(circumstances string) {
		t.Helper()
		for _, w := range ways {
			if diff := cmp.Diff(before[w.Name], w.userConfigMapUIDs(t)); diff != "" {
				t.Fatalf("%s: ConfigMaps of the user after %s (-before +after):\n%s", w.Name, circumstances, diff)
			}
		}
	}
	for _, w := range ways {
		w.spec(t, map[string]any{"version": "1.23"})
	}
	for _, w := range ways {
		eventually(t, w.Name+" runs 1.23", 5*time.Minute, w.spoke.runs("1.23."))
		w.shows(t, verdicts{})
	}
	check("the upgrade")
	for _, w := range ways {
		w.delete(t)
	}
	for _, w := range ways {
		w.gone(t, api.Serving, w.Name)
		w.awaitRemovedExcept(t, userPrefix)
	}
	check("the removal")
	for _, w := range ways {
		w.apply(t, api.Serving, w.Name, kourier())
	}
	for _, w := range ways {
		w.shows(t, verdicts{})
	}
	check("the installation")
}

// userConfigMapUIDs returns the UIDs of the ConfigMaps of the user, by name.
func (w way) userConfigMapUIDs(t *testing.T) map[string]types.UID {
	t.Helper()
	list, err := w.kube.CoreV1().ConfigMaps(installNamespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]types.UID{}
	for _, c := range list.Items {
		if strings.HasPrefix(c.Name, userPrefix) && c.DeletionTimestamp == nil {
			out[c.Name] = c.UID
		}
	}
	return out
}
