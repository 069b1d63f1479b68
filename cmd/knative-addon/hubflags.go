// Copyright Contributors to the Open Cluster Management project

package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/installations"
)

// hubFlags are the flags that name the hub and the namespace.
type hubFlags struct {
	kubeconfig, context, namespace string
}

// add adds the flags; usage describes the namespace.
func (f *hubFlags) add(cmd *cobra.Command, usage string) {
	flags := cmd.Flags()
	flags.StringVar(&f.kubeconfig, "kubeconfig", "", "kubeconfig of the hub; empty means KUBECONFIG, or ~/.kube/config")
	flags.StringVar(&f.context, "context", "", "context of --kubeconfig; empty means the current context")
	flags.StringVarP(&f.namespace, "namespace", "n", "", usage)
	_ = cmd.RegisterFlagCompletionFunc("namespace", f.completeNamespaces) // the command has the flag
}

func (f *hubFlags) connect() (*installations.Hub, error) {
	config, err := load(f.kubeconfig, f.context).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("cannot read the hub's kubeconfig: %w; name the kubeconfig with --kubeconfig or KUBECONFIG, and the context with --context", err)
	}
	return installations.Connect(config)
}

// selectionFlags are the flags that select installations.
type selectionFlags struct {
	hubFlags
	component, mode, selector string
	allNamespaces             bool
}

func (f *selectionFlags) add(cmd *cobra.Command) {
	f.hubFlags.add(cmd, "list only objects of this namespace; empty means all namespaces")
	flags := cmd.Flags()
	flags.BoolVarP(&f.allNamespaces, "all-namespaces", "A", false, "list the objects of all namespaces, as without --namespace")
	cmd.MarkFlagsMutuallyExclusive("namespace", "all-namespaces")
	flags.StringVar(&f.component, "component", "", "select a component: serving or eventing")
	flags.StringVar(&f.mode, "mode", "", "select a delivery mode: ManifestWork, Direct or Unknown")
	registerFlagValues(cmd, "component", "serving", "eventing")
	registerFlagValues(cmd, "mode", string(api.ModeManifestWork), string(api.ModeDirect), string(installations.ModeUnknown))
	flags.StringVarP(&f.selector, "selector", "l", "", "select clusters by the labels of ManagedClusters and ClusterProfiles")
}

// selection holds the hub and the filter that the flags and the arguments of a command name.
type selection struct {
	hub    *installations.Hub
	query  installations.Query
	filter installations.Filter
}

// parse returns the selection, and reads the clusters of --selector.
func (f *selectionFlags) parse(cmd *cobra.Command, names []string) (*selection, error) {
	components, err := installations.ParseComponents(f.component)
	if err != nil {
		return nil, err
	}
	mode, err := installations.ParseMode(f.mode)
	if err != nil {
		return nil, err
	}
	hub, err := f.connect()
	if err != nil {
		return nil, err
	}
	out := &selection{
		hub: hub, query: installations.Query{Namespace: f.namespace, Components: components},
		filter: installations.Filter{Names: names, Mode: mode},
	}
	if f.selector == "" {
		return out, nil
	}
	clusters, failed := hub.SelectClusters(cmd.Context(), out.query, f.selector)
	if len(failed) > 0 && (len(clusters) == 0 || f.namespace == "") { // the selection would lack clusters
		return nil, failed[0]
	}
	printListErrors(cmd.ErrOrStderr(), failed)
	out.filter.Clusters = clusters
	return out, nil
}

// printListErrors prints the lists without a result.
func printListErrors(out io.Writer, failed []*installations.ListError) {
	for _, e := range failed {
		fmt.Fprintf(out, "warning: %v\n", e)
	}
}

// checkLists returns an error when the result lacks installations. A hub that does not answer has one error for all lists. A list that fills a
// column alone ends no command: the caller prints the error as a warning.
func checkLists(failed []*installations.ListError) error {
	var errs []error
	for _, e := range failed {
		switch {
		case e.IsOptional:
		case installations.IsUnanswered(e):
			return e
		default:
			errs = append(errs, e)
		}
	}
	return errors.Join(errs...)
}

// describeComponents names the components of a selection for messages.
func describeComponents(components []api.Component) string {
	if len(components) == 1 {
		return string(components[0])
	}
	return "Knative"
}
