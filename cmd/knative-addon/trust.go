// Copyright Contributors to the Open Cluster Management project

package main

import (
	"fmt"
	"slices"

	"github.com/spf13/pflag"

	"open-cluster-management.io/knative-addon/pkg/trust"
)

// trustFlags are the administrator's decision about the authors of resources; the manager and the offline commands have
// the same flags.
type trustFlags struct{ namespaces, imageRegistries []string }

func (f *trustFlags) add(flags *pflag.FlagSet) {
	flags.StringSliceVar(&f.namespaces, "trusted-namespaces", nil,
		`namespaces whose resources may bring permissions, webhooks, privileged pods and foreign images, adopt installations and delete users' resources; "*" is every namespace; the add-on's own namespace by default`)
	flags.StringSliceVar(&f.imageRegistries, "allowed-image-registries", nil,
		"prefixes of images, as registry.example.com/mirror, that resources of every namespace may use besides the registries of Knative's releases")
}

// parsePolicy returns the trust policy of a manager whose own namespace is addOnNamespace.
func (f *trustFlags) parsePolicy(addOnNamespace string) (trust.Policy, error) {
	for _, namespace := range f.namespaces {
		if invalidNamespace(namespace) {
			return trust.Policy{}, fmt.Errorf("cannot use --trusted-namespaces=%q: each entry has to be the name of a namespace or *", namespace)
		}
	}
	policy := trust.Policy{Namespaces: slices.Clone(f.namespaces), ImageRegistries: slices.Clone(f.imageRegistries)}
	if len(policy.Namespaces) == 0 && addOnNamespace != "" {
		policy.Namespaces = []string{addOnNamespace}
	}
	return policy, nil
}
