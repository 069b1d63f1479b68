// Copyright Contributors to the Open Cluster Management project

package harness

import (
	"context"
	"fmt"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"
	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/delivery/manifestwork"
)

// Progress is how far an add-on has come on a cluster.
type Progress struct {
	// Applied of Objects are written on the cluster; Objects is 0 as long as there is no work.
	Applied, Objects int
	// Available of Workloads run.
	Available, Workloads int
	// Done tells that the add-on is Available; Message is what its conditions say otherwise.
	Done    bool
	Message string
}

// Progress reads how far an add-on has come on a cluster.
func (f *Fleet) Progress(ctx context.Context, component api.Component, cluster string) (Progress, error) {
	addOn, err := f.AddOns.AddonV1beta1().ManagedClusterAddOns(cluster).Get(ctx, component.AddOnName(), metav1.GetOptions{})
	if err != nil {
		return Progress{}, fmt.Errorf("cannot get add-on %q on cluster %q: %w", component, cluster, err)
	}
	p := Progress{
		Done:    apimeta.IsStatusConditionTrue(addOn.Status.Conditions, addonv1beta1.ManagedClusterAddOnConditionAvailable),
		Message: message(addOn),
	}
	works, err := f.ComponentWorks(ctx, component, cluster)
	if err != nil {
		return Progress{}, err
	}
	for i := range works {
		if works[i].Name != manifestwork.ProbeName(component) {
			p.add(&works[i])
		}
	}
	return p, nil
}

// Payloads selects the works that addon-framework makes for a component.
func Payloads(component api.Component) string {
	return addonv1beta1.AddonLabelKey + "=" + component.AddOnName() + ",!" + api.FoundationLabel
}

// ComponentWorks returns the works of a component on a cluster: foundation, gate and payload. A probe exists until the agent has applied
// foundation and payload.
func (f *Fleet) ComponentWorks(ctx context.Context, component api.Component, cluster string) ([]workv1.ManifestWork, error) {
	var out []workv1.ManifestWork
	for _, selector := range []string{api.FoundationLabel + "=" + string(component), Payloads(component)} {
		list, err := f.Works.WorkV1().ManifestWorks(cluster).List(ctx, metav1.ListOptions{LabelSelector: selector})
		if err != nil {
			return nil, fmt.Errorf("cannot list the works of cluster %q: %w", cluster, err)
		}
		out = append(out, list.Items...)
	}
	return out, nil
}

func (p *Progress) add(w *workv1.ManifestWork) {
	p.Objects += len(w.Spec.Workload.Manifests)
	for _, m := range w.Status.ResourceStatus.Manifests {
		if apimeta.IsStatusConditionTrue(m.Conditions, workv1.ManifestApplied) {
			p.Applied++
		}
		if m.ResourceMeta.Kind != "Deployment" && m.ResourceMeta.Kind != "StatefulSet" {
			continue
		}
		p.Workloads++
		if apimeta.IsStatusConditionTrue(m.Conditions, workv1.ManifestAvailable) {
			p.Available++
		}
	}
}

// message is the first condition of the add-on that tells of a problem.
func message(addOn *addonv1beta1.ManagedClusterAddOn) string {
	for _, condition := range []string{addonv1beta1.ManagedClusterAddOnManifestApplied, addonv1beta1.ManagedClusterAddOnConditionAvailable} {
		c := apimeta.FindStatusCondition(addOn.Status.Conditions, condition)
		if c != nil && c.Status != metav1.ConditionTrue {
			return c.Type + "=" + string(c.Status) + ": " + c.Message
		}
	}
	return ""
}
