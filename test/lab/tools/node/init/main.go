// Copyright Contributors to the Open Cluster Management project

// Command init is the first process of a node's namespaces: `init DIRECTORY` mounts what containerd and kubelet write into DIRECTORY,
// and collects ended processes. When init ends, the kernel ends all other processes of the namespaces, and removes mounts and networks.
package main

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
)

func main() {
	if len(os.Args) != 2 || os.Getpid() != 1 {
		fmt.Fprintln(os.Stderr, "init: call init as the first process of new namespaces, with a directory")
		os.Exit(2)
	}
	if err := errors.Join(mountAll(os.Args[1]), allowForwarding()); err != nil {
		fmt.Fprintln(os.Stderr, "init:", err)
		os.Exit(1)
	}
	if err := os.WriteFile(filepath.Join(os.Args[1], "ready"), nil, 0o600); err != nil {
		fmt.Fprintln(os.Stderr, "init:", err)
		os.Exit(1)
	}
	go exitOnSignal()
	collectProcesses()
}

// exitOnSignal ends init at SIGTERM: the kernel ignores the signal for the first process of a namespace without a handler.
func exitOnSignal() {
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGTERM)
	<-ended
	os.Exit(0)
}

// mountAll separates the mounts of the node from the machine's, and puts directories of the node in the places of the machine's.
func mountAll(directory string) error {
	// Pods may share mounts with the node, never with the machine.
	for _, propagation := range []uintptr{syscall.MS_PRIVATE, syscall.MS_SHARED} {
		if err := syscall.Mount("", "/", "", syscall.MS_REC|propagation, ""); err != nil {
			return fmt.Errorf("cannot separate the mounts: %w", err)
		}
	}
	for _, of := range []string{"lib", "log"} {
		source := filepath.Join(directory, of)
		if err := os.MkdirAll(source, 0o755); err != nil {
			return err
		}
		if err := syscall.Mount(source, "/var/"+of, "", syscall.MS_BIND, ""); err != nil {
			return fmt.Errorf("cannot mount /var/%s: %w", of, err)
		}
	}
	if err := syscall.Mount("tmpfs", "/run", "tmpfs", syscall.MS_NOSUID|syscall.MS_NODEV, "mode=755"); err != nil {
		return fmt.Errorf("cannot mount /run: %w", err)
	}
	if err := syscall.Mount("proc", "/proc", "proc", syscall.MS_NOSUID|syscall.MS_NODEV|syscall.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("cannot mount /proc: %w", err)
	}
	return hideKernelSettings(directory)
}

// kernelSettings are settings of the whole machine with the values that a kubelet writes.
var kernelSettings = map[string]string{
	"vm/overcommit_memory": "1", "vm/panic_on_oom": "0", "kernel/panic": "10", "kernel/panic_on_oops": "1",
	"kernel/keys/root_maxkeys": "1000000", "kernel/keys/root_maxbytes": "25000000",
}

// hideKernelSettings shows the kubelet the values of kernelSettings, so that the kubelet changes no setting of the machine.
func hideKernelSettings(directory string) error {
	for name, value := range kernelSettings {
		shown := filepath.Join(directory, "sys", name)
		if err := os.MkdirAll(filepath.Dir(shown), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(shown, []byte(value+"\n"), 0o600); err != nil {
			return err
		}
		if err := syscall.Mount(shown, "/proc/sys/"+name, "", syscall.MS_BIND, ""); err != nil {
			return fmt.Errorf("cannot hide setting %s: %w", name, err)
		}
	}
	return nil
}

// allowForwarding lets the node forward packets between pods and the machine.
func allowForwarding() error {
	return os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1\n"), 0o600)
}

// collectProcesses waits for each process that has lost its parent, until a signal ends init.
func collectProcesses() {
	for {
		if _, err := syscall.Wait4(-1, nil, 0, nil); errors.Is(err, syscall.ECHILD) {
			time.Sleep(time.Second) // until there are children
		}
	}
}
