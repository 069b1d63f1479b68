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
	// pipeDelay is how long output is waited for after the plugin ended or was killed: something that it started may
	// keep its pipes open for ever.
	pipeDelay = time.Second
)

// runner runs plugins, a limited number at a time.
type runner struct {
	slots chan struct{}
	// doubtful are the slots that plugins may have which failed the last time: they may hang again, and are not to keep the
	// others from running.
	doubtful chan struct{}
	timeout  time.Duration
	lookup   func(string) (string, bool)
}

func newRunner(limits PluginLimits, lookup func(string) (string, bool)) *runner {
	return &runner{
		slots: make(chan struct{}, limits.Parallel), doubtful: make(chan struct{}, max(1, limits.Parallel/2)),
		timeout: limits.Timeout, lookup: lookup,
	}
}

// runAgain is run for a plugin that failed the last time.
func (p *runner) runAgain(ctx context.Context, r *recipe, started func()) (*credential, *fault) {
	select {
	case p.doubtful <- struct{}{}:
		defer func() { <-p.doubtful }()
	case <-ctx.Done():
		return nil, closed().because(ctx.Err())
	}
	return p.run(ctx, r, started)
}

// run asks the plugin of a recipe for a credential. It calls started when its turn has come.
func (p *runner) run(ctx context.Context, r *recipe, started func()) (*credential, *fault) {
	env, wrong := r.environment(p.lookup)
	if wrong != nil {
		return nil, wrong
	}
	select {
	case p.slots <- struct{}{}:
		defer func() { <-p.slots }()
	case <-ctx.Done():
		return nil, closed().because(ctx.Err())
	}
	started()

	if wrong := r.examine(); wrong != nil {
		return nil, wrong
	}
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	stdout, stderr := &capped{limit: maxStdout, full: cancel}, &capped{limit: maxStderr}
	cmd := exec.CommandContext(ctx, r.Command, r.Args...)
	cmd.Env, cmd.Dir, cmd.Stdout, cmd.Stderr = env, "/", stdout, stderr
	// A group of its own, so that what the plugin starts can be killed with it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return killGroup(cmd) }
	cmd.WaitDelay = pipeDelay

	err := cmd.Start()
	if err != nil && ctx.Err() == nil {
		return nil, r.notStarted(err)
	}
	if err != nil {
		return nil, r.ended(ctx, err, stdout, stderr)
	}
	err = cmd.Wait()
	// Whatever it left behind.
	if killGroup(cmd) == nil {
		go reapGroup(cmd)
	}
	if errors.Is(err, exec.ErrWaitDelay) && cmd.ProcessState.Success() && ctx.Err() == nil {
		err = nil
	}
	if wrong := r.ended(ctx, err, stdout, stderr); wrong != nil {
		return nil, wrong
	}
	return r.parse(stdout.bytes())
}

func killGroup(cmd *exec.Cmd) error {
	err := syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	if errors.Is(err, syscall.ESRCH) {
		return os.ErrProcessDone
	}
	return err
}

// reapPoll is how often to look whether what was killed has ended.
const reapPoll = 10 * time.Millisecond

// reapGroup waits for what a plugin left behind. In a container the manager is the first process, to which such orphans fall:
// they would stay as zombies. Elsewhere they are not its children, and there is nothing to wait for.
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

// examine says what is wrong with the plugin's file, in words that the kernel's error does not have.
func (r *recipe) examine() *fault {
	info, err := os.Stat(r.Command)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		next := "mount the plugin into the manager's Pod, or correct execConfig.command"
		if r.InstallHint != "" {
			next += "; " + oneLine(r.InstallHint, maxShown)
		}
		return providerFailed(next, "%s does not exist", r.plugin()).because(fs.ErrNotExist)
	case err != nil:
		return providerFailed("correct the modes and owners of its file and directories", "%s cannot be read", r.plugin()).because(err)
	case !info.Mode().IsRegular():
		return providerFailed("correct execConfig.command", "%s is not a file", r.plugin())
	case info.Mode()&0o111 == 0:
		return providerFailed("make it executable (chmod +x)", "%s is not executable", r.plugin()).because(fs.ErrPermission)
	}
	return nil
}

// plugin names the plugin in messages.
func (r *recipe) plugin() string {
	return fmt.Sprintf("plugin %q of access provider %q", r.Command, r.Provider)
}

func (r *recipe) notStarted(err error) *fault {
	platform := runtime.GOOS + "/" + runtime.GOARCH
	switch {
	case errors.Is(err, syscall.ENOEXEC):
		return providerFailed("mount the plugin that is built for "+platform,
			"%s is not a program for %s (exec format error)", r.plugin(), platform).because(err)
	case errors.Is(err, fs.ErrPermission):
		return providerFailed("correct its mode and owner, and see that its volume is not mounted noexec",
			"%s may not be run by the manager", r.plugin()).because(err)
	case errors.Is(err, fs.ErrNotExist):
		return providerFailed("mount a plugin that needs nothing but itself, such as one that is linked statically",
			"%s needs an interpreter or loader that does not exist", r.plugin()).because(err)
	case errors.Is(err, syscall.E2BIG):
		return providerFailed("shorten arguments, variables and extensions",
			"%s cannot be started: its arguments and environment are too long", r.plugin()).because(err)
	default:
		f := providerFailed("see whether the manager's Pod may start more processes", "%s cannot be started", r.plugin()).because(err)
		f.decided = false
		return f
	}
}

// ended says what is wrong with how the plugin ended.
func (r *recipe) ended(ctx context.Context, err error, stdout, stderr *capped) *fault {
	const byHand = "run it by hand with the same arguments"
	exit, exited := errors.AsType[*exec.ExitError](err)
	switch {
	case stdout.exceeded():
		return providerFailed("see that it prints a credential and nothing else",
			"%s printed more than %d bytes", r.plugin(), maxStdout)
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return providerFailed("see what it waits for; "+byHand, "%s gave no credential in time and was killed%s",
			r.plugin(), r.said(stdout, stderr)).because(context.DeadlineExceeded)
	case ctx.Err() != nil:
		return closed().because(ctx.Err())
	case exited && exit.Exited():
		return providerFailed(byHand, "%s failed with exit code %d%s", r.plugin(), exit.ExitCode(), r.said(stdout, stderr))
	case exited:
		return providerFailed("see whether the manager's Pod has enough memory; "+byHand,
			"%s was ended by a signal (%s)%s", r.plugin(), exit.ProcessState, r.said(stdout, stderr))
	case err != nil:
		return providerFailed(byHand, "the output of %s could not be read", r.plugin()).because(err)
	}
	return nil
}

// said is what may be shown of stderr. What stands on stdout too, or was given to the plugin, may be a secret.
func (r *recipe) said(stdout, stderr *capped) string {
	known := words(stdout.bytes())
	for _, v := range r.Env {
		known = append(known, v.Value)
	}
	text := scrub(string(stderr.bytes()), known)
	if text == "" {
		return ""
	}
	return fmt.Sprintf(": %q", text)
}

// capped keeps the beginning of what is written to it.
type capped struct {
	limit int
	// full is called once there is more, and ends the writing; without it the rest is passed over.
	full func()

	// What os/exec left writing after WaitDelay may still do so.
	mu   sync.Mutex
	data bytes.Buffer
	more bool
}

func (c *capped) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	keep := min(len(p), c.limit-c.data.Len())
	c.data.Write(p[:keep])
	if keep == len(p) {
		return len(p), nil
	}
	c.more = true
	if c.full == nil {
		return len(p), nil
	}
	c.full()
	return keep, errors.New("too much output")
}

func (c *capped) exceeded() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.more
}

func (c *capped) bytes() []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	return bytes.Clone(c.data.Bytes())
}
