// Copyright Contributors to the Open Cluster Management project

package lab

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/client-go/kubernetes"

	"open-cluster-management.io/knative-addon/test/lab/realnode"
	"open-cluster-management.io/knative-addon/test/lab/tools"
)

// realNodeSet returns the programs that real nodes need, and an error when this machine cannot run the nodes.
func (o *Options) realNodeSet() (tools.Set, error) {
	if len(o.RealNodes) == 0 {
		return nil, nil
	}
	if err := realnode.CheckMachine(); err != nil {
		return nil, err
	}
	set := tools.Set{tools.KubeNode, tools.Containerd, tools.Node, tools.KnativeServing}
	if o.RealEventing {
		set = append(set, tools.KnativeEventing)
	}
	return set, nil
}

// checkRealNodes returns an error when the lab has no cluster of a name in Options.RealNodes.
func (l *Lab) checkRealNodes() error {
	for _, name := range l.opts.RealNodes {
		if !slices.ContainsFunc(append(l.Clusters(), l.Hub), func(c *Cluster) bool { return c.Name == name }) {
			return fmt.Errorf("the lab has no cluster %q for a real node", name)
		}
	}
	return nil
}

// hasRealNode reports whether the cluster has a real node.
func (l *Lab) hasRealNode(c *Cluster) bool { return slices.Contains(l.opts.RealNodes, c.Name) }

// address is where the API server listens: on loopback, or where a real node reaches the API server.
func (c *Cluster) address() string {
	if c.slot == nil {
		return "127.0.0.1"
	}
	return c.slot.HostAddress()
}

func (c *Cluster) serviceRange() string {
	if c.slot == nil {
		return c.serviceIPs.cidr()
	}
	return c.slot.ServiceRange()
}

func (c *Cluster) firstServiceIP() string {
	if c.slot == nil {
		return c.serviceIPs.first()
	}
	return c.slot.FirstServiceIP()
}

// nodeArguments are arguments of the API server that depend on the node: a reconciler of endpoints refuses loopback addresses, and a
// kubelet answers requests for logs.
func (c *Cluster) nodeArguments() []string {
	if c.slot == nil {
		return []string{"--endpoint-reconciler-type=none"}
	}
	return []string{
		"--endpoint-reconciler-type=lease", "--kubelet-preferred-address-types=InternalIP",
		"--kubelet-client-certificate=kubelet-client.crt", "--kubelet-client-key=kubelet-client.key",
	}
}

// claimNode claims what the real node of a cluster needs of the machine, and starts the network of the node: the API server listens
// there.
func (l *Lab) claimNode(ctx context.Context, c *Cluster) error {
	var err error
	if c.slot, err = realnode.ClaimSlot(); err != nil {
		return err
	}
	c.node, err = realnode.New(ctx, realnode.Options{
		Slot: c.slot, Cluster: c.Name, Directory: c.path("node"), Procs: l.procs, Program: l.Bin.Path,
		Serving: c != l.Hub, Eventing: c != l.Hub && l.opts.RealEventing,
	})
	return err
}

// startRealNode starts the programs of the real node, and waits until the Node is Ready and has its images.
func (l *Lab) startRealNode(ctx context.Context, c *Cluster) error {
	client, err := kubernetes.NewForConfig(c.Config)
	if err != nil {
		return fmt.Errorf("cannot create a client for %s: %w", c.Name, err)
	}
	access := realnode.Access{CA: c.path("ca.crt"), Kubelet: c.path("kubelet.kubeconfig"), Proxy: c.path("kube-proxy.kubeconfig")}
	if err := c.node.Start(ctx, access); err != nil {
		return err
	}
	if err := c.Apply(ctx, c.node.DNS()); err != nil {
		return err
	}
	err = waitFor(ctx, "the real node of "+c.Name, func(ctx context.Context) error { return checkNode(ctx, client, realnode.NodeName) })
	if err == nil {
		l.logf("%s: the real node is Ready and has its images", c.Name)
	}
	return err
}

// ImportArchive gives the real node of the cluster the images of an archive of OCI, such as `make image` writes.
func (c *Cluster) ImportArchive(ctx context.Context, file string) error {
	return c.node.ImportArchive(ctx, file)
}

// ImportProgram gives the real node of the cluster an image with one program, whose entrypoint is the program.
func (c *Cluster) ImportProgram(ctx context.Context, image, entrypoint, file string) error {
	return c.node.ImportProgram(ctx, image, entrypoint, file)
}

// releaseNode gives back what the real node of a cluster used of the machine, when all processes have ended.
func (c *Cluster) releaseNode() error {
	if c.slot == nil {
		return nil
	}
	return c.slot.Release()
}
