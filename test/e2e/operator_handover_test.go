// Copyright Contributors to the Open Cluster Management project

package e2e

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/test/e2e/harness"
	"open-cluster-management.io/knative-addon/test/lab"
	"open-cluster-management.io/knative-addon/test/lab/tools"
)

// operatorFinalizer is the finalizer of the Knative Operator on each KnativeServing.
const operatorFinalizer = "knativeservings.operator.knative.dev"

// operatorDeployment is the Deployment of the Knative Operator. The lab runs the program, and no pod.
const operatorDeployment = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: knative-operator, namespace: knative-operator}
spec:
  replicas: 1
  selector: {matchLabels: {name: knative-operator}}
  template:
    metadata: {labels: {name: knative-operator}}
    spec: {containers: [{name: knative-operator, image: example.com/knative-operator}]}
`

// TestOperatorHandover takes a cluster over from the Knative Operator on the same hub, in the steps of docs/upgrades.md.
func TestOperatorHandover(t *testing.T) {
	startNightlyStory(t)
	operator, err := harness.BuildKnativeOperator(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	l := ownLab(t, lab.Options{Spokes: 1})
	h := newHandedOver(t, l)
	cluster := connect(t, l.Spokes[0])
	if err := operator.Apply(t.Context(), l.Hub); err != nil {
		t.Fatal(err)
	}
	if err := l.Hub.Apply(t.Context(), []byte(operatorDeployment)); err != nil {
		t.Fatal(err)
	}
	if err := operator.Run(t.Context(), l, l.Hub, h.providers); err != nil {
		t.Fatal(err)
	}
	h.token(t, "edge-7", l.Spokes[0], l.Spokes[0].Credential.Token)
	h.apply(t, api.Serving, "edge-7", kourier())
	h.ready(t, api.Serving, "edge-7")
	before := runningPods(t, cluster)

	t.Run("the chart refuses a hub with a running Knative Operator", func(t *testing.T) { h.refuseChart(t) })
	if err := l.Stop(tools.KnativeOperator); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Command(t.Context(), "kubectl", "scale", "deployment", "--namespace", "knative-operator", "knative-operator", "--replicas=0"); err != nil {
		t.Fatal(err)
	}
	h.install(t)
	t.Run("the add-on changes nothing before the consent", func(t *testing.T) {
		h.becomes(t, api.Serving, "edge-7", conditionState{api.TargetClusterResolved, metav1.ConditionFalse, api.ReasonExistingInstallation})
		if diff := cmp.Diff(before, runningPods(t, cluster)); diff != "" {
			t.Errorf("pods have changed (-before +after):\n%s", diff)
		}
	})
	t.Run("the add-on takes over without a restart of pods", func(t *testing.T) {
		patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:"true"}}}`, api.AdoptAnnotation)
		if _, err := h.resources(api.Serving).Patch(t.Context(), "edge-7", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
		h.removeOperatorFinalizer(t, "edge-7")
		h.ready(t, api.Serving, "edge-7")
		if diff := cmp.Diff(before, runningPods(t, cluster)); diff != "" {
			t.Errorf("pods were restarted (-before +after):\n%s", diff)
		}
		h.repairDeployment(t, "edge-7", cluster.Cluster)
	})
	t.Run("a removal leaves nothing of either", func(t *testing.T) {
		if err := h.resources(api.Serving).Delete(t.Context(), "edge-7", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		h.gone(t, api.Serving, "edge-7")
		cluster.emptied(t)
	})
}

// handedOver is a hub whose clusters the Knative Operator has installed. The Knative Operator requires the namespace of the component.
type handedOver struct{ push }

func newHandedOver(t *testing.T, l *lab.Lab) *handedOver {
	t.Helper()
	f, err := harness.Prepare(l, harness.Options{})
	if err != nil {
		t.Fatal(err)
	}
	hub := connect(t, l.Hub)
	h := &handedOver{push{
		team: team{Fleet: f, namespace: api.Serving.InstallNamespace(), configs: hub.dynamic}, hub: hub, providers: filepath.Join(t.TempDir(), "providers.json"),
	}}
	h.provide(t, "secretreader")
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: h.namespace}}
	if _, err := hub.kube.CoreV1().Namespaces().Create(t.Context(), namespace, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	return h
}

// refuseChart holds that `helm install` names the Knative Operator and the remedy, and installs nothing.
func (h *handedOver) refuseChart(t *testing.T) {
	out, err := h.Template(t.Context(), "--dry-run=server")
	if err == nil || !strings.Contains(err.Error()+out, "knative-operator") || !strings.Contains(err.Error()+out, "--replicas=0") {
		t.Errorf("error is %v", err)
	}
}

// install upgrades the CRDs and installs the add-on, whose administrator trusts the namespace of the resource.
func (h *handedOver) install(t *testing.T) {
	t.Helper()
	root, err := harness.Repository()
	if err != nil {
		t.Fatal(err)
	}
	crds := filepath.Join(root, "charts", "knative-addon", "crds")
	if _, err := h.Command(t.Context(), "kubectl", "apply", "--server-side", "--force-conflicts", "--filename", crds); err != nil {
		t.Fatal(err)
	}
	f, err := harness.Install(t.Context(), h.Lab, harness.Options{
		Trusted: []string{h.namespace},
		Manager: []string{"--clusterprofile-provider-file=" + h.providers, "--inventory-file=" + inventoryFile(t, harness.LabInventory(h.namespace))},
	})
	if err != nil {
		t.Fatal(err)
	}
	logManagerOnFailure(t, f)
	h.Fleet = f
}

// removeOperatorFinalizer removes the finalizer that no Knative Operator removes any more.
func (h *handedOver) removeOperatorFinalizer(t *testing.T, name string) {
	t.Helper()
	resource, err := h.resources(api.Serving).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	at := slices.Index(resource.GetFinalizers(), operatorFinalizer)
	if at < 0 {
		t.Fatalf("the resource has the finalizers %q", resource.GetFinalizers())
	}
	patch := fmt.Appendf(nil, `[{"op":"test","path":"/metadata/finalizers/%d","value":%q},{"op":"remove","path":"/metadata/finalizers/%d"}]`, at, operatorFinalizer, at)
	if _, err := h.resources(api.Serving).Patch(t.Context(), name, types.JSONPatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}
