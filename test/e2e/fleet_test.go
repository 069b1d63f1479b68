// Copyright Contributors to the Open Cluster Management project

// Package e2e tests what users do with the add-on, on a fleet of real components.
package e2e

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/delivery/manifestwork"
	"open-cluster-management.io/knative-addon/test/e2e/harness"
	"open-cluster-management.io/knative-addon/test/lab"
)

const (
	// statusSync is the interval at which a work agent reads every object of its works. With 2 s, an agent and the API server of the agent occupy half
	// of a core.
	statusSync = 5 * time.Second
	// resync is how often work agents apply everything again in these tests, plus up to half of it.
	resync = 15 * time.Second
)

func TestMain(m *testing.M) {
	flag.Parse()
	binary, err := harness.Binary()
	if err = errors.Join(err, checkStoriesFlag(), permissionUse.startRecord(*storiesFlag, *recordFlag, binary)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	if err := permissionUse.judgeRun(code == 0); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	if code == 0 && wholeSuite() && *storiesFlag == mainStories && *recordFlag != "" {
		if err := permissionUse.save(*recordFlag, binary); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// TestSharedFleet runs the stories that one fleet of two managed clusters serves in turn. None depends on another one.
func TestSharedFleet(t *testing.T) {
	startMainStory(t)
	l := ownLab(t, lab.Options{ManagedClusters: 2, StatusSyncInterval: statusSync, ResyncInterval: resync, Log: os.Stderr})
	f, err := harness.Install(t.Context(), l, harness.Options{})
	if err != nil {
		t.Fatal(err)
	}
	logManagerOnFailure(t, f)

	t.Run("bad input is refused", func(t *testing.T) { deliverBadInput(t, f) })
	t.Run("the chart installs access providers", func(t *testing.T) { chartAccessProviders(t, f) })
	t.Run("the chart enables the add-ons by Placements", func(t *testing.T) { chartPlacements(t, f) })
	t.Run("an API server accepts the objects of the chart", func(t *testing.T) { chartOnServer(t, f) })
	t.Run("Serving and Eventing are installed", func(t *testing.T) { installBothComponents(t, f) })
	t.Run("a spec is rendered offline", func(t *testing.T) { renderOffline(t, f) })
	t.Run("changed and deleted workloads are repaired", func(t *testing.T) { repairWorkloads(t, f) })
	t.Run("a cluster follows each version in steps", func(t *testing.T) { stepVersions(t, f) })
}

// logManagerOnFailure logs the end of the manager's log when the test has failed.
func logManagerOnFailure(t *testing.T, f *harness.Fleet) {
	t.Helper()
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the end of the manager's log:\n%s", f.LogTail(harness.Manager))
		}
	})
}

// ownLab starts a lab for one test. At the end of the test, ownLab collects the use of the manager's permissions, and then checks
// the invariants.
func ownLab(t *testing.T, opts lab.Options) *lab.Lab {
	t.Helper()
	opts.AuditedAccounts, opts.RecordChanges = auditedAccounts(), true
	t.TempDir() // what a story writes for its manager stays until the invariants are checked
	var l *lab.Lab
	t.Cleanup(func() {
		if l != nil {
			recordCPUTime(t, l.CPUTime())
		}
	})
	l = lab.Start(t, opts)
	checkInvariants(t, l)
	t.Cleanup(func() {
		if err := permissionUse.collectFrom(l); err != nil {
			t.Error(err)
		}
	})
	return l
}

// loadFactor is how much longer than on an idle machine a check may take: two labs act on two cores, and builds may run beside these.
const loadFactor = 4

// eventually polls until check returns nil and fails the test with its last error when that takes loadFactor times as long as
// patience, which is for an idle machine.
func eventually(t *testing.T, what string, patience time.Duration, check func(ctx context.Context) error) {
	t.Helper()
	patience *= loadFactor
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var last error
	for {
		err := check(ctx)
		if err == nil {
			return
		}
		if ctx.Err() == nil { // else it tells of our own deadline
			last = err
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%s: not within %s: %v", what, patience, last)
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// restTime is how long nothing may change before a story takes a snapshot.
const restTime = 5 * time.Second

// awaitRest waits until what a function reads has not changed for restTime, and returns what was read. A late write of the step before, such
// as of a controller that waits for a processor, would otherwise count as a write of the next step.
func awaitRest(t *testing.T, what string, read func(ctx context.Context) (map[string]string, error)) map[string]string {
	t.Helper()
	var last map[string]string
	since := time.Now()
	eventually(t, what+" is at rest", 2*time.Minute, func(ctx context.Context) error {
		now, err := read(ctx)
		if err != nil {
			return err
		}
		if last == nil || !maps.Equal(now, last) {
			last, since = now, time.Now()
		}
		if quiet := time.Since(since); quiet < restTime {
			return fmt.Errorf("the last change is %s old", quiet)
		}
		return nil
	})
	return last
}

// enabled enables the components on the clusters with clusteradm and waits until they are Available.
func enabled(t *testing.T, f *harness.Fleet, components []api.Component, clusters ...*lab.Cluster) {
	t.Helper()
	var addOns, to []string
	for _, c := range components {
		addOns = append(addOns, c.AddOnName())
	}
	for _, c := range clusters {
		to = append(to, c.Name)
	}
	if err := f.Enable(t.Context(), addOns, to); err != nil {
		t.Fatal(err)
	}
	available(t, f, components, clusters...)
}

// available waits until the components are Available on the clusters.
func available(t *testing.T, f *harness.Fleet, components []api.Component, clusters ...*lab.Cluster) {
	t.Helper()
	for _, c := range clusters {
		for _, component := range components {
			eventually(t, fmt.Sprintf("%s on %s is Available", component, c.Name), 3*time.Minute, func(ctx context.Context) error {
				p, err := f.Progress(ctx, component, c.Name)
				if err == nil && !p.Done {
					err = fmt.Errorf("%+v", p)
				}
				return err
			})
		}
	}
}

// settled waits until OCM may know that the clusters run a component, and nothing more is to be written for that.
func settled(t *testing.T, f *harness.Fleet, component api.Component, clusters ...*lab.Cluster) {
	t.Helper()
	for _, c := range clusters {
		eventually(t, fmt.Sprintf("%s on %s is known to run", component, c.Name), 3*time.Minute, func(ctx context.Context) error {
			works, err := f.ComponentWorks(ctx, component, c.Name)
			if err != nil {
				return err
			}
			if len(works) < 3 {
				return fmt.Errorf("there are %d works", len(works))
			}
			for _, w := range works {
				if w.Name == manifestwork.GateName(component) {
					if manifestwork.ConfigsOf(&w) == nil || !isReported(&w, workv1.WorkAvailable) {
						return fmt.Errorf("%s has generation %d, annotations %v and conditions %+v", w.Name, w.Generation, w.Annotations, w.Status.Conditions)
					}
					continue
				}
				if manifestwork.IsOrphaned(&w) || !isReported(&w, workv1.WorkApplied) || !isReported(&w, workv1.WorkAvailable) {
					return fmt.Errorf("%s has generation %d, annotations %v and conditions %+v", w.Name, w.Generation, w.Annotations, w.Status.Conditions)
				}
				// The manager records the version after the report that the add-on is Available.
				if w.Name == manifestwork.FoundationName(component) && w.Annotations[api.RunningVersionAnnotation] != w.Annotations[api.VersionAnnotation] {
					return fmt.Errorf("%s does not record yet that the version runs: %v", w.Name, w.Annotations)
				}
			}
			return nil
		})
	}
}

// isReported reports whether the agent has reported the condition of the present generation as True.
func isReported(w *workv1.ManifestWork, condition string) bool {
	c := apimeta.FindStatusCondition(w.Status.Conditions, condition)
	return c != nil && c.Status == metav1.ConditionTrue && c.ObservedGeneration == w.Generation
}

func names(components []api.Component) []string {
	out := make([]string, 0, len(components))
	for _, c := range components {
		out = append(out, c.AddOnName())
	}
	return out
}

// spoke is what tests look at on a cluster.
type spoke struct {
	*lab.Cluster
	kube    kubernetes.Interface
	dynamic dynamic.Interface
}

func connect(t *testing.T, c *lab.Cluster) spoke {
	t.Helper()
	kube, err := kubernetes.NewForConfig(c.Config)
	if err != nil {
		t.Fatal(err)
	}
	dyn, err := dynamic.NewForConfig(c.Config)
	if err != nil {
		t.Fatal(err)
	}
	return spoke{Cluster: c, kube: kube, dynamic: dyn}
}

func (s spoke) list(t *testing.T, group, version, resource string) []unstructured.Unstructured {
	t.Helper()
	items, err := s.listed(t.Context(), schema.GroupVersionResource{Group: group, Version: version, Resource: resource})
	if err != nil {
		t.Fatal(err)
	}
	return items
}

func (s spoke) listed(ctx context.Context, gvr schema.GroupVersionResource) ([]unstructured.Unstructured, error) {
	list, err := s.dynamic.Resource(gvr).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("cannot list %s of %s: %w", gvr.Resource, s.Name, err)
	}
	return list.Items, nil
}

// watchedViolations is what a watch of a test has seen while the test went on.
type watchedViolations struct {
	done chan struct{} // the watch has ended

	mu         sync.Mutex
	violations []string
}

// followWatch hands on what a watch shows until the test ends.
func (o *watchedViolations) followWatch(t *testing.T, start func(ctx context.Context) (watch.Interface, error), see func(ctx context.Context, e watch.Event)) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	events, err := start(ctx)
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	o.done = make(chan struct{})
	go func() {
		defer close(o.done)
		for e := range events.ResultChan() {
			see(ctx, e)
		}
	}()
	t.Cleanup(func() { cancel(); <-o.done })
}

// followRestartedWatch hands on what a watch shows until the test ends. A watch that ends, because its API server stops, starts again
// with all objects.
func (o *watchedViolations) followRestartedWatch(t *testing.T, start func(ctx context.Context) (watch.Interface, error), see func(ctx context.Context, e watch.Event)) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	o.done = make(chan struct{})
	go func() {
		defer close(o.done)
		for ctx.Err() == nil {
			events, err := start(ctx)
			if err != nil {
				time.Sleep(100 * time.Millisecond)
				continue
			}
			for e := range events.ResultChan() {
				if e.Type != watch.Error {
					see(ctx, e)
				}
			}
		}
	}()
	t.Cleanup(func() { cancel(); <-o.done })
}

// checkNoViolations holds that the watch goes on and has seen nothing wrong so far.
func (o *watchedViolations) checkNoViolations(t *testing.T) {
	t.Helper()
	o.mu.Lock()
	defer o.mu.Unlock()
	select {
	case <-o.done:
		t.Error("the watch has ended")
	default:
	}
	slices.Sort(o.violations)
	for _, v := range slices.Compact(slices.Clone(o.violations)) {
		t.Error(v)
	}
}
