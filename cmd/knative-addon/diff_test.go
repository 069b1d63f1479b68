// Copyright Contributors to the Open Cluster Management project

package main

import (
	"bytes"
	"strings"
	"testing"
)

// TestDiffInput holds that a comparison needs either a file or --installed, and that a wrong use does not end like a difference.
func TestDiffInput(t *testing.T) {
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"neither":           {nil, "either --filename or --installed"},
		"both":              {[]string{"--filename", "-", "--installed"}, "either --filename or --installed"},
		"an unknown format": {[]string{"--installed", "--output", "xml"}, "name, json or yaml"},
		"a missing file":    {[]string{"--filename", "/nowhere.yaml"}, "/nowhere.yaml"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := execute(t, newDiffCommand(), "", append(tc.args, "--kubeconfig", newCompletionHub(t))...)
			if err == nil || exitCodeOf(newDiffCommand(), err) != 2 || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error is %v, exit code %d, want %q", err, exitCodeOf(newDiffCommand(), err), tc.want)
			}
		})
	}
}

// TestDiffInstalled holds what the command prints about installations without objects, and for an unknown cluster.
func TestDiffInstalled(t *testing.T) {
	hub := newCompletionHub(t)
	for name, tc := range map[string]struct {
		args []string
		want string
		code int
	}{
		"all installations":  {nil, "warning: not compared, because no version is installed yet: cluster1 knative-serving, team/edge knative-eventing\n", 0},
		"an unknown cluster": {[]string{"cluster9"}, `cannot find installations for ["cluster9"]`, exitDiffFailed},
		"no installation":    {[]string{"--mode", "Direct"}, "warning: the hub has no installation that the flags select\n", 0},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := newDiffCommand()
			var warnings bytes.Buffer
			cmd.SetOut(&bytes.Buffer{})
			cmd.SetErr(&warnings)
			cmd.SetArgs(append(tc.args, "--installed", "--kubeconfig", hub))
			cmd.SilenceUsage, cmd.SilenceErrors = true, true
			err, code := cmd.ExecuteContext(t.Context()), 0
			if err != nil {
				code = exitCodeOf(newDiffCommand(), err)
				warnings.WriteString(err.Error())
			}
			if code != tc.code || !strings.Contains(warnings.String(), tc.want) {
				t.Errorf("exit code %d, want %d; the output is %s, want %s", code, tc.code, &warnings, tc.want)
			}
		})
	}
}
