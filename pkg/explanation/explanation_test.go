// Copyright Contributors to the Open Cluster Management project

package explanation

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"

	"open-cluster-management.io/knative-addon/docs"
	"open-cluster-management.io/knative-addon/pkg/api"
	fleetv1alpha1 "open-cluster-management.io/knative-addon/pkg/api/fleet/v1alpha1"
)

func readPages(t *testing.T) *Book {
	t.Helper()
	book, err := Read(docs.Pages)
	if err != nil {
		t.Fatal(err)
	}
	return book
}

// TestEveryReasonIsExplained holds that each reason of each condition has a meaning and a remedy.
func TestEveryReasonIsExplained(t *testing.T) {
	book := readPages(t)
	for condition, reasons := range api.Reasons() {
		for _, reason := range reasons {
			rows, _ := book.Explain(reason)
			i := slices.IndexFunc(rows, func(r Reason) bool { return r.Condition == condition })
			if i < 0 || rows[i].Status == "" || rows[i].Meaning == "" || rows[i].Remedy == "" {
				t.Errorf("reason %s of %s has the rows %+v", reason, condition, rows)
			}
		}
	}
}

// TestEveryEventIsExplained holds that each Event of the code has a row, and each row an Event.
func TestEveryEventIsExplained(t *testing.T) {
	emitted := regexp.MustCompile(`corev1\.EventType(Normal|Warning), "([A-Z][A-Za-z]+)"`)
	want := map[string]string{}
	err := filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path) //nolint:gosec // of this repository
		for _, m := range emitted.FindAllStringSubmatch(string(text), -1) {
			want[m[2]] = m[1]
		}
		return err
	})
	if err != nil || len(want) < 10 {
		t.Fatalf("the code has the Events %v: %v", want, err)
	}
	got := map[string]string{}
	for _, r := range readPages(t).Reasons() {
		if r.Condition == "Event" {
			got[r.Name] = r.Status
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Events (-code +docs/conditions.md):\n%s", diff)
	}
}

// TestReasonsOfOCMAreExplained holds that the reasons of OCM that decide about an add-on have a row.
func TestReasonsOfOCMAreExplained(t *testing.T) {
	book := readPages(t)
	for _, reason := range []string{
		addonv1beta1.AddonAvailableReasonProbeAvailable, addonv1beta1.AddonAvailableReasonProbeUnavailable, addonv1beta1.AddonAvailableReasonNoProbeResult,
		addonv1beta1.AddonAvailableReasonWorkNotFound, addonv1beta1.AddonAvailableReasonWorkNotApply, addonv1beta1.AddonAvailableReasonLeaseUpdateStopped,
		addonv1beta1.AddonManifestAppliedReasonManifestsApplied, addonv1beta1.AddonManifestAppliedReasonManifestsApplyFailed,
		addonv1beta1.AddonManifestAppliedReasonWorkApplyFailed,
	} {
		if rows, _ := book.Explain(reason); len(rows) != 1 {
			t.Errorf("reason %s has the rows %+v", reason, rows)
		}
	}
}

// TestReasonsOfFleetsAreExplained holds that every reason of a KnativeFleet has a row.
func TestReasonsOfFleetsAreExplained(t *testing.T) {
	book := readPages(t)
	for condition, reasons := range fleetv1alpha1.Reasons() {
		for _, reason := range reasons {
			rows, _ := book.Explain(reason)
			if !slices.ContainsFunc(rows, func(r Reason) bool { return r.Condition == condition }) {
				t.Errorf("reason %s of %s has the rows %+v", reason, condition, rows)
			}
		}
	}
}

// TestPassages holds that reasons of Events, and the pages besides the table, are found, and that marks are left out.
func TestPassages(t *testing.T) {
	book := readPages(t)
	for name, want := range map[string]Passage{
		"DriftLoop":                 {"troubleshooting.md", "A ManagedClusterAddOn is not Available", "an object that another client"},
		"rollbackrefused":           {"rollouts.md", "Rolling back", "lists the revisions"},
		"ManagedClusterUnavailable": {"troubleshooting.md", "A resource is not Ready", "A cluster is unreachable (#a-cluster-is-unreachable)"},
		"NotReported":               {"commands.md", "status", "has not reported on the last change"},
		"TimedOut":                  {"conditions.md", "KnativeFleets", "progressDeadline"},
	} {
		_, passages := book.Explain(name)
		if !slices.ContainsFunc(passages, func(p Passage) bool {
			return p.Page == want.Page && p.Section == want.Section && strings.Contains(p.Text, want.Text)
		}) {
			t.Errorf("%s has the passages %+v, want one with %+v", name, passages, want)
		}
	}
	rows, passages := book.Explain("Pizza")
	if len(rows)+len(passages) > 0 {
		t.Errorf("an unknown reason has %+v and %+v", rows, passages)
	}
}

func TestNearNames(t *testing.T) {
	book := readPages(t)
	for name, want := range map[string]string{
		"ManagedClusterUnavailble": "ManagedClusterUnavailable", "invalidspecs": "InvalidSpec", "MassRemovals": "MassRemoval", "Conflict": "Conflict",
		"ProviderFailed": "AccessProviderFailed",
	} {
		if got := book.NearNames(name); !slices.Contains(got, want) {
			t.Errorf("near %s are %q, want %s", name, got, want)
		}
	}
	if got := book.NearNames("Zzzzzz"); len(got) > 0 {
		t.Errorf("near Zzzzzz are %q", got)
	}
}

func TestPagesWithoutTable(t *testing.T) {
	pages := fstest.MapFS{}
	if _, err := Read(pages); err == nil {
		t.Error("missing pages are no error")
	}
	for _, page := range append(passagePages(), reasonsPage) {
		pages[page] = &fstest.MapFile{Data: []byte("# Empty\n")}
	}
	if _, err := Read(pages); err == nil || !strings.Contains(err.Error(), "no table") {
		t.Errorf("error is %v", err)
	}
}
