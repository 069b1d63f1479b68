// Copyright Contributors to the Open Cluster Management project

package realnode

import (
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
