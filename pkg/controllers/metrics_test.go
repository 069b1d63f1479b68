// Copyright Contributors to the Open Cluster Management project

package controllers

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/tools/cache"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/controllers/removalguard"
	"open-cluster-management.io/knative-addon/pkg/metrics"
)

type noVersions struct{}

func (noVersions) Versions(api.Component) []string { return nil }

func (noVersions) ResolveVersion(api.Component, string) (string, error) { return "", nil }

// TestMetricsAreDocumented compares docs/metrics.md with the registered metrics, in both directions for the metrics of the add-on.
func TestMetricsAreDocumented(t *testing.T) {
	registry := prometheus.NewRegistry()
	empty := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	err := metrics.New(metrics.Sources{
		Configs: map[api.Component]cache.Indexer{api.Serving: empty, api.Eventing: empty}, AddOns: empty, Foundations: empty, Deployments: empty, Fleets: empty,
		Versions: noVersions{},
	}).Register(registry)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := removalguard.NewGauge(registry); err != nil {
		t.Fatal(err)
	}
	libraries, ok := ctrlmetrics.Registry.(prometheus.Collector)
	if !ok {
		t.Fatal("the registry of controller-runtime does not describe its metrics")
	}
	documented := documentedMetrics(t)
	own := maps.Clone(documented)
	maps.DeleteFunc(own, func(name, _ string) bool { return !strings.HasPrefix(name, "knative_addon_") })
	if diff := cmp.Diff(describeMetrics(t, registry), own); diff != "" {
		t.Errorf("docs/metrics.md differs from the code (-code +docs):\n%s", diff)
	}
	registered := describeMetrics(t, libraries)
	for name := range documented {
		if _, found := registered[name]; !found && own[name] == "" && !strings.HasPrefix(name, "knative_addon_") {
			t.Errorf("docs/metrics.md names %s, which no library has", name)
		}
	}
}

// describeMetrics returns the labels of each metric, sorted, with commas between.
func describeMetrics(t *testing.T, of prometheus.Collector) map[string]string {
	t.Helper()
	described := make(chan *prometheus.Desc)
	go func() { of.Describe(described); close(described) }()
	// A Desc has no accessors.
	text := regexp.MustCompile(`fqName: "([^"]*)".*variableLabels: \{([^}]*)\}`)
	out := map[string]string{}
	for desc := range described {
		if m := text.FindStringSubmatch(desc.String()); m == nil {
			t.Errorf("cannot read %s", desc)
		} else {
			out[m[1]] = sortLabels(strings.Split(m[2], ","))
		}
	}
	return out
}

func sortLabels(labels []string) string {
	return strings.Join(slices.Sorted(slices.Values(labels)), ",")
}

// documentedMetrics returns the labels of each metric of docs/metrics.md. A row of a metric of a library has no labels.
func documentedMetrics(t *testing.T) map[string]string {
	t.Helper()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "metrics.md"))
	if err != nil {
		t.Fatal(err)
	}
	row, quoted := regexp.MustCompile("^\\| `([a-z_]+)` \\|"), regexp.MustCompile("`([^`]+)`")
	out := map[string]string{}
	for line := range strings.Lines(string(page)) {
		m := row.FindStringSubmatch(line)
		if m == nil || !strings.Contains(m[1], "_") || m[1] == "circuit_breaker" {
			continue
		}
		if _, twice := out[m[1]]; twice {
			t.Errorf("docs/metrics.md has two rows of %s", m[1])
		}
		cells := strings.Split(line, "|")
		var labels []string
		if len(cells) == 6 {
			for _, label := range quoted.FindAllStringSubmatch(cells[3], -1) {
				labels = append(labels, label[1])
			}
		}
		out[m[1]] = sortLabels(labels)
	}
	return out
}
