// Copyright Contributors to the Open Cluster Management project

package realnode

import "testing"

func claimed(t *testing.T, directory string, usable func(*Slot) bool) *Slot {
	t.Helper()
	s, err := claimSlot(directory, usable)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestSlotsAreExclusive(t *testing.T) {
	directory := t.TempDir()
	all := func(*Slot) bool { return true }
	first, second := claimed(t, directory, all), claimed(t, directory, all)
	if first.index == second.index || first.ServiceRange() == second.ServiceRange() || first.Group() == second.Group() {
		t.Errorf("two nodes have slot %d", first.index)
	}
	if err := first.lock.Close(); err != nil { // as the kernel does for a killed lab
		t.Fatal(err)
	}
	if third := claimed(t, directory, all); third.index != first.index {
		t.Errorf("the slot of an ended node is not free: got %d, want %d", third.index, first.index)
	}
}

func TestSlotsOfOtherNetworksStayUnused(t *testing.T) {
	s := claimed(t, t.TempDir(), func(s *Slot) bool { return s.index > 2 })
	if s.index != 3 {
		t.Errorf("got slot %d, want the first that is usable", s.index)
	}
}
