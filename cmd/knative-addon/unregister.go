// Copyright Contributors to the Open Cluster Management project

package main

import (
	"fmt"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdv1 "k8s.io/client-go/tools/clientcmd/api/v1"

	"open-cluster-management.io/knative-addon/pkg/register"
)

// registeredClusters are the flags that name a registration, the hub and the registered cluster.
type registeredClusters struct {
	namespace                 string
	kubeconfig, context       string
	hubKubeconfig, hubContext string
}

// add adds the flags; usage describes the kubeconfig of the registered cluster.
func (f *registeredClusters) add(cmd *cobra.Command, usage string) {
	flags := cmd.Flags()
	flags.StringVarP(&f.namespace, "namespace", "n", "", "namespace of the ClusterProfile on the hub, which has to be an inventory of the manager")
	_ = cmd.MarkFlagRequired("namespace") // the command has the flag
	flags.StringVar(&f.kubeconfig, "kubeconfig", "", usage)
	flags.StringVar(&f.context, "context", "", "context of --kubeconfig; empty means the current context")
	flags.StringVar(&f.hubKubeconfig, "hub-kubeconfig", "", "kubeconfig of the hub; empty means KUBECONFIG, or ~/.kube/config")
	flags.StringVar(&f.hubContext, "hub-context", "", "context of the hub's kubeconfig; empty means the current context")
}

func (f *registeredClusters) parseProfile(name string) (types.NamespacedName, error) {
	if len(validation.IsDNS1123Subdomain(name)) > 0 {
		return types.NamespacedName{}, fmt.Errorf("cannot use NAME %q: a ClusterProfile has a name of lower-case letters, digits, hyphens and dots", name)
	}
	if len(validation.IsDNS1123Label(f.namespace)) > 0 {
		return types.NamespacedName{}, fmt.Errorf("cannot use --namespace=%q: it has to be the name of a namespace", f.namespace)
	}
	return types.NamespacedName{Namespace: f.namespace, Name: name}, nil
}

// load returns the configuration of a kubeconfig and a context; empty texts mean the defaults of kubectl.
func load(kubeconfig, context string) clientcmd.ClientConfig {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = kubeconfig
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: context})
}

// connectHub returns the hub.
func (f *registeredClusters) connectHub() (*register.Cluster, error) {
	config, err := load(f.hubKubeconfig, f.hubContext).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("cannot read the hub's kubeconfig: %w; name the kubeconfig with --hub-kubeconfig or KUBECONFIG, and the context with --hub-context", err)
	}
	return register.Connect("the hub", config)
}

// connectCluster returns the registered cluster.
func (f *registeredClusters) connectCluster() (*register.Cluster, error) {
	config, err := f.readClusterConfig()
	if err != nil {
		return nil, err
	}
	return register.Connect("the cluster of --kubeconfig", config)
}

func (f *registeredClusters) readClusterConfig() (*rest.Config, error) {
	config, err := load(f.kubeconfig, f.context).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("cannot read --kubeconfig=%q: %w; name a kubeconfig of the cluster, and a context with --context", f.kubeconfig, err)
	}
	return config, nil
}

// connectBoth returns the hub and the registered cluster.
func (f *registeredClusters) connectBoth() (hub, cluster *register.Cluster, err error) {
	if cluster, err = f.connectCluster(); err != nil {
		return nil, nil, err
	}
	hub, err = f.connectHub()
	return hub, cluster, err
}

// readEndpoint returns the address of the registered cluster for the ClusterProfile.
func (f *registeredClusters) readEndpoint(opts register.EndpointOptions) (clientcmdv1.Cluster, error) {
	raw, err := load(f.kubeconfig, f.context).RawConfig()
	if err != nil {
		return clientcmdv1.Cluster{}, fmt.Errorf("cannot read --kubeconfig=%q: %w", f.kubeconfig, err)
	}
	if f.context != "" {
		raw.CurrentContext = f.context
	}
	out, err := register.ReadEndpoint(&raw, opts)
	if err != nil {
		return clientcmdv1.Cluster{}, fmt.Errorf("cannot register --kubeconfig=%q: %w", f.kubeconfig, err)
	}
	return out, nil
}

const unregisterExample = `  # Delete ClusterProfile and Secret on the hub, and ServiceAccount and permissions on the cluster:
  knative-addon unregister edge-7 --namespace team --kubeconfig edge-7.yaml

  # Leave the objects on a cluster that does not exist any more:
  knative-addon unregister edge-7 --namespace team`

func newUnregisterCommand() *cobra.Command {
	var f registeredClusters
	cmd := &cobra.Command{
		Use: "unregister NAME --namespace NAMESPACE", Args: cobra.ExactArgs(1),
		Short: "Disconnect a cluster that `knative-addon register` has connected",
		Long: "Deletes the ClusterProfile and the Secret of the hub, and with --kubeconfig the ServiceAccount, its permissions and the Namespaces that " +
			"`knative-addon register` has created on the cluster. A Namespace with content stays. The command refuses a ClusterProfile to which a " +
			"KnativeServing or KnativeEventing refers: delete the resource first, so that the manager removes Knative from the cluster.",
		Example: unregisterExample,
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.runUnregister(cmd, args[0])
		},
	}
	f.add(cmd, "kubeconfig of the cluster, with the permissions of an administrator; without the flag the objects on the cluster stay")
	return cmd
}

func (f *registeredClusters) runUnregister(cmd *cobra.Command, name string) error {
	profile, err := f.parseProfile(name)
	if err != nil {
		return err
	}
	hub, err := f.connectHub()
	if err != nil {
		return err
	}
	var cluster *register.Cluster
	if f.kubeconfig != "" {
		if cluster, err = f.connectCluster(); err != nil {
			return err
		}
	}
	removal, err := register.CheckRemoval(cmd.Context(), hub, cluster, profile)
	if err != nil {
		return err
	}
	removed, kept, err := removal.Run(cmd.Context())
	out := cmd.OutOrStdout()
	for _, o := range removed {
		fmt.Fprintf(out, "deleted %s\n", o)
	}
	for _, o := range kept {
		fmt.Fprintf(out, "kept %s\n", o)
	}
	if err == nil && cluster == nil {
		fmt.Fprintln(out, "kept ServiceAccount, token, permissions and Namespaces on the cluster: run the command again with --kubeconfig to delete the objects of this registration there")
	}
	return err
}
