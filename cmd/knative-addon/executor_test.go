// Copyright Contributors to the Open Cluster Management project

package main

import "testing"

func TestParseExecutor(t *testing.T) {
	for text, want := range map[string]string{"agents/installer": "agents/installer", "": "none", "installer": "", "/installer": "", "agents/": "", "a/b/c": "", "A/b": ""} {
		got, err := parseExecutor(text)
		name := ""
		switch {
		case err != nil:
		case got == nil:
			name = "none"
		default:
			name = got.Subject.ServiceAccount.Namespace + "/" + got.Subject.ServiceAccount.Name
		}
		if name != want {
			t.Errorf("%q is read as %q (%v), want %q", text, name, err, want)
		}
	}
}
