// Copyright Contributors to the Open Cluster Management project

package tools

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Set names the groups of programs that a lab needs.
type Set []string

// Groups that Build takes.
const (
	Kube               = "kube"
	OCM                = "ocm"
	KWOK               = "kwok"
	CLI                = "cli"
	Knative            = "knative"
	KnativeControllers = "knative-controllers"
	// KnativeOperator is Knative's own operator and, in "knative-operator-files", the directories that the operator reads. No lab
	// starts the operator.
	KnativeOperator = "knative-operator"
	// KubeNode, Containerd, Node and KnativeServing are the programs of a real node and of its images; "release-files" are the release
	// manifests that name the images.
	KubeNode       = "kube-node"
	Containerd     = "containerd"
	Node           = "node"
	KnativeServing = "knative-serving"
	// KnativeEventing is the programs of Knative Eventing for the images of a real node, and in "eventing-release-files" the release manifests.
	KnativeEventing = "knative-eventing"
	// ClusterProxy is the programs of cluster-proxy and of the network proxy below cluster-proxy, and in "cluster-proxy-files" the chart.
	// ServiceAccounts is the programs of managed-serviceaccount with plugin cp-creds, and in "managed-serviceaccount-files" the chart.
	ClusterProxy    = "cluster-proxy"
	ServiceAccounts = "cluster-proxy-accounts"
	// ArgoCD is program argocd-applicationset-controller and, in "argocd.yaml", the kinds and settings of Argo CD, and the ServiceAccount
	// with the Role of the program. No lab starts the program.
	ArgoCD = "argocd"
)

// Bin finds built programs.
type Bin struct{ dirs map[string]string }

// Path is the file of a program or stream by its name, for example "kube-apiserver" or "kwok-stages.yaml".
func (b Bin) Path(name string) string { return filepath.Join(b.dirs[name], name) }

// Dirs lists the directories of the programs, for PATH.
func (b Bin) Dirs() []string {
	dirs := make([]string, 0, len(b.dirs))
	for _, d := range b.dirs {
		if !slices.Contains(dirs, d) {
			dirs = append(dirs, d)
		}
	}
	slices.Sort(dirs)
	return dirs
}

// Build makes sure that the programs of the named groups are in the cache and says on log what it builds and how long
// it takes. The cache is $XDG_CACHE_HOME/knative-addon-lab or ~/.cache/knative-addon-lab. Two builds at once wait for
// each other. A name that is no group is an error.
func Build(ctx context.Context, set Set, log io.Writer) (Bin, error) {
	if err := checkGroups(set); err != nil {
		return Bin{}, err
	}
	src, err := sourceDir()
	if err != nil {
		return Bin{}, err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return Bin{}, fmt.Errorf("cannot find the cache directory (set HOME or XDG_CACHE_HOME): %w", err)
	}
	b := builder{src: src, cache: filepath.Join(cache, "knative-addon-lab"), log: log}
	bin := Bin{dirs: map[string]string{}}
	for _, g := range groups() {
		if !slices.Contains(set, g.name) {
			continue
		}
		dir, err := b.ensure(ctx, g)
		if err != nil {
			return Bin{}, err
		}
		for _, name := range g.outputs() {
			bin.dirs[name] = dir
		}
	}
	return bin, nil
}

// checkGroups returns an error for a name that is no group.
func checkGroups(set Set) error {
	var names []string
	for _, g := range groups() {
		names = append(names, g.name)
	}
	for _, name := range set {
		if !slices.Contains(names, name) {
			return fmt.Errorf("unknown group %q: use one of %s", name, strings.Join(names, ", "))
		}
	}
	return nil
}

// sourceDir returns the directory of this file, which contains the modules of the programs.
func sourceDir() (string, error) {
	if dir := os.Getenv("KNATIVE_ADDON_LAB_TOOLS"); dir != "" {
		return dir, nil
	}
	_, file, _, ok := runtime.Caller(0)
	if dir := filepath.Dir(file); ok && filepath.IsAbs(dir) {
		if _, err := os.Stat(filepath.Join(dir, Kube, "go.mod")); err == nil {
			return dir, nil
		}
	}
	return "", errors.New("cannot find the sources of the lab's programs: run from a checkout, or set KNATIVE_ADDON_LAB_TOOLS to its test/lab/tools")
}

func (g group) outputs() []string {
	var names []string
	for _, p := range g.programs {
		names = append(names, p.name)
		names = append(names, p.links...)
	}
	if g.stream.name != "" {
		names = append(names, g.stream.name)
	}
	return names
}

type builder struct {
	src, cache string
	log        io.Writer
}

// ensure returns the cache directory of the group, and builds the group when the cache lacks the directory.
func (b builder) ensure(ctx context.Context, g group) (string, error) {
	key, err := b.key(g)
	if err != nil {
		return "", err
	}
	dir := filepath.Join(b.cache, g.name+"-"+key)
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	if err := os.MkdirAll(b.cache, 0o755); err != nil {
		return "", fmt.Errorf("cannot create the cache: %w", err)
	}
	unlock, err := lock(filepath.Join(b.cache, g.name+".lock"))
	if err != nil {
		return "", err
	}
	defer unlock()
	if _, err := os.Stat(dir); err == nil { // another process has built the group during the wait for the lock
		return dir, nil
	}
	tmp, err := os.MkdirTemp(b.cache, ".build-"+g.name+"-")
	if err != nil {
		return "", fmt.Errorf("cannot create the cache: %w", err)
	}
	defer func() { _ = os.RemoveAll(tmp) }()
	if err := b.build(ctx, g, tmp); err != nil {
		return "", err
	}
	if err := os.Chmod(tmp, 0o755); err != nil {
		return "", fmt.Errorf("cannot fill the cache: %w", err)
	}
	if err := os.Rename(tmp, dir); err != nil {
		return "", fmt.Errorf("cannot fill the cache: %w", err)
	}
	return dir, nil
}

func (b builder) key(g group) (string, error) {
	h := sha256.New()
	fmt.Fprintf(h, "%s %s %s %+v\n", runtime.Version(), runtime.GOOS, runtime.GOARCH, g)
	err := filepath.WalkDir(filepath.Join(b.src, g.dir()), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		fmt.Fprintf(h, "%s %d\n%s", d.Name(), len(content), content)
		return err
	})
	if err != nil {
		return "", fmt.Errorf("cannot read the pins of %s: %w", g.name, err)
	}
	return hex.EncodeToString(h.Sum(nil))[:12], nil
}

func (b builder) build(ctx context.Context, g group, out string) error {
	work, err := os.MkdirTemp("", "knative-addon-lab-build-")
	if err != nil {
		return fmt.Errorf("cannot create a directory for the build: %w", err)
	}
	defer func() { _ = os.RemoveAll(work) }()
	modfile, err := b.modfile(ctx, g, work)
	if err != nil {
		return err
	}
	for _, p := range g.programs {
		what := p.name
		if len(p.links) > 0 {
			what += " (" + strings.Join(p.links, ", ") + ")"
		}
		args := []string{"build", "-trimpath", "-modfile=" + modfile, "-ldflags", "-s -w " + p.ldflags, "-o", filepath.Join(out, p.name), p.pkg}
		if err := b.run(ctx, g, "building "+what, args); err != nil {
			return err
		}
		for _, l := range p.links {
			if err := os.Symlink(p.name, filepath.Join(out, l)); err != nil {
				return fmt.Errorf("cannot fill the cache: %w", err)
			}
		}
	}
	if g.stream.name == "" {
		return nil
	}
	return b.copyStream(ctx, g, filepath.Join(out, g.stream.name))
}

// modfile returns the go.mod for the build of a group: the go.mod of the group, or a copy that refers to edited modules.
func (b builder) modfile(ctx context.Context, g group, out string) (string, error) {
	own := filepath.Join(b.src, g.dir(), "go.mod")
	if len(g.edits) == 0 {
		return own, nil
	}
	file := filepath.Join(out, "go.mod")
	for from, to := range map[string]string{own: file, strings.TrimSuffix(own, "mod") + "sum": filepath.Join(out, "go.sum")} {
		content, err := os.ReadFile(from)
		if err != nil {
			return "", fmt.Errorf("cannot read the pins of %s: %w", g.name, err)
		}
		if err := os.WriteFile(to, content, 0o644); err != nil {
			return "", fmt.Errorf("cannot fill the cache: %w", err)
		}
	}
	copies := map[string]string{}
	for _, e := range g.edits {
		if copies[e.module] == "" {
			dir, err := b.copyModule(ctx, g, e.module, out)
			if err != nil {
				return "", err
			}
			copies[e.module] = dir
			if _, err := b.goCommand(ctx, g, []string{"mod", "edit", "-replace=" + e.module + "=" + dir, file}); err != nil {
				return "", err
			}
		}
		if err := e.apply(copies[e.module]); err != nil {
			return "", err
		}
	}
	return file, nil
}

func (b builder) copyModule(ctx context.Context, g group, module, out string) (string, error) {
	from, err := b.moduleDir(ctx, g, module)
	if err != nil {
		return "", err
	}
	to := filepath.Join(out, "edited", strings.ReplaceAll(module, "/", "_"))
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		return "", fmt.Errorf("cannot copy module %s: %w", module, err)
	}
	return to, nil
}

func (e edit) apply(dir string) error {
	file := filepath.Join(dir, e.file)
	content, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("cannot edit module %s: %w", e.module, err)
	}
	if n := strings.Count(string(content), e.old); n != 1 {
		return fmt.Errorf("cannot edit %s of module %s: %q is there %d times, not once", e.file, e.module, e.old, n)
	}
	if err := os.Chmod(file, 0o644); err != nil {
		return fmt.Errorf("cannot edit module %s: %w", e.module, err)
	}
	return os.WriteFile(file, []byte(strings.ReplaceAll(string(content), e.old, e.new)), 0o644)
}

func (b builder) moduleDir(ctx context.Context, g group, module string) (string, error) {
	if _, err := b.goCommand(ctx, g, []string{"mod", "download", module}); err != nil {
		return "", err
	}
	dir, err := b.goCommand(ctx, g, []string{"list", "-m", "-f", "{{.Dir}}", module})
	return strings.TrimSpace(string(dir)), err
}

// heartbeat is how often a running build says that it still runs.
const heartbeat = 20 * time.Second

func (b builder) run(ctx context.Context, g group, what string, args []string) error {
	start := time.Now()
	fmt.Fprintf(b.log, "lab: %s ...\n", what)
	stop := make(chan struct{})
	defer close(stop)
	go func() {
		t := time.NewTicker(heartbeat)
		defer t.Stop()
		for {
			select {
			case <-stop:
				return
			case <-t.C:
				fmt.Fprintf(b.log, "lab: %s ... %.0f s\n", what, time.Since(start).Seconds())
			}
		}
	}()
	if _, err := b.goCommand(ctx, g, args); err != nil {
		return fmt.Errorf("cannot finish %s: %w", what, err)
	}
	fmt.Fprintf(b.log, "lab: %s took %.1f s\n", what, time.Since(start).Seconds())
	return nil
}

func (b builder) goCommand(ctx context.Context, g group, args []string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = filepath.Join(b.src, g.dir())
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOFLAGS=-mod=readonly -buildvcs=false", "GOEXPERIMENT="+g.experiment, "PWD="+cmd.Dir)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go %s in %s: %w\n%s", args[0], cmd.Dir, err, stderr.String())
	}
	return out, nil
}

// copyStream joins YAML files of a module into one stream, or copies directories of the module.
func (b builder) copyStream(ctx context.Context, g group, to string) error {
	dir, err := b.moduleDir(ctx, g, g.stream.module)
	if err != nil {
		return err
	}
	var all bytes.Buffer
	for _, p := range g.stream.paths {
		from := filepath.Join(dir, p)
		if info, err := os.Stat(from); err == nil && info.IsDir() {
			if err := os.CopyFS(filepath.Join(to, p), os.DirFS(from)); err != nil {
				return fmt.Errorf("cannot copy a directory of %s: %w", g.stream.module, err)
			}
			continue
		}
		content, err := os.ReadFile(from)
		if err != nil {
			return fmt.Errorf("cannot read a file of %s: %w", g.stream.module, err)
		}
		fmt.Fprintf(&all, "---\n%s\n", content)
	}
	if all.Len() == 0 {
		return nil
	}
	if err := os.WriteFile(to, all.Bytes(), 0o644); err != nil {
		return fmt.Errorf("cannot fill the cache: %w", err)
	}
	return nil
}

func lock(file string) (unlock func(), err error) {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("cannot lock the cache: %w", err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("cannot lock the cache: %w", err)
	}
	return func() { _ = f.Close() }, nil
}
