// Copyright Contributors to the Open Cluster Management project

package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"open-cluster-management.io/knative-addon/pkg/addon"
	"open-cluster-management.io/knative-addon/pkg/render"
	"open-cluster-management.io/knative-addon/pkg/values"
)

// clusterFlags describe the cluster that is rendered for.
type clusterFlags struct {
	values           []string
	deploymentConfig string
}

func (f *clusterFlags) add(flags *pflag.FlagSet) {
	flags.StringArrayVar(&f.values, "cluster-value", nil,
		"a value of the cluster that the resource uses, as name=c1, labels.KEY=x, claims.NAME=x or variables.NAME=x; may be repeated")
	flags.StringVar(&f.deploymentConfig, "addon-deployment-config", "", "file of the AddOnDeploymentConfig that the add-on has on the cluster")
}

// applyTo returns the Install for the cluster.
func (f *clusterFlags) applyTo(install *render.Install) (*render.Install, error) {
	given := map[values.Reference]string{}
	deployment := &addon.Deployment{}
	if f.deploymentConfig != "" {
		var err error
		if deployment, err = readDeployment(f.deploymentConfig); err != nil {
			return nil, err
		}
	}
	for name, value := range deployment.Variables {
		given[values.Reference{Source: values.Variables, Key: name}] = value
	}
	for _, pair := range f.values {
		name, value, ok := strings.Cut(pair, "=")
		if !ok {
			return nil, fmt.Errorf("--cluster-value is %q: use name=c1, labels.KEY=x, claims.NAME=x or variables.NAME=x", pair)
		}
		reference, err := values.ParseReference(name)
		if err != nil {
			return nil, fmt.Errorf("--cluster-value: %w", err)
		}
		given[reference] = value
	}
	return install.On(values.Given(given), deployment.Workloads)
}

func readDeployment(file string) (*addon.Deployment, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("cannot read --addon-deployment-config: %w", err)
	}
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(data, &u.Object); err != nil {
		return nil, fmt.Errorf("cannot read --addon-deployment-config: %w", err)
	}
	if u.GetKind() != "AddOnDeploymentConfig" {
		return nil, fmt.Errorf("--addon-deployment-config names a file of kind %q: it must be an AddOnDeploymentConfig", u.GetKind())
	}
	return addon.DecodeDeployment(u)
}
