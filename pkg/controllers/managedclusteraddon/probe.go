// Copyright Contributors to the Open Cluster Management project

package managedclusteraddon

import (
	"context"
	"fmt"
	"slices"

	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/knative-addon/pkg/addon"
	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/delivery"
	"open-cluster-management.io/knative-addon/pkg/delivery/manifestwork"
	"open-cluster-management.io/knative-addon/pkg/render"
	"open-cluster-management.io/knative-addon/pkg/resolve"
	"open-cluster-management.io/knative-addon/pkg/target"
)

// determineOwnership derives the owner of the component on the cluster from the report of the probe, as long as the add-on has no
// installation. An installation without a foundation belongs to this hub, and waits for the report too, which is the record of the next
// foundation. An installation of this add-on belongs to this hub, as does an earlier installation that this hub left on the
// cluster. The installation of another installer is taken over only on request, and only in the namespace of that installation:
// otherwise the cluster would have two. bundle is nil when the configuration has a fault.
func (r *Reconciler) determineOwnership(s *scope, bundle *render.Bundle) addon.Ownership {
	switch {
	case s.awaitsProbe():
		return addon.Ownership{}
	case !s.permitsProbe():
		return r.determineMoveOwnership(s, bundle)
	case s.foundation == nil, bundle != nil && !manifestwork.IsProbeFor(s.foundation, bundle):
		return addon.Ownership{} // no probe has reported on the namespace of this bundle
	}
	found, otherNamespace := manifestwork.FoundBy(s.foundation), ""
	if bundle != nil {
		otherNamespace = found.OtherNamespace(bundle.Namespace)
	}
	switch {
	case found.Waiting != "":
		return addon.Ownership{}
	case s.lacksFoundation():
		return r.determineMoveOwnership(s, bundle)
	case otherNamespace == "" && r.Permissions.Adopts(s.addon):
		return addon.Ownership{Clear: true}
	}
	if refusal := s.findOtherOwner(&found, otherNamespace); refusal != nil {
		return addon.Ownership{Refusal: refusal}
	}
	if bundle != nil && bundle.Namespace != s.component.InstallNamespace() && found.HadNamespace(bundle.Namespace, s.hub) && !r.Permissions.EntersNamespaces(s.addon) {
		return s.refuseNamespace(fmt.Sprintf("cluster %q had namespace %q before", s.namespace, bundle.Namespace))
	}
	return addon.Ownership{Clear: true}
}

// findOtherOwner returns the refusal that names the installation of another owner, or an installation in another namespace; nil when
// the cluster has neither.
func (s *scope) findOtherOwner(found *manifestwork.Found, otherNamespace string) *resolve.Result {
	refuse := func(reason, format string, args ...any) *resolve.Result {
		return &resolve.Result{Reason: reason, Message: fmt.Sprintf("cluster %q has %s ", s.namespace, s.component) + fmt.Sprintf(format, args...)}
	}
	const choice = target.RemoveOne + "; or %s"
	adopt := s.orAdopt(otherNamespace)
	switch {
	case len(found.Direct) > 0:
		return refuse(api.ReasonTargetConflict, "by Direct delivery, of this or another hub: %s; "+choice, delivery.Listed(found.Direct), adopt)
	case found.AppliedBy != "" && found.Hub != string(s.hub):
		return refuse(api.ReasonTargetConflict, "by %s (AppliedManifestWork %s): %s; "+choice,
			describeOtherHub(found.Hub), found.AppliedBy, delivery.Listed(found.Applied), adopt)
	case otherNamespace != "":
		return refuse(api.ReasonExistingInstallation, "in namespace %q, which %s names, and the installation stays unchanged; remove the installation and %s, or %s",
			otherNamespace, found.Binding, found.Binding, adopt)
	case len(found.Workloads) > 0 && found.Hub != string(s.hub):
		return target.RefuseUnmanaged(fmt.Sprintf("cluster %q", s.namespace), s.component, found.Workloads, adopt)
	}
	return nil
}

// orAdopt ends the message about an installation that may be adopted; otherNamespace is the namespace of the installation unless the
// installation is in the install namespace.
func (s *scope) orAdopt(otherNamespace string) string {
	where := ""
	if otherNamespace != "" {
		where = fmt.Sprintf("annotation %s to %q on the %s, and ", api.InstallNamespaceAnnotation, otherNamespace, s.component.Kind())
	}
	return fmt.Sprintf("set %sannotation %s to \"true\" on the ManagedClusterAddOn, or on a resource of a namespace that rendering.trustedNamespaces of the chart lists, to adopt the installation",
		where, api.AdoptAnnotation)
}

// determineMoveOwnership refuses to move an installation to another namespace: the probe has not reported on that namespace, which
// may belong to another installer.
func (r *Reconciler) determineMoveOwnership(s *scope, bundle *render.Bundle) addon.Ownership {
	if bundle == nil || bundle.Namespace == s.component.InstallNamespace() || r.Permissions.EntersNamespaces(s.addon) ||
		s.isInstalledIn(bundle.Namespace) {
		return addon.Ownership{Clear: true}
	}
	return s.refuseNamespace(fmt.Sprintf("cluster %q has %s in another namespace than %q", s.namespace, s.component, bundle.Namespace))
}

// isInstalledIn reports whether the namespace is the install namespace of the installation: the foundation, or the report of the probe,
// names the namespace.
func (s *scope) isInstalledIn(namespace string) bool {
	if s.lacksFoundation() {
		return s.foundation != nil && manifestwork.FoundBy(s.foundation).Namespace == namespace
	}
	return s.foundation != nil && manifestwork.BringsNamespace(s.foundation, namespace)
}

// refuseNamespace refuses the install namespace that an annotation names.
func (s *scope) refuseNamespace(problem string) addon.Ownership {
	return addon.Ownership{Refusal: target.RefuseNamespace(problem, s.component)}
}

func describeOtherHub(uid string) string {
	if uid == "" {
		return "another hub or another ManifestWork"
	}
	return fmt.Sprintf("another hub, whose namespace kube-system has UID %s", uid)
}

// ensureProbe writes the probe, with which the work agent reports the owner of the component. Only an installation has a gate and a
// verification.
func (r *Reconciler) ensureProbe(ctx context.Context, s *scope, bundle *render.Bundle) error {
	if s.hasNoInstallation() {
		for _, w := range s.listOtherWorks() {
			if err := r.deleteWork(ctx, w); err != nil {
				return err
			}
		}
	}
	want, err := manifestwork.Probe(bundle, s.addon)
	if err != nil {
		return err
	}
	return r.ensureFoundationWork(ctx, s, want)
}

// deleteReplacedProbe deletes the probe beside a foundation. The agent applies the CRDs of the foundation with the permission of the
// probe, and checks every object of the probe twice at the deletion: the probe stays until the agent has applied all works.
func (r *Reconciler) deleteReplacedProbe(ctx context.Context, s *scope) error {
	isPending := func(w *workv1.ManifestWork) bool {
		applied, _ := manifestwork.Applied(w)
		return !applied
	}
	if s.replacedProbe == nil || len(s.payloads) == 0 || isPending(s.foundation) || slices.ContainsFunc(s.payloads, isPending) {
		return nil
	}
	return r.deleteWork(ctx, s.replacedProbe)
}
