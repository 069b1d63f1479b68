// Copyright Contributors to the Open Cluster Management project

package installations

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"

	"open-cluster-management.io/knative-addon/pkg/api"
	fleetv1alpha1 "open-cluster-management.io/knative-addon/pkg/api/fleet/v1alpha1"
)

func TestParseObject(t *testing.T) {
	allowed := []string{api.Serving.Kind(), AddOnKind, DefinitionKind, FleetKind}
	for text, want := range map[string]Object{
		"knativeserving/default":                 {api.Serving.Kind(), "cluster1", "default"},
		"KnativeServings/default":                {api.Serving.Kind(), "cluster1", "default"},
		"managedclusteraddon/knative-serving":    {AddOnKind, "cluster1", "knative-serving"},
		"clustermanagementaddon/knative-serving": {DefinitionKind, "", "knative-serving"},
		"knativefleet/web":                       {FleetKind, "cluster1", "web"},
	} {
		if got, err := ParseObject(text, "cluster1", allowed...); err != nil || got != want {
			t.Errorf("%s is %+v with error %v, want %+v", text, got, err, want)
		}
	}
	for _, text := range []string{"default", "knativeeventing/default", "deployment/default", "knativeserving/", ""} {
		if got, err := ParseObject(text, "cluster1", allowed...); err == nil || !strings.Contains(err.Error(), "KIND/NAME") {
			t.Errorf("%q is %+v with error %v", text, got, err)
		}
	}
	if _, err := ParseObject("knativeserving/default", "", allowed...); err == nil || !strings.Contains(err.Error(), "--namespace") {
		t.Errorf("error is %v", err)
	}
}

// encodeAddOn returns an add-on for the fake client.
func encodeAddOn(t *testing.T, addOn *addonv1beta1.ManagedClusterAddOn) *unstructured.Unstructured {
	t.Helper()
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(addOn)
	if err != nil {
		t.Fatal(err)
	}
	return &unstructured.Unstructured{Object: fields}
}

// newDefinition returns the ClusterManagementAddOn of Serving.
func newDefinition() *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{}}
	u.SetAPIVersion(addonv1beta1.GroupVersion.String())
	u.SetKind(DefinitionKind)
	u.SetName(api.Serving.AddOnName())
	return u
}

// countPatches counts the patches among the requests, and holds that every other request reads.
func countPatches(t *testing.T, actions []clienttesting.Action, r Request, dryRun DryRun) (patches int) {
	t.Helper()
	for _, a := range actions {
		patch, isPatch := a.(clienttesting.PatchActionImpl)
		if !isPatch {
			if verb := a.GetVerb(); verb != "get" && verb != "list" {
				t.Errorf("the request used %s", verb)
			}
			continue
		}
		patches++
		if (dryRun == DryRunServer) != (len(patch.PatchOptions.DryRun) > 0) || !strings.Contains(string(patch.Patch), r.Annotation) {
			t.Errorf("patch %s has options %+v", patch.Patch, patch.PatchOptions)
		}
	}
	return patches
}

// TestApply holds which requests write, and that a write changes one annotation alone.
func TestApply(t *testing.T) {
	fleet := serving("default")
	running := addOn(t, "cluster1", fleet, "")
	held := addOn(t, "cluster2", fleet, "", "RemovalHeld True MassRemoval")
	at := since()
	held.DeletionTimestamp, held.Finalizers = &at, []string{api.FoundationFinalizer}
	noted := serving("noted", paused)
	child := serving("child", ofFleet)
	pausedChild := serving("paused-child", ofFleet, func(u *unstructured.Unstructured) {
		u.SetAnnotations(map[string]string{api.PausedAnnotation: "true", api.FleetPausedAnnotation: "true"})
	})
	allowed := addOn(t, "cluster3", fleet, "", "RemovalHeld True RemovalAllowed")
	allowed.DeletionTimestamp, allowed.Finalizers = &at, []string{api.FoundationFinalizer}
	allowed.Annotations = map[string]string{api.RemovalAllowedAnnotation: "1"}
	rollBack := func(name string) Request {
		return Request{Object: Object{api.Serving.Kind(), "team", name}, Annotation: api.RollbackAnnotation, Value: "3"}
	}
	resource := Object{api.Serving.Kind(), "team", "default"}
	definition := Object{Kind: DefinitionKind, Name: api.Serving.AddOnName()}
	pause := func(o Object) Request { return Request{Object: o, Annotation: api.PausedAnnotation, Value: "true"} }
	confirm := func(o Object) Request {
		return Request{Object: o, Annotation: api.RemovalAnnotation, Value: api.RemovalConfirm, NeedsDeletion: true}
	}
	for name, tc := range map[string]struct {
		request   Request
		dryRun    DryRun
		without   *addonv1beta1.ManagedClusterAddOn
		isChanged bool
		patches   int
		refusal   string
	}{
		"a pause":                                {pause(resource), DryRunNone, nil, true, 1, ""},
		"a pause without a write":                {pause(resource), DryRunClient, nil, true, 0, ""},
		"a pause that the API server checks":     {pause(resource), DryRunServer, nil, true, 1, ""},
		"a pause in force":                       {pause(Object{api.Serving.Kind(), "team", "noted"}), DryRunNone, nil, false, 0, ""},
		"a resume":                               {Request{Object: Object{api.Serving.Kind(), "team", "noted"}, Annotation: api.PausedAnnotation}, DryRunNone, nil, true, 1, ""},
		"a resume without a pause":               {Request{Object: resource, Annotation: api.PausedAnnotation}, DryRunNone, nil, false, 0, ""},
		"an object that does not exist":          {pause(Object{api.Serving.Kind(), "team", "absent"}), DryRunNone, nil, false, 0, "cannot read KnativeServing team/absent"},
		"a removal that is held":                 {confirm(Object{AddOnKind, "cluster2", "knative-serving"}), DryRunNone, nil, true, 1, ""},
		"a removal that has begun":               {confirm(Object{AddOnKind, "cluster3", "knative-serving"}), DryRunNone, nil, false, 0, "the removal has begun"},
		"a rollback":                             {rollBack("default"), DryRunNone, nil, true, 1, ""},
		"a rollback of a child":                  {rollBack("child"), DryRunNone, nil, false, 0, "`knative-addon rollback knativefleet/web --namespace team --to last-known-good`, or a revision"},
		"a resume of a child":                    {Request{Object: Object{api.Serving.Kind(), "team", "paused-child"}, Annotation: api.PausedAnnotation}, DryRunNone, nil, false, 0, "`knative-addon resume knativefleet/web --namespace team`"},
		"an add-on that is not being deleted":    {confirm(Object{AddOnKind, "cluster1", "knative-serving"}), DryRunNone, nil, false, 0, "is not being deleted"},
		"all removals that are held":             {confirm(definition), DryRunNone, nil, true, 1, ""},
		"all removals when no removal is held":   {confirm(definition), DryRunNone, held, false, 0, "MassRemoval"},
		"all removals that are held, as a trial": {confirm(definition), DryRunClient, nil, true, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			objects := []runtime.Object{fleet.DeepCopy(), noted.DeepCopy(), newDefinition(), encodeAddOn(t, running), encodeAddOn(t, allowed), child.DeepCopy(), pausedChild.DeepCopy()}
			if tc.without == nil {
				objects = append(objects, encodeAddOn(t, held))
			}
			hub, actions := recordingHub(t, objects...)
			isChanged, err := hub.Apply(t.Context(), tc.request, tc.dryRun)
			if isChanged != tc.isChanged || (err == nil) != (tc.refusal == "") || err != nil && !strings.Contains(err.Error(), tc.refusal) {
				t.Errorf("changed is %t with error %v, want %t and %q", isChanged, err, tc.isChanged, tc.refusal)
			}
			patches := countPatches(t, actions(), tc.request, tc.dryRun)
			if patches != tc.patches {
				t.Errorf("%d patches, want %d", patches, tc.patches)
			}
			if tc.patches == 0 || tc.dryRun == DryRunServer { // the fake client stores also a dry run
				return
			}
			o, err := hub.clientFor(tc.request.Object).Get(t.Context(), tc.request.Object.Name, metav1.GetOptions{})
			if err != nil || o.GetAnnotations()[tc.request.Annotation] != tc.request.Value {
				t.Errorf("annotations are %v with error %v", o.GetAnnotations(), err)
			}
		})
	}
}

// heldFleet returns KnativeFleet team/web, whose status of a generation of the spec has condition RemovalHeld with a reason.
func heldFleet(reason string, observed int64) *unstructured.Unstructured {
	u := knativeFleet(observed, "1")
	u.SetAPIVersion(fleetv1alpha1.Group + "/" + fleetv1alpha1.Version)
	u.SetKind(FleetKind)
	if reason != "" {
		u.Object["status"].(map[string]any)["conditions"] = []any{map[string]any{
			"type": fleetv1alpha1.RemovalHeld, "status": "True", "reason": reason, "message": "the clusters stay", "observedGeneration": observed,
		}}
	}
	return u
}

// TestApplyToFleet holds which requests about a KnativeFleet write.
func TestApplyToFleet(t *testing.T) {
	object := Object{FleetKind, "team", "web"}
	removal := func(value string) Request {
		return Request{Object: object, Annotation: api.RemovalAnnotation, Value: value, NeedsDeletion: true}
	}
	for name, tc := range map[string]struct {
		request Request
		fleet   *unstructured.Unstructured
		refusal string
	}{
		"a pause":                  {Request{Object: object, Annotation: api.PausedAnnotation, Value: "true"}, heldFleet("", 1), ""},
		"a rollback":               {Request{Object: object, Annotation: api.RollbackAnnotation, Value: "3"}, heldFleet("", 1), ""},
		"too many removals":        {removal(api.RemovalConfirm), heldFleet(fleetv1alpha1.ReasonMassRemoval, 1), ""},
		"an empty selection":       {removal(api.RemovalConfirm), heldFleet(fleetv1alpha1.ReasonSelectionEmpty, 1), ""},
		"an undecided Placement":   {removal(api.RemovalConfirm), heldFleet(fleetv1alpha1.ReasonPlacementUndecided, 1), ""},
		"an unavailable cluster":   {removal(api.RemovalConfirm), heldFleet(fleetv1alpha1.ReasonClusterUnavailable, 1), "knative-addon explain ClusterUnavailable"},
		"a pause that holds":       {removal(api.RemovalConfirm), heldFleet(fleetv1alpha1.ReasonPaused, 1), "knative-addon explain Paused"},
		"no removal":               {removal(api.RemovalConfirm), heldFleet("", 1), "no removal"},
		"removals before the edit": {removal(api.RemovalConfirm), heldFleet(fleetv1alpha1.ReasonMassRemoval, 0), "no removal"},
		"a cancellation":           {removal(api.RemovalCancel), heldFleet(fleetv1alpha1.ReasonMassRemoval, 1), "knative-addon pause knativefleet/web --namespace team"},
	} {
		t.Run(name, func(t *testing.T) {
			hub, actions := recordingHub(t, tc.fleet)
			isChanged, err := hub.Apply(t.Context(), tc.request, DryRunNone)
			if isChanged != (tc.refusal == "") || (err == nil) != isChanged || err != nil && !strings.Contains(err.Error(), tc.refusal) {
				t.Errorf("changed is %t with error %v, want refusal %q", isChanged, err, tc.refusal)
			}
			if patches := countPatches(t, actions(), tc.request, DryRunNone); (patches == 1) != isChanged {
				t.Errorf("%d patches", patches)
			}
		})
	}
}
