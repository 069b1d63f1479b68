// Copyright Contributors to the Open Cluster Management project

package realnode

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"open-cluster-management.io/knative-addon/test/lab/process"
)

// childEnv names the directory of the process that TestKilledLabLeavesNoNode kills.
const childEnv = "REALNODE_TEST_CHILD"

// TestChild is not a test: the function holds a node with a process until TestKilledLabLeavesNoNode kills the function's process.
func TestChild(t *testing.T) {
	directory := os.Getenv(childEnv)
	if directory == "" {
		return
	}
	group, err := process.NewGroup(directory)
	if err != nil {
		t.Fatal(err)
	}
	slot, err := ClaimSlot()
	if err != nil {
		t.Fatal(err)
	}
	node, err := New(t.Context(), Options{
		Slot: slot, Cluster: "cluster1", Directory: filepath.Join(directory, "node"), Procs: group,
		Program: func(name string) string { return filepath.Join(directory, name) },
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := createGroups(slot.Group()); err != nil {
		t.Fatal(err)
	}
	// The process leaves its parent, as the processes of pods do.
	script := fmt.Sprintf("echo 0 >/sys/fs/cgroup/%s; (sleep 1000 & echo started >%s/started; wait)", firstGroup(t, slot), directory)
	if _, err := node.run("pod", "setsid", "sh", "-c", script); err != nil {
		t.Fatal(err)
	}
	for range 1200 {
		if _, err := os.Stat(filepath.Join(directory, "started")); err == nil {
			fmt.Printf("SLOT %d\n", slot.index)
			select {}
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Fatal("the process of the node has not started")
}

func firstGroup(t *testing.T, s *Slot) string {
	t.Helper()
	all, err := hierarchies()
	if err != nil {
		t.Fatal(err)
	}
	group, err := filepath.Rel(groupsRoot, filepath.Join(all[0], s.Group(), "cgroup.procs"))
	if err != nil {
		t.Fatal(err)
	}
	return group
}

// TestKilledLabLeavesNoNode kills the process that holds a node: the kernel ends the processes and the network of the node, and the next
// claim removes the control groups. A second node of that time has another slot.
func TestKilledLabLeavesNoNode(t *testing.T) {
	if err := CheckMachine(); err != nil {
		t.Skip(err)
	}
	directory := t.TempDir()
	build := exec.CommandContext(t.Context(), "go", "build", "-o", directory, "./init") //nolint:gosec // our own program
	build.Dir, build.Env = filepath.Join("..", "tools", "node"), append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOFLAGS=-mod=readonly -buildvcs=false")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	killed := startChild(t, directory)
	beside, err := ClaimSlot()
	if err != nil {
		t.Fatal(err)
	}
	if beside.index == killed.index {
		t.Fatalf("two nodes have slot %d", beside.index)
	}
	if _, err := net.InterfaceByName(killed.device()); err != nil || len(processesOf(t, killed)) == 0 {
		t.Fatalf("the node has processes %v and a device: %v", processesOf(t, killed), err)
	}
	killed.kill(t)
	for end := time.Now().Add(time.Minute); len(processesOf(t, killed)) > 0; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("processes %v of the node have outlived the lab", processesOf(t, killed))
		}
	}
	next, err := ClaimSlot()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := net.InterfaceByName(killed.device()); err == nil {
		t.Errorf("device %s is left", killed.device())
	}
	if left, _ := filepath.Glob(filepath.Join(groupsRoot, "*", killed.Group())); len(left) > 0 {
		t.Errorf("control groups are left: %v", left)
	}
	for _, s := range []*Slot{beside, next} {
		if err := s.Release(); err != nil {
			t.Error(err)
		}
	}
}

// child is a node in a process that the test kills.
type child struct {
	*Slot

	kill func(t *testing.T)
}

func startChild(t *testing.T, directory string) child {
	t.Helper()
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), os.Args[0], "-test.run=^TestChild$") //nolint:gosec // this test
	cmd.Env, cmd.Stderr = append(os.Environ(), childEnv+"="+directory), os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := false
	kill := func(t *testing.T) {
		t.Helper()
		if ended {
			return
		}
		ended = true
		if err := cmd.Process.Signal(syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait()
	}
	t.Cleanup(func() { kill(t) })
	var lines []string
	for s := bufio.NewScanner(out); s.Scan(); {
		lines = append(lines, s.Text())
		if text, ok := strings.CutPrefix(s.Text(), "SLOT "); ok {
			index, err := strconv.Atoi(text)
			if err != nil {
				t.Fatal(err)
			}
			return child{&Slot{index: index}, kill}
		}
	}
	t.Fatalf("the node has not started: %q", lines)
	return child{}
}

// processesOf lists the processes in the control group of a node.
func processesOf(t *testing.T, c child) []string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(groupsRoot, firstGroup(t, c.Slot)))
	if err != nil {
		return nil
	}
	return strings.Fields(string(content))
}
