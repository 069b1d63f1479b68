// Copyright Contributors to the Open Cluster Management project

package direct

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/delivery"
	"open-cluster-management.io/knative-addon/pkg/inventory"
	"open-cluster-management.io/knative-addon/pkg/render"
	"open-cluster-management.io/knative-addon/pkg/workload"
)

const anchorPath = "configmaps/knative-serving/knativeserving-self-root-owner"

// recorded is what the anchor on the cluster says; nil when there is none.
func (s *clusterFixture) recorded(t *testing.T) inventory.Items {
	t.Helper()
	m := s.find(anchorPath)
	if m == nil {
		return nil
	}
	text, _, _ := unstructured.NestedString(m.Object, "data", itemsKey)
	inv, err := inventory.Decode(text)
	if err != nil {
		t.Fatal(err)
	}
	return inv
}

// unrecorded are the objects with our label that the anchor does not record.
func (s *clusterFixture) unrecorded(t *testing.T) []string {
	t.Helper()
	records := map[string]bool{anchorPath: true, "namespaces/" + installed: true} // the namespace comes before the anchor
	for _, e := range s.recorded(t) {
		records[path{e.GVR(), e.Namespace, e.Name}.String()] = true
	}
	return slices.DeleteFunc(s.names(), func(name string) bool {
		return records[name] || s.find(name).GetLabels()[api.ComponentLabel] == ""
	})
}

// TestSync holds what an installation comes to, in which order, and that it then rests.
func TestSync(t *testing.T) {
	s, b := newClusterFixture(t), bundleOf(t)
	want := []string{
		"create configmaps/knative-serving",                                                        // the anchor
		"update " + anchorPath,                                                                     // everything that is to come
		"apply customresourcedefinitions/images.caching.knative.dev",                               // foundation, in a Namespace that was there
		"apply clusterrolebindings/controller", "apply serviceaccounts/knative-serving/controller", // permissions
		"apply configmaps/knative-serving/config-network", "create secrets/knative-serving", // configuration
		"apply deployments/knative-serving/activator",          //
		"apply validatingwebhookconfigurations/config.webhook", //
		"apply images/knative-serving/queue-proxy",             // the rest
		"create jobs/knative-serving",                          // the mark of a complete version
		"update " + anchorPath,                                 // what came of it
	}
	s.add(b.Foundation[0].Resource, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": installed},
	}})
	s.pass(t, b)
	if diff := cmp.Diff(want, inStages(s.asked())); diff != "" {
		t.Errorf("what is written (-want +got):\n%s", diff)
	}
	out := s.settle(t, b)
	if diff := cmp.Diff(everything(), s.names()); diff != "" {
		t.Errorf("what there is (-want +got):\n%s", diff)
	}
	observed := delivery.Observation{
		Workloads: []delivery.WorkloadState{{WorkloadKey: delivery.WorkloadKey{Kind: "Deployment", Namespace: installed, Name: "activator"}, State: workload.State{Desired: 1}}},
		Jobs:      []delivery.JobState{{JobRef: workload.JobRef{Namespace: installed, Name: "migrate"}}},
	}
	if diff := cmp.Diff(Outcome{Observation: observed}, out); diff != "" {
		t.Errorf("what is told of it (-want +got):\n%s", diff)
	}
	s.restart()
	if s.pass(t, b); len(s.asked()) > 0 {
		t.Error("something is written after a restart")
	}
	if version, err := s.Installed(t.Context(), installed); err != nil || version.Delivered != "1.23.0" {
		t.Errorf("its version is %q (%v)", version, err)
	}
}

// inStages sorts what was asked for between two writes of the same stage.
func inStages(requests []string) []string {
	kind := func(request string) render.Stage {
		for words, s := range map[string]render.Stage{
			"namespaces/": render.StageFoundation, "customresource": render.StageFoundation, "binding": render.StagePermission, "serviceaccounts": render.StagePermission,
			"config-network": render.StageConfiguration, "secrets": render.StageConfiguration, "deployments": render.StageWorkload, "webhook": render.StageWebhook,
			"images/": render.StageDependent, "jobs": render.StageJob,
		} {
			if strings.HasPrefix(strings.SplitN(request, " ", 2)[1], words) || words == "binding" && strings.Contains(request, words) ||
				words == "config-network" && strings.Contains(request, words) || words == "webhook" && strings.Contains(request, "webhookconfigurations") {
				return s
			}
		}
		return render.Stages
	}
	for from := 0; from < len(requests); {
		to := from + 1
		for to < len(requests) && kind(requests[to]) == kind(requests[from]) && kind(requests[to]) != render.Stages {
			to++
		}
		slices.Sort(requests[from:to])
		from = to
	}
	return requests
}

// errCrash is how a request ends that the manager does not survive.
var errCrash = errors.New("crash")

// TestCrashAtEveryRequest lets the manager end at each write of an installation, an upgrade and a removal. Whatever is on
// the cluster then is recorded, and the next manager brings it to where an undisturbed one does.
func TestCrashAtEveryRequest(t *testing.T) {
	b := bundleOf(t)
	older := bundleOf(t, func(b *render.Bundle) {
		b.Version = "1.22.0"
		b.Payload = append(b.Payload, rendered(t, inConfigMaps, "ConfigMap knative-serving/old", nil))
		b.Payload[0] = rendered(t, inAccounts, "ServiceAccount knative-serving/controller", map[string]any{"secrets": []any{}}, render.Update)
		b.Payload[2] = rendered(t, inConfigMaps, "ConfigMap knative-serving/config-network", nil)
		b.Payload[4] = rendered(t, inDeployments, "Deployment knative-serving/activator", nil)
		b.Payload[7] = rendered(t, inImages, "Image knative-serving/queue-proxy", map[string]any{"spec": map[string]any{}})
	})
	sync := func(ctx context.Context, s *clusterFixture) error {
		_, err := s.Sync(ctx, b, SyncOptions{})
		return err
	}
	for name, tc := range map[string]struct {
		before []*render.Bundle
		step   func(context.Context, *clusterFixture) error
		want   []string
	}{
		"install": {nil, sync, everything()},
		"upgrade": {[]*render.Bundle{older}, sync, everything()},
		"remove":  {[]*render.Bundle{b}, removeAll, nil},
	} {
		t.Run(name, func(t *testing.T) {
			k := 1
			for survives(t, k, tc.before, tc.step, tc.want) {
				k++
			}
			if k < 7 {
				t.Errorf("there are only %d requests", k-1)
			}
		})
	}
}

// survives lets the manager end at the k-th write of a step, and the next one go on; it is false when there are fewer.
func survives(t *testing.T, k int, before []*render.Bundle, step func(context.Context, *clusterFixture) error, want []string) bool {
	t.Helper()
	s := newClusterFixture(t)
	for _, b := range before {
		s.settle(t, b)
	}
	if !s.crashAt(t, k, step) {
		return false
	}
	if lost := s.unrecorded(t); len(lost) > 0 && want != nil {
		t.Errorf("a crash at request %d leaves these unrecorded: %q", k, lost)
	}
	s.restart()
	s.finish(t, step)
	if diff := cmp.Diff(want, s.names()); diff != "" {
		t.Errorf("a crash at request %d leads elsewhere (-want +got):\n%s", k, diff)
	}
	return true
}

// crashAt ends the manager instead of its k-th write; it is false when there are fewer.
func (s *clusterFixture) crashAt(t *testing.T, k int, step func(context.Context, *clusterFixture) error) (crashed bool) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	count := make(chan int, 1)
	count <- 0
	s.disturb(func(request string) error {
		if verb, _, _ := strings.Cut(request, " "); verb == "get" || verb == "list" || verb == "watch" {
			return nil
		}
		n := <-count + 1
		count <- n
		if n < k {
			return nil
		}
		cancel()
		return fmt.Errorf("request %d: %w", n, errCrash)
	})
	s.awaitsWrites.Store(true) // a write that the server has begun would otherwise happen during the next steps
	defer func() {
		s.awaitsWrites.Store(false)
		s.disturb(nil)
	}()
	for range 5 {
		s.catchUp(t)
		if err := step(ctx, s); ctx.Err() != nil {
			return true
		} else if err != nil {
			t.Fatal(err)
		}
	}
	return false
}

// finish goes on until nothing is written any more.
func (s *clusterFixture) finish(t *testing.T, step func(context.Context, *clusterFixture) error) {
	t.Helper()
	for range 10 {
		s.asked()
		s.catchUp(t)
		if err := step(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		if len(s.asked()) == 0 {
			return
		}
	}
	t.Fatal("it does not come to rest")
}

// TestRepair holds what becomes of what somebody does to an installation, and that it is told.
func TestRepair(t *testing.T) {
	for name, tc := range map[string]struct {
		reason  string
		disturb func(*clusterFixture)
		want    []string
	}{
		"a change":             {"It is undone.", func(s *clusterFixture) { s.edit("deployments/knative-serving/activator", scaled) }, []string{"Deployment.apps knative-serving/activator was changed"}},
		"a deletion":           {"It comes again.", func(s *clusterFixture) { s.lose("clusterrolebindings/controller") }, []string{"ClusterRoleBinding.rbac.authorization.k8s.io controller is gone"}},
		"a filled Secret":      {"The cluster fills it.", func(s *clusterFixture) { s.edit("secrets/knative-serving/certs", filled) }, nil},
		"a lost Secret":        {"It comes again.", func(s *clusterFixture) { s.lose("secrets/knative-serving/certs") }, []string{"Secret knative-serving/certs is gone"}},
		"a Job that goes on":   {"Its status is not ours.", func(s *clusterFixture) { s.edit("jobs/knative-serving/migrate", completed) }, nil},
		"a lost anchor":        {"It comes again.", func(s *clusterFixture) { s.lose(anchorPath) }, nil},
		"a Job that went away": {"It has not completed.", func(s *clusterFixture) { s.lose("jobs/knative-serving/migrate") }, []string{"Job.batch knative-serving/migrate is gone"}},
	} {
		t.Run(name, func(t *testing.T) {
			s, b := newClusterFixture(t), bundleOf(t)
			s.settle(t, b)
			s.catchUp(t)
			tc.disturb(s)
			if out := s.pass(t, b); !cmp.Equal(tc.want, out.Repaired) {
				t.Errorf("%s It tells %q, want %q", tc.reason, out.Repaired, tc.want)
			}
			s.settle(t, b)
			if diff := cmp.Diff(everything(), s.names()); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}

func scaled(u *unstructured.Unstructured) { u.Object["spec"] = map[string]any{"replicas": int64(0)} }

func filled(u *unstructured.Unstructured) { u.Object["data"] = map[string]any{"tls.key": "c2VjcmV0"} }

func completed(u *unstructured.Unstructured) {
	u.Object["status"] = map[string]any{"conditions": []any{map[string]any{"type": "Complete", "status": string(metav1.ConditionTrue)}}}
}

// TestRepairAfterRestore holds that what a backup has brought back is seen, although its versions were left behind long ago.
func TestRepairAfterRestore(t *testing.T) {
	s, b := newClusterFixture(t), bundleOf(t)
	s.settle(t, b)
	for id := range s.writtenVersions {
		s.writtenVersions[id] = "1000000"
	}
	s.anchor.ResourceVersion = "1000000"
	s.lose("deployments/knative-serving/activator")
	if s.pass(t, b); s.find("deployments/knative-serving/activator") != nil {
		t.Fatal("it is repaired without knowing that the cluster has not come so far")
	}
	s.restorations-- // as if the cluster was restored once more since
	if s.pass(t, b); s.find("deployments/knative-serving/activator") == nil {
		t.Error("it is not repaired")
	}
}

// TestFinishedJob holds that a Job that has completed may go, also for a manager that remembers nothing.
func TestFinishedJob(t *testing.T) {
	s, b := newClusterFixture(t), bundleOf(t)
	s.settle(t, b)
	s.edit("jobs/knative-serving/migrate", completed)
	s.settle(t, b)
	s.lose("jobs/knative-serving/migrate")
	s.restart()
	out := s.settle(t, b)
	if diff := cmp.Diff([]workload.JobRef{{Namespace: installed, Name: "migrate"}}, out.Observation.FinishedJobs); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if s.find("jobs/knative-serving/migrate") != nil {
		t.Error("it runs again")
	}
	if out.Retry != 0 || out.Loop {
		t.Errorf("there is something to do: %+v", out)
	}
}
