// Copyright Contributors to the Open Cluster Management project

package installations

import (
	"context"
	"errors"
	"fmt"
	"net"
	goruntime "runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	metadatafake "k8s.io/client-go/metadata/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	clocktesting "k8s.io/utils/clock/testing"

	"open-cluster-management.io/knative-addon/pkg/api"
	fleetv1alpha1 "open-cluster-management.io/knative-addon/pkg/api/fleet/v1alpha1"
	"open-cluster-management.io/knative-addon/pkg/revision"
)

func TestAssess(t *testing.T) {
	edge := func(edits ...edit) Objects {
		return servings(serving("edge-7", append([]edit{onCluster("edge"), withFinalizer(api.DirectFinalizer)}, edits...)...))
	}
	const object = "team/edge knative-serving (KnativeServing team/edge-7)"
	fleet := serving("default")
	waves := servings(fleet)
	outdated := addOn(t, "cluster1", fleet, "0123456789", resolved, delivered, available)
	outdated.Status.ConfigReferences[0].DesiredConfig.SpecHash = "0123456789"
	waves.AddOns = append(waves.AddOns, outdated)
	child := func(observed int64, revision string, edits ...edit) Objects {
		o := edge(withConditions(ready, applied), ofFleet, withAnnotation(api.FleetRevisionAnnotation, "0123456789"))
		web := knativeFleet(observed, revision)
		for _, change := range edits {
			change(web)
		}
		o.Fleets = append(o.Fleets, web)
		return o
	}
	held := func(u *unstructured.Unstructured) {
		u.Object["status"].(map[string]any)["rollout"].(map[string]any)["held"] = int64(1)
	}
	const ofWeb = "team/edge knative-serving (KnativeServing team/edge-7 of KnativeFleet web)"
	rollback := withAnnotation(api.RollbackAnnotation, "3")
	awaits := ` asks for revision "3": Event RolledBack or RollbackRefused is to follow, and a refused annotation stays until a user changes or removes the annotation`
	awaitsRollback := "annotation " + api.RollbackAnnotation + awaits
	rolledBack := servings(serving("default", rollback))
	rolledBack.AddOns = append(rolledBack.AddOns, addOn(t, "cluster1", fleet, hashOf(t, fleet), resolved, delivered, available))
	proxy := deployment("proxy")
	configured := func(assigned, completed string, conditions ...string) Objects {
		o := servings(fleet)
		a := addOn(t, "cluster1", fleet, hashOf(t, fleet), append([]string{resolved, delivered}, conditions...)...)
		configureBy(a, proxy, assigned, completed)
		o.AddOns, o.Deployments = append(o.AddOns, a), append(o.Deployments, proxy)
		return o
	}
	unlisted := func(o Objects) Objects {
		o.Deployments = nil
		return o
	}
	const onCluster1, former = "cluster1 knative-serving (ManagedClusterAddOn cluster1/knative-serving)", "0123456789"
	const notConfigured, configuredTrue = "Configured False ConfigurationsNotConfigured", "Configured True ConfigurationsConfigured"
	live := hashOf(t, proxy)
	notReached := onCluster1 + ": OCM's rollout of the present spec of AddOnDeploymentConfig team/proxy has not reached the cluster yet"
	for name, tc := range map[string]struct {
		objects Objects
		names   []string
		goal    Goal
		want    Progress
	}{
		"ready":                                  {edge(withConditions(ready, applied)), []string{"edge"}, GoalReady, Progress{Reached: []string{object}}},
		"nothing to wait for":                    {Objects{}, nil, GoalReady, Progress{Waiting: []string{"no installation: the hub has neither a ManagedClusterAddOn of Knative nor a resource with spec.clusterProfileRef"}}},
		"of a KnativeFleet":                      {edge(withConditions("Ready False InvalidSpec no such field"), ofFleet), nil, GoalReady, Progress{Failed: []string{"team/edge knative-serving (KnativeServing team/edge-7 of KnativeFleet web): InvalidSpec: no such field"}}},
		"of another owner":                       {edge(withConditions(ready, applied), ofDeployment), nil, GoalReady, Progress{Reached: []string{object}}},
		"an unknown cluster":                     {edge(withConditions(ready, applied)), []string{"other"}, GoalReady, Progress{Waiting: []string{"other: no installation has this cluster, ClusterProfile or resource"}}},
		"an unreachable one":                     {edge(withConditions("Ready False RemoteClusterStale no answer")), nil, GoalReady, Progress{Waiting: []string{object + ": RemoteClusterStale: no answer"}}},
		"an edit just now":                       {edge(withConditions(ready, applied), withGeneration(2)), nil, GoalReady, Progress{Waiting: []string{object + ": NotReported: the manager has not reported on generation 2 yet"}}},
		"an invalid spec":                        {edge(withConditions("Ready False InvalidSpec no such field")), nil, GoalReady, Progress{Failed: []string{object + ": InvalidSpec: no such field"}}},
		"a corrected spec":                       {edge(withConditions("Ready False InvalidSpec no such field"), withGeneration(2)), nil, GoalReady, Progress{Waiting: []string{object + ": NotReported: the manager has not reported on generation 2 yet"}}},
		"the wave is not here":                   {waves, nil, GoalReady, Progress{Waiting: []string{"cluster1 knative-serving (ManagedClusterAddOn cluster1/knative-serving): the cluster runs revision 01234567, and revision " + hashOf(t, fleet)[:8] + " is to follow"}}},
		"a KnativeFleet has rolled out":          {child(1, "0123456789"), nil, GoalReady, Progress{Reached: []string{ofWeb}}},
		"the wave of a KnativeFleet is not here": {child(1, "abcdefabcdef"), nil, GoalReady, Progress{Waiting: []string{ofWeb + ": the resource does not have revision abcdefab of KnativeFleet web yet"}}},
		"the state of the waves":                 {child(1, "abcdefabcdef", withConditions("RolledOut False Progressing 1 of 3")), nil, GoalReady, Progress{Waiting: []string{ofWeb + ": the resource does not have revision abcdefab of KnativeFleet web yet: 1 of 3"}}},
		"a KnativeFleet with an invalid spec":    {child(1, "0123456789", withConditions("RolledOut False InvalidSpec no such field")), nil, GoalReady, Progress{Failed: []string{ofWeb + ": the manager cannot use KnativeFleet web: no such field"}}},
		"a KnativeFleet without its Placement":   {child(1, "0123456789", withConditions("RolledOut False PlacementNotFound create it")), nil, GoalReady, Progress{Waiting: []string{ofWeb + ": the manager cannot select the clusters of KnativeFleet web: create it"}}},
		"a rollback of a KnativeFleet":           {child(1, "0123456789", rollback), nil, GoalReady, Progress{Waiting: []string{ofWeb + ": annotation " + api.RollbackAnnotation + " of KnativeFleet web" + awaits}}},
		"a held child of a deselected cluster":   {child(1, "abcdefabcdef", withConditions("RolledOut True RolledOut"), held), nil, GoalReady, Progress{Reached: []string{ofWeb}}},
		"a child that the cache has not read":    {child(1, "abcdefabcdef", withConditions("RolledOut True RolledOut")), nil, GoalReady, Progress{Waiting: []string{ofWeb + ": the resource does not have revision abcdefab of KnativeFleet web yet"}}},
		"an edit of a KnativeFleet just now":     {child(0, "0123456789"), nil, GoalReady, Progress{Waiting: []string{ofWeb + ": the manager has not reported on generation 1 of KnativeFleet web yet"}}},
		"a rollback just now":                    {edge(withConditions(ready, applied), rollback), nil, GoalReady, Progress{Waiting: []string{object + ": " + awaitsRollback}}},
		"a rollback of an invalid spec":          {edge(withConditions("Ready False InvalidSpec no such field"), rollback), nil, GoalReady, Progress{Waiting: []string{object + ": InvalidSpec: no such field; " + awaitsRollback}}},
		"a rollback of a fleet configuration":    {rolledBack, nil, GoalReady, Progress{Waiting: []string{"cluster1 knative-serving (ManagedClusterAddOn cluster1/knative-serving): " + awaitsRollback}}},
		"a refused rollback of a removed one":    {edge(deleted, rollback, withConditions("Ready False ClusterReplaced another UID")), nil, GoalRemoved, Progress{Failed: []string{object + ": ClusterReplaced: another UID"}}},
		"removed":                                {Objects{}, []string{"edge"}, GoalRemoved, Progress{}},
		"being removed":                          {edge(deleted, withConditions("Ready Unknown Removing waiting for pods")), nil, GoalRemoved, Progress{Waiting: []string{object + ": Removing: waiting for pods"}}},
		"not being removed":                      {edge(withConditions(ready, applied)), nil, GoalRemoved, Progress{Waiting: []string{object + ": the object is not being deleted"}}},
		"a replaced cluster":                     {edge(deleted, withConditions("Ready False ClusterReplaced another UID")), nil, GoalRemoved, Progress{Failed: []string{object + ": ClusterReplaced: another UID"}}},
		"paused, and not ready":                  {edge(paused, withConditions("Ready Unknown Delivering paused by")), nil, GoalReady, Progress{Waiting: []string{object + ": Delivering: paused by; paused"}}},

		"an AddOnDeploymentConfig has rolled out":        {configured(live, live, available, configuredTrue), nil, GoalReady, Progress{Reached: []string{onCluster1}}},
		"an edit of an AddOnDeploymentConfig just now":   {configured(former, former, available, configuredTrue), nil, GoalReady, Progress{Waiting: []string{notReached}}},
		"a later wave of an AddOnDeploymentConfig":       {configured(former, former, available, notConfigured), nil, GoalReady, Progress{Waiting: []string{notReached}}},
		"a later wave, without the list":                 {unlisted(configured(former, former, available, notConfigured)), nil, GoalReady, Progress{Waiting: []string{onCluster1 + ": OCM's rollout of other configurations has not reached the cluster yet"}}},
		"the wave of an AddOnDeploymentConfig":           {configured(live, former, available, configuredTrue), nil, GoalReady, Progress{Waiting: []string{onCluster1 + ": the cluster does not run the present spec of AddOnDeploymentConfig team/proxy yet"}}},
		"the wave, without the list":                     {unlisted(configured(live, former, available)), nil, GoalReady, Progress{Waiting: []string{onCluster1 + ": the cluster does not run the present spec of AddOnDeploymentConfig team/proxy yet"}}},
		"a refused AddOnDeploymentConfig in its wave":    {configured(live, former, "Available False InvalidSpec no such field"), nil, GoalReady, Progress{Failed: []string{onCluster1 + ": InvalidSpec: no such field"}}},
		"a corrected AddOnDeploymentConfig":              {configured(former, "", "Available False InvalidSpec no such field"), nil, GoalReady, Progress{Waiting: []string{onCluster1 + ": InvalidSpec: no such field; " + strings.TrimPrefix(notReached, onCluster1+": ")}}},
		"an AddOnDeploymentConfig that OCM has not read": {unlisted(configured("", "", available)), nil, GoalReady, Progress{Reached: []string{onCluster1}}},
	} {
		t.Run(name, func(t *testing.T) {
			got := Assess(Compose(tc.objects), &Filter{Names: tc.names}, tc.goal)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("progress (-want +got):\n%s", diff)
			}
			if got.Done() != (len(tc.want.Waiting)+len(tc.want.Failed) == 0) {
				t.Errorf("done is %t", got.Done())
			}
		})
	}
}

// TestHeldRemoval holds that a removal that waits for a confirmation ends a wait for the removal, and no other wait.
func TestHeldRemoval(t *testing.T) {
	fleet := serving("default")
	objects := servings(fleet)
	held := addOn(t, "cluster1", fleet, "", "RemovalHeld True MassRemoval too many")
	at := since()
	held.DeletionTimestamp = &at
	objects.AddOns = append(objects.AddOns, held)
	for goal, want := range map[Goal]int{GoalReady: 0, GoalRemoved: 1} {
		if got := Assess(Compose(objects), &Filter{}, goal); len(got.Failed) != want {
			t.Errorf("for %s: %+v", goal, got)
		}
	}
}

// TestFinalReasonsExist holds that every final reason is a reason of a condition that is not True.
func TestFinalReasonsExist(t *testing.T) {
	var known []string
	for _, reasons := range api.Reasons() {
		known = append(known, reasons...)
	}
	for _, reason := range append(FinalReasons(), FinalRemovalReasons()...) {
		if !slices.Contains(known, reason) || slices.Contains([]string{api.ReasonReady, api.ReasonDelivering, api.ReasonRemoteClusterStale}, reason) {
			t.Errorf("%s is no reason that lasts", reason)
		}
	}
}

// recordingHub returns a hub with objects, and the requests for whole objects.
func recordingHub(t *testing.T, objects ...runtime.Object) (*Hub, func() []clienttesting.Action) {
	t.Helper()
	kinds := map[schema.GroupVersionResource]string{
		{Group: "addon.open-cluster-management.io", Version: "v1beta1", Resource: "managedclusteraddons"}:    "ManagedClusterAddOnList",
		{Group: "addon.open-cluster-management.io", Version: "v1beta1", Resource: "clustermanagementaddons"}: "ClusterManagementAddOnList",
	}
	kinds[fleetv1alpha1.Resource()], kinds[revision.DeploymentConfig{}.Resource()] = "KnativeFleetList", "AddOnDeploymentConfigList"
	for _, component := range api.Components() {
		kinds[component.Resource()] = component.Kind() + "List"
	}
	scheme := metadatafake.NewTestScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	client := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), kinds, objects...)
	return &Hub{Name: "the hub", Dynamic: client, Metadata: metadatafake.NewSimpleMetadataClient(scheme)}, client.Actions
}

// await starts a wait for edge-7, and returns the hub, the clock and the end of the wait, as soon as the wait gets the changes of edge-7: the
// fake hub tells a watch no earlier change.
func await(t *testing.T, ctx context.Context, first *unstructured.Unstructured, goal Goal) (*Hub, *clocktesting.FakeClock, <-chan error) {
	t.Helper()
	hub, requests := recordingHub(t, first)
	_, clock, end := awaitOn(t, ctx, hub, requests, goal)
	return hub, clock, end
}

// awaitOn is await on a hub, and returns the Watcher.
func awaitOn(t *testing.T, ctx context.Context, hub *Hub, requests func() []clienttesting.Action, goal Goal) (*Watcher, *clocktesting.FakeClock, <-chan error) {
	t.Helper()
	clock := clocktesting.NewFakeClock(since().Time)
	watcher, failed := hub.Watch(ctx, Query{Components: api.Components()})
	if len(failed) > 0 {
		t.Fatal(failed)
	}
	end := make(chan error, 1)
	go func() {
		_, err := watcher.Await(ctx, clock, &Filter{Names: []string{"team/edge-7"}}, goal, func(int, int) {})
		end <- err
	}()
	for !slices.ContainsFunc(requests(), func(a clienttesting.Action) bool { return a.Matches("watch", api.Serving.Resource().Resource) }) {
		goruntime.Gosched()
	}
	return watcher, clock, end
}

func edge7(conditions ...string) *unstructured.Unstructured {
	return serving("edge-7", onCluster("edge"), withFinalizer(api.DirectFinalizer), withConditions(conditions...))
}

// write replaces edge-7.
func write(t *testing.T, hub *Hub, conditions ...string) {
	t.Helper()
	if _, err := hub.Dynamic.Resource(api.Serving.Resource()).Namespace("team").Update(t.Context(), edge7(conditions...), metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// TestAwaitReady holds that a change on the hub ends the wait, without a clock.
func TestAwaitReady(t *testing.T) {
	hub, _, end := await(t, t.Context(), edge7("Ready Unknown Delivering"), GoalReady)
	write(t, hub, ready, applied)
	if err := <-end; err != nil {
		t.Error(err)
	}
}

func TestAwaitRemoved(t *testing.T) {
	hub, _, end := await(t, t.Context(), edge7("Ready Unknown Removing"), GoalRemoved)
	if err := hub.Dynamic.Resource(api.Serving.Resource()).Namespace("team").Delete(t.Context(), "edge-7", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := <-end; err != nil {
		t.Error(err)
	}
}

// TestAwaitFailure holds that a final reason ends the wait only after failedPeriod.
func TestAwaitFailure(t *testing.T) {
	_, clock, end := await(t, t.Context(), edge7("Ready False InvalidSpec no such field"), GoalReady)
	for !clock.HasWaiters() {
		goruntime.Gosched()
	}
	clock.Step(failedPeriod)
	var failed *FailedError
	if err := <-end; !errors.As(err, &failed) || len(failed.Progress.Failed) != 1 {
		t.Errorf("the wait ended with %v, want a FailedError", err)
	}
}

// TestFailureHasToLast holds that a reason which ends before failedPeriod starts the period again.
func TestFailureHasToLast(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(since().Time)
	judge := failureJudge{clock: clock}
	for n, step := range []struct {
		after     time.Duration
		hasFailed bool
		wait      time.Duration
		failed    bool
	}{
		{0, true, failedPeriod, false},
		{failedPeriod - time.Second, true, time.Second, false},
		{0, false, 0, false},
		{time.Second, true, failedPeriod, false},
		{failedPeriod, true, 0, true},
	} {
		clock.SetTime(clock.Now().Add(step.after))
		if wait, failed := judge.judge(step.hasFailed); wait != step.wait || failed != step.failed {
			t.Errorf("step %d: wait %s and failed %t, want %s and %t", n, wait, failed, step.wait, step.failed)
		}
	}
}

// TestProgressReporter holds that a wait reports a changed number at most once in progressPeriod, and that a removed installation counts.
func TestProgressReporter(t *testing.T) {
	progress := func(reached, waiting, failed int) *Progress {
		return &Progress{Reached: make([]string, reached), Waiting: make([]string, waiting), Failed: make([]string, failed)}
	}
	for goal, steps := range map[Goal][]struct {
		after    time.Duration
		progress *Progress
		report   string
		wait     time.Duration
	}{
		GoalReady: {
			{0, progress(0, 3, 0), "0 of 3", 0},
			{time.Second, progress(0, 2, 1), "", 0},
			{time.Second, progress(1, 2, 0), "", progressPeriod - 2*time.Second},
			{time.Second, progress(2, 1, 0), "", 0},
			{progressPeriod - 3*time.Second, progress(2, 1, 0), "2 of 3", 0},
			{time.Hour, progress(2, 1, 0), "", 0},
			{0, progress(2, 2, 0), "2 of 4", 0},
		},
		GoalRemoved: {{0, progress(0, 2, 1), "0 of 3", 0}, {progressPeriod, progress(0, 1, 0), "2 of 3", 0}},
	} {
		clock, report := clocktesting.NewFakePassiveClock(since().Time), ""
		reporter := progressReporter{clock: clock, goal: goal, report: func(reached, total int) { report = fmt.Sprintf("%d of %d", reached, total) }}
		for n, step := range steps {
			clock.SetTime(clock.Now().Add(step.after))
			report = ""
			if wait := reporter.note(step.progress); wait != step.wait || report != step.report {
				t.Errorf("%s, step %d: report %q and wait %s, want %q and %s", goal, n, report, wait, step.report, step.wait)
			}
		}
	}
}

// TestAwaitReports holds that a wait reports its progress again when the period has passed, without a change of an object.
func TestAwaitReports(t *testing.T) {
	hub, requests := recordingHub(t, edge7("Ready Unknown Delivering"), serving("edge-8", onCluster("edge-8"), withFinalizer(api.DirectFinalizer), withConditions("Ready Unknown Delivering")))
	watcher, failed := hub.Watch(t.Context(), Query{Components: api.Components()})
	if len(failed) > 0 {
		t.Fatal(failed)
	}
	clock, reports := clocktesting.NewFakeClock(since().Time), make(chan string, 5)
	go func() {
		_, _ = watcher.Await(t.Context(), clock, &Filter{}, GoalReady, func(reached, total int) { reports <- fmt.Sprintf("%d of %d", reached, total) })
	}()
	if got := <-reports; got != "0 of 2" {
		t.Errorf("the first report is %q", got)
	}
	for !slices.ContainsFunc(requests(), func(a clienttesting.Action) bool { return a.Matches("watch", api.Serving.Resource().Resource) }) {
		goruntime.Gosched()
	}
	write(t, hub, ready, applied)
	for !clock.HasWaiters() {
		goruntime.Gosched()
	}
	clock.Step(progressPeriod)
	if got := <-reports; got != "1 of 2" {
		t.Errorf("the second report is %q", got)
	}
}

// TestLongErrors holds that the errors of a wait name the first installations, and count the others.
func TestLongErrors(t *testing.T) {
	long := make([]string, listedInstallations+5)
	for _, err := range []error{&TimeoutError{Progress: Progress{Waiting: long}, cause: context.DeadlineExceeded}, &FailedError{Progress{Failed: long}}} {
		if lines := strings.Split(err.Error(), "\n"); len(lines) != listedInstallations+2 || !strings.Contains(lines[len(lines)-1], "and 5 more") {
			t.Errorf("%T has %d lines, the last is %q", err, len(lines), lines[len(lines)-1])
		}
	}
}

// TestAwaitTimeout holds that the deadline ends the wait with the installations that have not reached the goal.
func TestAwaitTimeout(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	_, clock, end := await(t, ctx, edge7("Ready False InvalidSpec no such field"), GoalReady)
	for !clock.HasWaiters() {
		goruntime.Gosched()
	}
	cancel(context.DeadlineExceeded)
	var timeout *TimeoutError
	if err := <-end; !errors.As(err, &timeout) || !strings.Contains(err.Error(), "InvalidSpec: no such field") {
		t.Errorf("the wait ended with %v, want a TimeoutError", err)
	}
}

// TestTimeoutNamesStaleWatches holds that a timeout tells of watches without answers: the state that it reports may be old.
func TestTimeoutNamesStaleWatches(t *testing.T) {
	err := &TimeoutError{
		Progress: Progress{Waiting: []string{"cluster1 knative-serving"}}, cause: context.DeadlineExceeded,
		stale: []error{errors.New("cannot watch knativeservings on the hub")},
	}
	for _, want := range []string{"cluster1 knative-serving", "this state may be old: cannot watch knativeservings on the hub"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error %q lacks %q", err, want)
		}
	}
}

// stubInformer is an informer that has reached a resource version.
type stubInformer struct {
	cache.SharedIndexInformer

	version string
}

func (i *stubInformer) LastSyncResourceVersion() string { return i.version }

// TestRecoveredWatch holds that the error of a watch counts until the informer reaches another resource version, also without a change of an
// installation.
func TestRecoveredWatch(t *testing.T) {
	informer := &stubInformer{version: "5"}
	w := &Watcher{
		hub: &Hub{Name: "the hub"}, sources: []source{{resource: api.Serving.Resource()}}, informers: []cache.SharedIndexInformer{informer},
		changed: make(chan struct{}, 1), failures: map[string]watchFailure{},
	}
	if err := w.noteFailure(&w.sources[0], informer, errors.New("503")); err == nil {
		t.Error("the failure has no error")
	}
	if got := w.Failures(); len(got) != 1 {
		t.Errorf("a watch without an answer: %v", got)
	}
	informer.version = "6"
	if got := w.Failures(); len(got) != 0 {
		t.Errorf("a watch that has recovered: %v", got)
	}
}

// TestRefusedWatch holds that a hub which refuses connections is a failure: client-go repeats such a watch without a call of the error handler.
func TestRefusedWatch(t *testing.T) {
	hub, requests := recordingHub(t, edge7("Ready Unknown Delivering"))
	client, isFake := hub.Dynamic.(*dynamicfake.FakeDynamicClient)
	if !isFake {
		t.Fatal("the hub has no fake client")
	}
	client.PrependWatchReactor(fleetv1alpha1.Resource().Resource, func(clienttesting.Action) (bool, watch.Interface, error) {
		return true, nil, &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
	})
	ctx, cancel := context.WithCancel(t.Context())
	watcher, _, end := awaitOn(t, ctx, hub, requests, GoalReady)
	for len(watcher.Failures()) == 0 {
		goruntime.Gosched()
	}
	cancel()
	if err := <-end; !errors.Is(err, context.Canceled) {
		t.Errorf("the wait ended with %v", err)
	}
}

// TestForbiddenWatchOfFleets holds that a user who may list and not watch KnativeFleets can wait.
func TestForbiddenWatchOfFleets(t *testing.T) {
	hub, requests := recordingHub(t, edge7("Ready Unknown Delivering"))
	client, isFake := hub.Dynamic.(*dynamicfake.FakeDynamicClient)
	if !isFake {
		t.Fatal("the hub has no fake client")
	}
	resource := fleetv1alpha1.Resource()
	client.PrependWatchReactor(resource.Resource, func(clienttesting.Action) (bool, watch.Interface, error) {
		return true, nil, apierrors.NewForbidden(resource.GroupResource(), "", nil)
	})
	watcher, _, end := awaitOn(t, t.Context(), hub, requests, GoalReady)
	for len(watcher.Failures()) == 0 {
		goruntime.Gosched()
	}
	write(t, hub, ready, applied)
	if err := <-end; err != nil {
		t.Error(err)
	}
}

// TestUnknownFleet holds that no wait for ready succeeds for a child of a KnativeFleet that the user may not list: the KnativeFleet may have
// another revision for the child.
func TestUnknownFleet(t *testing.T) {
	child := edge7(ready, applied)
	ofFleet(child)
	for name, tc := range map[string]struct {
		object *unstructured.Unstructured
		fails  bool
	}{
		"child":                         {child, true},
		"resource without KnativeFleet": {edge7(ready, applied), false},
	} {
		t.Run(name, func(t *testing.T) {
			hub, _ := recordingHub(t, tc.object)
			client, isFake := hub.Dynamic.(*dynamicfake.FakeDynamicClient)
			if !isFake {
				t.Fatal("the hub has no fake client")
			}
			resource := fleetv1alpha1.Resource()
			client.PrependReactor("list", resource.Resource, func(clienttesting.Action) (bool, runtime.Object, error) {
				return true, nil, apierrors.NewForbidden(resource.GroupResource(), "", nil)
			})
			watcher, failed := hub.Watch(t.Context(), Query{Components: api.Components()})
			if len(failed) != 1 || !failed[0].IsOptional {
				t.Fatalf("the failed lists are %v", failed)
			}
			_, err := watcher.Await(t.Context(), clocktesting.NewFakeClock(since().Time), &Filter{Names: []string{"team/edge-7"}}, GoalReady, func(int, int) {})
			if failed := err != nil; failed != tc.fails || failed && !strings.Contains(err.Error(), "KnativeFleet web") {
				t.Errorf("the wait ended with %v", err)
			}
		})
	}
}

// TestAwaitInterrupted holds that the user's interruption is no timeout.
func TestAwaitInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	_, _, end := await(t, ctx, edge7("Ready Unknown Delivering"), GoalReady)
	cancel()
	if err := <-end; !errors.Is(err, context.Canceled) || errors.As(err, new(*TimeoutError)) {
		t.Errorf("the wait ended with %v", err)
	}
}
