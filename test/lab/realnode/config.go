// Copyright Contributors to the Open Cluster Management project

package realnode

import (
	"fmt"
	"os"
	"path/filepath"
)

// containerdConfig keeps the adjustments for the out-of-memory killer that a container may have within what root may do here.
const containerdConfig = `version = 3
disabled_plugins = ["io.containerd.internal.v1.opt"]
[plugins."io.containerd.cri.v1.images"]
  snapshotter = "overlayfs"
  [plugins."io.containerd.cri.v1.images".pinned_images]
    sandbox = "` + pauseImage + `"
[plugins."io.containerd.cri.v1.runtime"]
  restrict_oom_score_adj = true
  [plugins."io.containerd.cri.v1.runtime".cni]
    bin_dirs = ["` + cniDirectory + `"]
    conf_dir = "%s"
[plugins."io.containerd.grpc.v1.cri"]
  stream_server_address = "127.0.0.1"
`

// networkConfig is the network of pods: links between pods and the node, without a bridge.
const networkConfig = `{"cniVersion": "0.4.0", "name": "lab", "plugins": [
  {"type": "ptp", "ipMasq": false, "mtu": 1500, "ipam": {
    "type": "host-local", "ranges": [[{"subnet": "%s"}]], "routes": [{"dst": "0.0.0.0/0"}]}},
  {"type": "portmap", "capabilities": {"portMappings": true}}]}
`

// kubeletConfig takes images from containerd only, and never ends pods for lack of disk: the machine has other users.
const kubeletConfig = `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: %s
healthzBindAddress: 127.0.0.1
readOnlyPort: 0
cgroupDriver: cgroupfs
cgroupRoot: /%s
failCgroupV1: false
failSwapOn: false
containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
authentication: {anonymous: {enabled: false}, webhook: {enabled: true}, x509: {clientCAFile: "%s"}}
authorization: {mode: Webhook}
enforceNodeAllocatable: []
evictionHard: {memory.available: 100Mi, nodefs.available: "1%%", imagefs.available: "1%%"}
clusterDNS: ["%s"]
clusterDomain: cluster.local
resolvConf: ""
nodeStatusUpdateFrequency: 5s
imageGCHighThresholdPercent: 100
registryPullQPS: 0
serializeImagePulls: false
`

const proxyConfig = `apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
bindAddress: %s
healthzBindAddress: 127.0.0.1:10256
metricsBindAddress: 127.0.0.1:10249
clientConnection: {kubeconfig: "%s"}
clusterCIDR: %s
mode: iptables
conntrack: {maxPerCore: 0, min: 0, tcpEstablishedTimeout: 0s, tcpCloseWaitTimeout: 0s}
hostnameOverride: ` + NodeName + `
`

// DNS returns the objects of a DNS server for the cluster of the node.
func (n *Node) DNS() []byte { return fmt.Appendf(nil, dnsObjects, coreDNSImage, n.Slot.dnsAddress()) }

const dnsObjects = `
apiVersion: v1
kind: ServiceAccount
metadata: {name: coredns, namespace: kube-system}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: "system:coredns"}
rules:
- {apiGroups: [""], resources: [services, pods, namespaces], verbs: [list, watch]}
- {apiGroups: [discovery.k8s.io], resources: [endpointslices], verbs: [list, watch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: "system:coredns"}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: "system:coredns"}
subjects: [{kind: ServiceAccount, name: coredns, namespace: kube-system}]
---
apiVersion: v1
kind: ConfigMap
metadata: {name: coredns, namespace: kube-system}
data:
  Corefile: |
    .:53 {
        errors
        health
        ready
        kubernetes cluster.local in-addr.arpa {
            ttl 5
        }
        cache 5
    }
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: coredns, namespace: kube-system}
spec:
  selector: {matchLabels: {k8s-app: kube-dns}}
  template:
    metadata: {labels: {k8s-app: kube-dns}}
    spec:
      serviceAccountName: coredns
      dnsPolicy: Default
      containers:
      - name: coredns
        image: %s
        imagePullPolicy: Never
        args: [-conf, /etc/coredns/Corefile]
        readinessProbe: {httpGet: {path: /ready, port: 8181}, periodSeconds: 1, timeoutSeconds: 10}
        volumeMounts: [{name: config, mountPath: /etc/coredns, readOnly: true}]
      volumes: [{name: config, configMap: {name: coredns}}]
---
apiVersion: v1
kind: Service
metadata: {name: kube-dns, namespace: kube-system}
spec:
  clusterIP: %s
  selector: {k8s-app: kube-dns}
  ports: [{name: dns, port: 53, protocol: UDP}, {name: dns-tcp, port: 53, protocol: TCP}]
`

// writeConfigs writes the configuration of every program.
func (n *Node) writeConfigs() error {
	network := n.path("network")
	for name, content := range map[string]string{
		"containerd.toml":         fmt.Sprintf(containerdConfig, network),
		"network/10-lab.conflist": fmt.Sprintf(networkConfig, n.Slot.podRange()),
		"kubelet.yaml":            fmt.Sprintf(kubeletConfig, n.Slot.NodeAddress(), n.Slot.Group(), n.access.CA, n.Slot.dnsAddress()),
		"kube-proxy.yaml":         fmt.Sprintf(proxyConfig, n.Slot.NodeAddress(), n.access.Proxy, n.Slot.podRange()),
	} {
		if err := os.MkdirAll(filepath.Dir(n.path(name)), 0o755); err != nil {
			return fmt.Errorf("cannot create the directory of a node: %w", err)
		}
		if err := os.WriteFile(n.path(name), []byte(content), 0o600); err != nil {
			return fmt.Errorf("cannot write the configuration of a node: %w", err)
		}
	}
	return nil
}
