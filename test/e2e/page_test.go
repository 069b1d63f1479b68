// Copyright Contributors to the Open Cluster Management project

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"

	"open-cluster-management.io/knative-addon/test/e2e/harness"
	"open-cluster-management.io/knative-addon/test/e2e/harness/docpage"
	"open-cluster-management.io/knative-addon/test/lab"
)

// upgradedManager is the component that replaces the manager after the upgrade of the chart.
const upgradedManager = "manager-with-providers"

// pageShell adapts commands of a page to a lab: the binary exists, and no pod of the hub runs, so that the story runs the
// manager, and the commands of the chart's hooks run here.
const pageShell = `
make() { command make --directory "$REPOSITORY" --dry-run "$@" >/dev/null; }
helm() {
  case "$1" in
  install | upgrade) command helm "$@" --set replicaCount=0 ;;
  test) knative-addon install-check --timeout 3m ;;
  uninstall) knative-addon uninstall-check && command helm "$@" ;;
  *) command helm "$@" ;;
  esac
}
`

// pageReader is a reader who follows a page of the documentation on a fleet.
type pageReader struct {
	*harness.Fleet
	hub  spoke
	edge *lab.Cluster
	// dir is the directory of the commands, which looks like a clone of the repository.
	dir string
	// values are the variables that the page leaves to the reader.
	values map[string]string
	// exports are the variables of the blocks so far.
	exports   []string
	terminals []*terminal
	// steps are what happens beside the commands, by a command of the page.
	steps []pageStep
}

// pageStep is what the story does before and after a block that has a command.
type pageStep struct {
	command       string
	before, after func(t *testing.T)
	taken         bool
}

// readDocument returns the text of a page in docs.
func readDocument(t *testing.T, name string) string {
	t.Helper()
	root, err := harness.Repository()
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(root, "docs", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(page)
}

// readBlocks returns the blocks of a page in docs, of all sections or of the named sections.
func readBlocks(t *testing.T, name string, sections ...string) []docpage.Block {
	t.Helper()
	text := readDocument(t, name)
	var err error
	if len(sections) > 0 {
		text, err = docpage.SelectSections(text, sections...)
	}
	blocks, readErr := docpage.Read(text)
	if err = errors.Join(err, readErr); err != nil {
		t.Fatalf("docs/%s: %v", name, err)
	}
	return blocks
}

// newPageReader returns a reader whose cluster without a work agent is the first spoke.
func newPageReader(t *testing.T, f *harness.Fleet) pageReader {
	t.Helper()
	edge, err := url.Parse(f.Spokes[0].URL)
	if err != nil {
		t.Fatal(err)
	}
	return pageReader{
		Fleet: f, hub: connect(t, f.Hub), edge: f.Spokes[0], dir: linkRepository(t),
		values: map[string]string{"EDGE_KUBECONFIG": f.Spokes[0].Kubeconfig, "EDGE_SERVER": edge.Host},
	}
}

// followPage runs the blocks, a subtest for each section, and reports whether all sections have succeeded.
func (r *pageReader) followPage(t *testing.T, blocks []docpage.Block) bool {
	t.Cleanup(func() {
		for _, terminal := range r.terminals {
			terminal.signal(syscall.SIGKILL)
		}
		if t.Failed() {
			t.Logf("the end of the log of the upgraded manager:\n%s", r.LogTail(upgradedManager))
		}
	})
	for len(blocks) > 0 {
		section := blocks[0].Section
		isOther := func(b docpage.Block) bool { return b.Section != section }
		length := slices.IndexFunc(blocks, isOther)
		if length < 0 {
			length = len(blocks)
		}
		if !t.Run(section, func(t *testing.T) { r.follow(t, blocks[:length]) }) {
			return false // the next sections need this one
		}
		blocks = blocks[length:]
	}
	for _, s := range r.steps {
		if !s.taken {
			t.Errorf("the page has no command %q", s.command)
		}
	}
	return !t.Failed()
}

// linkRepository returns a directory with the parts of the repository that the commands use; the commands write files beside these.
func linkRepository(t *testing.T) string {
	t.Helper()
	root, err := harness.Repository()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, part := range []string{"bin", "charts"} {
		if err := os.Symlink(filepath.Join(root, part), filepath.Join(dir, part)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// follow runs the blocks of one section.
func (r *pageReader) follow(t *testing.T, blocks []docpage.Block) {
	for i := range blocks {
		b := &blocks[i]
		var after []func(*testing.T)
		for n := range r.steps {
			s := &r.steps[n]
			if s.taken || !strings.Contains(b.Commands+"\n", s.command) {
				continue
			}
			s.taken = true
			if s.before != nil {
				s.before(t)
			}
			if s.after != nil {
				after = append(after, s.after)
			}
		}
		r.run(t, b)
		for _, check := range after {
			check(t)
		}
		if t.Failed() {
			return
		}
	}
}

// run runs one block, and compares its exit code and its output with the page.
func (r *pageReader) run(t *testing.T, b *docpage.Block) {
	t.Helper()
	switch b.Mark {
	case docpage.Plain, docpage.ExitCode2:
	case docpage.ReaderValues:
		r.setValues(t, b)
		return
	case docpage.SecondTerminal:
		r.terminals = append(r.terminals, openTerminal(t, r.shell(context.WithoutCancel(t.Context()), b.Commands)))
		return
	}
	want := 0
	if b.Mark == docpage.ExitCode2 {
		want = 2
	}
	start := time.Now()
	out, err := r.shell(t.Context(), b.Commands).CombinedOutput()
	code := 0
	if exit := new(exec.ExitError); errors.As(err, &exit) {
		code = exit.ExitCode()
	} else if err != nil {
		t.Fatal(err)
	}
	t.Logf("line %d, %s, exit code %d: %s\n%s", b.Line, time.Since(start).Round(100*time.Millisecond), code, b.Commands, out)
	if code != want {
		t.Fatalf("line %d: exit code %d, want %d", b.Line, code, want)
	}
	if err := b.CheckOutput(string(out)); err != nil {
		t.Errorf("line %d: %v", b.Line, err)
	}
	r.exports = append(r.exports, b.Exports()...)
}

// shell returns the command that runs commands of the page with the variables of the earlier blocks.
func (r *pageReader) shell(ctx context.Context, commands string) *exec.Cmd {
	script := pageShell + strings.Join(r.exports, "\n") + "\n" + commands
	cmd := exec.CommandContext(ctx, "bash", "-o", "pipefail", "-euc", script) //nolint:gosec // the commands of the page
	cmd.Dir = r.dir
	cmd.Env = append(os.Environ(),
		"PATH="+strings.Join(append(r.Bin.Dirs(), os.Getenv("PATH")), ":"), "KUBECONFIG="+r.Hub.Kubeconfig,
		"HELM_CACHE_HOME="+filepath.Join(r.Dir, "helm"), "REPOSITORY="+filepath.Dir(filepath.Dir(r.Binary)), "MAKEFLAGS=")
	return cmd
}

// setValues sets the variables of a block to the values of the lab.
func (r *pageReader) setValues(t *testing.T, b *docpage.Block) {
	t.Helper()
	for _, export := range b.Exports() {
		name, _, _ := strings.Cut(strings.TrimPrefix(export, "export "), "=")
		value, found := r.values[name]
		if !found {
			t.Fatalf("line %d: the story has no value for %s", b.Line, name)
		}
		r.exports = append(r.exports, fmt.Sprintf("export %s=%q", name, value))
	}
}

// runManager runs the manager of the installed chart.
func (r *pageReader) runManager(t *testing.T) {
	if err := r.RunManager(t.Context(), harness.Manager); err != nil {
		t.Fatal(err)
	}
}

// runUpgradedManager replaces the manager, as the new Deployment of the chart would, and gives the access providers and inventories of the
// chart to the new manager.
func (r *pageReader) runUpgradedManager(t *testing.T) {
	files, err := r.hub.kube.CoreV1().ConfigMaps(harness.Namespace).Get(t.Context(), "clusterprofile-provider-file", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	args := []string{
		"--clusterprofile-provider-file=" + r.writeFile(t, "config.json", r.adaptProviders(t, files.Data["config.json"])),
		"--inventory-file=" + r.writeFile(t, "inventories.json", []byte(files.Data["inventories.json"])),
	}
	if err := errors.Join(r.Stop(harness.Manager), r.RunManager(t.Context(), upgradedManager, args...)); err != nil {
		t.Fatal(err)
	}
}

func (r *pageReader) writeFile(t *testing.T, name string, content []byte) string {
	t.Helper()
	file := filepath.Join(r.dir, name)
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// adaptProviders replaces the command of each access provider, which an image has, by the plugin of the lab. The plugin reads Secrets of
// namespace team with the manager's ServiceAccount, as in the pod of the manager.
func (r *pageReader) adaptProviders(t *testing.T, config string) []byte {
	t.Helper()
	account, err := r.Hub.ServiceAccountKubeconfig(t.Context(), harness.Namespace, harness.ManagerAccount)
	if err != nil {
		t.Fatal(err)
	}
	inTeam, err := clientcmd.LoadFromFile(account)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range inTeam.Contexts {
		c.Namespace = "team"
	}
	kubeconfig := filepath.Join(r.Dir, "plugin.kubeconfig")
	if err := clientcmd.WriteToFile(*inTeam, kubeconfig); err != nil {
		t.Fatal(err)
	}
	var file struct {
		Providers []struct {
			Name       string         `json:"name"`
			ExecConfig map[string]any `json:"execConfig"`
		} `json:"providers"`
	}
	if err := json.Unmarshal([]byte(config), &file); err != nil || len(file.Providers) == 0 {
		t.Fatalf("error is %v, the chart has the providers %q", err, config)
	}
	for _, p := range file.Providers {
		p.ExecConfig["command"], p.ExecConfig["env"] = r.Bin.Path(p.Name), []any{map[string]any{"name": "KUBECONFIG", "value": kubeconfig}}
	}
	out, err := json.Marshal(file)
	if err != nil {
		t.Fatal(err)
	}
	return out
}
