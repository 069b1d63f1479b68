// Copyright Contributors to the Open Cluster Management project

package knative

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/logging"
	"open-cluster-management.io/knative-addon/pkg/reconciler"
	"open-cluster-management.io/knative-addon/pkg/revision"
)

// TestPassLine holds that the log line of a pass names the cluster of the resource and the revision that the cluster gets.
func TestPassLine(t *testing.T) {
	logPass := func(t *testing.T, r *Reconciler, config *unstructured.Unstructured) string {
		t.Helper()
		var line bytes.Buffer
		_, _ = reconciler.Wrap(r, reconciler.OfComponent(api.Serving)).Reconcile(
			log.IntoContext(t.Context(), logging.New(1, &line)), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(config)}) // the line of a failed pass names both too
		return line.String()
	}
	t.Run("ManifestWork", func(t *testing.T) {
		self := serving("self", 100, finalized)
		h := newHub(t, self)
		h.enabled(addOnOf("self", uses("self"), func(a *addonv1beta1.ManagedClusterAddOn) {
			a.Status.ConfigReferences[0].DesiredConfig.SpecHash = "h1"
		}))
		h.settle("self")
		if got, want := logPass(t, h.r, self), `cluster="c1" component="knative-serving" revision="h1"`; !strings.Contains(got, want) {
			t.Errorf("the line is %q, want %q", got, want)
		}
	})
	t.Run("Direct", func(t *testing.T) {
		self := localServing(directFinalized)
		self.Object["spec"] = map[string]any{"clusterProfileRef": map[string]any{"namespace": team, "name": clusterName}}
		hash, err := revision.Hash(self)
		if err != nil {
			t.Fatal(err)
		}
		w := newDirectFixture(t, self)
		w.bundleError = errLost
		if _, err := w.reconcile(); !errors.Is(err, errLost) {
			t.Fatal(err)
		}
		if got, want := logPass(t, w.r, self), fmt.Sprintf(`cluster=%q component="knative-serving" revision=%q`, clusterName, hash); !strings.Contains(got, want) {
			t.Errorf("the line is %q, want %q", got, want)
		}
	})
}
