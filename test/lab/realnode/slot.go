// Copyright Contributors to the Open Cluster Management project

package realnode

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// slots is how many nodes a machine may have: the index of a slot is a byte of addresses.
const slots = 200

// lockDirectory has a file for each slot that was ever used. A node holds a lock on the file, and the kernel drops the lock with the
// process.
const lockDirectory = "/run/knative-addon-lab"

// Slot is a share of the machine that one node uses at a time: addresses, a network device and a control group.
type Slot struct {
	index int
	lock  *os.File
}

// ClaimSlot returns a slot that no other node uses, and removes what nodes of killed labs have left.
func ClaimSlot() (*Slot, error) {
	if err := os.MkdirAll(lockDirectory, 0o755); err != nil {
		return nil, fmt.Errorf("cannot claim a slot for a node: %w", err)
	}
	s, err := claimSlot(lockDirectory, isFree)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(s.removeLeftovers(), removeAllLeftovers(lockDirectory)); err != nil {
		return nil, errors.Join(err, s.lock.Close())
	}
	return s, nil
}

func claimSlot(directory string, usable func(*Slot) bool) (*Slot, error) {
	for index := 1; index <= slots; index++ {
		lock, err := lockSlot(directory, index, os.O_CREATE)
		if err != nil {
			continue // another node has the slot
		}
		if s := (&Slot{index, lock}); usable(s) {
			return s, nil
		}
		_ = lock.Close()
	}
	return nil, fmt.Errorf("cannot claim a slot for a node: none of %d is free", slots)
}

func lockSlot(directory string, index, flag int) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(directory, fmt.Sprintf("node-%d.lock", index)), flag|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// isFree reports whether no interface of the machine has an address of the slot, apart from a device that a node has left.
func isFree(s *Slot) bool {
	interfaces, err := net.Interfaces()
	if err != nil {
		return false
	}
	for _, i := range interfaces {
		addresses, err := i.Addrs()
		if err != nil || i.Name == s.device() {
			continue
		}
		for _, a := range addresses {
			prefix, err := netip.ParsePrefix(a.String())
			if err != nil {
				continue
			}
			for _, own := range []string{s.linkRange(), s.ServiceRange(), s.podRange()} {
				if prefix.Overlaps(netip.MustParsePrefix(own)) {
					return false
				}
			}
		}
	}
	return true
}

// removeAllLeftovers removes what nodes of killed labs have left in all slots that nobody uses.
func removeAllLeftovers(directory string) error {
	var errs []error
	for index := 1; index <= slots; index++ {
		lock, err := lockSlot(directory, index, 0)
		if err != nil {
			continue // never used, or in use
		}
		errs = append(errs, (&Slot{index, lock}).Release())
	}
	return errors.Join(errs...)
}

// Release gives the slot back after the processes of the node have ended.
func (s *Slot) Release() error {
	defer func() { _ = s.lock.Close() }()
	return s.removeLeftovers()
}

func (s *Slot) removeLeftovers() error {
	if _, err := net.InterfaceByName(s.device()); err == nil {
		// The kernel removes the device with the namespace of the node, some time after the last process: a failure to
		// remove the device is none when the device is gone.
		out, err := exec.Command("ip", "link", "delete", s.device()).CombinedOutput() //nolint:noctx,gosec // short, and our own device
		if _, found := net.InterfaceByName(s.device()); err != nil && found == nil {
			return fmt.Errorf("cannot remove the device of a node: %w: %s", err, out)
		}
	}
	return removeGroups(s.Group())
}

// Group is the name of the control group of the node.
func (s *Slot) Group() string { return fmt.Sprintf("knative-addon-node-%d", s.index) }

// device is the machine's end of the link to the node.
func (s *Slot) device() string { return fmt.Sprintf("knode%d", s.index) }

// HostAddress is the address of the machine that the node reaches, NodeAddress the node's own.
func (s *Slot) HostAddress() string { return fmt.Sprintf("10.99.%d.1", s.index) }

// NodeAddress is the address of the node.
func (s *Slot) NodeAddress() string { return fmt.Sprintf("10.99.%d.2", s.index) }

func (s *Slot) linkRange() string { return fmt.Sprintf("10.99.%d.0/24", s.index) }

// ServiceRange are the ClusterIPs of the cluster of the node.
func (s *Slot) ServiceRange() string { return fmt.Sprintf("10.96.%d.0/24", s.index) }

// FirstServiceIP is the ClusterIP of the API server.
func (s *Slot) FirstServiceIP() string { return fmt.Sprintf("10.96.%d.1", s.index) }

// dnsAddress is the ClusterIP of the DNS server.
func (s *Slot) dnsAddress() string { return fmt.Sprintf("10.96.%d.10", s.index) }

func (s *Slot) podRange() string { return fmt.Sprintf("10.250.%d.0/24", s.index) }
