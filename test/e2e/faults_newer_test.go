// Copyright Contributors to the Open Cluster Management project

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/delivery/manifestwork"
	"open-cluster-management.io/knative-addon/pkg/inventory"
	"open-cluster-management.io/knative-addon/test/e2e/harness"
	"open-cluster-management.io/knative-addon/test/lab"
)

const (
	// newerKey is an annotation, a label, a finalizer and a key of data that only a newer manager knows.
	newerKey = api.Prefix + "of-a-newer-manager"
	// newerField is a field of specs and statuses that only a newer manager knows, and newerCondition a condition of resources and add-ons.
	newerField, newerCondition = "ofANewerManager", "OfANewerManager"
	// newerValue is the value of these keys and fields.
	newerValue = "on"
)

// newerManager is a hub that had a newer manager, with one cluster for each mode of delivery.
type newerManager struct {
	push
	pulled, direct way
}

// TestNewerManager has this manager take over from a newer manager: the API servers hold content that this manager does not know.
func TestNewerManager(t *testing.T) {
	startNightlyStory(t)
	n := newNewerManager(t)
	n.extendCRD(t)
	n.installBoth(t)

	t.Run("an upgrade keeps the content of a newer manager", func(t *testing.T) { n.upgrade(t) })
	t.Run("a spec with a field of a newer manager is refused", func(t *testing.T) { n.refuseSpec(t) })
	t.Run("an anchor whose items have a field of a newer manager is refused", func(t *testing.T) { n.refuseItems(t) })
	n.checkKept(t)
}

// newNewerManager returns a hub with this manager, and with one cluster for each mode of delivery.
func newNewerManager(t *testing.T) newerManager {
	t.Helper()
	p := newPush(t, lab.Options{ManagedClusters: 1, Spokes: 1, StatusSyncInterval: statusSync}, harness.Options{})
	return newerManager{
		push:   p,
		pulled: way{push: p, spoke: connect(t, p.Managed[0])}, direct: way{push: p, spoke: connect(t, p.Spokes[0])},
	}
}

// installBoth installs version 1.22 on both clusters.
func (n newerManager) installBoth(t *testing.T) {
	t.Helper()
	n.bind(t)
	n.token(t, n.direct.Name, n.direct.Cluster, n.direct.Credential.Token)
	for _, w := range n.ways() {
		spec := kourier()
		spec["version"] = "1.22"
		w.apply(t, api.Serving, w.Name, spec)
	}
	n.awaitReady(t, verdicts{})
}

func (n newerManager) ways() []way { return []way{n.pulled, n.direct} }

// extendCRD adds the field of a newer manager to the CRD of KnativeServings. Helm leaves the CRDs of a newer chart on a hub.
func (n newerManager) extendCRD(t *testing.T) {
	t.Helper()
	var patch []map[string]any
	for _, part := range []string{"spec", "status"} {
		patch = append(patch, map[string]any{
			"op": "add", "value": map[string]any{"type": "string"},
			"path": "/spec/versions/0/schema/openAPIV3Schema/properties/" + part + "/properties/" + newerField,
		})
	}
	data, err := json.Marshal(patch)
	if err != nil {
		t.Fatal(err)
	}
	crds := n.hub.dynamic.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	if _, err := crds.Patch(t.Context(), api.Serving.Resource().GroupResource().String(), types.JSONPatchType, data, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}

// besideNewer adds the condition of a newer manager to verdicts.
func besideNewer(v verdicts) verdicts {
	v[newerCondition] = "True " + newerCondition
	return v
}

// awaitReady waits until both resources have the conditions of Ready resources and nothing more is to be written.
func (n newerManager) awaitReady(t *testing.T, want verdicts) {
	t.Helper()
	for _, w := range n.ways() {
		w.shows(t, want)
	}
	settled(t, n.Fleet, api.Serving, n.pulled.Cluster)
	n.checkRest(t)
}

// takeOver stops the manager, changes objects, and starts the manager.
func (n newerManager) takeOver(t *testing.T, change func()) {
	t.Helper()
	if err := n.Stop(harness.Manager); err != nil {
		t.Fatal(err)
	}
	change()
	if err := n.Start(harness.Manager); err != nil {
		t.Fatal(err)
	}
}

// newerObject is an object that a newer manager has written.
type newerObject struct {
	spoke
	resource        schema.GroupVersionResource
	namespace, name string
}

// objects are the objects that the manager writes again and again, except the payloads.
func (n newerManager) objects(t *testing.T) []newerObject {
	t.Helper()
	anchor, err := inventory.Owner{Component: api.Serving, Name: types.NamespacedName{Name: n.direct.Name}}.AnchorName()
	if err != nil {
		t.Fatal(err)
	}
	return []newerObject{
		{n.hub, api.Serving.Resource(), n.namespace, n.pulled.Name},
		{n.hub, api.Serving.Resource(), n.namespace, n.direct.Name},
		{n.hub, addOnResource, n.pulled.Name, api.Serving.AddOnName()},
		{n.hub, hubWrites()[0], n.pulled.Name, manifestwork.FoundationName(api.Serving)},
		{n.direct.spoke, schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}, api.Serving.InstallNamespace(), anchor},
	}
}

func (o newerObject) String() string { return o.resource.Resource + " " + o.namespace + "/" + o.name }

func (o newerObject) read(ctx context.Context, t *testing.T) *unstructured.Unstructured {
	t.Helper()
	u, err := o.dynamic.Resource(o.resource).Namespace(o.namespace).Get(ctx, o.name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// update changes the object. OCM's controllers and agents write some of the objects too.
func (o newerObject) update(t *testing.T, change func(u *unstructured.Unstructured) error, subresources ...string) {
	t.Helper()
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		u := o.read(t.Context(), t)
		if err := change(u); err != nil {
			return err
		}
		_, err := o.dynamic.Resource(o.resource).Namespace(o.namespace).Update(t.Context(), u, metav1.UpdateOptions{}, subresources...)
		return err
	})
	if err != nil {
		t.Fatalf("%s: %v", o, err)
	}
}

// addNewerContent writes everything that a newer manager may have written to the object.
func (o newerObject) addNewerContent(t *testing.T) {
	t.Helper()
	o.update(t, func(u *unstructured.Unstructured) error {
		finalizers := append(u.GetFinalizers(), newerKey)
		if o.resource == addOnResource {
			finalizers = []string{newerKey} // this manager has to add its own finalizer beside the unknown finalizer
		}
		u.SetFinalizers(finalizers)
		var errs []error
		for _, field := range []string{"annotations", "labels"} {
			errs = append(errs, unstructured.SetNestedField(u.Object, newerValue, "metadata", field, newerKey))
		}
		if o.resource.Resource == "configmaps" {
			errs = append(errs, unstructured.SetNestedField(u.Object, newerValue, "data", strings.ReplaceAll(newerKey, "/", ".")))
		}
		return errors.Join(errs...)
	})
	if !o.hasConditions() {
		return
	}
	o.update(t, func(u *unstructured.Unstructured) error {
		conditions, _, err := unstructured.NestedSlice(u.Object, "status", "conditions")
		err = errors.Join(err, unstructured.SetNestedSlice(u.Object, append(conditions, map[string]any{
			"type": newerCondition, "status": "True", "reason": newerCondition, "message": newerValue, "lastTransitionTime": "2026-01-01T00:00:00Z",
		}), "status", "conditions"))
		if o.resource == api.Serving.Resource() {
			err = errors.Join(err, unstructured.SetNestedField(u.Object, newerValue, "status", newerField))
		}
		return err
	}, "status")
}

// hasConditions reports whether the manager writes conditions of the object.
func (o newerObject) hasConditions() bool {
	return o.resource == api.Serving.Resource() || o.resource == addOnResource
}

// describeLoss lists the content of a newer manager that the object has lost.
func (o newerObject) describeLoss(u *unstructured.Unstructured) []string {
	fields := [][]string{{"metadata", "annotations", newerKey}, {"metadata", "labels", newerKey}}
	switch {
	case o.resource == api.Serving.Resource():
		fields = append(fields, []string{"status", newerField})
	case o.resource.Resource == "configmaps":
		fields = append(fields, []string{"data", strings.ReplaceAll(newerKey, "/", ".")})
	}
	var lost []string
	for _, field := range fields {
		if value, _, _ := unstructured.NestedString(u.Object, field...); value != newerValue {
			lost = append(lost, strings.Join(field, " "))
		}
	}
	if !slices.Contains(u.GetFinalizers(), newerKey) {
		lost = append(lost, "finalizer")
	}
	if o.hasConditions() && !hasNewerCondition(u) {
		lost = append(lost, "condition "+newerCondition)
	}
	return lost
}

func hasNewerCondition(u *unstructured.Unstructured) bool {
	conditions, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
	return slices.ContainsFunc(conditions, func(c any) bool {
		condition, _ := c.(map[string]any)
		return condition["type"] == newerCondition && condition["message"] == newerValue
	})
}

// checkKept holds that no object has lost content of a newer manager.
func (n newerManager) checkKept(t *testing.T) {
	t.Helper()
	for _, o := range n.objects(t) {
		if lost := o.describeLoss(o.read(t.Context(), t)); len(lost) > 0 {
			t.Errorf("%s has lost %s", o, strings.Join(lost, ", "))
		}
	}
}

// checkWritten returns an error until the manager has written the object for version 1.23.
func (o newerObject) checkWritten(u *unstructured.Unstructured) error {
	version := u.GetAnnotations()[api.VersionAnnotation]
	switch o.resource {
	case api.Serving.Resource():
		version, _, _ = unstructured.NestedString(u.Object, "status", "version")
	case addOnResource:
		if !slices.Contains(u.GetFinalizers(), api.FoundationFinalizer) {
			return fmt.Errorf("finalizers of %s are %q", o, u.GetFinalizers())
		}
		return nil
	}
	if !strings.HasPrefix(version, "1.23.") {
		return fmt.Errorf("%s has version %q", o, version)
	}
	return nil
}

// upgrade has a manager without knowledge of the content upgrade both clusters, so that the manager writes every object.
func (n newerManager) upgrade(t *testing.T) {
	n.takeOver(t, func() {
		for _, o := range n.objects(t) {
			o.addNewerContent(t)
		}
		n.checkKept(t) // the API servers accept the content
	})
	for _, w := range n.ways() {
		w.spec(t, map[string]any{"version": "1.23"})
	}
	for _, w := range n.ways() {
		eventually(t, w.Name+" runs the version", 3*time.Minute, w.spoke.runs("1.23."))
	}
	n.awaitReady(t, besideNewer(verdicts{}))
	for _, o := range n.objects(t) {
		eventually(t, "the manager has written "+o.String(), time.Minute, func(ctx context.Context) error { return o.checkWritten(o.read(ctx, t)) })
	}
	n.checkKept(t)
}

// readGenerations are the generations of the works of the pulled cluster. The gate carries nothing to the cluster.
func (n newerManager) readGenerations(t *testing.T) map[string]int64 {
	t.Helper()
	works, err := n.ComponentWorks(t.Context(), api.Serving, n.pulled.Name)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]int64{}
	for _, w := range works {
		if w.Name != manifestwork.GateName(api.Serving) {
			out[w.Name] = w.Generation
		}
	}
	return out
}

// watchRefusal runs the refusal of an edit, and holds that the refusal writes neither works nor objects of the clusters.
func (n newerManager) watchRefusal(t *testing.T, refuse func()) {
	t.Helper()
	before, generations := map[string]map[string]string{}, n.readGenerations(t)
	for _, w := range n.ways() {
		before[w.Name] = specs(t, w.spoke)
	}
	refuse()
	for _, w := range n.ways() {
		if diff := cmp.Diff(before[w.Name], specs(t, w.spoke)); diff != "" {
			t.Errorf("%s was written to (-before +after):\n%s", w.Name, diff)
		}
	}
	if diff := cmp.Diff(generations, n.readGenerations(t)); diff != "" {
		t.Errorf("works were written (-before +after):\n%s", diff)
	}
}

// refuseSpec adds the field of a newer manager to both specs, and removes the field after the refusal.
func (n newerManager) refuseSpec(t *testing.T) {
	n.watchRefusal(t, func() {
		n.takeOver(t, func() {
			for _, w := range n.ways() {
				w.spec(t, map[string]any{newerField: newerValue})
			}
		})
		for _, w := range n.ways() {
			w.shows(t, besideNewer(unrendered(api.ReasonInvalidSpec)), newerField)
		}
		n.awaitRefusedAddOn(t)
	})
	for _, w := range n.ways() {
		w.spec(t, map[string]any{newerField: nil})
	}
	n.awaitReady(t, besideNewer(verdicts{}))
	n.checkKept(t)
}

// awaitRefusedAddOn waits until the add-on names the field.
func (n newerManager) awaitRefusedAddOn(t *testing.T) {
	t.Helper()
	eventually(t, "the add-on names the field", time.Minute, func(ctx context.Context) error {
		conditions := n.addOn(ctx, t, api.Serving, n.pulled.Name).Status.Conditions
		degraded := apimeta.FindStatusCondition(conditions, api.Degraded)
		if degraded == nil || degraded.Reason != api.ReasonConfigurationRefused || !strings.Contains(degraded.Message, newerField) {
			return fmt.Errorf("the conditions are %+v", conditions)
		}
		return nil
	})
}

// refuseItems adds a field to the items of the anchor, and then takes the field away as the return of the newer manager would.
func (n newerManager) refuseItems(t *testing.T) {
	const known, unknown = `"digest":`, `"protected":true,"digest":`
	anchor := n.objects(t)[4]
	replace := func(from, to string) {
		anchor.update(t, func(u *unstructured.Unstructured) error {
			items, _, err := unstructured.NestedString(u.Object, "data", "inventory")
			if !strings.Contains(items, from) {
				err = errors.Join(err, fmt.Errorf("%q is not in %q", from, items))
			}
			return errors.Join(err, unstructured.SetNestedField(u.Object, strings.ReplaceAll(items, from, to), "data", "inventory"))
		})
	}
	if err := n.Stop(harness.Manager); err != nil {
		t.Fatal(err)
	}
	replace(known, unknown)
	n.direct.spec(t, config("deployment", "progress-deadline", marker))
	n.watchRefusal(t, func() {
		if err := n.Start(harness.Manager); err != nil {
			t.Fatal(err)
		}
		n.becomes(t, api.Serving, n.direct.Name, conditionState{api.InstallSucceeded, metav1.ConditionFalse, api.ReasonApplyFailed},
			anchor.name, `"protected"`, "newer version")
	})
	replace(unknown, known)
	eventually(t, "the edit is on "+n.direct.Name, 3*time.Minute, n.direct.checkDeadline(true))
	n.awaitReady(t, besideNewer(verdicts{}))
}
