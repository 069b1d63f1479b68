// Copyright Contributors to the Open Cluster Management project

package main

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"open-cluster-management.io/knative-addon/docs"
	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/explanation"
	"open-cluster-management.io/knative-addon/pkg/installations"
)

// completionTimeout is the time after which a shell gets no words from the hub.
const completionTimeout = 5 * time.Second

// listHub returns the objects of a namespace for a completion; none when the hub does not answer, because a shell shows no error.
func (f *hubFlags) listHub(ctx context.Context, namespace string) installations.Objects {
	hub, err := f.connect()
	if err != nil {
		return installations.Objects{}
	}
	ctx, cancel := context.WithTimeout(ctx, completionTimeout)
	defer cancel()
	objects, _ := hub.List(ctx, installations.Query{Namespace: namespace, Components: api.Components()})
	return objects
}

// selectWords returns the words with a prefix, sorted and unique, without the words that the command line has already.
func selectWords(words []string, prefix string, given ...string) []string {
	slices.Sort(words)
	return slices.DeleteFunc(slices.Compact(words), func(word string) bool {
		return word == "" || !strings.HasPrefix(word, prefix) || slices.Contains(given, word)
	})
}

// completeClusters completes the names of clusters.
func (f *hubFlags) completeClusters(cmd *cobra.Command, given []string, prefix string) ([]string, cobra.ShellCompDirective) {
	var words []string
	for _, i := range installations.Compose(f.listHub(cmd.Context(), f.namespace)) {
		words = append(words, i.Cluster)
	}
	return selectWords(words, prefix, given...), cobra.ShellCompDirectiveNoFileComp
}

// completeClustersAndResources completes the names of clusters, and namespace/name of resources.
func (f *hubFlags) completeClustersAndResources(cmd *cobra.Command, given []string, prefix string) ([]string, cobra.ShellCompDirective) {
	var words []string
	for _, i := range installations.Compose(f.listHub(cmd.Context(), f.namespace)) {
		words = append(words, i.Cluster)
		if i.Object.Kind == i.Component.Kind() {
			words = append(words, i.Object.Namespace+"/"+i.Object.Name)
		}
	}
	return selectWords(words, prefix, given...), cobra.ShellCompDirectiveNoFileComp
}

// completeTree completes a cluster and then a component.
func (f *hubFlags) completeTree(cmd *cobra.Command, given []string, prefix string) ([]string, cobra.ShellCompDirective) {
	switch len(given) {
	case 0:
		return f.completeClusters(cmd, given, prefix)
	case 1:
		return selectWords([]string{"serving", "eventing"}, prefix), cobra.ShellCompDirectiveNoFileComp
	default:
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
}

// completeObjects completes KIND/NAME of the kinds: first the kinds, and then the names in --namespace.
func (c *requestCommand) completeObjects(cmd *cobra.Command, given []string, prefix string) ([]string, cobra.ShellCompDirective) {
	if len(given) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	kind, _, isKnown := strings.Cut(prefix, "/")
	if !isKnown {
		var words []string
		for _, kind := range c.kinds {
			words = append(words, strings.ToLower(kind)+"/")
		}
		return selectWords(words, prefix), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	}
	return selectWords(c.listObjects(cmd.Context(), kind), prefix), cobra.ShellCompDirectiveNoFileComp
}

// listObjects returns KIND/NAME of the objects of a kind in --namespace.
func (c *requestCommand) listObjects(ctx context.Context, kind string) []string {
	if kind == strings.ToLower(installations.DefinitionKind) {
		return []string{kind + "/" + api.Serving.AddOnName(), kind + "/" + api.Eventing.AddOnName()}
	}
	objects := c.listHub(ctx, c.namespace)
	var out []string
	for _, addOn := range objects.AddOns {
		if kind == strings.ToLower(installations.AddOnKind) {
			out = append(out, kind+"/"+addOn.Name)
		}
	}
	for _, fleet := range objects.Fleets {
		if kind == strings.ToLower(installations.FleetKind) {
			out = append(out, kind+"/"+fleet.GetName())
		}
	}
	for component, resources := range objects.Resources {
		for _, u := range resources {
			if kind == strings.ToLower(component.Kind()) {
				out = append(out, kind+"/"+u.GetName())
			}
		}
	}
	return out
}

// completeNamespaces completes the namespaces of resources and add-ons. The list of all namespaces would need a further permission.
func (f *hubFlags) completeNamespaces(cmd *cobra.Command, _ []string, prefix string) ([]string, cobra.ShellCompDirective) {
	objects := f.listHub(cmd.Context(), "")
	var words []string
	for _, addOn := range objects.AddOns {
		words = append(words, addOn.Namespace)
	}
	for _, resources := range objects.Resources {
		for _, u := range resources {
			words = append(words, u.GetNamespace())
		}
	}
	return selectWords(words, prefix), cobra.ShellCompDirectiveNoFileComp
}

// completeReasons completes the reasons of the documentation.
func completeReasons(_ *cobra.Command, given []string, prefix string) ([]string, cobra.ShellCompDirective) {
	book, err := explanation.Read(docs.Pages)
	if err != nil || len(given) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var words []string
	for _, r := range book.Reasons() {
		words = append(words, r.Name)
	}
	return selectWords(words, prefix), cobra.ShellCompDirectiveNoFileComp
}

// registerFlagValues completes a flag with fixed values.
func registerFlagValues(cmd *cobra.Command, flag string, allowed ...string) {
	_ = cmd.RegisterFlagCompletionFunc(flag, func(_ *cobra.Command, _ []string, prefix string) ([]string, cobra.ShellCompDirective) {
		return selectWords(slices.Clone(allowed), prefix), cobra.ShellCompDirectiveNoFileComp
	}) // the command has the flag
}
