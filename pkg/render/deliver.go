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
	// ingresses are those that a KnativeServing enables.
	ingresses []string
	options   Options
	allowed   kinds
	objects   []*unstructured.Unstructured
	// users are the objects that the user wrote or patched, as opposed to those of a release.
	users map[ObjectID]bool
	// additional are the objects of spec.additionalManifests.
	additional map[ObjectID]bool
	warnings   []string
	// store lets bundles share objects.
	store *objectStore
}

// step is one thing that makes the operator's output deliverable.
type step struct {
	name string
	run  func(*draft) error
}

// steps are what makes the operator's output deliverable, in order. The names are those of docs/rendering.md.
// What the user patches is what is left of the operator's output when every object is there once and has its name;
// what the spoke owns is dropped after that, so that no patch can start a fight with Knative's own controllers.
func steps() []step {
	return []step{
		{"restore-cluster-scope", restoreClusterScope},
		{"use-install-namespace", useInstallNamespace},
		{"mirror-queue-image", mirrorQueueImage},
		{"name-jobs", nameJobs},
		{"keep-jobs", keepJobs},
		{"take-origin", takeOrigin},
		{"deduplicate", deduplicate},
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
	}
}

func (d *draft) finish() (*Bundle, error) {
	for _, s := range steps() {
		if err := s.run(d); err != nil {
			return nil, err
		}
	}
	order(d.objects)
	b, err := newBundle(d)
	if err != nil {
		return nil, err
	}
	if err := d.checkSize(b); err != nil {
		return nil, err
	}
	return b, nil
}

// each runs f on every object.
func (d *draft) each(f func(*unstructured.Unstructured)) {
	for _, u := range d.objects {
		f(u)
	}
}

// is tells whether u is of the kind; the version does not matter.
func is(u *unstructured.Unstructured, group, kind string) bool {
	gvk := u.GroupVersionKind()
	return gvk.Group == group && gvk.Kind == kind
}
