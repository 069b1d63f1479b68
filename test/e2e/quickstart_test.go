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

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/test/e2e/harness"
	"open-cluster-management.io/knative-addon/test/e2e/harness/docpage"
	"open-cluster-management.io/knative-addon/test/lab"
)

// upgradedManager is the component that replaces the manager after the upgrade of the quickstart.
const upgradedManager = "manager-with-providers"

// quickstartShell adapts commands of the quickstart to a lab: the binary exists, and no pod of the hub runs, so that the story runs the
// manager, and the commands of the chart's hooks run here.
const quickstartShell = `
make() { command make --directory "$REPOSITORY" --dry-run "$@" >/dev/null; }
helm() {
  case "$1" in
  install | upgrade) command helm "$@" --set replicaCount=0 ;;
  test) knative-addon install-check ;;
  uninstall) knative-addon uninstall-check && command helm "$@" ;;
  *) command helm "$@" ;;
  esac
}
`

// quickstart is a reader who follows docs/quickstart.md.
type quickstart struct {
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
	// before are the objects of each cluster at the beginning of the page.
	before map[string]map[string]bool
	// steps are what happens beside the commands, by a command of the page.
	steps []pageStep
}

// pageStep is what the story does before and after a block that has a command.
type pageStep struct {
	command       string
	before, after func(t *testing.T)
	taken         bool
}

// TestQuickstart runs every command of docs/quickstart.md in order, and compares the outputs with those of the page.
func TestQuickstart(t *testing.T) {
	startRestStory(t)
	blocks, err := readQuickstart()
	if err != nil {
		t.Fatal(err)
	}
	q := startQuickstart(t, ownLab(t, lab.Options{ManagedClusters: 2, Spokes: 1, StatusSyncInterval: 2 * time.Second}))
	for len(blocks) > 0 {
		section := blocks[0].Section
		isOther := func(b docpage.Block) bool { return b.Section != section }
		length := slices.IndexFunc(blocks, isOther)
		if length < 0 {
			length = len(blocks)
		}
		if !t.Run(section, func(t *testing.T) { q.follow(t, blocks[:length]) }) {
			return // the next sections need this one
		}
		blocks = blocks[length:]
	}
	for _, s := range q.steps {
		if !s.taken {
			t.Errorf("the page has no command %q", s.command)
		}
	}
	t.Run("only CRDs and Namespaces of Knative are left", func(t *testing.T) { q.checkNothingLeft(t) })
}

func readQuickstart() ([]docpage.Block, error) {
	root, err := harness.Repository()
	if err != nil {
		return nil, err
	}
	page, err := os.ReadFile(filepath.Join(root, "docs", "quickstart.md"))
	if err != nil {
		return nil, err
	}
	return docpage.Read(string(page))
}

func startQuickstart(t *testing.T, l *lab.Lab) *quickstart {
	t.Helper()
	f, err := harness.Prepare(l, harness.Options{LeaderElection: true})
	if err != nil {
		t.Fatal(err)
	}
	edge, err := url.Parse(l.Spokes[0].URL)
	if err != nil {
		t.Fatal(err)
	}
	q := &quickstart{
		Fleet: f, hub: connect(t, l.Hub), edge: l.Spokes[0], dir: linkRepository(t),
		values: map[string]string{
			"IMAGE": "registry.example.com/team/knative-addon", "DIGEST": "sha256:" + strings.Repeat("0", 64),
			"EDGE_KUBECONFIG": l.Spokes[0].Kubeconfig, "EDGE_SERVER": edge.Host,
		},
		before: map[string]map[string]bool{},
	}
	for _, c := range append(l.Clusters(), l.Hub) {
		if q.before[c.Name], err = listObjects(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	q.steps = []pageStep{
		{command: "helm test", before: q.runManager},
		{command: "knative-addon wait cluster1 cluster2\n", after: q.checkInstalled},
		{command: "knative-addon dashboard", after: func(t *testing.T) { q.checkDashboard(t, "cluster1", "cluster2") }},
		{command: "helm upgrade", after: q.runUpgradedManager},
		{command: "knative-addon wait edge-7", after: func(t *testing.T) { q.checkDashboard(t, "cluster1", "cluster2", "team/edge-7") }},
		// The command deletes the Namespaces that register has created.
		{command: "knative-addon unregister", before: func(t *testing.T) { requestRemoval(t, l, q.edge) }},
		{command: "helm uninstall", before: q.stopPrograms},
	}
	t.Cleanup(func() {
		for _, terminal := range q.terminals {
			terminal.signal(syscall.SIGKILL)
		}
		if t.Failed() {
			t.Logf("the end of the log of the upgraded manager:\n%s", f.LogTail(upgradedManager))
		}
	})
	logManagerOnFailure(t, f)
	return q
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
func (q *quickstart) follow(t *testing.T, blocks []docpage.Block) {
	for i := range blocks {
		b := &blocks[i]
		var after []func(*testing.T)
		for n := range q.steps {
			s := &q.steps[n]
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
		q.run(t, b)
		for _, check := range after {
			check(t)
		}
		if t.Failed() {
			return
		}
	}
}

// run runs one block, and compares its exit code and its output with the page.
func (q *quickstart) run(t *testing.T, b *docpage.Block) {
	t.Helper()
	switch b.Mark {
	case docpage.Plain, docpage.ExitCode2:
	case docpage.ReaderValues:
		q.setValues(t, b)
		return
	case docpage.SecondTerminal:
		q.terminals = append(q.terminals, openTerminal(t, q.shell(context.WithoutCancel(t.Context()), b.Commands)))
		return
	}
	want := 0
	if b.Mark == docpage.ExitCode2 {
		want = 2
	}
	start := time.Now()
	out, err := q.shell(t.Context(), b.Commands).CombinedOutput()
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
	q.exports = append(q.exports, b.Exports()...)
}

// shell returns the command that runs commands of the page with the variables of the earlier blocks.
func (q *quickstart) shell(ctx context.Context, commands string) *exec.Cmd {
	script := quickstartShell + strings.Join(q.exports, "\n") + "\n" + commands
	cmd := exec.CommandContext(ctx, "bash", "-o", "pipefail", "-euc", script) //nolint:gosec // the commands of the page
	cmd.Dir = q.dir
	cmd.Env = append(os.Environ(),
		"PATH="+strings.Join(append(q.Bin.Dirs(), os.Getenv("PATH")), ":"), "KUBECONFIG="+q.Hub.Kubeconfig,
		"HELM_CACHE_HOME="+filepath.Join(q.Dir, "helm"), "REPOSITORY="+filepath.Dir(filepath.Dir(q.Binary)), "MAKEFLAGS=")
	return cmd
}

// setValues sets the variables of a block to the values of the lab.
func (q *quickstart) setValues(t *testing.T, b *docpage.Block) {
	t.Helper()
	for _, export := range b.Exports() {
		name, _, _ := strings.Cut(strings.TrimPrefix(export, "export "), "=")
		value, found := q.values[name]
		if !found {
			t.Fatalf("line %d: the story has no value for %s", b.Line, name)
		}
		q.exports = append(q.exports, fmt.Sprintf("export %s=%q", name, value))
	}
}

// runManager runs the manager of the installed chart.
func (q *quickstart) runManager(t *testing.T) {
	if err := q.RunManager(t.Context(), harness.Manager); err != nil {
		t.Fatal(err)
	}
}

// runUpgradedManager replaces the manager, as the new Deployment of the chart would, and gives the access providers and inventories of the
// chart to the new manager.
func (q *quickstart) runUpgradedManager(t *testing.T) {
	files, err := q.hub.kube.CoreV1().ConfigMaps(harness.Namespace).Get(t.Context(), "clusterprofile-provider-file", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	args := []string{
		"--clusterprofile-provider-file=" + q.writeFile(t, "config.json", q.adaptProviders(t, files.Data["config.json"])),
		"--inventory-file=" + q.writeFile(t, "inventories.json", []byte(files.Data["inventories.json"])),
	}
	if err := errors.Join(q.Stop(harness.Manager), q.RunManager(t.Context(), upgradedManager, args...)); err != nil {
		t.Fatal(err)
	}
}

func (q *quickstart) writeFile(t *testing.T, name string, content []byte) string {
	t.Helper()
	file := filepath.Join(q.dir, name)
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// adaptProviders replaces the command of each access provider, which an image has, by the plugin of the lab. The plugin reads Secrets of
// namespace team with the manager's ServiceAccount, as in the pod of the manager.
func (q *quickstart) adaptProviders(t *testing.T, config string) []byte {
	t.Helper()
	account, err := q.Hub.ServiceAccountKubeconfig(t.Context(), harness.Namespace, harness.ManagerAccount)
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
	kubeconfig := filepath.Join(q.Dir, "plugin.kubeconfig")
	if err := clientcmd.WriteToFile(*inTeam, kubeconfig); err != nil {
		t.Fatal(err)
	}
	var file struct {
		Providers []struct {
			Name       string         `json:"name"`
			ExecConfig map[string]any `json:"execConfig"`
		} `json:"providers"`
	}
	if err := json.Unmarshal([]byte(config), &file); err != nil || len(file.Providers) != 1 {
		t.Fatalf("error is %v, the chart has the providers %q", err, config)
	}
	provider := file.Providers[0].ExecConfig
	provider["command"], provider["env"] = q.Bin.Path(file.Providers[0].Name), []any{map[string]any{"name": "KUBECONFIG", "value": kubeconfig}}
	out, err := json.Marshal(file)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// checkInstalled holds that the clusters run what `knative-addon wait` has reported, and that the second terminal shows the same.
func (q *quickstart) checkInstalled(t *testing.T) {
	for _, c := range q.Managed {
		d, err := connect(t, c).kube.AppsV1().Deployments(api.Serving.InstallNamespace()).Get(t.Context(), "activator", metav1.GetOptions{})
		if err != nil || d.Status.AvailableReplicas < 1 {
			t.Errorf("%s: error %v, the activator has status %+v", c.Name, err, d.Status)
		}
		q.terminals[0].shows(t, " "+c.Name+" knative-serving ManifestWork", " True Ready")
	}
}

// stopPrograms interrupts the second terminal, and stops the manager as the removal of the Deployment would.
func (q *quickstart) stopPrograms(t *testing.T) {
	for _, terminal := range q.terminals {
		terminal.interrupt(t)
	}
	if err := q.Stop(upgradedManager); err != nil {
		t.Fatal(err)
	}
}

// checkNothingLeft compares the objects of each cluster with those before the first command.
func (q *quickstart) checkNothingLeft(t *testing.T) {
	for _, c := range append(q.Lab.Clusters(), q.Hub) {
		eventually(t, "nothing is left on "+c.Name, time.Minute, func(ctx context.Context) error {
			now, err := listObjects(ctx, c)
			if err != nil {
				return err
			}
			var left []string
			for object := range now {
				if !q.before[c.Name][object] && !q.mayStay(c, object) {
					left = append(left, object)
				}
			}
			if len(left) > 0 {
				slices.Sort(left)
				return errors.New(strings.Join(left, ", "))
			}
			return nil
		})
	}
}

// mayStay reports whether the page says that the object stays: CRDs of Knative on each cluster but the hub, and the Namespace on the
// managed clusters.
func (q *quickstart) mayStay(c *lab.Cluster, object string) bool {
	resource, name, _ := strings.Cut(object, " ")
	switch {
	case resource == "certificatesigningrequests.certificates.k8s.io": // of OCM's agents
		return true
	case c == q.Hub:
		return false
	case resource == "customresourcedefinitions.apiextensions.k8s.io", resource == "apiservices.apiregistration.k8s.io":
		return strings.HasSuffix(name, ".knative.dev")
	}
	namespace := api.Serving.InstallNamespace()
	ofNamespace := []string{
		"namespaces /" + namespace, "serviceaccounts " + namespace + "/default", "configmaps " + namespace + "/kube-root-ca.crt",
	}
	return c != q.edge && slices.Contains(ofNamespace, object)
}
