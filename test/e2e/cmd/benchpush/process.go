// Copyright Contributors to the Open Cluster Management project

package main

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// tick is the unit of times in /proc, the same on all architectures that Go knows.
const tick = 10 * time.Millisecond

var errProcess = errors.New("the manager cannot be measured")

// pid of the manager.
func (s *side) pid() (int, error) {
	for _, c := range s.lab.Components() {
		if c.Name == s.component && c.PID != 0 {
			return c.PID, nil
		}
	}
	return 0, fmt.Errorf("%w: %s does not run", errProcess, s.component)
}

// cpu is what the manager and the plugins that it ran have used.
func (s *side) cpu() (time.Duration, error) {
	pid, err := s.pid()
	if err != nil {
		return 0, err
	}
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

// memory is the manager's resident set.
func (s *side) memory() (value, error) {
	pid, err := s.pid()
	if err != nil {
		return value{}, err
	}
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return value{}, err
	}
	for line := range strings.Lines(string(content)) {
		if kilobytes, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			n, err := strconv.Atoi(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(kilobytes), "kB")))
			return value{number: float64(n) / 1024}, err
		}
	}
	return value{}, fmt.Errorf("%w: /proc/%d/status has no VmRSS", errProcess, pid)
}
