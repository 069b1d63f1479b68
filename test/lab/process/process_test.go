// Copyright Contributors to the Open Cluster Management project

package process

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

func group(t *testing.T) *Group {
	t.Helper()
	g, err := NewGroup(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.KillAll)
	return g
}

func shell(name, script string) Spec {
	return Spec{Name: name, Path: "/bin/sh", Args: []string{"-c", script}}
}

func alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(rest, "Z")
}

func awaitGone(t *testing.T, pid int) {
	t.Helper()
	for range 1000 {
		if !alive(pid) {
			return
		}
		time.Sleep(50 * time.Millisecond) // the kernel's signal takes a moment
	}
	t.Fatalf("process %d is still there", pid)
}

func TestStates(t *testing.T) {
	g := group(t)
	p, err := g.Start(shell("sleeper", "exec sleep 1000"))
	if err != nil {
		t.Fatal(err)
	}
	_, pid := p.State()
	for _, step := range []struct {
		do   func() error
		want State
	}{
		{func() error { return nil }, Running},
		{p.Pause, Paused},
		{p.Resume, Running},
		{p.Pause, Paused},
		{p.Stop, Stopped},
		{p.Stop, Stopped},
		{p.Start, Running},
		{p.Kill, Stopped},
	} {
		if err := step.do(); err != nil {
			t.Fatal(err)
		}
		if got, _ := p.State(); got != step.want {
			t.Fatalf("state is %s, want %s", got, step.want)
		}
	}
	awaitGone(t, pid)
	if err := p.Pause(); err == nil {
		t.Error("a stopped process can be paused")
	}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	if err := p.Start(); err == nil {
		t.Error("a running process can be started")
	}
}

func TestFailureShowsLog(t *testing.T) {
	g := group(t)
	p, err := g.Start(shell("broken", "echo no such option; exit 3"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	err = p.WaitReady(ctx, func(context.Context) error { return errors.New("not ready") })
	for _, want := range []string{"broken", "exit status 3", "no such option", p.LogFile()} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in: %v", want, err)
		}
	}
	if got, _ := p.State(); got != Failed {
		t.Errorf("state is %s, want %s", got, Failed)
	}
}

func TestGet(t *testing.T) {
	g := group(t)
	g.Add(shell("b", "true"))
	g.Add(shell("a", "true"))
	if _, err := g.Get("c"); err == nil || !strings.Contains(err.Error(), "there are: a, b") {
		t.Errorf("error does not list the components: %v", err)
	}
}

const childEnv = "PROCESS_TEST_CHILD"

// TestChild is not a test: it is the parent that TestDiesWithParent kills.
func TestChild(t *testing.T) {
	if os.Getenv(childEnv) == "" {
		return
	}
	g, err := NewGroup(os.Getenv(childEnv))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"running", "paused"} {
		p, err := g.Start(shell(name, "exec sleep 1000"))
		if err != nil {
			t.Fatal(err)
		}
		if name == "paused" {
			if err := p.Pause(); err != nil {
				t.Fatal(err)
			}
		}
		_, pid := p.State()
		fmt.Printf("PID %d\n", pid)
	}
	select {}
}

func TestDiesWithParent(t *testing.T) {
	parent := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestChild$") //nolint:gosec // this test
	parent.Env = append(os.Environ(), childEnv+"="+t.TempDir())
	out, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	var pids []int
	for s := bufio.NewScanner(out); len(pids) < 2 && s.Scan(); {
		if text, ok := strings.CutPrefix(s.Text(), "PID "); ok {
			pid, err := strconv.Atoi(text)
			if err != nil {
				t.Fatal(err)
			}
			pids = append(pids, pid)
		}
	}
	if len(pids) != 2 || !alive(pids[0]) || !alive(pids[1]) {
		t.Fatalf("the parent has not started its processes: %v", pids)
	}
	if err := parent.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = parent.Wait()
	for _, pid := range pids {
		awaitGone(t, pid)
	}
}

func TestPortsAreHeld(t *testing.T) {
	var first, second Ports
	defer first.Release()
	defer second.Release()
	seen := map[int]bool{}
	for range 50 {
		for _, p := range []*Ports{&first, &second} {
			port, err := p.Next()
			if err != nil {
				t.Fatal(err)
			}
			if seen[port] {
				t.Fatalf("port %d was handed out twice", port)
			}
			seen[port] = true
		}
	}
}
