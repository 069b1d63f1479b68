// Copyright Contributors to the Open Cluster Management project

package harness

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"open-cluster-management.io/knative-addon/test/lab"
)

// tick is the unit of times in /proc, the same on all architectures that Go knows.
const tick = 10 * time.Millisecond

var errProcess = errors.New("cannot measure the process")

// PID is the process of a component of the lab.
func PID(l *lab.Lab, component string) (int, error) {
	for _, c := range l.Components() {
		if c.Name == component && c.PID != 0 {
			return c.PID, nil
		}
	}
	return 0, fmt.Errorf("%w: %s does not run", errProcess, component)
}

// CPU returns the CPU time of a process and of its ended child processes.
func CPU(pid int) (time.Duration, error) {
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	// After the name in parentheses: utime, stime, cutime and cstime are the 12th to 15th field.
	fields := strings.Fields(string(content[strings.LastIndexByte(string(content), ')')+1:]))
	if len(fields) < 15 {
		return 0, fmt.Errorf("%w: /proc/%d/stat has %d fields", errProcess, pid, len(fields))
	}
	var ticks int
	for _, f := range fields[11:15] {
		n, err := strconv.Atoi(f)
		if err != nil {
			return 0, fmt.Errorf("%w: %w", errProcess, err)
		}
		ticks += n
	}
	return time.Duration(ticks) * tick, nil
}

// Memory is the resident set of a process, in MB.
func Memory(pid int) (float64, error) { return readMemory(pid, "VmRSS") }

// PeakMemory is the largest resident set that a process has had, in MB.
func PeakMemory(pid int) (float64, error) { return readMemory(pid, "VmHWM") }

func readMemory(pid int, field string) (float64, error) {
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(content)) {
		if kilobytes, ok := strings.CutPrefix(line, field+":"); ok {
			n, err := strconv.Atoi(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(kilobytes), "kB")))
			return float64(n) / 1024, err
		}
	}
	return 0, fmt.Errorf("%w: /proc/%d/status has no %s", errProcess, pid, field)
}
