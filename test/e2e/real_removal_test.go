// Copyright Contributors to the Open Cluster Management project

package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"open-cluster-management.io/knative-addon/pkg/api"
)

// removeBoth disables both add-ons. The hub must not report the end before the cluster has removed all pods.
func (r *realStory) removeBoth(t *testing.T) {
	start := time.Now()
	if err := r.Disable(t.Context(), names(api.Components()), []string{r.on.Name}); err != nil {
		t.Fatal(err)
	}
	for _, component := range api.Components() {
		eventually(t, component.AddOnName()+" is gone from the hub", 5*time.Minute, func(ctx context.Context) error {
			a, err := r.AddOns.AddonV1beta1().ManagedClusterAddOns(r.on.Name).Get(ctx, component.AddOnName(), metav1.GetOptions{})
			switch {
			case apierrors.IsNotFound(err):
				return nil
			case err != nil:
				return err
			}
			return fmt.Errorf("the conditions are %+v", a.Status.Conditions)
		})
		t.Logf("the removal of %s took %s", component, time.Since(start).Round(100*time.Millisecond))
		r.on.checkEnded(t, component)
	}
	r.on.awaitRemovedExcept(t, bucketService)
}

// checkEnded holds that the cluster has no pod of a component, and no other object that must not outlive the pods.
func (s spoke) checkEnded(t *testing.T, component api.Component) {
	t.Helper()
	left, err := s.listRunLeftovers(t.Context(), component.InstallNamespace())
	if err != nil {
		t.Fatal(err)
	}
	if len(left) > 0 {
		t.Errorf("the hub reports the end of %s, and the cluster has %s", component, strings.Join(left, ", "))
	}
}

// bucketService begins the name of a Service that the autoscaler creates, and that stays after a removal.
const bucketService = "autoscaler-bucket-"

// listRunLeftovers lists what must not outlive the running pods: the pods with a container that has not ended, the objects that the add-on
// has delivered for the pods, and the Leases of a program that has released none of its Leases, for which the pods of the next
// installation would wait. Leases without a holder stay.
func (s spoke) listRunLeftovers(ctx context.Context, namespace string) ([]string, error) {
	var out []string
	var leases []unstructured.Unstructured
	for resource, group := range map[string]string{"pods": "", "services": "", "serviceaccounts": "", "leases": "coordination.k8s.io"} {
		list, err := s.dynamic.Resource(schema.GroupVersionResource{Group: group, Version: "v1", Resource: resource}).
			Namespace(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, fmt.Errorf("cannot list %s: %w", resource, err)
		}
		for _, o := range list.Items {
			phase, _, _ := unstructured.NestedString(o.Object, "status", "phase")
			switch {
			case resource == "serviceaccounts" && o.GetName() == "default": // Kubernetes creates this account in every Namespace
			case resource == "services" && strings.HasPrefix(o.GetName(), bucketService):
			case resource == "pods" && (phase == string(corev1.PodSucceeded) || phase == string(corev1.PodFailed)): // kubelet deletes the pod next
			case resource == "leases":
				leases = append(leases, o)
			default:
				out = append(out, resource+" "+o.GetName())
			}
		}
	}
	out = append(out, listHeldLeases(leases)...)
	slices.Sort(out)
	return out, nil
}

// fewestLeases is the number of Leases with which a program is judged: a program with fewer Leases may release none by chance.
const fewestLeases = 3

// listHeldLeases lists the Leases of programs that have released none of their Leases. A program of Knative reads and updates each of its
// Leases to release the Lease, and does not try again after a Conflict with its own renewal, which a busy node makes likely. A program
// without permissions releases none. The name of a Lease begins with the name of the program.
func listHeldLeases(leases []unstructured.Unstructured) []string {
	all, held := map[string]int{}, map[string][]string{}
	for i := range leases {
		program, _, _ := strings.Cut(leases[i].GetName(), ".")
		all[program]++
		if holder, _, _ := unstructured.NestedString(leases[i].Object, "spec", "holderIdentity"); holder != "" {
			held[program] = append(held[program], "lease "+leases[i].GetName()+" "+holder)
		}
	}
	var out []string
	for program, names := range held {
		if len(names) == all[program] && len(names) >= fewestLeases {
			out = append(out, names...)
		}
	}
	return out
}

// reinstallServing enables the add-on again: the Service that was there before has to answer without a request of its user.
func (r *realStory) reinstallServing(t *testing.T) {
	start := time.Now()
	enabled(t, r.Fleet, []api.Component{api.Serving}, r.on.Cluster)
	t.Logf("the add-on was Available after %s", time.Since(start).Round(100*time.Millisecond))
	r.on.answers(t)
	t.Logf("the Service answered after %s", time.Since(start).Round(100*time.Millisecond))
}
