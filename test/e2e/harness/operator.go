// Copyright Contributors to the Open Cluster Management project

package harness

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"open-cluster-management.io/knative-addon/test/lab"
	"open-cluster-management.io/knative-addon/test/lab/process"
	"open-cluster-management.io/knative-addon/test/lab/tools"
)

// KnativeOperator is the Knative Operator of the pinned release, which installs on the clusters of ClusterProfiles too.
type KnativeOperator struct {
	program, files string
}

// BuildKnativeOperator builds the Knative Operator.
func BuildKnativeOperator(ctx context.Context) (KnativeOperator, error) {
	bin, err := tools.Build(ctx, tools.Set{tools.KnativeOperator}, os.Stderr)
	if err != nil {
		return KnativeOperator{}, err
	}
	return KnativeOperator{program: bin.Path(tools.KnativeOperator), files: bin.Path("knative-operator-files")}, nil
}

// Apply applies the CRDs and the configuration of the Knative Operator to its hub.
func (o KnativeOperator) Apply(ctx context.Context, hub *lab.Cluster) error {
	files, err := filepath.Glob(filepath.Join(o.files, "config", "crd", "bases", "*.yaml"))
	if err != nil {
		return err
	}
	for _, file := range files {
		stream, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if err := hub.Apply(ctx, stream); err != nil {
			return err
		}
	}
	return hub.Apply(ctx, []byte(`
apiVersion: v1
kind: Namespace
metadata: {name: knative-operator}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: config-logging, namespace: knative-operator}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: config-observability, namespace: knative-operator}
`))
}

// Run runs the Knative Operator as administrator of a hub with a file of access providers, as a component of the lab with the name
// tools.KnativeOperator, and waits until its controllers run.
func (o KnativeOperator) Run(ctx context.Context, l *lab.Lab, hub *lab.Cluster, providers string) error {
	var ports [2]int
	for i := range ports {
		var err error
		if ports[i], err = l.Port(); err != nil {
			return err
		}
	}
	p, err := l.Run(process.Spec{
		Name: tools.KnativeOperator, Path: o.program, Dir: l.Dir,
		Args: []string{"--kubeconfig=" + hub.Kubeconfig, "--clusterprofile-provider-file=" + providers, "--disable-ha"},
		Env: []string{
			"KO_DATA_PATH=" + filepath.Join(o.files, "cmd", "operator", "kodata"), "SYSTEM_NAMESPACE=knative-operator", "POD_NAME=knative-operator-0",
			"METRICS_DOMAIN=knative.dev/operator", "CONFIG_LOGGING_NAME=config-logging", "CONFIG_OBSERVABILITY_NAME=config-observability",
			"METRICS_PROMETHEUS_HOST=127.0.0.1", fmt.Sprintf("METRICS_PROMETHEUS_PORT=%d", ports[0]), fmt.Sprintf("PROFILING_PORT=%d", ports[1]),
		},
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	return p.WaitReady(ctx, func(context.Context) error {
		log, err := os.ReadFile(p.LogFile())
		if n := strings.Count(string(log), "Started workers"); err == nil && n < 2 {
			err = fmt.Errorf("%d of 2 controllers run", n)
		}
		return err
	})
}
