// Copyright Contributors to the Open Cluster Management project

package render

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"open-cluster-management.io/knative-addon/pkg/api"
)

var update = flag.Bool("update", false, "write the golden files instead of comparing with them")

// TestGolden compares whole bundles with files that are reviewed. go test ./pkg/render -run TestGolden -update writes
// them.
func TestGolden(t *testing.T) {
	inputs, err := filepath.Glob("testdata/*/input.yaml")
	if err != nil || len(inputs) < 3 {
		t.Fatalf("found %d inputs: %v", len(inputs), err)
	}
	for _, input := range inputs {
		dir := filepath.Dir(input)
		t.Run(filepath.Base(dir), func(t *testing.T) {
			data, err := os.ReadFile(input)
			if err != nil {
				t.Fatal(err)
			}
			list, err := DecodeYAML(data)
			if err != nil {
				t.Fatal(err)
			}
			b, err := shared.Render(context.Background(), list[0], DefaultOptions(api.ModeManifestWork))
			if err != nil {
				t.Fatal(err)
			}
			compareGolden(t, filepath.Join(dir, "want.yaml"), golden(t, b))
		})
	}
}

func compareGolden(t *testing.T, file string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(want, got) {
		t.Errorf("%s differs; run \"make update-golden\" and review what changed (-want +got):\n%s",
			file, cmp.Diff(bytes.Split(want, []byte("\n")), bytes.Split(got, []byte("\n"))))
	}
}

// golden is a bundle as a person reviews it: the summary, then every object in order with its strategy.
func golden(t *testing.T, b *Bundle) []byte {
	t.Helper()
	var summary, out bytes.Buffer
	if err := WriteSummary(&summary, b); err != nil {
		t.Fatal(err)
	}
	for _, line := range bytes.SplitAfter(bytes.TrimSpace(summary.Bytes()), []byte("\n")) {
		out.WriteString("# ")
		out.Write(line)
	}
	out.WriteByte('\n')
	for _, o := range b.Objects() {
		data, err := yaml.JSONToYAML(o.JSON)
		if err != nil {
			t.Fatal(err)
		}
		kept := ""
		if o.Orphan {
			kept = ", orphaned on removal"
		}
		fmt.Fprintf(&out, "---\n# %s: %s%s\n%s", o.Resource.GroupResource(), o.Class, kept, data)
	}
	return out.Bytes()
}
