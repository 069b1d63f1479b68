// Copyright Contributors to the Open Cluster Management project

package main

import (
	"testing"

	"open-cluster-management.io/knative-addon/pkg/installations"
)

// TestOptionalLists holds that a list without an answer ends a command only if the result would lack installations.
func TestOptionalLists(t *testing.T) {
	optional, required := &installations.ListError{Resource: "manifestworks", IsOptional: true}, &installations.ListError{Resource: "knativeservings"}
	if err := checkLists([]*installations.ListError{optional}); err != nil {
		t.Error("a list of a column ends the command")
	}
	if err := checkLists([]*installations.ListError{optional, required}); err == nil || !installations.IsUnanswered(err) {
		t.Error("the result lacks installations, and the command goes on")
	}
}
