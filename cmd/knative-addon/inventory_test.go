// Copyright Contributors to the Open Cluster Management project

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"open-cluster-management.io/knative-addon/pkg/trust"
)

// TestInventoryFile holds that the add-on's own namespace is the only inventory without a file, and that a file which cannot
// be used ends the manager at once.
func TestInventoryFile(t *testing.T) {
	const edge = `{"namespace": "edge", "providers": ["secretreader"], "servers": ["*.example.com"], "secrets": ["edge-7"]}`
	const own = `{"namespace": "knative-addon", "providers": ["secretreader"], "servers": ["own.example.com"]}`
	for name, tc := range map[string]struct {
		file  string
		own   string
		edge  bool
		wrong string
	}{
		"no file":                           {own: "https://192.168.0.1:6443"},
		"a file of another namespace":       {file: `{"inventories": [` + edge + `]}`, own: "https://192.168.0.1:6443", edge: true},
		"a file that lists the own":         {file: `{"inventories": [` + own + `]}`, own: "https://own.example.com"},
		"a file that is no JSON":            {file: "inventories: []", wrong: "cannot use --inventory-file="},
		"a file with a server that is none": {file: `{"inventories": [{"namespace": "edge", "providers": ["x"], "servers": ["https://x"]}]}`, wrong: `inventories[0]: servers: "https://x"`},
	} {
		t.Run(name, func(t *testing.T) {
			f := directFlags{inventories: writtenFile(t, tc.file)}
			got, err := f.readInventories("knative-addon")
			if tc.wrong != "" {
				if err == nil || !strings.Contains(err.Error(), tc.wrong) {
					t.Errorf("error is %v, want %q", err, tc.wrong)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got.Contains("edge") != tc.edge || got.Contains("tenant") {
				t.Errorf("edge is an inventory: %t, tenant: %t", got.Contains("edge"), got.Contains("tenant"))
			}
			ownPermits(t, got, tc.own, true)
			ownPermits(t, got, "https://127.0.0.1:6443", false)
		})
	}
	if _, err := (&directFlags{inventories: "/absent"}).readInventories(""); err == nil {
		t.Error("a file that is absent is no error")
	}
}

// writtenFile returns a file with the content, and nothing without content.
func writtenFile(t *testing.T, content string) string {
	t.Helper()
	if content == "" {
		return ""
	}
	file := filepath.Join(t.TempDir(), "inventories.json")
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// ownPermits checks whether the inventory of the add-on's own namespace permits a server.
func ownPermits(t *testing.T, inventories trust.Inventories, server string, want bool) {
	t.Helper()
	_, no := inventories.Permit(&trust.Connection{Namespace: "knative-addon", Provider: "secretreader", Server: server})
	if (no == nil) != want {
		t.Errorf("server %s is permitted: %t, want %t: %+v", server, no == nil, want, no)
	}
}
