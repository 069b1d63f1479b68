// Copyright Contributors to the Open Cluster Management project

package docpage

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const page = "# Title\n\nA text.\n\n```sh\nmake build\nexport A=1\n```\n\n" +
	"## Section\n\n<!-- values of the reader -->\n```sh\nexport B=2\n```\n\n<!-- second terminal -->\n```sh\nwatch\n```\n\n" +
	"<!-- exit code 2 -->\n```sh\nfail\n```\n\n```text\nfirst\nsecond\n```\n\nThe end, with `code`.\n"

func TestRead(t *testing.T) {
	got, err := Read(page)
	if err != nil {
		t.Fatal(err)
	}
	want := []Block{
		{Section: "Title", Line: 6, Commands: "make build\nexport A=1"},
		{Section: "Section", Line: 14, Mark: ReaderValues, Commands: "export B=2"},
		{Section: "Section", Line: 19, Mark: SecondTerminal, Commands: "watch"},
		{Section: "Section", Line: 24, Mark: ExitCode2, Commands: "fail", Output: []string{"first", "second"}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if diff := cmp.Diff([]string{"export A=1"}, got[0].Exports()); diff != "" {
		t.Errorf("exports: -want +got:\n%s", diff)
	}
}

// TestSelectSections holds that a section ends before the next heading, and that a comment of a command is no heading.
func TestSelectSections(t *testing.T) {
	const text = "# Page\n\nabove\n\n## First\n\n```sh\n# a comment\nls\n```\n\n### Nested\n\nnested\n\n## Last\n\nend\n"
	got, err := SelectSections(text, "First", "Last")
	if want := "\n\n\n\n## First\n\n```sh\n# a comment\nls\n```\n\n\n\n\n\n## Last\n\nend\n"; err != nil || got != want {
		t.Errorf("got %q, %v; want %q", got, err, want)
	}
	if got, err := SelectSections(text, "First", "a comment"); err == nil {
		t.Errorf("a missing section is no error: %q", got)
	}
}

func TestFindManifests(t *testing.T) {
	const text = "<!-- first -->\n```yaml\na: 1\n```\n<!-- /first -->\n\nText.\n\n<!-- second -->\n```yaml\nb: 2\n---\nc: 3\n```\n<!-- /second -->\n"
	if got, err := FindManifests(text, "second"); err != nil || got != "b: 2\n---\nc: 3\n" {
		t.Errorf("got %q, %v", got, err)
	}
	for name, text := range map[string]string{
		"another name": strings.ReplaceAll(text, "second", "third"),
		"no end":       strings.ReplaceAll(text, "<!-- /second -->", ""),
	} {
		if got, err := FindManifests(text, "second"); err == nil {
			t.Errorf("%s is no error: %q", name, got)
		}
	}
}

// TestReadOverlooksNothing holds that a page with commands outside of blocks is refused.
func TestReadOverlooksNothing(t *testing.T) {
	const commands = "```sh\nmake\n```\n"
	for name, page := range map[string]string{
		"no commands":                      "# Title\n\nA text.\n",
		"an indented block":                commands + "\n    kubectl get pods\n",
		"a fence of another language":      commands + "```bash\nls\n```\n",
		"a fence within a list":            commands + "- item\n  ```sh\n  ls\n  ```\n",
		"a fence without an end":           "```sh\nmake\n",
		"an empty fence":                   "```sh\n```\n",
		"an unknown mark":                  "<!-- terminal 2 -->\n" + commands,
		"a mark above a text":              "<!-- exit code 2 -->\nA text.\n\n" + commands,
		"a mark at the end":                commands + "<!-- exit code 2 -->\n",
		"an output above the commands":     "```text\nout\n```\n" + commands,
		"an output below a text":           commands + "\nA text.\n\n```text\nout\n```\n",
		"two outputs":                      commands + "```text\nout\n```\n```text\nout\n```\n",
		"a command among values of users":  "<!-- values of the reader -->\n```sh\nexport A=1\nrm -r /\n```\n",
		"an output that has not been kept": "A text.\n```text\nout\n```\n",
	} {
		t.Run(name, func(t *testing.T) {
			if blocks, err := Read(page); err == nil {
				t.Errorf("the page is read as %+v", blocks)
			}
		})
	}
}

func TestCheckOutput(t *testing.T) {
	const output = "CLUSTER    READY\ncluster1   True   d9b1c0de   2m5s\n" +
		"cluster2   False: version \"1.32\" is unknown: use 1.23\n1 of 2 ready\n"
	for name, tc := range map[string]struct {
		want  []string
		fails bool
	}{
		"no promise":                              {},
		"other spaces, hashes and ages":           {want: []string{"CLUSTER READY", "cluster1 True 00000000 3s", "1 of 2 ready"}},
		"any text at the end":                     {want: []string{`cluster2   False: version "1.32" ...`}},
		"any text in the middle":                  {want: []string{`cluster2 ... use 1.23`}},
		"any text at the beginning":               {want: []string{`... is unknown: use 1.23`}},
		"no text at all":                          {want: []string{`cluster2 ... False: version ... "1.32" is unknown: use 1.23`}},
		"a part of a line":                        {want: []string{"1 of 2"}, fails: true},
		"another value":                           {want: []string{"cluster1 False d9b1c0de 2m5s"}, fails: true},
		"another order":                           {want: []string{"1 of 2 ready", "CLUSTER READY"}, fails: true},
		"a line twice":                            {want: []string{"1 of 2 ready", "1 of 2 ready"}, fails: true},
		"another beginning before any text":       {want: []string{"READY..."}, fails: true},
		"parts in another order around any text":  {want: []string{"cluster2 use 1.23 ... is unknown"}, fails: true},
		"a version is neither a hash nor an age":  {want: []string{`cluster2 ... use 1.22`}, fails: true},
		"another end after any text":              {want: []string{`cluster2 ... is unknown`}, fails: true},
		"the first line only, and a missing line": {want: []string{"CLUSTER READY", "cluster3 True"}, fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			b := Block{Output: tc.want}
			if err := b.CheckOutput(output); (err != nil) != tc.fails {
				t.Errorf("error is %v", err)
			}
		})
	}
}

// TestQuickstart holds that each command of the quickstart is in a block.
func TestQuickstart(t *testing.T) {
	quickstart, err := os.ReadFile(filepath.Join("..", "..", "..", "..", "docs", "quickstart.md"))
	if err != nil {
		t.Fatal(err)
	}
	blocks, err := Read(string(quickstart))
	if err != nil {
		t.Fatal(err)
	}
	marks := map[Mark]int{}
	for _, b := range blocks {
		marks[b.Mark]++
	}
	for _, m := range []Mark{Plain, ReaderValues, SecondTerminal, ExitCode2} {
		if marks[m] == 0 {
			t.Errorf("no block has mark %q", m)
		}
	}
}
