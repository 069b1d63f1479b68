// Copyright Contributors to the Open Cluster Management project

package realnode

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const groupsRoot = "/sys/fs/cgroup"

// hierarchies lists the hierarchies of control groups: one with version 2, one for each controller with version 1.
func hierarchies() ([]string, error) {
	if _, err := os.Stat(filepath.Join(groupsRoot, "cgroup.controllers")); err == nil {
		return []string{groupsRoot}, nil
	}
	entries, err := filepath.Glob(filepath.Join(groupsRoot, "*", "cgroup.procs"))
	if err != nil {
		return nil, err
	}
	var out []string
	for _, e := range entries {
		directory, err := filepath.EvalSymlinks(filepath.Dir(e))
		if err != nil {
			return nil, err
		}
		if !slices.Contains(out, directory) {
			out = append(out, directory)
		}
	}
	return out, nil
}

// createGroups creates a control group in every hierarchy. The kubelet wants its root to exist.
func createGroups(name string) error {
	all, err := hierarchies()
	if err != nil {
		return fmt.Errorf("cannot find control groups: %w", err)
	}
	if len(all) == 0 {
		return fmt.Errorf("cannot find control groups below %s", groupsRoot)
	}
	for _, h := range all {
		group := filepath.Join(h, name)
		if err := os.MkdirAll(group, 0o755); err != nil {
			return fmt.Errorf("cannot create a control group: %w", err)
		}
		if filepath.Base(h) != "cpuset" {
			continue
		}
		for _, file := range []string{"cpuset.cpus", "cpuset.mems"} { // a new group of version 1 has none
			content, err := os.ReadFile(filepath.Join(h, file))
			if err == nil {
				err = os.WriteFile(filepath.Join(group, file), content, 0o600)
			}
			if err != nil {
				return fmt.Errorf("cannot give processors to a control group: %w", err)
			}
		}
	}
	return nil
}

// checkControllers returns an error unless a control group of version 2 has the controllers that a kubelet needs. With version 1, each
// controller has a hierarchy.
func checkControllers(name string) error {
	content, err := os.ReadFile(filepath.Join(groupsRoot, name, "cgroup.controllers"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, controller := range []string{"cpu", "cpuset", "memory", "pids"} {
		if err == nil && !slices.Contains(strings.Fields(string(content)), controller) {
			err = fmt.Errorf("control groups have no controller %s", controller)
		}
	}
	return err
}

// removeTimeout is how long the kernel may take to end the processes of a killed node.
const removeTimeout = 20 * time.Second

// removeGroups removes a control group with all groups below from every hierarchy, as soon as the groups have no process.
func removeGroups(name string) error {
	all, err := hierarchies()
	if err != nil {
		return fmt.Errorf("cannot find control groups: %w", err)
	}
	for _, h := range all {
		for end := time.Now().Add(removeTimeout); ; time.Sleep(50 * time.Millisecond) {
			err := removeTree(filepath.Join(h, name))
			if err == nil {
				break
			}
			if time.Now().After(end) {
				return fmt.Errorf("cannot remove a control group: %w", err)
			}
		}
	}
	return nil
}

// removeTree removes a directory of control groups: their files go with the directories.
func removeTree(root string) error {
	var directories []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil && d.IsDir() {
			directories = append(directories, path)
		}
		return err
	})
	if err != nil {
		return err
	}
	for _, directory := range slices.Backward(directories) {
		if err := os.Remove(directory); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}
