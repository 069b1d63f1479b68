// Copyright Contributors to the Open Cluster Management project

package metrics

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/revision"
)

// gather returns the series of a fleet that are not 0, without the prefix that all names have.
func gather(t testing.TB, m *Metrics) map[string]float64 {
	t.Helper()
	out := gatherAll(t, m)
	maps.DeleteFunc(out, func(_ string, value float64) bool { return value == 0 })
	return out
}

// gatherAll returns the series of a fleet, without the prefix that all names have.
func gatherAll(t testing.TB, m *Metrics) map[string]float64 {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	if err := m.Register(registry); err != nil {
		t.Fatal(err)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]float64{}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			var labels []string
			for _, l := range metric.GetLabel() {
				labels = append(labels, l.GetName()+"="+l.GetValue())
			}
			value := metric.GetGauge().GetValue() + metric.GetCounter().GetValue() + float64(metric.GetHistogram().GetSampleCount())
			out[strings.TrimPrefix(family.GetName(), "knative_addon_")+" "+strings.Join(labels, " ")] = value
		}
	}
	return out
}

// only returns the series of a metric.
func only(all map[string]float64, metric string) map[string]float64 {
	out := maps.Clone(all)
	maps.DeleteFunc(out, func(series string, _ float64) bool { return !strings.HasPrefix(series, metric+" ") })
	return out
}

func startTime(t *testing.T) float64 {
	t.Helper()
	at, err := time.Parse(time.RFC3339, since)
	if err != nil {
		t.Fatal(err)
	}
	return float64(at.Unix())
}

// newMixedFleet returns a fleet with installations in both modes, of which some are not as they should be.
func newMixedFleet(t *testing.T) fleet {
	t.Helper()
	f := newFleet()
	config := f.addResource(t, resource{name: "default", version: "1.23", conditions: []string{
		"Ready Unknown Delivering", "TargetClusterResolved True FleetConfiguration", "InstallSucceeded Unknown Delivering",
	}})
	f.addAddOn(t, "current", config, hash(t, config), available, resolved)
	f.addAddOn(t, "next", config, "older", available, resolved)
	f.addAddOn(t, "away", config, "older", "Available Unknown ManagedClusterAddOnLeaseUpdateStopped", "TargetClusterResolved False ManagedClusterUnavailable")
	f.addAddOn(t, "paused", config, "older", available, resolved).Annotations = map[string]string{api.PausedAnnotation: "true"}
	f.addFoundation(t, "current", "1.23.0", "1.23.0")
	f.addFoundation(t, "next", "1.23.0", "1.22.1")

	referring := f.addResource(t, resource{name: "pull", finalizer: api.InstallFinalizer, cluster: "own", conditions: installed()})
	f.addAddOn(t, "own", referring, hash(t, referring), available, resolved)
	f.addResource(t, resource{name: "push", finalizer: api.DirectFinalizer, cluster: "edge", version: "1.22", conditions: installed()})
	f.addResource(t, resource{
		name: "edited", finalizer: api.DirectFinalizer, cluster: "busy", version: "1.23.0", generation: 2,
		conditions: installed("Ready False WorkloadsNotReady", "DeploymentsAvailable False WorkloadsNotReady"),
	})
	f.addResource(t, resource{name: "wrong", cluster: "nowhere", conditions: []string{
		"Ready False ClusterProfileNotFound", "TargetClusterResolved False ClusterProfileNotFound",
	}})
	f.addResource(t, resource{name: "new", cluster: "soon"})
	f.CountConnections = func() map[string]int { return map[string]int{"Open": 1, "Closed": 2} }
	return f
}

// TestCollector compares the metrics of a fleet with the state of its objects.
func TestCollector(t *testing.T) {
	f := newMixedFleet(t)
	m := New(f.Sources)
	m.RecordCredential("gateway", nil)
	m.RecordCredential("gateway", errors.New("no"))
	m.RecordReady(api.Serving, f.addResource(t, resource{name: "pull", finalizer: api.InstallFinalizer, cluster: "own", conditions: installed()}), time.Minute)
	const serving = "component=knative-serving"
	got := gather(t, m)
	want := map[string]float64{
		"resources " + serving + " condition=Ready mode=ManifestWork reason=Delivering status=Unknown":                                           1,
		"resources " + serving + " condition=TargetClusterResolved mode=ManifestWork reason=FleetConfiguration status=True":                      1,
		"resources " + serving + " condition=Ready mode=ManifestWork reason=Ready status=True":                                                   1,
		"resources " + serving + " condition=TargetClusterResolved mode=ManifestWork reason=TargetResolved status=True":                          1,
		"resources " + serving + " condition=Ready mode=Direct reason=Ready status=True":                                                         1,
		"resources " + serving + " condition=Ready mode=Direct reason=WorkloadsNotReady status=False":                                            1,
		"resources " + serving + " condition=TargetClusterResolved mode=Direct reason=TargetResolved status=True":                                2,
		"resources " + serving + " condition=Ready mode=Unknown reason=ClusterProfileNotFound status=False":                                      1,
		"resources " + serving + " condition=TargetClusterResolved mode=Unknown reason=ClusterProfileNotFound status=False":                      1,
		"resources " + serving + " condition=Ready mode=Unknown reason=NotReported status=Unknown":                                               1,
		"resources " + serving + " condition=TargetClusterResolved mode=Unknown reason=NotReported status=Unknown":                               1,
		"managedclusteraddons " + serving + " condition=Available mode=ManifestWork reason=ProbeAvailable status=True":                           4,
		"managedclusteraddons " + serving + " condition=Available mode=ManifestWork reason=ManagedClusterAddOnLeaseUpdateStopped status=Unknown": 1,
		"managedclusteraddons " + serving + " condition=TargetClusterResolved mode=ManifestWork reason=TargetResolved status=True":               4,
		"managedclusteraddons " + serving + " condition=TargetClusterResolved mode=ManifestWork reason=ManagedClusterUnavailable status=False":   1,
		"desired_version_clusters " + serving + " mode=ManifestWork version=1.23.0":                                                              2,
		"desired_version_clusters " + serving + " mode=Direct version=1.22.1":                                                                    1,
		"desired_version_clusters " + serving + " mode=Direct version=1.23.0":                                                                    1,
		"running_version_clusters " + serving + " mode=ManifestWork version=1.23.0":                                                              1,
		"running_version_clusters " + serving + " mode=ManifestWork version=1.22.1":                                                              1,
		"running_version_clusters " + serving + " mode=Direct version=Other":                                                                     1, // the status of the fixture has "1.22"
		"outdated_clusters " + serving + " mode=ManifestWork state=Delivering":                                                                   1,
		"outdated_clusters " + serving + " mode=ManifestWork state=NotResolved":                                                                  1,
		"outdated_clusters " + serving + " mode=ManifestWork state=Paused":                                                                       1,
		"outdated_clusters " + serving + " mode=Direct state=Delivering":                                                                         1,
		"rollout_start_time_seconds " + serving + " mode=ManifestWork":                                                                           startTime(t),
		"rollout_start_time_seconds " + serving + " mode=Direct":                                                                                 startTime(t),
		"paused_clusters " + serving + " mode=ManifestWork":                                                                                      1,
		"direct_connections circuit_breaker=Closed":                                                                                              2,
		"direct_connections circuit_breaker=Open":                                                                                                1,
		"credential_requests_total provider=gateway result=success":                                                                              1,
		"credential_requests_total provider=gateway result=failure":                                                                              1,
		"time_to_ready_seconds " + serving + " mode=ManifestWork":                                                                                1,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("metrics (-want +got):\n%s", diff)
	}
}

// TestRefusedSpec holds that the mistake of a user is no rollout that stands still, and that the corrected spec is.
func TestRefusedSpec(t *testing.T) {
	f := newFleet()
	refused := resource{
		name: "typo", finalizer: api.DirectFinalizer, cluster: "edge", version: "1.23", generation: 1,
		conditions: installed("Ready False InvalidSpec", "InstallSucceeded False InvalidSpec"),
	}
	m := New(f.Sources)
	for state, generation := range map[string]int64{StateRefused: 1, StateDelivering: 2} {
		refused.generation = generation
		f.addResource(t, refused)
		want := map[string]float64{"outdated_clusters component=knative-serving mode=Direct state=" + state: 1}
		if diff := cmp.Diff(want, only(gather(t, m), "outdated_clusters")); diff != "" {
			t.Errorf("generation %d (-want +got):\n%s", generation, diff)
		}
	}
}

// TestCollectorFollowsEdits holds that the collector does not take an earlier spec for the present one.
func TestCollectorFollowsEdits(t *testing.T) {
	f := newFleet()
	config := f.addResource(t, resource{name: "default", version: "1.22"})
	f.addAddOn(t, "one", config, hash(t, config), available, resolved)
	m := New(f.Sources)
	if got := only(gather(t, m), "outdated_clusters"); len(got) != 0 {
		t.Errorf("before the edit: %v", got)
	}
	f.addResource(t, resource{name: "default", version: "1.23", generation: 2})
	if got := only(gather(t, m), "outdated_clusters"); len(got) != 1 {
		t.Errorf("after the edit: %v", got)
	}
	f.addAddOn(t, "one", config, hash(t, f.addResource(t, resource{name: "default", version: "1.23", generation: 2})), available, resolved)
	if got := only(gather(t, m), "outdated_clusters"); len(got) != 0 {
		t.Errorf("after the rollout: %v", got)
	}
}

// TestRolloutOfDeployment holds that a cluster is outdated until the cluster runs the present spec of its AddOnDeploymentConfig, and while OCM has
// other configurations for a later wave.
func TestRolloutOfDeployment(t *testing.T) {
	gvr := revision.DeploymentConfig{}.Resource()
	kind := addonv1beta1.ConfigGroupResource{Group: gvr.Group, Resource: gvr.Resource}
	referent := addonv1beta1.ConfigReferent{Namespace: "fleet", Name: "proxy"}
	proxy := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"agentInstallNamespace": "a"}}}
	proxy.SetNamespace(referent.Namespace)
	proxy.SetName(referent.Name)
	for name, tc := range map[string]struct {
		assigned, completed, conditions string
		outdated                        int
	}{
		"a spec that has rolled out":   {hash(t, proxy), hash(t, proxy), "Configured True ConfigurationsConfigured", 0},
		"an edit just now":             {"former", "former", "Configured True ConfigurationsConfigured", 1},
		"an edit in its wave":          {hash(t, proxy), "former", "Configured True ConfigurationsConfigured", 1},
		"before OCM has a hash":        {"", "", "Configured True ConfigurationsConfigured", 1},
		"another configuration":        {hash(t, proxy), hash(t, proxy), "Configured False ConfigurationsNotConfigured", 1},
		"another reason of Configured": {hash(t, proxy), hash(t, proxy), "Configured False Other", 0},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFleet()
			if err := f.Deployments.Add(proxy); err != nil {
				t.Fatal(err)
			}
			config := f.addResource(t, resource{name: "default", version: "1.23"})
			a := f.addAddOn(t, "one", config, hash(t, config), available, resolved, tc.conditions)
			a.Spec.Configs = append(a.Spec.Configs, addonv1beta1.AddOnConfig{ConfigGroupResource: kind, ConfigReferent: referent})
			a.Status.ConfigReferences = append(a.Status.ConfigReferences, addonv1beta1.ConfigReference{
				ConfigGroupResource: kind,
				DesiredConfig:       &addonv1beta1.ConfigSpecHash{ConfigReferent: referent, SpecHash: tc.assigned},
				LastAppliedConfig:   &addonv1beta1.ConfigSpecHash{ConfigReferent: referent, SpecHash: tc.completed},
			})
			got := only(gather(t, New(f.Sources)), "outdated_clusters")
			if got["outdated_clusters component=knative-serving mode=ManifestWork state=Delivering"] != float64(tc.outdated) {
				t.Errorf("outdated clusters are %v, want %d", got, tc.outdated)
			}
		})
	}
}

// TestClusterConditions holds that clusters have series only on request, and that no more than MaxClusters have series.
func TestClusterConditions(t *testing.T) {
	f := newMixedFleet(t)
	if got := only(gather(t, New(f.Sources)), "cluster_condition"); len(got) != 0 {
		t.Errorf("without a request: %v", got)
	}
	f.PerCluster = true
	got := only(gather(t, New(f.Sources)), "cluster_condition")
	want := map[string]float64{}
	for _, cluster := range []string{"current", "next", "paused", "own"} {
		want["cluster_condition cluster="+cluster+" component=knative-serving condition=Available mode=ManifestWork reason=ProbeAvailable"] = 1
		want["cluster_condition cluster="+cluster+" component=knative-serving condition=TargetClusterResolved mode=ManifestWork reason=TargetResolved"] = 1
	}
	want["cluster_condition cluster=fleet/edge component=knative-serving condition=Ready mode=Direct reason=Ready"] = 1
	for _, cluster := range []string{"fleet/edge", "fleet/busy"} {
		want["cluster_condition cluster="+cluster+" component=knative-serving condition=TargetClusterResolved mode=Direct reason=TargetResolved"] = 1
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("series of clusters that are True (-want +got):\n%s", diff)
	}

	for i := range MaxClusters {
		f.addResource(t, resource{name: fmt.Sprintf("r-%04d", i), finalizer: api.DirectFinalizer, cluster: fmt.Sprintf("c-%04d", i), conditions: installed()})
	}
	got = gather(t, New(f.Sources))
	if omitted := got["omitted_clusters "]; omitted != 9 {
		t.Errorf("%v clusters are omitted, want 9", omitted)
	}
	clusters := map[string]bool{}
	for series := range only(got, "cluster_condition") {
		clusters[strings.Fields(series)[1]] = true
	}
	if len(clusters) > MaxClusters {
		t.Errorf("%d clusters have series", len(clusters))
	}
}

// TestTwoResourcesForOneCluster holds that a scrape succeeds, and always reports the same, when several resources refer to one cluster.
func TestTwoResourcesForOneCluster(t *testing.T) {
	f := newFleet()
	f.PerCluster = true
	for i, reason := range []string{api.ReasonReady, api.ReasonApplyFailed, api.ReasonWorkloadsNotReady, api.ReasonKindMissing, api.ReasonDelivering} {
		f.addResource(t, resource{name: fmt.Sprint(i), finalizer: api.DirectFinalizer, cluster: "edge", conditions: installed("Ready True " + reason)})
	}
	want := map[string]float64{
		"cluster_condition cluster=fleet/edge component=knative-serving condition=Ready mode=Direct reason=ApplyFailed":                    1,
		"cluster_condition cluster=fleet/edge component=knative-serving condition=TargetClusterResolved mode=Direct reason=TargetResolved": 1,
	}
	for range 10 {
		if diff := cmp.Diff(want, only(gather(t, New(f.Sources)), "cluster_condition")); diff != "" {
			t.Fatalf("series of the cluster (-want +got):\n%s", diff)
		}
	}
}

// TestLabelsAreBounded holds that no text of a cluster, or of a user, becomes a value of a label.
func TestLabelsAreBounded(t *testing.T) {
	f := newFleet()
	const hostile = "hostile"
	for i := range 50 {
		text := fmt.Sprintf("%s-%d", hostile, i)
		config := f.addResource(t, resource{
			name: text, finalizer: api.DirectFinalizer, cluster: text, version: text, annotations: map[string]string{api.PinnedVersionAnnotation: text},
			conditions: installed("Ready "+text+" "+text, "TargetClusterResolved "+text+" "+text),
		})
		f.addAddOn(t, text, config, text, "Available "+text+" "+text, "TargetClusterResolved False "+text)
		f.addFoundation(t, text, text, text)
	}
	got := gather(t, New(f.Sources))
	if len(got) == 0 || len(got) > 20 {
		t.Errorf("%d series, want a few", len(got))
	}
	for _, series := range slices.Sorted(maps.Keys(got)) {
		if strings.Contains(series, hostile) {
			t.Errorf("a series has a text of somebody else: %s", series)
		}
	}
}

// TestNames holds that the names and the help texts follow the conventions of Prometheus.
func TestNames(t *testing.T) {
	f := newMixedFleet(t)
	f.PerCluster = true
	m := New(f.Sources)
	m.RecordCredential("gateway", nil)
	m.RecordReady(api.Serving, f.addResource(t, resource{name: "x"}), time.Second)
	registry := prometheus.NewPedanticRegistry()
	if err := m.Register(registry); err != nil {
		t.Fatal(err)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	problems, err := promlint.NewWithMetricFamilies(families).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

// BenchmarkCollect measures a scrape of 1,000 clusters, half of them in each mode.
func BenchmarkCollect(b *testing.B) {
	for _, perCluster := range []bool{false, true} {
		b.Run(fmt.Sprintf("perCluster=%t", perCluster), func(b *testing.B) {
			f := newFleet()
			f.PerCluster = perCluster
			config := f.addResource(b, resource{name: "default", version: "1.23", conditions: installed()})
			specHash := hash(b, config)
			for i := range 500 {
				name := fmt.Sprintf("c-%03d", i)
				f.addAddOn(b, name, config, specHash, available, resolved)
				f.addFoundation(b, name, "1.23.0", "1.23.0")
				f.addResource(b, resource{name: name, finalizer: api.DirectFinalizer, cluster: name, version: "1.23.0", conditions: installed()})
			}
			c := New(f.Sources).collector
			out := make(chan prometheus.Metric, 10*MaxClusters)
			b.ReportAllocs()
			for b.Loop() {
				c.Collect(out)
				for len(out) > 0 {
					<-out
				}
			}
		})
	}
}
