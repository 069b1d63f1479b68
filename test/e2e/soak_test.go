// Copyright Contributors to the Open Cluster Management project

package e2e

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/test/e2e/harness"
	"open-cluster-management.io/knative-addon/test/lab"
	"open-cluster-management.io/knative-addon/test/lab/process"
)

var soakDuration = flag.Duration("soak-duration", 30*time.Minute, "how long -stories=soak injects faults")

const (
	// recoveryBound is the time for recovery after the last fault of a round, longRecoveryBound after the deletion of an install
	// namespace.
	recoveryBound     = 3 * time.Minute
	longRecoveryBound = 10 * time.Minute
	// longestGap is the longest time from one fault of a round to the next: a fault may meet the repair of another fault.
	longestGap = 8 * time.Second
	// longestFault is the longest time between the injection and the end of the faults of a round.
	longestFault = 20 * time.Second
	// mostFaults is the largest number of faults in a round.
	mostFaults = 3
)

// soakTest injects random faults into a fleet with one resource for a managed cluster and one resource for a cluster without a
// work agent.
type soakTest struct {
	faultyFleet
	random *rand.Rand
	spokes map[string]spoke
	// timeouts are the revision timeouts of the specs, by resource.
	timeouts map[string]string
	// crds are the UIDs of Knative's CRDs, by cluster, and deployments the names of the Deployments of Serving.
	crds        map[string]map[string]types.UID
	deployments map[string][]string
	// history has the faults of every round until now.
	history []string
}

// TestSoak injects random faults for the time of -soak-duration. After each round of up to three faults, TestSoak edits both resources:
// both must become Ready with the current generation and the clusters must have the edits, deleted objects must be back, no CRD may
// have been deleted, and pods of Deployments that no fault replaces must be the same pods.
func TestSoak(t *testing.T) {
	startSoak(t)
	seed := drawSeed(t)
	s := newSoakTest(t, seed)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("make soak SOAK_SEED=%d repeats the faults:\n%s", seed, strings.Join(s.history, "\n"))
		}
	})
	for start := time.Now(); time.Since(start) < *soakDuration; {
		s.runRound(t)
	}
	t.Logf("%d rounds of faults", len(s.history))
}

// newSoakTest installs Serving on both clusters.
func newSoakTest(t *testing.T, seed uint64) *soakTest {
	t.Helper()
	s := &soakTest{
		faultyFleet: newFaultyFleet(t), random: rand.New(rand.NewPCG(seed, seed)), //nolint:gosec // reproducible, not secret
		spokes: map[string]spoke{}, timeouts: map[string]string{}, crds: map[string]map[string]types.UID{},
		deployments: map[string][]string{},
	}
	shortLease(t, s.team, s.Managed[0].Name)
	s.applyAll(t, "1.23")
	for name, cluster := range s.clusters {
		s.spokes[name] = connect(t, cluster)
	}
	eventually(t, "both clusters are installed", longRecoveryBound, s.checkRecovery(nil))
	for name := range s.clusters {
		s.crds[name] = s.crdUIDs(t, name)
		pods, err := s.podUIDs(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		s.deployments[name] = slices.Sorted(maps.Keys(pods))
	}
	return s
}

// runRound injects faults, ends the faults in reverse order, edits both resources, and checks the fleet.
func (s *soakTest) runRound(t *testing.T) {
	t.Helper()
	faults, hold := s.drawFaults(), time.Duration(s.random.Int64N(int64(longestFault)))
	var descriptions []string
	for _, f := range faults {
		descriptions = append(descriptions, f.description)
	}
	round := fmt.Sprintf("round %d: %s; for %s", len(s.history)+1, strings.Join(descriptions, ", "), hold.Round(time.Second))
	s.history = append(s.history, round)
	t.Log(round)
	before := map[string]map[string]string{}
	for name := range s.clusters {
		pods, err := s.podUIDs(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		before[name] = pods
	}
	for _, f := range faults {
		time.Sleep(f.gap)
		if err := f.inject(t.Context()); err != nil {
			t.Fatalf("cannot inject %q: %v", f.description, err)
		}
	}
	time.Sleep(hold)
	for _, f := range slices.Backward(faults) {
		if err := f.end(t.Context()); err != nil {
			t.Fatalf("cannot end %q: %v", f.description, err)
		}
	}
	s.editAll(t)
	bound := recoveryBound
	if slices.ContainsFunc(faults, func(f soakFault) bool { return f.replacesAll }) {
		bound = longRecoveryBound
	}
	start, hasRecovered := time.Now(), s.checkRecovery(faults)
	eventually(t, "both clusters recover", bound, func(ctx context.Context) error {
		s.restartComponents(t)
		return hasRecovered(ctx)
	})
	t.Logf("recovered %s after the faults", time.Since(start).Round(100*time.Millisecond))
	s.checkUnaffected(t, faults, before)
}

// editAll edits both resources: a status from before the faults is no sign of recovery.
func (s *soakTest) editAll(t *testing.T) {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(s.clusters)) {
		timeout := s.drawTimeout()
		eventually(t, "the hub accepts an edit of "+name, time.Minute, func(ctx context.Context) error { return s.setTimeout(ctx, name, timeout) })
	}
}

// restartComponents starts the components of the lab that ended by themselves, as a kubelet does. The manager must not end.
func (s *soakTest) restartComponents(t *testing.T) {
	t.Helper()
	for _, c := range s.Components() {
		if c.State != process.Failed || strings.HasSuffix(c.Name, "-webhook") { // the lab restarts Knative's webhooks
			continue
		}
		if c.Name == harness.Manager {
			t.Error("the manager ended by itself")
		}
		t.Logf("component %s ended by itself", c.Name)
		if err := s.Start(c.Name); err != nil {
			t.Logf("cannot restart %s: %v", c.Name, err)
		}
	}
}

// checkRecovery returns a function that returns an error until every resource and every cluster have recovered from the faults.
func (s *soakTest) checkRecovery(faults []soakFault) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		if err := s.Probe(ctx, harness.Manager, "/readyz"); err != nil {
			return fmt.Errorf("the manager is not ready: %w", err)
		}
		for name, cluster := range s.clusters {
			if err := s.allInstalled(map[string]*lab.Cluster{name: cluster}, "1.23", s.timeouts[name])(ctx); err != nil {
				return err
			}
			if err := s.checkWorkloads(ctx, name); err != nil {
				return err
			}
		}
		for _, f := range faults {
			if f.deleted == nil {
				continue
			}
			if err := f.deleted.checkRecreated(ctx, s.spokes[f.cluster]); err != nil {
				return err
			}
		}
		return nil
	}
}

// checkWorkloads returns an error until every Deployment of the install namespace is available, and has no pods beside its replicas.
func (s *soakTest) checkWorkloads(ctx context.Context, name string) error {
	list, err := s.spokes[name].kube.AppsV1().Deployments(installNamespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	pods, err := s.podUIDs(ctx, name)
	if err != nil {
		return err
	}
	var found []string
	for _, d := range list.Items {
		found = append(found, d.Name)
	}
	for _, deployment := range s.deployments[name] {
		if !slices.Contains(found, deployment) {
			return fmt.Errorf("%s has no Deployment %s", name, deployment)
		}
	}
	for _, d := range list.Items {
		desired := int(*d.Spec.Replicas)
		current := d.DeletionTimestamp == nil && d.Status.ObservedGeneration == d.Generation
		if uids := pods[d.Name]; !current || int(d.Status.AvailableReplicas) != desired || len(strings.Fields(uids)) != desired {
			return fmt.Errorf("%s: Deployment %s has the status %+v and the pods %q", name, d.Name, d.Status, uids)
		}
	}
	return nil
}

// podUIDs returns the UIDs of the pods of each Deployment of the install namespace. A pod is left out whose Deployment is deleted: the pod
// waits for Kubernetes' garbage collector, which repeats a deletion that failed during a fault after up to 1,000 seconds.
func (s *soakTest) podUIDs(ctx context.Context, name string) (map[string]string, error) {
	garbage, err := s.garbageReplicaSets(ctx, name)
	if err != nil {
		return nil, err
	}
	list, err := s.spokes[name].kube.CoreV1().Pods(installNamespace).List(ctx, metav1.ListOptions{LabelSelector: "!job-name"})
	if err != nil {
		return nil, err
	}
	uids := map[string][]string{}
	for _, pod := range list.Items {
		owner := metav1.GetControllerOf(&pod)
		if owner == nil || pod.DeletionTimestamp != nil || garbage[owner.UID] {
			continue
		}
		deployment := strings.TrimSuffix(owner.Name, "-"+pod.Labels["pod-template-hash"])
		uids[deployment] = append(uids[deployment], string(pod.UID))
	}
	out := map[string]string{}
	for deployment, all := range uids {
		slices.Sort(all)
		out[deployment] = strings.Join(all, " ")
	}
	return out, nil
}

// garbageReplicaSets returns the UIDs of the ReplicaSets of the install namespace whose Deployment is deleted. A ReplicaSet that a deletion has
// orphaned has no such owner, and is not garbage.
func (s *soakTest) garbageReplicaSets(ctx context.Context, name string) (map[types.UID]bool, error) {
	apps := s.spokes[name].kube.AppsV1()
	sets, err := apps.ReplicaSets(installNamespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	deployments, err := apps.Deployments(installNamespace).List(ctx, metav1.ListOptions{}) // after the ReplicaSets: owners are older
	if err != nil {
		return nil, err
	}
	exists := map[types.UID]bool{}
	for _, d := range deployments.Items {
		exists[d.UID] = true
	}
	garbage := map[types.UID]bool{}
	for _, set := range sets.Items {
		owner := metav1.GetControllerOf(&set)
		garbage[set.UID] = owner != nil && !exists[owner.UID]
	}
	return garbage, nil
}

// checkUnaffected reports CRDs that were deleted, and pods that no fault of the round replaces and that are not the same pods.
func (s *soakTest) checkUnaffected(t *testing.T, faults []soakFault, before map[string]map[string]string) {
	t.Helper()
	for name := range s.clusters {
		if diff := cmp.Diff(s.crds[name], s.crdUIDs(t, name)); diff != "" {
			t.Errorf("%s: CRDs were deleted (-before +after):\n%s", name, diff)
		}
		after, err := s.podUIDs(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range faults {
			if f.cluster == name {
				maps.DeleteFunc(before[name], f.replacesPods)
				maps.DeleteFunc(after, f.replacesPods)
			}
		}
		if diff := cmp.Diff(before[name], after); diff != "" {
			t.Errorf("%s: pods were replaced (-before +after):\n%s", name, diff)
		}
	}
	if t.Failed() {
		t.FailNow()
	}
}

// crdUIDs returns the UIDs of Knative's CRDs on the cluster.
func (s *soakTest) crdUIDs(t *testing.T, name string) map[string]types.UID {
	t.Helper()
	out := map[string]types.UID{}
	for _, crd := range s.spokes[name].list(t, "apiextensions.k8s.io", "v1", "customresourcedefinitions") {
		if strings.HasSuffix(crd.GetName(), "knative.dev") {
			out[crd.GetName()] = crd.GetUID()
		}
	}
	return out
}

// deletedObject is an object that a fault deletes.
type deletedObject struct {
	resource  schema.GroupVersionResource
	namespace string
	name      string
	uid       types.UID
}

// checkRecreated returns an error until the object is back.
func (d *deletedObject) checkRecreated(ctx context.Context, s spoke) error {
	o, err := s.dynamic.Resource(d.resource).Namespace(d.namespace).Get(ctx, d.name, metav1.GetOptions{})
	if err == nil && (o.GetUID() == d.uid || o.GetDeletionTimestamp() != nil) {
		err = errors.New("it is not deleted yet")
	}
	if err != nil {
		return fmt.Errorf("%s: %s %s was not recreated: %w", s.Name, d.resource.Resource, d.name, err)
	}
	return nil
}

// delete deletes the object.
func (d *deletedObject) delete(ctx context.Context, s spoke) error {
	client := s.dynamic.Resource(d.resource).Namespace(d.namespace)
	o, err := client.Get(ctx, d.name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	d.uid = o.GetUID()
	return client.Delete(ctx, d.name, metav1.DeleteOptions{})
}

// installNamespace is the namespace of Serving on both clusters.
var installNamespace = api.Serving.InstallNamespace()
