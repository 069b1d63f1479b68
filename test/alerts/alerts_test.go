// Copyright Contributors to the Open Cluster Management project

package alerts

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
)

const (
	root  = "../.."
	chart = root + "/charts/knative-addon"
)

// readRules returns the alerts of the chart by name.
func readRules(t *testing.T) map[string]rulefmt.Rule {
	t.Helper()
	groups, errs := rulefmt.ParseFile(filepath.Join(chart, "alerts", "rules.yaml"), false)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	out := map[string]rulefmt.Rule{}
	for _, group := range groups.Groups {
		for _, rule := range group.Rules {
			out[rule.Alert] = rule
		}
	}
	return out
}

// story is a course of metrics.
type story struct {
	alert string
	// series have a value for each minute.
	series []string
	// minute is the minute of the evaluation, and fires are the results for which the alert fires then, and not a minute earlier.
	minute int
	fires  []string
}

func stories() map[string]story {
	const (
		resolved  = `condition="TargetClusterResolved",mode="ManifestWork",component="knative-serving"`
		lost      = `knative_addon_managedclusteraddons{` + resolved + `,status="False",reason="ManagedClusterUnavailable",pod="a"}`
		all       = `knative_addon_managedclusteraddons{` + resolved + `,status="True",reason="TargetResolved",pod="a"}`
		workloads = `knative_addon_managedclusteraddons{condition="Available",mode="ManifestWork",component="knative-serving",status="False",reason="ProbeUnavailable"}`
		removing  = `knative_addon_managedclusteraddons{condition="Available",mode="ManifestWork",component="knative-serving",status="False",reason="Removing"}`
		direct    = `knative_addon_resources{condition="Ready",mode="Direct",component="knative-eventing",status="False",reason="ApplyFailed"}`
		outdated  = `knative_addon_outdated_clusters{component="knative-serving",mode="ManifestWork",state="Delivering"}`
		held      = `knative_addon_removals_held{addon="knative-serving",reason="MassRemoval"}`
		failure   = `knative_addon_credential_requests_total{provider="gateway",result="failure"}`
		success   = `knative_addon_credential_requests_total{provider="gateway",result="success"}`
		passes    = `controller_runtime_reconcile_total{job="knative-addon-manager-metrics",controller="knativeservings",result="error"}`
		errors    = `controller_runtime_reconcile_errors_total{job="knative-addon-manager-metrics",controller="knativeservings"}`
		depth     = `workqueue_depth{job="knative-addon-manager-metrics",name="knativeservings"}`
	)
	leads := func(pod, values string) string {
		return `leader_election_master_status{name="knative-addon",pod="` + pod + `"} ` + values
	}
	return map[string]story{
		"no manager is there":             {"KnativeAddonManagerAbsent", []string{leads("a", "1x5 _x20")}, 20, []string{"{}"}},
		"no replica leads":                {"KnativeAddonManagerAbsent", []string{leads("a", "0x20"), leads("b", "0x20")}, 10, []string{"{}"}},
		"the leader changes":              {"KnativeAddonManagerAbsent", []string{leads("a", "1x9 0x20"), leads("b", "0x12 1x20")}, 20, nil},
		"another program leads":           {"KnativeAddonManagerAbsent", []string{`leader_election_master_status{name="other"} 1x20`}, 10, []string{"{}"}},
		"a cluster is away for an hour":   {"KnativeAddonClusterNotResolved", []string{lost + " 1x90"}, 60, []string{`{component="knative-serving", mode="ManifestWork", reason="ManagedClusterUnavailable"}`}},
		"a cluster is away for minutes":   {"KnativeAddonClusterNotResolved", []string{lost + " 0x10 1x30 0x60"}, 80, nil},
		"a cluster returned just now":     {"KnativeAddonClusterNotResolved", []string{lost + " 1x60 0x60"}, 61, nil},
		"a replica restarts":              {"KnativeAddonClusterNotResolved", []string{lost + " 1x40 _x60", strings.ReplaceAll(lost, `"a"`, `"b"`) + " _x41 1x60"}, 60, []string{`{component="knative-serving", mode="ManifestWork", reason="ManagedClusterUnavailable"}`}},
		"a tenant lacks a permission":     {"KnativeAddonClusterNotResolved", []string{strings.ReplaceAll(lost, "ManagedClusterUnavailable", "ReferenceNotPermitted") + " 1x90"}, 80, nil},
		"a fleet configuration has one":   {"KnativeAddonClusterNotResolved", []string{strings.ReplaceAll(lost, "ManagedClusterUnavailable", "ClustersUnresolved") + " 1x90"}, 80, nil},
		"all clusters are resolved":       {"KnativeAddonClusterNotResolved", []string{strings.NewReplacer("False", "True", "ManagedClusterUnavailable", "TargetResolved").Replace(lost) + " 9x90"}, 80, nil},
		"many clusters are away":          {"KnativeAddonManyClustersUnreachable", []string{lost + " 1x5 30x60", all + " 269x90"}, 16, []string{`{component="knative-serving", mode="ManifestWork"}`}},
		"few of many clusters are away":   {"KnativeAddonManyClustersUnreachable", []string{lost + " 30x60", all + " 271x90"}, 40, nil},
		"four of eight clusters are away": {"KnativeAddonManyClustersUnreachable", []string{lost + " 4x60", all + " 4x60"}, 40, nil},
		"two replicas see many away":      {"KnativeAddonManyClustersUnreachable", []string{lost + " 3x60", strings.ReplaceAll(lost, `"a"`, `"b"`) + " 3x60"}, 40, nil},
		"many clusters lack a permission": {"KnativeAddonManyClustersUnreachable", []string{strings.ReplaceAll(lost, "ManagedClusterUnavailable", "ReferenceNotPermitted") + " 9x90"}, 40, nil},
		"a cluster has no payload yet":    {"KnativeAddonInstallationNotReady", []string{strings.NewReplacer("False", "Unknown", "ProbeUnavailable", "WorkNotFound").Replace(workloads) + " 1x60"}, 50, nil},
		"a removal does not end":          {"KnativeAddonRemovalStuck", []string{removing + " 1x150"}, 120, []string{`{component="knative-serving", mode="ManifestWork"}`}},
		"a removal takes an hour":         {"KnativeAddonRemovalStuck", []string{removing + " 1x60 0x90"}, 130, nil},
		"a resource is removed for hours": {"KnativeAddonRemovalStuck", []string{strings.NewReplacer("ApplyFailed", "Removing", "False", "Unknown").Replace(direct) + " 1x150"}, 120, []string{`{component="knative-eventing", mode="Direct"}`}},
		"workloads do not run":            {"KnativeAddonInstallationNotReady", []string{workloads + " 2x60"}, 30, []string{`{component="knative-serving", mode="ManifestWork", reason="ProbeUnavailable"}`}},
		"an upgrade takes ten minutes":    {"KnativeAddonInstallationNotReady", []string{workloads + " 0x5 2x10 0x60"}, 40, nil},
		"a cluster refuses objects":       {"KnativeAddonInstallationNotReady", []string{direct + " 1x60"}, 30, []string{`{component="knative-eventing", mode="Direct", reason="ApplyFailed"}`}},
		"a delivery makes no progress":    {"KnativeAddonInstallationNotReady", []string{strings.NewReplacer("ApplyFailed", "Delivering", "False", "Unknown").Replace(direct) + " 1x60"}, 30, []string{`{component="knative-eventing", mode="Direct", reason="Delivering"}`}},
		"a verification fails":            {"KnativeAddonInstallationNotReady", []string{strings.ReplaceAll(direct, "ApplyFailed", "VerificationFailed") + " 1x60"}, 30, []string{`{component="knative-eventing", mode="Direct", reason="VerificationFailed"}`}},
		"a spec is invalid":               {"KnativeAddonInstallationNotReady", []string{strings.ReplaceAll(direct, "ApplyFailed", "InvalidSpec") + " 1x60"}, 50, nil},
		"an installation is paused":       {"KnativeAddonInstallationNotReady", []string{strings.NewReplacer("ApplyFailed", "Paused", "False", "Unknown").Replace(direct) + " 1x60"}, 50, nil},
		"a fleet waits for its waves":     {"KnativeAddonInstallationNotReady", []string{strings.NewReplacer("Direct", "ManifestWork", "ApplyFailed", "Delivering", "False", "Unknown").Replace(direct) + " 1x60"}, 50, nil},
		"an unreachable cluster":          {"KnativeAddonInstallationNotReady", []string{strings.NewReplacer("False", "Unknown", "ProbeUnavailable", "ManagedClusterAddOnLeaseUpdateStopped").Replace(workloads) + " 1x60"}, 50, nil},
		"a rollout stands still":          {"KnativeAddonRolloutStalled", []string{outdated + " 0x5 100-10x5 50x200"}, 101, []string{`{component="knative-serving", mode="ManifestWork"}`}},
		"a rollout goes on":               {"KnativeAddonRolloutStalled", []string{outdated + " 0x5 100x19 99x19 98x19 97x19 96x19 95x19 94x19"}, 140, nil},
		"a rollout has begun":             {"KnativeAddonRolloutStalled", []string{outdated + " 0x60 100x60"}, 110, nil},
		"a rollout is paused":             {"KnativeAddonRolloutStalled", []string{strings.ReplaceAll(outdated, "Delivering", "Paused") + " 100x200"}, 180, nil},
		"no rollout is there":             {"KnativeAddonRolloutStalled", []string{outdated + " 0x200"}, 180, nil},
		"a removal waits for a decision":  {"KnativeAddonRemovalHeld", []string{held + " 40x30"}, 15, []string{`{addon="knative-serving", reason="MassRemoval"}`}},
		"a removal waits for replacement": {"KnativeAddonRemovalHeld", []string{strings.ReplaceAll(held, "MassRemoval", "AwaitingReplacement") + " 40x30"}, 20, nil},
		"a decision came at once":         {"KnativeAddonRemovalHeld", []string{held + " 40x10 0x30"}, 20, nil},
		"a plugin fails":                  {"KnativeAddonCredentialFailing", []string{failure + " 0+1x60", success + " 7x60"}, 16, []string{`{provider="gateway"}`}},
		"a plugin fails for one cluster":  {"KnativeAddonCredentialFailing", []string{failure + " 0+1x60", success + " 7+1x60"}, 40, nil},
		"a plugin failed once":            {"KnativeAddonCredentialFailing", []string{failure + " 0x4 1x60", success + " 7x60"}, 40, nil},
		"passes fail":                     {"KnativeAddonReconcileErrors", []string{passes + " 0+10x60", errors + " 0+9x60"}, 31, []string{`{controller="knativeservings"}`}},
		"a tenth of the passes fails":     {"KnativeAddonReconcileErrors", []string{passes + " 0+10x60", errors + " 0+1x60"}, 50, nil},
		"nothing is reconciled":           {"KnativeAddonReconcileErrors", []string{passes + " 10x60", errors + " 9x60"}, 50, nil},
		"the queue is long":               {"KnativeAddonWorkQueueGrows", []string{depth + " 0x10 500x90"}, 55, []string{`{name="knativeservings"}`}},
		"the queue is long for a while":   {"KnativeAddonWorkQueueGrows", []string{depth + " 0x10 500x20 3x60"}, 60, nil},
	}
}

// TestAlerts evaluates the alerts over courses of metrics.
func TestAlerts(t *testing.T) {
	rules := readRules(t)
	tested := map[string]map[bool]bool{}
	for name, s := range stories() {
		t.Run(name, func(t *testing.T) {
			rule, found := rules[s.alert]
			if !found {
				t.Fatalf("the chart has no alert %s", s.alert)
			}
			if got := fires(t, rule, s.series, s.minute); !slices.Equal(got, s.fires) {
				t.Errorf("%s fires in minute %d for %q, want %q", s.alert, s.minute, got, s.fires)
			}
			if got := fires(t, rule, s.series, s.minute-1); len(s.fires) > 0 && len(got) > 0 {
				t.Errorf("%s fires in minute %d already, for %q", s.alert, s.minute-1, got)
			}
		})
		if tested[s.alert] == nil {
			tested[s.alert] = map[bool]bool{}
		}
		tested[s.alert][len(s.fires) > 0] = true
	}
	for name := range rules {
		if len(tested[name]) != 2 {
			t.Errorf("%s needs a story in which the alert fires, and one in which it does not", name)
		}
	}
}

// TestRunbooks holds that each alert has a severity, a summary and a runbook, and that each runbook has an alert.
func TestRunbooks(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root, "docs", "alerts.md"))
	if err != nil {
		t.Fatal(err)
	}
	runbooks := map[string]string{}
	for section := range strings.SplitSeq(string(page), "\n## ") {
		name, text, _ := strings.Cut(section, "\n")
		runbooks[name] = text
	}
	rules := readRules(t)
	for name, rule := range rules {
		if _, anchor, _ := strings.Cut(rule.Annotations["runbook_url"], "/docs/alerts.md#"); anchor != strings.ToLower(name) {
			t.Errorf("%s has the runbook_url %q", name, rule.Annotations["runbook_url"])
		}
		if rule.Annotations["summary"] == "" || rule.Annotations["description"] == "" || !slices.Contains([]string{"critical", "warning"}, rule.Labels["severity"]) {
			t.Errorf("%s lacks an annotation or a severity: %v, %v", name, rule.Annotations, rule.Labels)
		}
		for _, part := range []string{"- Check: ", "kubectl ", "- Remedy: "} {
			if !strings.Contains(runbooks[name], part) {
				t.Errorf("docs/alerts.md has no %q for %s", part, name)
			}
		}
	}
	for name := range runbooks {
		if _, found := rules[name]; !found && strings.HasPrefix(name, "Knative") {
			t.Errorf("docs/alerts.md explains %s, which the chart lacks", name)
		}
	}
}

// TestMetricsExist holds that the alerts and the dashboard use only metrics of docs/metrics.md, with the labels that the page gives
// the metrics of the add-on. A test of package controllers compares the page with the code.
func TestMetricsExist(t *testing.T) {
	documented := readMetrics(t)
	for name, rule := range readRules(t) {
		checkQuery(t, name, rule.Expr, documented)
	}
	queries := readDashboard(t)
	if len(queries) < 10 {
		t.Errorf("the dashboard has %d queries", len(queries))
	}
	for title, list := range queries {
		for _, query := range list {
			checkQuery(t, title, query, documented)
		}
	}
}

// readMetrics returns the labels of each metric of docs/metrics.md; nil for a metric of a library.
func readMetrics(t *testing.T) map[string][]string {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(root, "docs", "metrics.md"))
	if err != nil {
		t.Fatal(err)
	}
	row, quoted := regexp.MustCompile("^\\| `([a-z_]+)` \\|"), regexp.MustCompile("`([^`]+)`")
	out := map[string][]string{}
	for line := range strings.Lines(string(page)) {
		m, cells := row.FindStringSubmatch(line), strings.Split(line, "|")
		if m == nil {
			continue
		}
		out[m[1]] = nil
		if strings.HasPrefix(m[1], "knative_addon_") {
			out[m[1]] = []string{}
			for _, label := range quoted.FindAllStringSubmatch(cells[3], -1) {
				out[m[1]] = append(out[m[1]], label[1])
			}
		}
	}
	return out
}

// readDashboard returns the queries of the dashboard by the titles of their panels.
func readDashboard(t *testing.T) map[string][]string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(chart, "dashboards", "knative-addon.json"))
	if err != nil {
		t.Fatal(err)
	}
	var dashboard struct {
		Panels []struct {
			Type, Title string
			Targets     []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(data, &dashboard); err != nil {
		t.Fatal(err)
	}
	out := map[string][]string{}
	for _, panel := range dashboard.Panels {
		if panel.Type != "row" && len(panel.Targets) == 0 {
			t.Errorf("panel %q has no query", panel.Title)
		}
		for _, target := range panel.Targets {
			out[panel.Title] = append(out[panel.Title], target.Expr)
		}
	}
	return out
}

// checkQuery checks the metrics of a query, and the labels in the selectors of the metrics.
func checkQuery(t *testing.T, where, query string, documented map[string][]string) {
	t.Helper()
	expr, err := parser.ParseExpr(query)
	if err != nil {
		t.Errorf("%s: %v", where, err)
		return
	}
	for _, matchers := range parser.ExtractSelectors(expr) {
		for _, name := range namesOf(matchers) {
			known, found := documented[name]
			if !found {
				t.Errorf("%s uses %q, which docs/metrics.md lacks", where, name)
			}
			for _, m := range matchers {
				if known != nil && m.Name != labels.MetricName && !slices.Contains(known, m.Name) {
					t.Errorf("%s selects label %q of %s, which has no such label", where, m.Name, name)
				}
			}
		}
	}
}

// namesOf returns the metrics that a selector names. A histogram has further names.
func namesOf(matchers []*labels.Matcher) []string {
	var out []string
	for _, m := range matchers {
		if m.Name != labels.MetricName {
			continue
		}
		for name := range strings.SplitSeq(m.Value, "|") {
			out = append(out, strings.TrimSuffix(name, "_bucket"))
		}
	}
	return out
}
