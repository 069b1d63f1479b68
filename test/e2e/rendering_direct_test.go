// Copyright Contributors to the Open Cluster Management project

package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/test/e2e/harness"
	"open-cluster-management.io/knative-addon/test/lab"
)

// otherDirectRendering makes a manager render every spec differently in both deliveries: the CRDs keep their descriptions.
const otherDirectRendering = "--keep-crd-descriptions"

// The CRD that a cluster refuses, or that another client changes.
const (
	serviceCRD         = "services.serving.knative.dev"
	serviceCRDRule     = "apiGroups: [apiextensions.k8s.io], resources: [customresourcedefinitions], resourceNames: [" + serviceCRD + "]"
	withoutDescription = "object.spec.versions.all(v, !has(v.schema.openAPIV3Schema.description))"
	withDescription    = "object.spec.versions.all(v, has(v.schema.openAPIV3Schema.description))"
	addDescription     = `[{"op": "add", "path": "/spec/versions/0/schema/openAPIV3Schema/description", "value": "any"}]`
	removeDescription  = `[{"op": "remove", "path": "/spec/versions/0/schema/openAPIV3Schema/description"}]`
)

// TestDirectRenderings replaces the manager of a KnativeFleet, with one managed cluster and two clusters that OCM does not manage, by a
// manager that renders the same spec differently. A cluster that refuses the rendering stops the rollout, across restarts of the manager.
func TestDirectRenderings(t *testing.T) {
	startNightlyStory(t)
	l := ownLab(t, lab.Options{ManagedClusters: 1, Spokes: 2, StatusSyncInterval: statusSync})
	p := installDeliveryHub(t, l, harness.Options{})
	p.bind(t)
	for _, c := range p.Spokes {
		p.token(t, c.Name, c, c.Credential.Token)
	}
	f := knativeFleet{push: p, clusters: []string{p.Managed[0].Name, p.Spokes[0].Name, p.Spokes[1].Name}}
	if _, err := f.fleets().Create(t.Context(), f.web(kourier()), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	f.becomesReady(t, 3)
	f.patchFleet(t, map[string]any{"rolloutStrategy": map[string]any{"type": "Progressive", "progressive": map[string]any{
		"maxConcurrency": int64(1), "minSuccessTime": "2s", "progressDeadline": "60s", "maxFailures": int64(0),
	}}})

	t.Run("a cluster that refuses a new rendering stops the cluster after it", func(t *testing.T) { f.stopDirectRendering(t) })
	t.Run("a waiting cluster is repaired as far as both renderings agree", func(t *testing.T) { f.repairWaiting(t) })
	t.Run("the rollout continues when the cluster accepts the rendering", func(t *testing.T) { f.continueDirectRendering(t) })
	t.Run("an annotation of the KnativeFleet gives a rendering to all clusters at once", func(t *testing.T) { f.giveDirectRenderingAtOnce(t) })
}

// awaitTurn waits until condition RenderingCurrent of the children is as wanted.
func (f knativeFleet) awaitTurn(t *testing.T, status metav1.ConditionStatus, reason string, names ...string) {
	t.Helper()
	for _, name := range names {
		f.becomes(t, api.Serving, name, conditionState{api.RenderingCurrent, status, reason})
	}
}

// patchCRD changes the CRD on a cluster with a JSON patch.
func patchCRD(ctx context.Context, s spoke, patch string, options metav1.PatchOptions) (*unstructured.Unstructured, error) {
	crds := s.dynamic.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	return crds.Patch(ctx, serviceCRD, types.JSONPatchType, []byte(patch), options)
}

// readCRD returns the short names of the CRD on a cluster, and whether the CRD has a description.
func readCRD(t *testing.T, s spoke) (shortNames []string, described bool) {
	t.Helper()
	crd, err := patchCRD(t.Context(), s, "[]", metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
	if err != nil {
		t.Fatal(err)
	}
	shortNames, _, _ = unstructured.NestedStringSlice(crd.Object, "spec", "names", "shortNames")
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	version, _ := versions[0].(map[string]any)
	description, _, _ := unstructured.NestedString(version, "schema", "openAPIV3Schema", "description")
	return shortNames, description != ""
}

// refuseCRD makes the cluster refuse every change of the CRD that the expression does not permit, such as the patch.
func refuseCRD(t *testing.T, c *lab.Cluster, expression, patch string) {
	t.Helper()
	if err := c.Apply(t.Context(), denialOf(serviceCRDRule, expression)); err != nil {
		t.Fatal(err)
	}
	s := connect(t, c)
	eventually(t, "the policy is in force", time.Minute, func(ctx context.Context) error {
		_, err := patchCRD(ctx, s, patch, metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
		return checkDenied(err, renderingDenial)
	})
}

func (f knativeFleet) stopDirectRendering(t *testing.T) {
	first, refusing, last := f.clusters[0], f.clusters[1], f.clusters[2]
	refuseCRD(t, f.Spokes[0], withoutDescription, addDescription)
	waiting := connect(t, f.Spokes[1])
	before := waiting.restingSpecs(t)
	for range 2 {
		f.deleteStops(t)
		f.runManager(t, otherDirectRendering)
		f.awaitTurn(t, metav1.ConditionTrue, api.ReasonRenderingRuns, first)
		f.awaitTurn(t, metav1.ConditionUnknown, api.ReasonRenderingDelivering, refusing)
		f.awaitTurn(t, metav1.ConditionFalse, api.ReasonRenderingWaits, last)
		f.awaitStop(t, refusing)
	}
	f.ready(t, api.Serving, last)
	f.becomes(t, api.Serving, refusing, conditionState{api.InstallSucceeded, metav1.ConditionFalse, api.ReasonApplyFailed})
	if diff := cmp.Diff(before, specs(t, waiting)); diff != "" {
		t.Errorf("the waiting cluster was written to (-before +after):\n%s", diff)
	}
}

// repairWaiting deletes a Deployment, which both renderings have, and changes a CRD, which the new rendering changes too.
func (f knativeFleet) repairWaiting(t *testing.T) {
	name, c := f.clusters[2], f.Spokes[1]
	f.repairDeployment(t, name, c)
	if _, err := patchCRD(t.Context(), connect(t, c), `[{"op": "replace", "path": "/spec/names/shortNames", "value": ["other"]}]`, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the condition names the CRD", time.Minute, func(ctx context.Context) error {
		s, err := f.read(ctx, api.Serving, name)
		if err != nil {
			return err
		}
		if got := s.conditions[api.RenderingCurrent]; got.Status != metav1.ConditionFalse || !strings.Contains(got.Message, serviceCRD+" was changed") {
			return fmt.Errorf("RenderingCurrent is %+v", got)
		}
		return nil
	})
}

func (f knativeFleet) continueDirectRendering(t *testing.T) {
	f.acceptRendering(t, f.Spokes[0])
	f.awaitTurn(t, metav1.ConditionTrue, api.ReasonRenderingRuns, f.clusters...)
	if names, described := readCRD(t, connect(t, f.Spokes[1])); len(names) != 2 || !described {
		t.Errorf("the CRD of the new rendering has the short names %q, and a description: %t", names, described)
	}
	f.becomesReady(t, 3)
}

func (f knativeFleet) giveDirectRenderingAtOnce(t *testing.T) {
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, api.RenderingAnnotation, api.RenderingImmediate)
	if _, err := f.fleets().Patch(t.Context(), "web", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	refusing, last := f.clusters[1], f.clusters[2]
	before, err := f.read(t.Context(), api.Serving, last)
	if err != nil {
		t.Fatal(err)
	}
	refuseCRD(t, f.Spokes[0], withDescription, removeDescription)
	f.runManager(t)
	f.awaitTurn(t, metav1.ConditionUnknown, api.ReasonRenderingDelivering, refusing)
	eventually(t, last+" runs the other rendering", 3*time.Minute, func(ctx context.Context) error {
		s, err := f.read(ctx, api.Serving, last)
		if err != nil {
			return err
		}
		if got := s.conditions[api.RenderingCurrent]; got.Status != metav1.ConditionTrue || got.Message == before.conditions[api.RenderingCurrent].Message {
			return errors.New(got.Message)
		}
		return nil
	})
	f.awaitTurn(t, metav1.ConditionUnknown, api.ReasonRenderingDelivering, refusing)
	f.acceptRendering(t, f.Spokes[0])
	f.awaitTurn(t, metav1.ConditionTrue, api.ReasonRenderingRuns, f.clusters...)
	f.becomesReady(t, 3)
}
