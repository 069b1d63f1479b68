// Copyright Contributors to the Open Cluster Management project

package realnode

import (
	"os"
	"strings"
	"testing"
)

func TestCheckMachine(t *testing.T) {
	for name, c := range map[string]struct {
		user int
		lack string
		want string // "" means no error
	}{
		"a machine with everything":                {},
		"another user than root":                   {user: 1000, want: "root"},
		"a machine without runc":                   {lack: "runc", want: "apt-get install --no-install-recommends runc`"},
		"a machine without the network plugins":    {lack: "/usr/lib/cni/ptp", want: "containernetworking-plugins"},
		"a machine without the program for routes": {lack: "ip", want: "iproute2"},
	} {
		t.Run(name, func(t *testing.T) {
			err := checkMachine(c.user, func(program string) bool { return program != c.lack })
			if c.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("got %v, want one line with %q", err, c.want)
			}
		})
	}
}

// TestRefusedNamespaces holds that a refusal of the machine is one line with the message of the program that was refused.
func TestRefusedNamespaces(t *testing.T) {
	err := tryNamespaces("echo 'mount: /merged: wrong fs type,\n bad option.' >&2; exit 32")
	if err == nil || strings.Contains(err.Error(), "\n") {
		t.Fatalf("got %v, want one line", err)
	}
	if os.Getuid() == 0 && !strings.Contains(err.Error(), "wrong fs type, bad option") {
		t.Errorf("got %v, want the message of the program", err)
	}
}
