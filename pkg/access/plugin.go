// Copyright Contributors to the Open Cluster Management project

package access

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"
)

const (
	// maxStdout is far more than a credential has.
	maxStdout = 1 << 20
	// maxStderr is more than is ever shown.
	maxStderr = 4 << 10
	// pipeDelay is the time to wait for output after the plugin has ended or was killed: a process that the plugin started
	// may keep the pipes open for ever, and a busy machine may take seconds to read the pipes.
	pipeDelay = 5 * time.Second
)

// pluginRunner runs plugins, a limited number at a time.
type pluginRunner struct {
	slots chan struct{}
	// retrySlots are the slots of plugins that failed the last time: such a plugin may hang again, and must not keep other
	// plugins from running.
	retrySlots chan struct{}
	timeout    time.Duration
	lookup     func(string) (string, bool)
	// report receives the stderr of a plugin that failed; nil drops the text.
	report func(provider, command, text string)
}

func newPluginRunner(opts *Options) *pluginRunner {
	return &pluginRunner{
		slots: make(chan struct{}, opts.Plugin.Parallel), retrySlots: make(chan struct{}, max(1, opts.Plugin.Parallel/2)),
		timeout: opts.Plugin.Timeout, lookup: opts.LookupEnv, report: opts.PluginStderr,
	}
}

// runAfterFailure runs a plugin that failed the last time.
func (p *pluginRunner) runAfterFailure(ctx context.Context, spec *connectionSpec, started func()) (*credential, *fault) {
	select {
	case p.retrySlots <- struct{}{}:
		defer func() { <-p.retrySlots }()
	case <-ctx.Done():
		return nil, closedFault().withCause(ctx.Err())
	}
	return p.run(ctx, spec, started)
}

// run returns the credential of the plugin of a connection spec, and calls started when the plugin has a slot.
func (p *pluginRunner) run(ctx context.Context, spec *connectionSpec, started func()) (*credential, *fault) {
	env, failure := spec.buildEnvironment(p.lookup)
	if failure != nil {
		return nil, failure
	}
	select {
	case p.slots <- struct{}{}:
		defer func() { <-p.slots }()
	case <-ctx.Done():
		return nil, closedFault().withCause(ctx.Err())
	}
	started()

	if failure := spec.checkPluginFile(); failure != nil {
		return nil, failure
	}
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	stdout, stderr := &limitedBuffer{limit: maxStdout, onFull: cancel}, &limitedBuffer{limit: maxStderr}
	cmd := exec.CommandContext(ctx, spec.Command, spec.Args...)
	cmd.Env, cmd.Dir, cmd.Stdout, cmd.Stderr = env, "/", stdout, stderr
	// With a process group of its own, the plugin is killed together with its children.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return killGroup(cmd) }
	cmd.WaitDelay = pipeDelay

	err := cmd.Start()
	if err != nil && ctx.Err() == nil {
		return nil, spec.explainStartFailure(err)
	}
	if err != nil {
		return nil, spec.explainExit(ctx, err, stdout)
	}
	err = cmd.Wait()
	// Kill the processes that the plugin left behind.
	if killGroup(cmd) == nil {
		go reapGroup(cmd)
	}
	// Without any output the pipes were closed before the first byte was read: the plugin did not print nothing.
	if errors.Is(err, exec.ErrWaitDelay) && cmd.ProcessState.Success() && ctx.Err() == nil && len(stdout.copyBytes()) > 0 {
		err = nil
	}
	failure = spec.explainExit(ctx, err, stdout)
	var got *credential
	if failure == nil {
		got, failure = spec.parseCredential(stdout.copyBytes())
	}
	if failure != nil {
		p.reportStderr(spec, stdout, stderr)
	}
	return got, failure
}

// reportStderr passes the stderr of a failed plugin to the log. A text that is also on stdout, or was given to the plugin,
// may be a secret.
func (p *pluginRunner) reportStderr(spec *connectionSpec, stdout, stderr *limitedBuffer) {
	if p.report == nil {
		return
	}
	known := findPossibleSecrets(stdout.copyBytes())
	for _, v := range spec.Env {
		known = append(known, v.Value)
	}
	if text := scrubText(string(stderr.copyBytes()), known); text != "" {
		p.report(spec.Provider, spec.Command, text)
	}
}

func killGroup(cmd *exec.Cmd) error {
	err := syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	if errors.Is(err, syscall.ESRCH) {
		return os.ErrProcessDone
	}
	return err
}

// reapPoll is the interval to check whether killed processes have ended.
const reapPoll = 10 * time.Millisecond

// reapGroup waits for the processes that a plugin left behind. In a container the manager is the first process, which
// inherits such orphans: without a wait, the orphans would stay as zombies. Elsewhere the orphans are not children of the
// manager, and the wait ends at once.
func reapGroup(cmd *exec.Cmd) {
	for {
		pid, err := syscall.Wait4(-cmd.Process.Pid, nil, syscall.WNOHANG, nil)
		switch {
		case err != nil && !errors.Is(err, syscall.EINTR):
			return
		case pid == 0:
			time.Sleep(reapPoll)
		}
	}
}

// checkPluginFile explains problems of the plugin's file in more words than the kernel's error has.
func (spec *connectionSpec) checkPluginFile() *fault {
	info, err := os.Stat(spec.Command)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		next := "mount the plugin into the manager's Pod, or correct execConfig.command"
		if spec.InstallHint != "" {
			next += "; " + oneLine(spec.InstallHint, maxShown)
		}
		return providerFailed(next, "%s does not exist", spec.describePlugin()).withCause(fs.ErrNotExist)
	case err != nil:
		return providerFailed("correct the modes and owners of its file and directories", "%s cannot be read", spec.describePlugin()).withCause(err)
	case !info.Mode().IsRegular():
		return providerFailed("correct execConfig.command", "%s is not a file", spec.describePlugin())
	case info.Mode()&0o111 == 0:
		return providerFailed("make it executable (chmod +x)", "%s is not executable", spec.describePlugin()).withCause(fs.ErrPermission)
	}
	return nil
}

// describePlugin names the plugin in messages.
func (spec *connectionSpec) describePlugin() string {
	return fmt.Sprintf("plugin %q of access provider %q", spec.Command, spec.Provider)
}

func (spec *connectionSpec) explainStartFailure(err error) *fault {
	platform := runtime.GOOS + "/" + runtime.GOARCH
	switch {
	case errors.Is(err, syscall.ENOEXEC):
		return providerFailed("mount the plugin that is built for "+platform,
			"%s is not a program for %s (exec format error)", spec.describePlugin(), platform).withCause(err)
	case errors.Is(err, fs.ErrPermission):
		return providerFailed("correct its mode and owner, and see that its volume is not mounted noexec",
			"%s may not be run by the manager", spec.describePlugin()).withCause(err)
	case errors.Is(err, fs.ErrNotExist):
		return providerFailed("mount a plugin that needs nothing but itself, such as one that is linked statically",
			"%s needs an interpreter or loader that does not exist", spec.describePlugin()).withCause(err)
	case errors.Is(err, syscall.E2BIG):
		return providerFailed("shorten arguments, variables and extensions",
			"%s cannot be started: its arguments and environment are too long", spec.describePlugin()).withCause(err)
	default:
		f := providerFailed("see whether the manager's Pod may start more processes", "%s cannot be started", spec.describePlugin()).withCause(err)
		f.isPersistent = false
		return f
	}
}

// runByHand is the next step after the failure of a plugin. No message contains the plugin's output, which may be a secret.
const runByHand = "run the plugin by hand with the same arguments, or set chart value multicluster.logPluginStderr (flag --log-plugin-stderr of the add-on's manager) and read the log"

// explainExit returns the fault of a plugin that failed, and nil after success.
func (spec *connectionSpec) explainExit(ctx context.Context, err error, stdout *limitedBuffer) *fault {
	exit, exited := errors.AsType[*exec.ExitError](err)
	switch {
	case stdout.isExceeded():
		return providerFailed("see that it prints a credential and nothing else",
			"%s printed more than %d bytes", spec.describePlugin(), maxStdout)
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return providerFailed("see what the plugin waits for; "+runByHand, "%s gave no credential in time and was killed",
			spec.describePlugin()).withCause(context.DeadlineExceeded)
	case ctx.Err() != nil:
		return closedFault().withCause(ctx.Err())
	case exited && exit.Exited():
		return providerFailed(runByHand, "%s failed with exit code %d", spec.describePlugin(), exit.ExitCode())
	case exited:
		return providerFailed("see whether the manager's Pod has enough memory; "+runByHand,
			"%s was ended by a signal (%s)", spec.describePlugin(), exit.ProcessState)
	case err != nil:
		return providerFailed(runByHand, "the output of %s could not be read", spec.describePlugin()).withCause(err)
	}
	return nil
}

// limitedBuffer keeps the first limit bytes of the output of a process.
type limitedBuffer struct {
	limit int
	// onFull is called when the buffer is full, and the next write fails; without onFull the rest of the output is dropped.
	onFull func()

	// os/exec may leave a goroutine writing after WaitDelay.
	mu        sync.Mutex
	data      bytes.Buffer
	truncated bool
}

func (c *limitedBuffer) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	keep := min(len(p), c.limit-c.data.Len())
	c.data.Write(p[:keep])
	if keep == len(p) {
		return len(p), nil
	}
	c.truncated = true
	if c.onFull == nil {
		return len(p), nil
	}
	c.onFull()
	return keep, errors.New("too much output")
}

func (c *limitedBuffer) isExceeded() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.truncated
}

func (c *limitedBuffer) copyBytes() []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	return bytes.Clone(c.data.Bytes())
}
