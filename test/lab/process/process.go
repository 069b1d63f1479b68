// Copyright Contributors to the Open Cluster Management project

package process

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// State of a program.
type State string

const (
	// Running programs have been started and have not ended.
	Running State = "running"
	// Paused programs were stopped by SIGSTOP: a paused program keeps its sockets and answers no request.
	Paused State = "paused"
	// Stopped programs were ended on purpose, or never started.
	Stopped State = "stopped"
	// Failed programs ended by themselves.
	Failed State = "failed"
)

// termGrace is how long a program may take to end after SIGTERM before it is killed.
const termGrace = 5 * time.Second

// Spec says what to run.
type Spec struct {
	// Name identifies the program in its group, for example "cluster1-agent".
	Name string
	// Path is the program's file.
	Path string
	// Args are the arguments without the program's own name.
	Args []string
	// Env is added to a minimal environment (PATH and HOME of the parent, and Dir as TMPDIR).
	Env []string
	// Dir is the working directory, an absolute path, and the directory of the program's temporary files: a removal of Dir removes
	// the files of a killed program too. Without Dir the program uses the directories of its parent.
	Dir string
	// Namespaces are flags of clone(2): the program is the first process of new namespaces.
	Namespaces uintptr
}

// Process is a program that Start can run again after Stop.
type Process struct {
	spec    Spec
	logFile string
	fork    func(func() error) error
	// spent receives the processor time of each run that has ended.
	spent func(program string, cpu time.Duration)

	mu       sync.Mutex
	cmd      *exec.Cmd
	done     chan struct{}
	state    State
	exit     error
	stopping bool
}

// Name is the name of the program in its group.
func (p *Process) Name() string { return p.spec.Name }

// Command is the file of the program, and its arguments.
func (p *Process) Command() []string { return append([]string{p.spec.Path}, p.spec.Args...) }

// LogFile is the file that takes the program's output.
func (p *Process) LogFile() string { return p.logFile }

// State says whether the program runs; PID is 0 unless it does.
func (p *Process) State() (state State, pid int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state == Running || p.state == Paused {
		pid = p.cmd.Process.Pid
	}
	return p.state, pid
}

// Start runs the program. Starting one that runs already is an error.
func (p *Process) Start() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state == Running || p.state == Paused {
		return fmt.Errorf("cannot start %s: it is %s already", p.spec.Name, p.state)
	}
	log, err := os.OpenFile(p.logFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("cannot start %s: %w", p.spec.Name, err)
	}
	defer func() { _ = log.Close() }()

	cmd := exec.Command(p.spec.Path, p.spec.Args...) //nolint:noctx // the program outlives the call; Stop ends the program
	cmd.Stdout, cmd.Stderr, cmd.Dir = log, log, p.spec.Dir
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME"), "TMPDIR=" + cmp.Or(p.spec.Dir, os.TempDir())}, p.spec.Env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL, Cloneflags: p.spec.Namespaces}
	if err := p.fork(cmd.Start); err != nil {
		return fmt.Errorf("cannot start %s: %w", p.spec.Name, err)
	}
	p.cmd, p.done, p.state, p.stopping, p.exit = cmd, make(chan struct{}), Running, false, nil
	go p.wait(cmd, p.done)
	return nil
}

func (p *Process) wait(cmd *exec.Cmd, done chan struct{}) {
	err := cmd.Wait()
	if usage := cmd.ProcessState; usage != nil {
		p.spent(filepath.Base(p.spec.Path), usage.UserTime()+usage.SystemTime())
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.state, p.exit = Failed, err
	if p.stopping {
		p.state = Stopped
	}
	close(done)
}

// Stop ends the program, also a paused program, and waits for the end. A program that does not run is no error.
func (p *Process) Stop() error {
	return p.end(syscall.SIGTERM)
}

// Kill ends the program at once, as a crash would.
func (p *Process) Kill() error {
	return p.end(syscall.SIGKILL)
}

func (p *Process) end(sig syscall.Signal) error {
	p.mu.Lock()
	if p.state != Running && p.state != Paused {
		p.state = Stopped
		p.mu.Unlock()
		return nil
	}
	pid, done := p.cmd.Process.Pid, p.done
	p.stopping = true
	if p.state == Paused {
		sig = syscall.SIGKILL
	}
	p.mu.Unlock()

	if err := syscall.Kill(-pid, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("cannot stop %s: %w", p.spec.Name, err)
	}
	select {
	case <-done:
		return nil
	case <-time.After(termGrace):
	}
	if err := syscall.Kill(-pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("cannot kill %s: %w", p.spec.Name, err)
	}
	<-done
	return nil
}

// Pause stops the program with SIGSTOP: the connections of the program stay open, and no request gets an answer.
func (p *Process) Pause() error { return p.toggle(Running, Paused, syscall.SIGSTOP) }

// Resume continues a paused program.
func (p *Process) Resume() error { return p.toggle(Paused, Running, syscall.SIGCONT) }

func (p *Process) toggle(from, to State, sig syscall.Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state != from {
		return fmt.Errorf("cannot make %s %s: it is %s", p.spec.Name, to, p.state)
	}
	if err := syscall.Kill(-p.cmd.Process.Pid, sig); err != nil {
		return fmt.Errorf("cannot make %s %s: %w", p.spec.Name, to, err)
	}
	p.state = to
	return nil
}

func describe(exit error) string {
	if exit == nil {
		return "exit status 0"
	}
	return exit.Error()
}

// WaitReady polls ready until it returns nil. It fails at once when the program ends, and when ctx ends, with the end
// of the program's log.
func (p *Process) WaitReady(ctx context.Context, ready func(context.Context) error) error {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	p.mu.Lock()
	done := p.done
	p.mu.Unlock()
	var last error
	for {
		if last = ready(ctx); last == nil {
			return nil
		}
		select {
		case <-done:
			p.mu.Lock()
			exit := p.exit
			p.mu.Unlock()
			return fmt.Errorf("%s ended (%s) before it was ready; the end of %s:\n%s", p.spec.Name, describe(exit), p.logFile, tail(p.logFile))
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready (%w); the end of %s:\n%s", p.spec.Name, last, p.logFile, tail(p.logFile))
		case <-tick.C:
		}
	}
}
