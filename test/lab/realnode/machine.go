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
	"syscall"
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

// CheckMachine returns an error of one line that says what a real node needs and this machine lacks or refuses.
func CheckMachine() error {
	find := func(program string) bool {
		_, err := exec.LookPath(program)
		return err == nil
	}
	if err := checkMachine(os.Getuid(), find); err != nil {
		return err
	}
	if err := tryGroups(); err != nil {
		return err
	}
	return tryNamespaces(tryScript)
}

// tryScript does in new namespaces what a node does: mounts that the machine does not see, an overlay in the directory of the first argument, a
// device, and a rule of iptables. Everything ends with the namespaces, except the directories.
const tryScript = `set -e
mount --make-rprivate /
mkdir "$1/lower" "$1/upper" "$1/work" "$1/merged"
mount -t overlay none -o "lowerdir=$1/lower,upperdir=$1/upper,workdir=$1/work" "$1/merged"
mount -t tmpfs none /run
ip link add lab0 type veth peer name lab1
iptables -t nat -A PREROUTING -j ACCEPT`

// tryNamespaces returns an error of one line when the machine refuses the script in new namespaces.
func tryNamespaces(script string) error {
	directory, err := os.MkdirTemp("", "knative-addon-lab-check-")
	if err != nil {
		return fmt.Errorf("a real node needs a temporary directory: %w", err)
	}
	defer func() { _ = os.RemoveAll(directory) }()
	cmd := exec.Command("sh", "-c", script, "sh", directory) //nolint:gosec,noctx // our own script, which waits for nothing
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS | syscall.CLONE_NEWNET | syscall.CLONE_NEWIPC}
	if out, err := cmd.CombinedOutput(); err != nil {
		cause := strings.Join(append([]string{err.Error()}, strings.Fields(string(out))...), " ")
		return fmt.Errorf("a real node needs namespaces, overlayfs and iptables, and this machine refuses one of these: %s", cause)
	}
	return nil
}

// tryGroups returns an error of one line when the machine refuses control groups.
func tryGroups() error {
	name := fmt.Sprintf("knative-addon-check-%d", os.Getpid())
	if err := errors.Join(createGroups(name), checkControllers(name), removeGroups(name)); err != nil {
		return fmt.Errorf("a real node needs control groups, and this machine refuses: %s", strings.ReplaceAll(err.Error(), "\n", ", "))
	}
	return nil
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
