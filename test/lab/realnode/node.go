// Copyright Contributors to the Open Cluster Management project

package realnode

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"

	"open-cluster-management.io/knative-addon/test/lab/process"
)

// NodeName is the name of the Node.
const NodeName = "real-0"

// Node is a node whose network exists. Its programs run after Start.
type Node struct {
	Options

	access Access
	pid    int
}

// Options say where a node runs.
type Options struct {
	Slot *Slot
	// Cluster is the first part of the names of the node's components.
	Cluster string
	// Directory has everything that the node writes.
	Directory string
	Procs     *process.Group
	// Program returns the file of one of the lab's programs.
	Program func(name string) string
	// Serving and Eventing report whether the node gets the images of that component.
	Serving, Eventing bool
}

// Access are the files with which a node reaches its API server.
type Access struct {
	// CA is the certificate of the API server, Kubelet and Proxy are kubeconfigs.
	CA, Kubelet, Proxy string
}

// New makes the namespaces and the network of a node: process "<cluster>-node" holds both. The API server can listen on the slot's
// HostAddress afterwards.
func New(ctx context.Context, opts Options) (*Node, error) {
	n := &Node{Options: opts}
	if err := os.MkdirAll(n.Directory, 0o755); err != nil {
		return nil, fmt.Errorf("cannot create the directory of a node: %w", err)
	}
	p, err := n.Procs.Start(process.Spec{
		Name: n.Cluster + "-node", Path: n.Program("init"), Args: []string{n.Directory}, Dir: n.Directory,
		Namespaces: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS | syscall.CLONE_NEWNET | syscall.CLONE_NEWIPC,
	})
	if err != nil {
		return nil, err
	}
	err = p.WaitReady(ctx, func(context.Context) error {
		_, err := os.Stat(n.path("ready"))
		return err
	})
	if err != nil {
		return nil, err
	}
	_, n.pid = p.State()
	return n, n.link(ctx)
}

func (n *Node) path(name string) string { return filepath.Join(n.Directory, name) }

// enter returns the command that runs a program in the namespaces of the node.
func (n *Node) enter(command ...string) []string {
	return append([]string{"nsenter", "--target", strconv.Itoa(n.pid), "--mount", "--net", "--ipc", "--pid", "--"}, command...)
}

// link joins the networks of the machine and of the node. The routes lead from the machine to ClusterIPs, which kube-proxy translates,
// and to pods.
func (n *Node) link(ctx context.Context) error {
	s, pid := n.Slot, strconv.Itoa(n.pid)
	inside := func(args ...string) []string { return n.enter(append([]string{"ip"}, args...)...) }
	for _, command := range [][]string{
		{"ip", "link", "add", s.device(), "type", "veth", "peer", "name", "eth0", "netns", pid},
		{"ip", "address", "add", s.HostAddress() + "/24", "dev", s.device()},
		{"ip", "link", "set", s.device(), "up"},
		inside("link", "set", "lo", "up"),
		inside("address", "add", s.NodeAddress()+"/24", "dev", "eth0"),
		inside("link", "set", "eth0", "up"),
		inside("route", "add", "default", "via", s.HostAddress()),
		inside("route", "add", "unreachable", s.podRange()), // each pod has a route of its own; packets to an ended pod would circle
		{"ip", "route", "add", s.ServiceRange(), "via", s.NodeAddress()},
		{"ip", "route", "add", s.podRange(), "via", s.NodeAddress()},
	} {
		if out, err := exec.CommandContext(ctx, command[0], command[1:]...).CombinedOutput(); err != nil { //nolint:gosec // our own arguments
			return fmt.Errorf("cannot link a node: %q: %w: %s", command, err, out)
		}
	}
	return nil
}

// Start starts containerd, kubelet and kube-proxy, and imports the images: those of the lab, and under the names in the release
// manifests those of Knative's components.
func (n *Node) Start(ctx context.Context, access Access) error {
	n.access = access
	if err := errors.Join(n.writeConfigs(), createGroups(n.Slot.Group())); err != nil {
		return err
	}
	program := n.Program("containerd")
	path := filepath.Dir(program) + string(os.PathListSeparator) + os.Getenv("PATH") // a shim of the machine may have another version
	containerd, err := n.run("containerd", "env", "PATH="+path, program, "--config", n.path("containerd.toml"))
	if err != nil {
		return err
	}
	err = containerd.WaitReady(ctx, func(ctx context.Context) error { return n.runCtr(ctx, nil, "version") })
	if err != nil {
		return err
	}
	if _, err := n.run("kube-proxy", n.Program("kube-proxy"), "--config="+n.path("kube-proxy.yaml")); err != nil {
		return err
	}
	if _, err := n.run("kubelet", n.Program("kubelet"), "--config="+n.path("kubelet.yaml"), "--kubeconfig="+access.Kubelet,
		"--hostname-override="+NodeName, "--node-ip="+n.Slot.NodeAddress()); err != nil {
		return err
	}
	return n.importImages(ctx)
}

// run starts a program of the node as component "<cluster>-<name>".
func (n *Node) run(name string, command ...string) (*process.Process, error) {
	enter := n.enter(command...)
	nsenter, err := exec.LookPath(enter[0])
	if err != nil {
		return nil, err
	}
	return n.Procs.Start(process.Spec{Name: n.Cluster + "-" + name, Path: nsenter, Args: enter[1:]})
}
