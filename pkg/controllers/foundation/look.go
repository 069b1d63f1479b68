// Copyright Contributors to the Open Cluster Management project

package foundation

import (
	"fmt"

	"k8s.io/apimachinery/pkg/types"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/delivery"
	"open-cluster-management.io/knative-addon/pkg/delivery/work"
	"open-cluster-management.io/knative-addon/pkg/render"
	"open-cluster-management.io/knative-addon/pkg/resolve"
)

// sight is what is known of whose the component on the cluster is.
type sight struct {
	// clear tells that it is ours, or that there is none: the cluster may be written to.
	clear bool
	// refusal says whose it is; nil when that is not known, or clear.
	refusal *resolve.Result
}

// look tells what the probe has found where nothing is installed yet. What is installed is ours, and so is what was left on
// the cluster for this hub; somebody else's is taken over only when that is asked for.
func (r *Reconciler) look(s *scope, bundle *render.Bundle, hub types.UID) sight {
	switch {
	case s.foundation != nil && !work.IsProbe(s.foundation), len(s.payloads) > 0, r.Adoptions.Adopts(s.addon):
		return sight{clear: true}
	case s.foundation == nil, bundle != nil && !work.IsProbeFor(s.foundation, bundle):
		return sight{} // nobody has looked where this bundle goes
	}
	found := work.FoundBy(s.foundation)
	refuse := func(reason, format string, args ...any) sight {
		return sight{refusal: &resolve.Result{Reason: reason, Message: fmt.Sprintf("cluster %q has %s ", s.namespace, s.component) + fmt.Sprintf(format, args...)}}
	}
	const choice = "remove one of the two, and this one goes on if it is left, or set annotation %s to \"true\" to have it taken over"
	switch {
	case found.Waiting != "":
		return sight{}
	case len(found.Direct) > 0:
		return refuse(api.ReasonTargetConflict, "by Direct delivery, of this or another hub: %s; "+choice, delivery.Listed(found.Direct), api.AdoptAnnotation)
	case found.Hub == string(hub):
		return sight{clear: true}
	case found.AppliedBy != "":
		return refuse(api.ReasonTargetConflict, "by %s (AppliedManifestWork %s): %s; "+choice,
			otherHub(found.Hub), found.AppliedBy, delivery.Listed(found.Applied), api.AdoptAnnotation)
	case len(found.Workloads) > 0:
		return refuse(api.ReasonExistingInstallation,
			"already, and it is not ours: %s; it is left alone: remove it, or set annotation %s to \"true\" to have it taken over",
			delivery.Listed(found.Workloads), api.AdoptAnnotation)
	}
	return sight{clear: true}
}

func otherHub(uid string) string {
	if uid == "" {
		return "another hub or another ManifestWork"
	}
	return fmt.Sprintf("another hub, whose namespace kube-system has UID %s", uid)
}
