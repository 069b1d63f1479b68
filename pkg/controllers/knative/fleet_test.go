// Copyright Contributors to the Open Cluster Management project

package knative

import (
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
	"k8s.io/apimachinery/pkg/types"

	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"
	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
	fleetv1alpha1 "open-cluster-management.io/knative-addon/pkg/api/fleet/v1alpha1"
	"open-cluster-management.io/knative-addon/pkg/delivery/manifestwork"
	"open-cluster-management.io/knative-addon/pkg/render"
	"open-cluster-management.io/knative-addon/pkg/revision"
)

const patchFleetStatus = "patch knativeservings/status/fleet"

const (
	available    = addonv1beta1.ManagedClusterAddOnConditionAvailable
	conditionSet = metav1.ConditionTrue
)

func newFleet(t *testing.T, addOns ...*addonv1beta1.ManagedClusterAddOn) *fakeHub {
	t.Helper()
	h := newHub(t, serving("fleet", 100, refersToNothing))
	for _, a := range addOns {
		h.enabled(a)
	}
	return h
}

// TestWarningsOfRenderer holds that a misspelled setting shows on the resource, for fleet configurations and installations, and that
// the installation goes on.
func TestWarningsOfRenderer(t *testing.T) {
	for name, tc := range map[string]struct {
		config *unstructured.Unstructured
		ready  string
	}{
		"a fleet configuration": {serving("self", 100, refersToNothing), "Ready True Unused"},
		"an installation":       {serving("self", 100), "Ready True Ready"},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHub(t, tc.config)
			h.settle("self")
			if got := h.findCondition(api.SettingsEffective); got != nil {
				t.Errorf("without a warning the condition is %+v", got)
			}
			if h.addOn() != nil {
				h.delivered()
				h.settle("self")
			}
			h.told()
			h.bundle.Warnings = []string{"b changes nothing", "a changes nothing"}
			h.clock.SetTime(h.clock.Now().Add(fleetStatusInterval))
			h.settle("self")
			got := h.findCondition(api.SettingsEffective)
			if got == nil || got.Status != metav1.ConditionFalse || got.Reason != api.ReasonCheckSettings || !strings.HasPrefix(got.Message, "a changes nothing") {
				t.Errorf("the condition is %+v", got)
			}
			if got := h.conditions("self"); got[0] != tc.ready {
				t.Errorf("the conditions are %q, want %q first", got, tc.ready)
			}
			if events := h.told(); len(events) != 1 || !strings.HasPrefix(events[0], "Warning CheckSettings SettingsEffective is False: a changes nothing") {
				t.Errorf("the Events are %q", events)
			}
		})
	}
}

func TestFleet(t *testing.T) {
	ready, unused := says(available, conditionSet), addOnOf("", byUser, on("c9"))
	eventing := addOnOf("", on("c8"), uses("fleet"))
	eventing.Name = api.Eventing.AddOnName()
	for name, tc := range map[string]struct {
		reason string
		addOns []*addonv1beta1.ManagedClusterAddOn
		// target and available are the messages of TargetClusterResolved and DeploymentsAvailable.
		target, available, ready string
	}{
		"nobody uses it": {reason: "It is ready to be used.", target: "used by 0 add-ons, 0 ready", ready: "Ready True Unused"},
		"some use it": {
			reason: "Only those count that use it, and of these add-on.",
			addOns: []*addonv1beta1.ManagedClusterAddOn{
				addOnOf("", on("c1"), uses("fleet"), ready), addOnOf("", on("c2"), uses("fleet"), ready), addOnOf("", on("c3"), uses("other"), ready), unused, eventing,
			},
			target: "used by 2 add-ons, 2 ready", ready: "Ready True Ready",
		},
		"some are not ready": {
			reason: "Unknown, False and nothing at all are not ready; they are named in order.",
			addOns: []*addonv1beta1.ManagedClusterAddOn{
				addOnOf("", on("c4"), uses("fleet")), addOnOf("", on("c3"), uses("fleet"), says(available, metav1.ConditionUnknown)),
				addOnOf("", on("c2"), uses("fleet"), says(available, metav1.ConditionFalse)), addOnOf("", on("c1"), uses("fleet"), ready),
			},
			target: "used by 4 add-ons, 1 ready", available: "not ready on: c2, c3, c4", ready: "Ready False WorkloadsNotReady",
		},
		"some run an older spec": {
			reason: "What the old workloads report says nothing of the present spec.",
			addOns: []*addonv1beta1.ManagedClusterAddOn{
				addOnOf("", on("c1"), uses("fleet"), ready), addOnOf("", on("c2"), uses("fleet"), completes(serving("fleet", 100)), ready),
			},
			target: "used by 2 add-ons, 1 ready", ready: "Ready Unknown Delivering",
		},
		"a value is missing": {
			reason: "It is told where somebody looks who changes the resource.",
			addOns: []*addonv1beta1.ManagedClusterAddOn{
				addOnOf("", on("c1"), uses("fleet"), ready, says(api.ValuesResolved, metav1.ConditionFalse)), addOnOf("", on("c2"), uses("fleet"), ready, says(api.ValuesResolved, conditionSet)),
			},
			target: "used by 2 add-ons, 2 ready", ready: "Ready False ValueMissing",
		},
		"an installation is not verified": {
			reason: "The workloads run, and no Service does.",
			addOns: []*addonv1beta1.ManagedClusterAddOn{
				addOnOf("", on("c1"), uses("fleet"), ready, says(api.Verified, metav1.ConditionFalse)), addOnOf("", on("c2"), uses("fleet"), ready, says(api.Verified, conditionSet)),
			},
			target: "used by 2 add-ons, 1 ready", ready: "Ready False Verifying",
		},
		"a removal is held": {
			reason: "Somebody has to answer.",
			addOns: []*addonv1beta1.ManagedClusterAddOn{
				addOnOf("", on("c1"), uses("fleet"), ready, says(api.RemovalHeld, conditionSet)), addOnOf("", on("c2"), uses("fleet"), ready, says(api.RemovalHeld, metav1.ConditionFalse)),
			},
			target: "used by 2 add-ons, 2 ready; the removal of 1 is held: see condition RemovalHeld of the ManagedClusterAddOns", ready: "Ready True Ready",
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := newFleet(t, tc.addOns...)
			if diff := cmp.Diff([]string{patchFleetStatus}, h.mustReconcile("fleet")); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
			if got := h.message("fleet", api.TargetClusterResolved); got != tc.target {
				t.Errorf("%s It says %q, want %q", tc.reason, got, tc.target)
			}
			if got := h.message("fleet", api.DeploymentsAvailable); got != tc.available {
				t.Errorf("%s It says %q, want %q", tc.reason, got, tc.available)
			}
			if got := h.conditions("fleet"); got[0] != tc.ready {
				t.Errorf("%s It says %q, want %q", tc.reason, got[0], tc.ready)
			}
			h.clock.SetTime(h.clock.Now().Add(fleetStatusInterval))
			if result, err := h.reconcile("fleet"); err != nil || result.RequeueAfter != 0 || len(h.asked()) > 0 {
				t.Errorf("the second time the result is %v, error %v", result, err)
			}
			if finalizers := h.config("fleet").GetFinalizers(); len(finalizers) > 0 {
				t.Errorf("a fleet configuration is held: %q", finalizers)
			}
		})
	}
}

// TestFleetFaults holds what a fleet configuration says that cannot be rendered, and that it says so once.
func TestFleetFaults(t *testing.T) {
	h := newFleet(t, addOnOf("", uses("fleet"), says(available, conditionSet)))
	h.settle("fleet")
	h.told()
	h.bundleErr = fmt.Errorf("cannot render: %w", &render.Error{Reason: api.ReasonUnknownVersion, Message: "spec.version is wrong"})
	h.clock.SetTime(h.clock.Now().Add(time.Minute))
	if diff := cmp.Diff([]string{patchFleetStatus}, h.mustReconcile("fleet")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := h.conditions("fleet"); got[4] != "InstallSucceeded False UnknownVersion" || got[5] != "DeploymentsAvailable True WorkloadsAvailable" {
		t.Errorf("it says %q", got)
	}
	if v, _, _ := unstructured.NestedString(h.config("fleet").Object, "status", "version"); v != "1.23.0" {
		t.Errorf("version is %q, and the clusters have what they had", v)
	}
	if told := h.told(); len(told) != 1 || !strings.Contains(told[0], "UnknownVersion") {
		t.Errorf("%q is told", told)
	}
	for range 3 {
		h.clock.SetTime(h.clock.Now().Add(time.Minute))
		if again := h.mustReconcile("fleet"); len(again) > 0 {
			t.Errorf("at rest it asks for %q", again)
		}
	}
	h.bundleErr = errors.New("cannot read a cache")
	if _, err := h.reconcile("fleet"); !errors.Is(err, h.bundleErr) || len(h.asked()) > 0 {
		t.Errorf("error is %v, want %v", err, h.bundleErr)
	}
	h.bundleErr = nil
	h.r.Fleet.AddOnsByConfig = h.cached.configs
	if _, err := h.reconcile("fleet"); err == nil {
		t.Error("without the index of configurations nobody uses it")
	}
}

// TestFleetIsCountedSlowly holds that a fleet that comes up does not make OCM reconcile all of its add-ons with each cluster.
func TestFleetIsCountedSlowly(t *testing.T) {
	h := newFleet(t)
	h.settle("fleet")
	start, written := h.clock.Now(), 0
	var due time.Duration
	for i := range 100 { // ten clusters a second
		h.enabled(addOnOf("", on(fmt.Sprintf("c%03d", i)), uses("fleet")))
		h.clock.SetTime(start.Add(time.Duration(i) * 100 * time.Millisecond))
		result, err := h.reconcile("fleet")
		if err != nil {
			t.Fatal(err)
		}
		asked := h.asked()
		written += len(asked)
		if (result.RequeueAfter > 0) == (len(asked) > 0) || result.RequeueAfter > fleetStatusInterval {
			t.Fatalf("after %d clusters it asks for %q and requeues after %s", i+1, asked, result.RequeueAfter)
		}
		due = result.RequeueAfter
	}
	if written != 1 {
		t.Errorf("in ten seconds it was written %d times after the first, want once", written)
	}
	h.clock.SetTime(h.clock.Now().Add(due))
	if asked := h.mustReconcile("fleet"); len(asked) != 1 || !strings.HasPrefix(h.message("fleet", api.TargetClusterResolved), "used by 100 add-ons") {
		t.Errorf("when it is due it asks for %q, and says %q", asked, h.message("fleet", api.TargetClusterResolved))
	}

	h.enabled(addOnOf("", on("d001"), uses("fleet")))
	h.changeConfig("fleet", func(c *unstructured.Unstructured) { c.SetGeneration(2) })
	if asked := h.mustReconcile("fleet"); len(asked) != 1 {
		t.Errorf("a user who has changed the spec waits: %q", asked)
	}
	h.enabled(addOnOf("", on("d002"), uses("fleet")))
	another := serving("another", 100, refersToNothing)
	another.SetResourceVersion(h.next())
	if err := h.configs.Tracker().Create(api.Serving.Resource(), another, team); err != nil {
		t.Fatal(err)
	}
	if asked := h.mustReconcile("another"); len(asked) != 1 {
		t.Errorf("one configuration waits for another: %q", asked)
	}
	h.start()
	if asked := h.mustReconcile("fleet"); len(asked) != 1 {
		t.Errorf("a new manager waits for what another has written: %q", asked)
	}
}

func TestPacer(t *testing.T) {
	var p writePacer
	name := types.NamespacedName{Name: "a"}
	now := time.Unix(10000, 0)
	if !p.nextWrite(name).Before(now) {
		t.Error("what was never done is not due")
	}
	p.recordWrite(name, now)
	if got := p.nextWrite(name); !got.Equal(now.Add(fleetStatusInterval)) {
		t.Errorf("it is due at %s, want %s", got, now.Add(fleetStatusInterval))
	}
	if !p.nextWrite(types.NamespacedName{Name: "b"}).Before(now) {
		t.Error("another one is not due")
	}
	p.recordWrite(types.NamespacedName{Name: "b"}, now.Add(fleetStatusInterval))
	if len(p.last) != 1 {
		t.Errorf("%d writes are remembered, of which one delays a write", len(p.last))
	}
}

// defaultConfig returns the default configurations of a ClusterManagementAddOn with one KnativeServing.
func defaultConfig(name string) []addonv1beta1.AddOnConfig {
	return []addonv1beta1.AddOnConfig{{
		ConfigGroupResource: addonv1beta1.ConfigGroupResource{Group: api.Group, Resource: api.Serving.Resource().Resource},
		ConfigReferent:      addonv1beta1.ConfigReferent{Namespace: team, Name: name},
	}}
}

// TestReturnToCompletedSpec holds that a cluster which returns to the spec that OCM saw last is counted as progressing until the gate is open for
// the spec, and that the gate does not count during a removal.
func TestReturnToCompletedSpec(t *testing.T) {
	hash, err := revision.Hash(serving("fleet", 100, refersToNothing))
	if err != nil {
		t.Fatal(err)
	}
	leaving := func(a *addonv1beta1.ManagedClusterAddOn) {
		a.DeletionTimestamp, a.Finalizers = new(metav1.Unix(1, 0)), []string{"hold"}
	}
	ready := []func(*addonv1beta1.ManagedClusterAddOn){on("c1"), uses("fleet"), says(available, conditionSet)}
	for name, tc := range map[string]struct {
		addOn              []func(*addonv1beta1.ManagedClusterAddOn)
		running, delivered string // hashes of the specs that gate and payload name; empty for a closed gate and for no payload
		want               string
	}{
		"the gate is closed":                               {ready, "", hash, "Ready Unknown Delivering"},
		"the gate is open for another spec":                {ready, "other", hash, "Ready Unknown Delivering"},
		"the gate is open for the spec":                    {ready, hash, hash, "Ready True Ready"},
		"the gate is open for the spec, without a payload": {ready, hash, "", "Ready True Ready"},
		"the payload of another spec is not replaced yet":  {ready, hash, "other", "Ready Unknown Delivering"},
		"the add-on is being deleted":                      {append(slices.Clone(ready), leaving), "", hash, "Ready True Ready"},
	} {
		t.Run(name, func(t *testing.T) {
			h := newFleet(t, addOnOf("", tc.addOn...))
			gate := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{
				Namespace: "c1", Name: manifestwork.GateName(api.Serving),
				Labels: map[string]string{api.FoundationLabel: string(api.Serving), addonv1beta1.AddonLabelKey: api.Serving.AddOnName()},
			}}
			key := manifestwork.ConfigKey(api.Serving, types.NamespacedName{Namespace: team, Name: "fleet"})
			if tc.running != "" {
				manifestwork.OpenGate(gate, map[string]string{key: tc.running})
			}
			h.works = append(h.works, gate)
			if tc.delivered != "" {
				h.works = append(h.works, &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{
					Namespace: "c1", Name: "addon-knative-serving-deploy-0", Labels: map[string]string{addonv1beta1.AddonLabelKey: api.Serving.AddOnName()},
					Annotations: map[string]string{workv1.ManifestConfigSpecHashAnnotationKey: manifestwork.ConfigsText(map[string]string{key: tc.delivered})},
				}})
			}
			h.settle("fleet")
			if got := h.conditions("fleet"); got[0] != tc.want {
				t.Errorf("the conditions are %q, want %q first", got, tc.want)
			}
		})
	}
}

// TestFleetRollout holds the counts of a fleet configuration: a cluster with an older spec, a cluster whose turn has not come, a refused
// configuration, an unresolved cluster, and a cluster that is being removed.
func TestFleetRollout(t *testing.T) {
	ready := says(available, conditionSet)
	old := func(a *addonv1beta1.ManagedClusterAddOn) {
		completes(serving("fleet", 100))(a) // another spec
		a.Status.ConfigReferences[0].DesiredConfig.SpecHash = "old"
	}
	leaving := func(a *addonv1beta1.ManagedClusterAddOn) {
		a.DeletionTimestamp, a.Finalizers = new(metav1.Unix(1, 0)), []string{"hold"}
	}
	runs := func(cluster, version string) *workv1.ManifestWork {
		return &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{
			Namespace: cluster, Name: manifestwork.FoundationName(api.Serving), Labels: map[string]string{api.FoundationLabel: string(api.Serving)},
			Annotations: map[string]string{api.RunningVersionAnnotation: version},
		}}
	}
	h := newFleet(t,
		addOnOf("", on("c1"), uses("fleet"), ready), addOnOf("", on("c2"), uses("fleet"), old, ready), addOnOf("", on("c3")),
		addOnOf("", on("c4"), uses("fleet"), ready, says(api.Degraded, conditionSet)),
		addOnOf("", on("c5"), uses("fleet"), ready, says(api.TargetClusterResolved, metav1.ConditionFalse)),
		addOnOf("", on("c6"), uses("fleet"), ready, leaving, says(api.RemovalHeld, conditionSet)),
		addOnOf("", on("c7"), uses("other"), ready),
	)
	h.definition = &addonv1beta1.ClusterManagementAddOn{
		ObjectMeta: metav1.ObjectMeta{Name: api.Serving.AddOnName()},
		Spec:       addonv1beta1.ClusterManagementAddOnSpec{DefaultConfigs: defaultConfig("fleet")},
	}
	h.works = append(h.works, runs("c1", "1.23.0"), runs("c2", "1.22.0"), runs("c4", "1.22.0"))
	h.mustReconcile("fleet")
	status, err := readStatus(h.config("fleet"))
	if err != nil {
		t.Fatal(err)
	}
	hash, err := revision.Hash(serving("fleet", 100, refersToNothing))
	if err != nil {
		t.Fatal(err)
	}
	// The hub gives its default to c7, too, whose add-on has another configuration until OCM's next write.
	want := &fleetv1alpha1.RolloutStatus{
		Revision: hash, Total: 6, Updated: 3, Ready: 1, Failed: 1, Held: 1, Unresolved: 1,
		UnresolvedReasons: []fleetv1alpha1.ReasonCount{{Reason: "Because", Clusters: 1}},
		Versions: []fleetv1alpha1.VersionCount{
			{Component: "knative-serving", Version: "1.22.0", Clusters: 2}, {Component: "knative-serving", Version: "1.23.0", Clusters: 1},
		},
		Clusters: []fleetv1alpha1.ClusterReport{
			{Name: "c4", Reason: "Because"},
			{Name: "c5", Reason: "Because"},
			{Name: "c2", Reason: "Waiting"},
			{Name: "c3", Reason: "Waiting"},
			{Name: "c7", Reason: "Waiting"},
		},
	}
	if diff := cmp.Diff(want, status.Rollout); diff != "" {
		t.Errorf("status.rollout (-want +got):\n%s", diff)
	}
	if got := apimeta.FindStatusCondition(status.Conditions, api.RolledOut); got == nil || got.Status != metav1.ConditionFalse || got.Reason != api.ReasonProgressing {
		t.Errorf("RolledOut is %+v", got)
	}
	if status.Version != "" {
		t.Errorf("status.version is %q before every cluster runs the version", status.Version)
	}
}

// TestFleetStatusIsBounded holds that the status of a configuration of 5,000 clusters in the worst state is below 20 kB.
func TestFleetStatusIsBounded(t *testing.T) {
	name := func(i int) string { return fmt.Sprintf("%04d%s", i, strings.Repeat("n", 59)) } // a ManagedCluster has 63 characters at most
	h := newFleet(t)
	for i := range 5000 {
		a := addOnOf("", on(name(i)), uses("fleet"), says(api.TargetClusterResolved, metav1.ConditionFalse), says(api.DependenciesInstalled, metav1.ConditionFalse),
			says(api.VersionMigrationEligible, metav1.ConditionFalse), says(api.ValuesResolved, metav1.ConditionFalse), says(api.RemovalHeld, conditionSet))
		a.Status.Conditions[0].Reason = fmt.Sprintf("%04d%s", i, strings.Repeat("r", 1000))
		a.Status.ConfigReferences[0].LastAppliedConfig = nil
		h.enabled(a)
	}
	h.mustReconcile("fleet")
	data, err := json.Marshal(h.config("fleet").Object["status"])
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d bytes", len(data))
	if len(data) > 20_000 {
		t.Errorf("the status has %d bytes", len(data))
	}
}
