// Copyright Contributors to the Open Cluster Management project

package main

import (
	"time"

	"open-cluster-management.io/knative-addon/test/e2e/harness"
)

// cpu is what the manager and the plugins that it ran have used.
func (s *side) cpu() (time.Duration, error) {
	pid, err := harness.PID(s.lab, s.component)
	if err != nil {
		return 0, err
	}
	return harness.CPU(pid)
}

// memory is the manager's resident set.
func (s *side) memory() (value, error) {
	pid, err := harness.PID(s.lab, s.component)
	if err != nil {
		return value{}, err
	}
	megabytes, err := harness.Memory(pid)
	return value{number: megabytes}, err
}
