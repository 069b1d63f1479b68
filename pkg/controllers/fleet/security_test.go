// Copyright Contributors to the Open Cluster Management project

package fleet

import (
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"open-cluster-management.io/knative-addon/pkg/api"
	fleetv1alpha1 "open-cluster-management.io/knative-addon/pkg/api/fleet/v1alpha1"
	"open-cluster-management.io/knative-addon/pkg/render"
	"open-cluster-management.io/knative-addon/pkg/target"
	"open-cluster-management.io/knative-addon/pkg/trust"
)

// readChild returns the child of a KnativeFleet in namespace team with that spec.
func readChild(t *testing.T, spec string) *unstructured.Unstructured {
	t.Helper()
	fleet := &fleetv1alpha1.KnativeFleet{}
	fleet.Namespace, fleet.Name, fleet.UID = team, fleetName, "uid-web"
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(decode(t, spec), &fleet.Spec); err != nil {
		t.Fatal(err)
	}
	templates, no := readTemplates(&fleet.Spec)
	if no != nil {
		t.Fatal(no.message)
	}
	return newChild(fleet, templates, api.Serving, "c1", time.Unix(1000, 0))
}

// TestContentOfAChildIsRefused holds that the checks of the manager refuse, in a child of a namespace that is not trusted, the content
// that the checks refuse in a resource of a tenant: nothing depends on the writer of the resource.
func TestContentOfAChildIsRefused(t *testing.T) {
	renderer, err := render.New(render.Config{Trust: trust.Policy{Namespaces: []string{"administrators"}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = renderer.Close() })
	const kourier = `"version": "1.23", "ingress": {"kourier": {"enabled": true}}`
	for name, tc := range map[string]struct{ spec, reason string }{
		"ordinary content": {`{` + kourier + `}`, ""},
		"a patch of a role": {`{` + kourier + `, "patches": [{"target": {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "name": "knative-serving-admin"},
			"patch": {"type": "merge", "content": "{\"rules\": [{\"apiGroups\": [\"*\"], \"resources\": [\"*\"], \"verbs\": [\"*\"]}]}"}}]}`, api.ReasonEscalationNotPermitted},
		"an image of another registry":     {`{` + kourier + `, "registry": {"default": "evil.example.com/${NAME}:1"}}`, api.ReasonEscalationNotPermitted},
		"a Pod in the network of its host": {`{` + kourier + `, "workloads": [{"name": "controller", "hostNetwork": true}]}`, api.ReasonEscalationNotPermitted},
	} {
		t.Run(name, func(t *testing.T) {
			child := readChild(t, `{"selector": {}, "serving": {"spec": `+tc.spec+`}}`)
			install, err := render.Decode(child)
			if err == nil {
				_, err = renderer.Render(t.Context(), install, render.DefaultOptions(api.ModeManifestWork))
			}
			reason := ""
			if err != nil {
				reason = string(render.ReasonOf(err))
			}
			if reason != tc.reason {
				t.Errorf("the reason is %q (error %v), want %q", reason, err, tc.reason)
			}
		})
	}
}

// TestAnnotationsOfAChildAreRefused holds that annotations of the template that take over or delete do not count where the namespace of the
// KnativeFleet is not trusted.
func TestAnnotationsOfAChildAreRefused(t *testing.T) {
	finder := &target.Finder{Trust: trust.Policy{Namespaces: []string{"administrators"}}}
	for annotation, refused := range map[string]bool{api.AdoptAnnotation: true, api.ForceOrphanAnnotation: true, "example.com/mine": false} {
		got, err := finder.Annotations(readChild(t, `{"selector": {}, "serving": {"metadata": {"annotations": {"`+annotation+`": "true"}}}}`))
		if err != nil {
			t.Fatal(err)
		}
		if slices.Contains(got.Refused, "annotation "+annotation+"=true") != refused || (got.Reason == api.ReasonEscalationNotPermitted) != refused {
			t.Errorf("annotation %s: %+v", annotation, got)
		}
	}
}

// TestATemplateSetsNoReference holds that a template names neither a cluster nor a record of the manager.
func TestATemplateSetsNoReference(t *testing.T) {
	for name, template := range map[string]string{
		"a reference":       `{"spec": {"clusterProfileRef": {"namespace": "red", "name": "c1"}}}`,
		"a revision":        `{"metadata": {"annotations": {"` + api.FleetRevisionAnnotation + `": "1"}}}`,
		"the label":         `{"metadata": {"labels": {"` + api.FleetLabel + `": "another"}}}`,
		"a spec as a list":  `{"spec": []}`,
		"a request to take": `{"metadata": {"annotations": {"` + api.FleetAdoptAnnotation + `": "another"}}}`,
		"a turn":            `{"metadata": {"annotations": {"` + api.RenderingTurnAnnotation + `": "r1"}}}`,
		"a cluster":         `{"metadata": {"annotations": {"` + api.InstalledOnAnnotation + `": "u1"}}}`,
		"a rollback":        `{"metadata": {"annotations": {"` + api.RollbackAnnotation + `": "1"}}}`,
		"a pin":             `{"metadata": {"annotations": {"` + api.PinnedVersionAnnotation + `": "1.22.0"}}}`,
	} {
		t.Run(name, func(t *testing.T) {
			h := newHub(t, `{"selector": {}, "serving": `+template+`}`, threeProfiles()...)
			h.pass()
			h.shows("Ready=False/InvalidSpec")
			if got := len(h.children(api.Serving)); got > 0 {
				t.Errorf("there are %d children", got)
			}
		})
	}
}
