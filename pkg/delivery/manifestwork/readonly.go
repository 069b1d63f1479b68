// Copyright Contributors to the Open Cluster Management project

package manifestwork

import (
	"slices"

	workv1 "open-cluster-management.io/api/work/v1"
)

// The work agent applies a work and deletes the objects of a deleted work in two controllers, which do not wait for each other. A pass of
// the first that is under way during a deletion creates deleted objects again. The agent makes the AppliedManifestWork the owner of an
// object that the agent applies server-side by a second request, and the object stays on the cluster for ever when that request fails.
// Such a pass is frequent: a pass that deletes objects, such as the pass of a reclaim, is followed by another pass after 5
// milliseconds, and reports before. Therefore the agent applies a payload without writes before the payload is deleted: the agent
// runs the passes of a work one after the other, so that no pass writes when the agent has reported this payload.

// everyNamespace matches every namespace and objects without a namespace, and marks the entries of readOnlyPayload.
const everyNamespace = "**"

// readOnlyPayload returns the payload with entries by which the agent reads all objects and writes none.
func readOnlyPayload(payload *workv1.ManifestWork) *workv1.ManifestWork {
	out := payload.DeepCopy()
	out.Spec.ManifestConfigs = append(readOnlyEntries(payload), out.Spec.ManifestConfigs...)
	return out
}

// readOnlyEntries returns an entry for each kind that the agent has reported. The agent uses the strategy of the first matching entry.
func readOnlyEntries(payload *workv1.ManifestWork) []workv1.ManifestConfigOption {
	var out []workv1.ManifestConfigOption
	for _, m := range payload.Status.ResourceStatus.Manifests {
		id := resourceIdentifier(m.ResourceMeta.Group, m.ResourceMeta.Resource, everyNamespace)
		if id.Resource == "" || slices.ContainsFunc(out, func(c workv1.ManifestConfigOption) bool { return c.ResourceIdentifier == id }) {
			continue
		}
		out = append(out, workv1.ManifestConfigOption{
			ResourceIdentifier: id, FeedbackScrapeType: workv1.FeedbackPollType,
			UpdateStrategy: &workv1.UpdateStrategy{Type: workv1.UpdateStrategyTypeReadOnly},
		})
	}
	return out
}

// isReadOnly reports whether readOnlyPayload has returned the payload.
func isReadOnly(payload *workv1.ManifestWork) bool {
	return slices.ContainsFunc(payload.Spec.ManifestConfigs, isReadOnlyEntry)
}

func isReadOnlyEntry(c workv1.ManifestConfigOption) bool {
	return c.UpdateStrategy != nil && c.UpdateStrategy.Type == workv1.UpdateStrategyTypeReadOnly && c.ResourceIdentifier.Namespace == everyNamespace
}

// dropReadOnly makes the agent write the objects of the work, which the caller owns.
func dropReadOnly(w *workv1.ManifestWork) {
	w.Spec.ManifestConfigs = slices.DeleteFunc(w.Spec.ManifestConfigs, isReadOnlyEntry)
}
