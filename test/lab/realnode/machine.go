// Copyright Contributors to the Open Cluster Management project

package realnode

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// cniDirectory is where Debian's package has the plugins.
const cniDirectory = "/usr/lib/cni"

// requirement is a program that a node needs, and the Debian package with the program.
type requirement struct{ program, pkg string }

func requirements() []requirement {
	return []requirement{
		{"runc", "runc"},
		{filepath.Join(cniDirectory, "ptp"), "containernetworking-plugins"},
		{filepath.Join(cniDirectory, "host-local"), "containernetworking-plugins"},
		{"iptables", "iptables"},
		{"ip", "iproute2"},
		{"nsenter", "util-linux"},
	}
}

// CheckMachine returns an error of one line that says what a real node needs and this machine lacks.
func CheckMachine() error {
	find := func(program string) bool {
		_, err := exec.LookPath(program)
		return err == nil
	}
	return checkMachine(os.Getuid(), find)
}

func checkMachine(user int, find func(program string) bool) error {
	if user != 0 {
		return errors.New("a real node needs root, for network namespaces and control groups: run this as root, or without the real node")
	}
	var packages []string
	for _, r := range requirements() {
		if !find(r.program) && !slices.Contains(packages, r.pkg) {
			packages = append(packages, r.pkg)
		}
	}
	if len(packages) == 0 {
		return nil
	}
	return fmt.Errorf("a real node needs programs that this machine lacks: `apt-get install --no-install-recommends %s` installs them on Debian",
		strings.Join(packages, " "))
}
