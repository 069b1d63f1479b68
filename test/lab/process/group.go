// Copyright Contributors to the Open Cluster Management project

package process

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
)

// Group holds the programs of a lab. One directory has the logs of all programs.
type Group struct {
	logs  string
	forks chan func()

	mu      sync.Mutex
	procs   []*Process
	cpuTime map[string]time.Duration
}

// NewGroup makes an empty group that writes logs to <logs>/<name>.log.
func NewGroup(logs string) (*Group, error) {
	if err := os.MkdirAll(logs, 0o700); err != nil {
		return nil, fmt.Errorf("cannot create the log directory: %w", err)
	}
	g := &Group{logs: logs, forks: make(chan func()), cpuTime: map[string]time.Duration{}}
	go g.forkLoop()
	return g, nil
}

// forkLoop starts every program from one thread that never ends: the kernel sends the parent-death signal when the
// thread that forked ends, not when the process does.
func (g *Group) forkLoop() {
	runtime.LockOSThread()
	for f := range g.forks {
		f()
	}
}

func (g *Group) fork(start func() error) error {
	result := make(chan error)
	g.forks <- func() { result <- start() }
	return <-result
}

// Add registers a program without starting it. A program of the same name that has stopped is replaced.
func (g *Group) Add(spec Spec) *Process {
	p := &Process{spec: spec, logFile: filepath.Join(g.logs, spec.Name+".log"), fork: g.fork, spent: g.addCPUTime, state: Stopped}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.procs = slices.DeleteFunc(g.procs, func(o *Process) bool { return o.spec.Name == spec.Name })
	g.procs = append(g.procs, p)
	return p
}

// Start registers a program and runs it.
func (g *Group) Start(spec Spec) (*Process, error) {
	p := g.Add(spec)
	return p, p.Start()
}

// Get finds a program by name.
func (g *Group) Get(name string) (*Process, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	names := make([]string, 0, len(g.procs))
	for _, p := range g.procs {
		if p.spec.Name == name {
			return p, nil
		}
		names = append(names, p.spec.Name)
	}
	slices.Sort(names)
	return nil, fmt.Errorf("no component %q; there are: %s", name, strings.Join(names, ", "))
}

// All lists the programs in the order in which they were added.
func (g *Group) All() []*Process {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.procs)
}

func (g *Group) addCPUTime(program string, spent time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.cpuTime[program] += spent
}

// CPUTime returns the processor time, of user and system, that the runs that have ended took, by the file names of the programs.
func (g *Group) CPUTime() map[string]time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	return maps.Clone(g.cpuTime)
}

// KillAll ends every program at once and waits until all are gone.
func (g *Group) KillAll() {
	var wg sync.WaitGroup
	for _, p := range g.All() {
		wg.Go(func() { _ = p.Kill() })
	}
	wg.Wait()
}

const tailLines = 15

// tail returns the last lines of a log file, indented.
func tail(file string) string {
	b, err := os.ReadFile(file)
	if err != nil {
		return "  " + err.Error()
	}
	lines := bytes.Split(bytes.TrimRight(b, "\n"), []byte("\n"))
	if len(lines) > tailLines {
		lines = lines[len(lines)-tailLines:]
	}
	return "  " + string(bytes.Join(lines, []byte("\n  ")))
}
