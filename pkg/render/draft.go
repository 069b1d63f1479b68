// Copyright Contributors to the Open Cluster Management project

package render

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"knative.dev/operator/pkg/apis/operator/base"

	"open-cluster-management.io/knative-addon/pkg/api"
)

// draft is a bundle in the making.
type draft struct {
	component api.Component
	version   string
	namespace string
	spec      base.KComponentSpec
	patches   []Patch
	// ingresses are the ingresses that a KnativeServing enables.
	ingresses []string
	options   Options
	allowed   allowedKinds
	objects   []*unstructured.Unstructured
	// users are the objects that the user wrote or patched, in contrast to objects of a release.
	users map[ObjectID]bool
	// additional are the objects of spec.additionalManifests.
	additional map[ObjectID]bool
	warnings   []string
	// store shares equal objects between bundles.
	store *objectStore
	// patched is the number of bytes that the patches have read and written.
	patched int
	// stopped returns the reason to end the rendering early; a nil function means never.
	stopped func() error
}

// step is one change that makes the operator's output deliverable.
type step struct {
	name string
	run  func(*draft) error
}

// draftSteps returns the steps in their order. docs/rendering.md uses the same names. Patches apply when every object is
// unique and has a final name; the steps that drop the fields of the cluster follow, so that no patch can start a fight
// with Knative's own controllers.
func draftSteps() []step {
	return []step{
		{"restore-cluster-scope", restoreClusterScope},
		{"use-install-namespace", useInstallNamespace},
		{"mirror-queue-image", mirrorQueueImage},
		{"name-jobs", nameJobs},
		{"keep-jobs", keepFinishedJobs},
		{"take-origin", readOrigins},
		{"deduplicate", deduplicateObjects},
		{"ensure-namespace", ensureNamespace},
		{"warn-unmatched", warnUnmatched},
		{"patch", applyPatches},
		{"check-identity", checkIdentity},
		{"drop-server-fields", dropServerFields},
		{"drop-nulls", dropNulls},
		{"drop-scaled-replicas", dropScaledReplicas},
		{"drop-adapter-environment", dropAdapterEnvironment},
		{"drop-webhook-fields", dropWebhookFields},
		{"drop-aggregated-rules", dropAggregatedRules},
		{"trim-descriptions", trimDescriptions},
		{"trim-examples", trimExamples},
		{"add-claims", addClaims},
		{"add-start-policies", addStartPolicies},
	}
}

func (d *draft) buildBundle() (*Bundle, error) {
	for _, s := range draftSteps() {
		if err := d.checkStopped(); err != nil {
			return nil, err
		}
		if err := s.run(d); err != nil {
			return nil, err
		}
	}
	sortObjects(d.objects)
	b, err := newBundle(d)
	if err != nil {
		return nil, err
	}
	if err := d.checkSize(b); err != nil {
		return nil, err
	}
	return b, nil
}

// checkStopped returns the reason to end the rendering; nil to continue.
func (d *draft) checkStopped() error {
	if d.stopped == nil {
		return nil
	}
	return d.stopped()
}

// forEachObject calls f with every object.
func (d *draft) forEachObject(f func(*unstructured.Unstructured)) {
	for _, u := range d.objects {
		f(u)
	}
}

// isKind reports whether u is of the kind; the version does not matter.
func isKind(u *unstructured.Unstructured, group, kind string) bool {
	gvk := u.GroupVersionKind()
	return gvk.Group == group && gvk.Kind == kind
}
