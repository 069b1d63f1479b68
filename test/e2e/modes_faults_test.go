// Copyright Contributors to the Open Cluster Management project

package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"

	"open-cluster-management.io/knative-addon/pkg/api"
)

// fault is something that goes wrong with an installation that is Ready, and what users see of it.
type fault struct {
	name string
	// cause makes it, mend undoes it.
	cause, mend func(t *testing.T, w way)
	// namespace is that of the resource that tells of it; empty means the one that has the installation.
	namespace string
	want      verdicts
	// says are texts that the message of Ready has.
	says []string
	// untouched means that nothing of it is a reason to write to the cluster.
	untouched bool
}

// run makes the fault on all clusters, then looks what is said of it, and mends it again.
func (f *fault) run(t *testing.T, ways []way) {
	var before map[string]string
	if f.untouched {
		for _, w := range ways {
			w.awaitWebhooksWritten(t)
		}
		before = awaitRest(t, "the Knative of all clusters", func(context.Context) (map[string]string, error) { // the fault before may be mended still
			return specsOf(t, ways), nil //nolint:contextcheck // the function uses the context of the test
		})
	}
	for _, w := range ways {
		f.cause(t, w)
	}
	for _, w := range ways {
		teller := w
		if f.namespace != "" {
			teller = w.in(f.namespace)
		}
		teller.shows(t, f.want, f.says...)
	}
	for _, w := range ways {
		f.mend(t, w)
	}
	for _, w := range ways {
		w.shows(t, verdicts{})
	}
	if !f.untouched {
		return
	}
	if diff := cmp.Diff(before, specsOf(t, ways)); diff != "" {
		t.Errorf("a cluster was written to (-before +after):\n%s", diff)
	}
}

// spokesOf returns the clusters of ways.
func spokesOf(ways []way) []spoke {
	out := make([]spoke, 0, len(ways))
	for _, w := range ways {
		out = append(out, w.spoke)
	}
	return out
}

// specsOf returns what specs returns of all clusters.
func specsOf(t *testing.T, ways []way) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, w := range ways {
		for name, version := range specs(t, w.spoke) {
			out[w.Name+" "+name] = version
		}
	}
	return out
}

// specFault is a fault of the spec: a patch, and one that takes it back.
func specFault(name string, patch, back map[string]any, want verdicts, says ...string) fault {
	return fault{
		name:  name,
		cause: func(t *testing.T, w way) { t.Helper(); w.spec(t, patch) },
		mend:  func(t *testing.T, w way) { t.Helper(); w.spec(t, back) },
		want:  want, says: says,
	}
}

// config is a patch of one key of Knative's configuration.
func config(name, key string, value any) map[string]any {
	return map[string]any{"config": map[string]any{name: map[string]any{key: value}}}
}

// specFaults are what users write that cannot be delivered. Nothing of it reaches a cluster.
func specFaults() []fault {
	version := map[string]any{"version": "1.23"}
	const class, kourierClass = "ingress-class", "kourier.ingress.networking.knative.dev"
	tooFar := unrendered(api.ReasonNotEligible)
	tooFar[api.VersionMigrationEligible] = "False " + api.ReasonNotEligible
	faults := []fault{
		specFault("a version that does not exist", map[string]any{"version": "9.9"}, version,
			unrendered("UnknownVersion"), `"9.9"`, "1.23"),
		specFault("a step over more than one minor version", map[string]any{"version": "1.20"}, version, tooFar, "1.22"),
		specFault("an ingress class that nobody serves",
			config("network", class, "contour.ingress.networking.knative.dev"), config("network", class, kourierClass),
			unrendered("IngressNotEnabled"), "contour", "spec.ingress"),
		specFault("a manifest from a host that is not allowed",
			map[string]any{"additionalManifests": []any{map[string]any{"URL": "https://example.com/more.yaml"}}},
			map[string]any{"additionalManifests": nil},
			unrendered("RemoteManifestRefused"), "example.com"),
	}
	for i := range faults {
		faults[i].untouched = true
	}
	kept := specFault("a bad edit, and a Deployment is deleted on the cluster", map[string]any{"version": "9.9"}, version, unrendered("UnknownVersion"))
	edit := kept.cause
	kept.cause = func(t *testing.T, w way) {
		t.Helper()
		edit(t, w)
		w.shows(t, unrendered("UnknownVersion"))
		w.restored(t)
	}
	return append(faults, kept)
}

// restored deletes a Deployment and waits until the Deployment is back and available. The add-on, if the cluster has one, reports
// first that the configuration is refused and that Knative is available.
func (w way) restored(t *testing.T) {
	t.Helper()
	if addOn := w.addOn(t.Context(), t, api.Serving, w.Name); addOn != nil {
		eventually(t, "the add-on is Available and Degraded", time.Minute, func(ctx context.Context) error {
			conditions := w.addOn(ctx, t, api.Serving, w.Name).Status.Conditions
			degraded := apimeta.FindStatusCondition(conditions, api.Degraded)
			if degraded == nil || degraded.Reason != api.ReasonConfigurationRefused || !strings.Contains(degraded.Message, "9.9") ||
				!apimeta.IsStatusConditionTrue(conditions, addonv1beta1.ManagedClusterAddOnConditionAvailable) {
				return fmt.Errorf("the conditions are %+v", conditions)
			}
			return nil
		})
	}
	deployments := w.kube.AppsV1().Deployments(api.Serving.InstallNamespace())
	before, err := deployments.Get(t.Context(), "autoscaler", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := deployments.Delete(t.Context(), "autoscaler", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the Deployment is back on "+w.Name, time.Minute, func(ctx context.Context) error {
		d, err := deployments.Get(ctx, "autoscaler", metav1.GetOptions{})
		if err == nil && (d.UID == before.UID || d.Status.AvailableReplicas == 0) {
			err = fmt.Errorf("UID %s, %d available", d.UID, d.Status.AvailableReplicas)
		}
		return err
	})
}

// clusterFaults are what goes wrong on clusters.
func clusterFaults() []fault {
	lacking := verdicts{api.DependenciesInstalled: "False " + api.ReasonKindMissing, api.InstallSucceeded: "False " + api.ReasonApplyFailed}
	return []fault{
		{name: "a workload is scaled by hand", cause: scaledByHand, mend: func(*testing.T, way) {}, want: verdicts{}},
		specFault("a workload never becomes ready",
			map[string]any{"workloads": []any{map[string]any{"name": "autoscaler", "nodeSelector": map[string]any{"no-node": "has-this"}}}},
			map[string]any{"workloads": nil},
			verdicts{api.DeploymentsAvailable: "False " + api.ReasonWorkloadsNotReady}, "Deployment knative-serving/autoscaler: "),
		imageFault(),
		{
			name: "a policy of the cluster and a webhook of Knative refuse objects", cause: denyObjects, mend: allowObjects,
			want: verdicts{api.InstallSucceeded: "False " + api.ReasonApplyFailed}, says: []string{
				"ConfigMap knative-serving/config-defaults: ", denialText,
				"ConfigMap knative-serving/config-autoscaler: ", "not a number",
			},
		},
		{
			name: "a quota of the cluster refuses an object", mend: endQuota,
			cause: func(t *testing.T, w way) {
				t.Helper()
				w.quota(t, corev1.ResourceServices)
				if err := w.kube.CoreV1().Services("knative-serving").Delete(t.Context(), "autoscaler", metav1.DeleteOptions{}); err != nil {
					t.Fatal(err)
				}
			},
			want: verdicts{api.InstallSucceeded: "False " + api.ReasonApplyFailed},
			says: []string{"Service knative-serving/autoscaler: ", "exceeded quota: full"},
		},
		{
			name: "a quota of the cluster refuses pods", mend: endQuota, untouched: true,
			cause: func(t *testing.T, w way) {
				t.Helper()
				w.quota(t, corev1.ResourcePods)
				err := w.kube.CoreV1().Pods("knative-serving").DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "app=autoscaler"})
				if err != nil {
					t.Fatal(err)
				}
			},
			want: verdicts{api.DeploymentsAvailable: "False " + api.ReasonWorkloadsNotReady}, says: []string{"Deployment knative-serving/autoscaler: "},
		},
		{
			name: "the cluster does not know what an ingress needs", want: lacking, says: []string{"PeerAuthentication knative-serving/webhook"},
			cause: func(t *testing.T, w way) {
				t.Helper()
				w.spec(t, map[string]any{
					"ingress": map[string]any{"kourier": map[string]any{"enabled": false}, "istio": map[string]any{"enabled": true}},
					"config":  map[string]any{"network": map[string]any{"ingress-class": nil}},
				})
			},
			mend: func(t *testing.T, w way) {
				t.Helper()
				w.spec(t, map[string]any{"ingress": map[string]any{"kourier": map[string]any{"enabled": true}, "istio": nil}, "config": kourier()["config"]})
				w.removesWorkload(t, "net-istio-controller")
			},
		},
		{
			name: "the cluster is out of sight", untouched: true,
			cause: func(t *testing.T, w way) { t.Helper(); w.lose(t) },
			mend:  func(t *testing.T, w way) { t.Helper(); w.find(t) },
			want:  verdicts{api.TargetClusterResolved: unseen},
		},
	}
}

// hubFaults are what goes wrong between the resource and the cluster.
func hubFaults() []fault {
	remove := func(namespace string) func(t *testing.T, w way) {
		return func(t *testing.T, w way) {
			t.Helper()
			w.in(namespace).delete(t)
			w.in(namespace).gone(t, api.Serving, w.Name)
		}
	}
	return []fault{
		{
			name: "the ClusterProfile is gone", untouched: true,
			cause: func(t *testing.T, w way) { t.Helper(); w.unpublish(t, w.team) },
			mend:  func(t *testing.T, w way) { t.Helper(); w.publish(t, w.team) },
			want:  verdicts{api.TargetClusterResolved: "False " + api.ReasonClusterProfileNotFound}, says: []string{"publish it"},
		},
		{
			name: "a bad spec while nothing leads to the cluster", untouched: true,
			cause: func(t *testing.T, w way) {
				t.Helper()
				w.unpublish(t, w.team)
				w.spec(t, map[string]any{"version": "9.9"})
			},
			mend: func(t *testing.T, w way) {
				t.Helper()
				w.spec(t, map[string]any{"version": "1.23"})
				w.publish(t, w.team)
			},
			want: verdicts{api.TargetClusterResolved: "False " + api.ReasonClusterProfileNotFound, api.InstallSucceeded: "False UnknownVersion"},
		},
		{
			name: "a second resource for the cluster", namespace: "green", untouched: true,
			cause: secondResource, mend: remove("green"),
			want: untold(api.ReasonTargetConflict), says: []string{"blue/", "came first", "the remaining one continues automatically"},
		},
		{
			name: "a reference that nobody has allowed", namespace: "red", untouched: true,
			cause: func(t *testing.T, w way) { t.Helper(); w.in("red").refer(t, w.namespace) },
			mend:  remove("red"),
			want:  untold(api.ReasonReferenceNotPermitted), says: []string{`namespace "red"`, `namespace "blue"`},
		},
	}
}

// removesWorkload waits until the cluster does not have a Deployment of Serving.
func (w way) removesWorkload(t *testing.T, name string) {
	t.Helper()
	eventually(t, "the end of Deployment "+name+" on "+w.Name, 2*time.Minute, func(ctx context.Context) error {
		_, err := w.kube.AppsV1().Deployments("knative-serving").Get(ctx, name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			return nil
		case err == nil:
			return errors.New("the Deployment exists")
		}
		return err
	})
}

func scaledByHand(t *testing.T, w way) {
	t.Helper()
	deployments := w.kube.AppsV1().Deployments("knative-serving")
	if err := w.scale(t.Context(), "autoscaler", 0); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is undone on "+w.Name, time.Minute, func(ctx context.Context) error {
		d, err := deployments.Get(ctx, "autoscaler", metav1.GetOptions{})
		if err == nil && (*d.Spec.Replicas != 1 || d.Status.AvailableReplicas != 1) {
			err = fmt.Errorf("%d replicas, %d available", *d.Spec.Replicas, d.Status.AvailableReplicas)
		}
		return err
	})
}

// kubectlDir returns a temporary directory for files of kubectl. The name of testing.T.TempDir has the name of the stage, and kubectl
// splits file names at commas.
func kubectlDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "knative-addon-e2e-") //nolint:usetesting // see above
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// kubectl runs kubectl with manifests on the cluster.
func (w way) kubectl(t *testing.T, manifests string, args ...string) {
	t.Helper()
	file := filepath.Join(kubectlDir(t), "manifests.yaml")
	if err := os.WriteFile(file, []byte(manifests), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Command(t.Context(), "kubectl", append([]string{"--kubeconfig", w.Kubeconfig, "--filename", file}, args...)...); err != nil {
		t.Fatal(err)
	}
}

func denyObjects(t *testing.T, w way) {
	t.Helper()
	w.kubectl(t, denial, "apply")
	eventually(t, "the policy is in force on "+w.Name, time.Minute, func(ctx context.Context) error {
		_, err := w.kube.CoreV1().ConfigMaps("knative-serving").Patch(ctx, "config-defaults", types.MergePatchType,
			[]byte(`{"data":{"x":"y"}}`), metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
		return checkDenied(err, denialText)
	})
	w.spec(t, config("defaults", "revision-timeout-seconds", "301"))
	w.spec(t, config("autoscaler", "max-scale", "not a number"))
}

func allowObjects(t *testing.T, w way) {
	t.Helper()
	w.kubectl(t, denial, "delete")
	w.spec(t, config("defaults", "revision-timeout-seconds", nil))
	w.spec(t, config("autoscaler", "max-scale", nil))
}

// quota lets the cluster make no more of a resource where Serving is.
func (w way) quota(t *testing.T, resource corev1.ResourceName) {
	t.Helper()
	_, err := w.kube.CoreV1().ResourceQuotas("knative-serving").Create(t.Context(), &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: "full"}, Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{resource: apiresource.MustParse("0")}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	// The API server asks a cache of its own, and until that has the quota what was deleted may come back.
	eventually(t, "the quota counts", time.Minute, func(ctx context.Context) error {
		dry, meta := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}, metav1.ObjectMeta{Name: "one-too-many"}
		var err error
		switch resource {
		case corev1.ResourceServices:
			service := &corev1.Service{ObjectMeta: meta, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}}
			_, err = w.kube.CoreV1().Services("knative-serving").Create(ctx, service, dry)
		default:
			pod := &corev1.Pod{ObjectMeta: meta, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
			_, err = w.kube.CoreV1().Pods("knative-serving").Create(ctx, pod, dry)
		}
		if err == nil {
			return fmt.Errorf("one more of %s is accepted", resource)
		}
		if !strings.Contains(err.Error(), "exceeded quota") {
			return fmt.Errorf("one more of %s: %w", resource, err)
		}
		return nil
	})
}

func endQuota(t *testing.T, w way) {
	t.Helper()
	if err := w.kube.CoreV1().ResourceQuotas("knative-serving").Delete(t.Context(), "full", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}

// secondResource is one of another team, with a ClusterProfile of its own of the same cluster.
func secondResource(t *testing.T, w way) {
	t.Helper()
	other := w.in("green")
	w.publish(t, other.team)
	other.refer(t, other.namespace)
}

// refer makes a resource for the cluster that refers to its ClusterProfile in that namespace.
func (w way) refer(t *testing.T, namespace string) {
	t.Helper()
	u := referring(api.Serving, w.namespace, w.Name, kourier())
	if err := unstructured.SetNestedStringMap(u.Object, map[string]string{"namespace": namespace, "name": w.Name}, "spec", "clusterProfileRef"); err != nil {
		t.Fatal(err)
	}
	if _, err := w.resources(api.Serving).Create(t.Context(), u, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}
