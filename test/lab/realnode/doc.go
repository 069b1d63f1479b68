// Copyright Contributors to the Open Cluster Management project

// Package realnode runs a real node for a cluster of the lab: containerd, kubelet and kube-proxy in namespaces of their own, with
// images that are made from the lab's programs without a container engine.
//
// Everything that a node runs is in one PID namespace: when the process of component "<cluster>-node" ends, also by SIGKILL of the
// lab, the kernel ends all pods, and removes mounts and networks. What stays is control groups without processes, which Release or
// the next ClaimSlot removes.
//
// Slots keep nodes apart: each has networks, a device and a control group of its own.
package realnode
