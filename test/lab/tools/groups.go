// Copyright Contributors to the Open Cluster Management project

package tools

import (
	"path"
	"slices"
	"strings"
)

// Versions of the programs that report them; the modules' go.mod files pin the same.
const (
	KubernetesVersion = "v1.35.4"
	OCMVersion        = "v1.2.1"
	ClusteradmVersion = "v1.3.1"
	HelmVersion       = "v3.20.2"
	kwokModule        = "sigs.k8s.io/kwok"
	operatorModule    = "knative.dev/operator"
	argoModule        = "github.com/argoproj/argo-cd/v3"
	proxyModule       = "open-cluster-management.io/cluster-proxy"
	accountsModule    = "open-cluster-management.io/managed-serviceaccount"
)

// releasedCollector builds Kubernetes with the garbage collector of Go 1.25, the version of Go of its release. With the collector of Go 1.26, the API
// server of a hub of 1,000 clusters spent half of its CPU in sweeps.
const releasedCollector = "nogreenteagc"

// program is a program that one command `go build` makes.
type program struct {
	name    string
	pkg     string
	ldflags string
	links   []string // further names of a multi-call program
}

// group is a module whose programs are built and cached together.
type group struct {
	name     string
	programs []program
	// experiment is the GOEXPERIMENT of the builds.
	experiment string
	// edits change single lines of dependencies before they are compiled.
	edits []edit
	// stream names files of a module, which the build joins to one YAML stream in the cache. The build copies directories of the module
	// unchanged, below one directory with the name of the stream.
	stream moduleFiles
}

// edit replaces text that occurs once in a file of a module; a build fails when it does not.
type edit struct {
	module, file, old, new string
}

// loopbackOnly returns the edits that make Knative's programs listen on 127.0.0.1, because the programs have no option for an address.
func loopbackOnly() []edit {
	const pkg = "knative.dev/pkg"
	return []edit{
		{pkg, "webhook/webhook.go", `fmt.Sprint(":", wh.Options.Port)`, `fmt.Sprint("127.0.0.1:", wh.Options.Port)`},
		{pkg, "profiling/server.go", `":" + port,`, `"127.0.0.1:" + port,`},
		{pkg, "injection/health_check.go", `Addr: ":" + strconv.Itoa(port)`, `Addr: "127.0.0.1:" + strconv.Itoa(port)`},
	}
}

// podless makes the programs of cluster-proxy run outside of a pod: they listen on a loopback address, and find the files of a
// container below their working directory. The programs have no options for this.
func podless() []edit {
	const (
		user, service, agent = "pkg/userserver/user_server.go", "pkg/serviceproxy/service_proxy.go", "cmd/addon-agent/main.go"
		account              = "var/run/secrets/kubernetes.io/serviceaccount/"
	)
	return []edit{
		{proxyModule, user, `ServeHealthProbes(":8000"`, `ServeHealthProbes("127.0.0.1:0"`},
		{proxyModule, user, `fmt.Sprintf(":%d", k.serverPort)`, `fmt.Sprintf("127.0.0.1:%d", k.serverPort)`},
		{proxyModule, service, `ServeHealthProbes(":8000"`, `ServeHealthProbes("127.0.0.1:0"`},
		{proxyModule, service, `fmt.Sprintf(":%d", constant.ServiceProxyPort)`, `fmt.Sprintf("%s:%d", os.Getenv("POD_IP"), constant.ServiceProxyPort)`},
		{proxyModule, service, `"/` + account + `ca.crt"`, `"` + account + `ca.crt"`},
		{proxyModule, service, `"/` + account + `token"`, `"` + account + `token"`},
		{
			proxyModule, service, "config, err := rest.InClusterConfig()",
			`var config *rest.Config` + "\n\t" + `config, err = clientcmd.BuildConfigFromFlags("", "` + account + `kubeconfig")`,
		},
		{proxyModule, agent, `":8888"`, `"127.0.0.1:0"`},
		{proxyModule, agent, `"/etc/tls/tls.crt", "/etc/tls/tls.key"`, `"etc/tls/tls.crt", "etc/tls/tls.key"`},
	}
}

type moduleFiles struct {
	module string
	name   string
	paths  []string
}

func groups() []group {
	return append([]group{
		{name: "kube", experiment: releasedCollector, programs: []program{{
			name: "kube", pkg: ".",
			links:   []string{"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl"},
			ldflags: versionFlags(),
		}}},
		{name: "ocm", programs: []program{{
			name: "ocm", pkg: ".", ldflags: "-X open-cluster-management.io/ocm/pkg/version.versionFromGit=" + OCMVersion,
		}}},
		{
			name: "kwok", programs: []program{{name: "kwok", pkg: kwokModule + "/cmd/kwok"}},
			stream: moduleFiles{module: kwokModule, name: "kwok-stages.yaml", paths: []string{
				"kustomize/stage/node/fast/node-initialize.yaml",
				"kustomize/stage/node/heartbeat-with-lease/node-heartbeat-with-lease.yaml",
				"kustomize/stage/pod/fast/pod-ready.yaml",
				"kustomize/stage/pod/fast/pod-complete.yaml",
				"kustomize/stage/pod/fast/pod-delete.yaml",
			}},
		},
		{name: "cli", programs: []program{
			{
				name: "clusteradm", pkg: "open-cluster-management.io/clusteradm/cmd/clusteradm",
				ldflags: "-X open-cluster-management.io/clusteradm/pkg/version.versionFromGit=" + ClusteradmVersion,
			},
			{name: "helm", pkg: "helm.sh/helm/v3/cmd/helm", ldflags: "-X helm.sh/helm/v3/internal/version.version=" + HelmVersion},
		}},
		{name: "knative", edits: loopbackOnly(), programs: []program{
			{name: "serving-webhook", pkg: "knative.dev/serving/cmd/webhook"},
			{name: "eventing-webhook", pkg: "knative.dev/eventing/cmd/webhook"},
			{name: "secretreader", pkg: "sigs.k8s.io/cluster-inventory-api/plugins/secretreader/cmd/plugin"},
			{name: "kubeconfig-secretreader", pkg: "sigs.k8s.io/cluster-inventory-api/plugins/kubeconfig-secretreader/cmd/plugin"},
		}},
		{name: "knative-controllers", edits: loopbackOnly(), programs: []program{
			{name: "serving-controller", pkg: "knative.dev/serving/cmd/controller"},
			{name: "eventing-controller", pkg: "knative.dev/eventing/cmd/controller"},
		}},
		{
			name: "knative-operator", edits: append(loopbackOnly(), edit{ // any free port, so that two labs can run it
				"knative.dev/pkg", "injection/sharedmain/main.go", "ServeHealthProbes(ctx, injection.HealthCheckDefaultPort)", "ServeHealthProbes(ctx, 0)",
			}),
			programs: []program{{name: "knative-operator", pkg: operatorModule + "/cmd/operator"}},
			stream:   moduleFiles{module: operatorModule, name: "knative-operator-files", paths: []string{"cmd/operator/kodata", "config/crd/bases"}},
		},
		{
			name: "argocd", programs: []program{{name: "argocd-applicationset-controller", pkg: "."}},
			stream: moduleFiles{module: argoModule, name: "argocd.yaml", paths: []string{
				"manifests/crds/application-crd.yaml",
				"manifests/crds/applicationset-crd.yaml",
				"manifests/crds/appproject-crd.yaml",
				"manifests/base/applicationset-controller/argocd-applicationset-controller-sa.yaml",
				"manifests/base/applicationset-controller/argocd-applicationset-controller-role.yaml",
				"manifests/base/config/argocd-cm.yaml",
				"manifests/base/config/argocd-secret.yaml",
			}},
		},
	}, slices.Concat(nodeGroups(), proxyGroups())...)
}

// nodeGroups are the programs of real nodes and of their images.
func nodeGroups() []group {
	return []group{
		{name: "kube-node", experiment: releasedCollector, programs: []program{
			{name: "kubelet", pkg: "k8s.io/kubernetes/cmd/kubelet", ldflags: versionFlags()},
			{name: "kube-proxy", pkg: "k8s.io/kubernetes/cmd/kube-proxy", ldflags: versionFlags()},
		}},
		{name: "containerd", programs: []program{
			{name: "containerd", pkg: "github.com/containerd/containerd/v2/cmd/containerd"},
			{name: "containerd-shim-runc-v2", pkg: "github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2"},
			{name: "ctr", pkg: "github.com/containerd/containerd/v2/cmd/ctr"},
		}},
		{name: "node", programs: []program{
			{name: "init", pkg: "./init"},
			{name: "pause", pkg: "./pause"},
			{name: "hello", pkg: "./hello"},
			{name: "sink", pkg: "./sink"},
			{name: "gateway", pkg: "./gateway"},
			{name: "coredns", pkg: "./coredns"},
		}},
		{name: "knative-serving", programs: servingPrograms(), stream: moduleFiles{module: operatorModule, name: "release-files", paths: []string{
			"cmd/operator/kodata/knative-serving/1.23.0", "cmd/operator/kodata/ingress/1.23/kourier",
			"cmd/operator/kodata/knative-serving/1.22.1", "cmd/operator/kodata/ingress/1.22/kourier",
		}}},
		{name: "knative-eventing", programs: eventingPrograms(), stream: moduleFiles{
			module: operatorModule, name: "eventing-release-files", paths: []string{"cmd/operator/kodata/knative-eventing/1.23.0"},
		}},
	}
}

// proxyGroups are the add-ons that give the hub access to managed clusters.
func proxyGroups() []group {
	return []group{
		{
			name: "cluster-proxy", edits: podless(), programs: []program{
				{name: "cluster-proxy", pkg: ".", links: []string{"proxy-server", "proxy-agent"}},
				{name: "cluster-proxy-manager", pkg: proxyModule + "/cmd/addon-manager"},
				{name: "cluster-proxy-agent", pkg: proxyModule + "/cmd/addon-agent"},
			},
			stream: moduleFiles{module: proxyModule, name: "cluster-proxy-files", paths: []string{"charts/cluster-proxy"}},
		},
		{
			name:  "cluster-proxy-accounts",
			edits: []edit{{accountsModule, "cmd/agent/agent.go", `serveHealthProbes(":8000"`, `serveHealthProbes("127.0.0.1:0"`}},
			programs: []program{
				{name: "msa", pkg: accountsModule + "/cmd"},
				{name: "cp-creds", pkg: accountsModule + "/cmd/clusterprofile-credentials-plugin"},
			},
			stream: moduleFiles{module: accountsModule, name: "managed-serviceaccount-files", paths: []string{"charts/managed-serviceaccount"}},
		},
	}
}

// versionFlags make a program of Kubernetes report its version.
func versionFlags() string {
	const component = "k8s.io/component-base/version."
	return "-X " + component + "gitVersion=" + KubernetesVersion + " -X " + component + "gitMajor=1 -X " + component + "gitMinor=35" +
		" -X " + component + "gitTreeState=clean -X " + component + "buildDate=2026-01-01T00:00:00Z"
}

// servingPrograms are what the images of Knative Serving and of Kourier's controller run, unedited.
func servingPrograms() []program {
	out := []program{
		{name: "cleanup", pkg: "knative.dev/serving/pkg/cleanup/cmd/cleanup"},
		{name: "migrate", pkg: "knative.dev/pkg/apiextensions/storageversion/cmd/migrate"},
		{name: "kourier", pkg: "knative.dev/net-kourier/cmd/kourier"},
	}
	for _, name := range []string{"activator", "autoscaler", "autoscaler-hpa", "controller", "webhook", "queue"} {
		out = append(out, program{name: name, pkg: "knative.dev/serving/cmd/" + name})
	}
	return out
}

// EventingCommands returns the commands of Knative Eventing that are images of the release, by their path below knative.dev/eventing/cmd.
// The adapter of ApiServerSources is missing, because no test creates an ApiServerSource.
func EventingCommands() []string {
	return []string{
		"auth_proxy", "broker/filter", "broker/ingress", "controller", "in_memory/channel_controller", "in_memory/channel_dispatcher", "jobsink",
		"mtchannel_broker", "mtping", "requestreply", "webhook",
	}
}

// EventingProgram returns the lab's name of a command of Knative Eventing.
func EventingProgram(command string) string {
	return "knative-eventing-" + strings.ReplaceAll(path.Base(command), "_", "-")
}

// eventingPrograms returns the programs of the images of Knative Eventing, unedited.
func eventingPrograms() []program {
	var out []program
	for _, command := range EventingCommands() {
		out = append(out, program{name: EventingProgram(command), pkg: "knative.dev/eventing/cmd/" + command})
	}
	return out
}

// dir is the module directory of the group below the tools directory.
func (g group) dir() string {
	for _, module := range []string{Kube, Knative, ClusterProxy} {
		if strings.HasPrefix(g.name, module+"-") {
			return module
		}
	}
	return g.name
}
