// Copyright Contributors to the Open Cluster Management project

package main

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation"

	"open-cluster-management.io/knative-addon/pkg/resolve"
	"open-cluster-management.io/knative-addon/pkg/trust"
)

// referenceFlags say which ClusterProfiles may be referred to from where, and which namespace is the add-on's own.
type referenceFlags struct {
	addOnNamespace string
	allowed        []string
}

func (f *referenceFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.addOnNamespace, "addon-namespace", os.Getenv("POD_NAMESPACE"),
		"namespace of the add-on, whose resources are trusted unless --trusted-namespaces names others; from POD_NAMESPACE when not set")
	flags.StringArrayVar(&f.allowed, "allowed-reference", nil,
		"FROM=TO: resources in namespace FROM may also refer to ClusterProfiles in namespace TO; * is every namespace. May be repeated")
}

func (f *referenceFlags) parsePolicy() (resolve.ReferencePolicy, error) {
	policy := resolve.ReferencePolicy{Allowed: map[string][]string{}}
	for _, pair := range f.allowed {
		from, to, ok := strings.Cut(pair, "=")
		if !ok || slices.ContainsFunc([]string{from, to}, invalidNamespace) {
			return policy, fmt.Errorf("cannot use --allowed-reference=%q: it has to be FROM=TO, both the name of a namespace or *", pair)
		}
		policy.Allowed[from] = append(policy.Allowed[from], to)
	}
	if f.addOnNamespace != "" && invalidNamespace(f.addOnNamespace) {
		return policy, fmt.Errorf("cannot use --addon-namespace=%q: it has to be the name of a namespace", f.addOnNamespace)
	}
	return policy, nil
}

func invalidNamespace(name string) bool {
	return name != resolve.AnyNamespace && len(validation.IsDNS1123Label(name)) > 0
}

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
