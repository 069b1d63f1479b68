// Copyright Contributors to the Open Cluster Management project

package main

import (
	"github.com/spf13/pflag"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/render"
	"open-cluster-management.io/knative-addon/pkg/trust"
)

// renderFlags are the administrator's decisions about rendering. The manager and the offline commands share the flags, so
// that the offline commands print the objects that the manager delivers.
type renderFlags struct {
	allowedHosts, allowedKinds     []string
	allowedNetworks                []string
	keepDescriptions, keepExamples bool
}

func (f *renderFlags) add(flags *pflag.FlagSet) {
	flags.StringSliceVar(&f.allowedHosts, "remote-manifests-allowed-hosts", nil,
		"hosts that spec.manifests and spec.additionalManifests may name, by https; none by default")
	flags.StringSliceVar(&f.allowedNetworks, "remote-manifests-allowed-networks", nil,
		"private networks, as CIDRs, in which these hosts may be; without one their addresses must be public")
	flags.StringSliceVar(&f.allowedKinds, "allowed-kinds", nil,
		`kinds, as Kind.group, that additional manifests and patches of trusted namespaces may deliver besides those of Knative's releases; "*" is every kind`)
	flags.BoolVar(&f.keepDescriptions, "keep-crd-descriptions", false, "deliver the descriptions in CRD schemas")
	flags.BoolVar(&f.keepExamples, "keep-config-examples", false, "deliver the _example keys of Knative's ConfigMaps")
}

func (f *renderFlags) buildConfig(policy trust.Policy) render.Config {
	return render.Config{
		RemoteManifests: render.RemotePolicy{AllowedHosts: f.allowedHosts, AllowedNetworks: f.allowedNetworks},
		AllowedKinds:    f.allowedKinds,
		Trust:           policy,
	}
}

func (f *renderFlags) buildOptions(mode api.DeliveryMode) render.Options {
	o := render.DefaultOptions(mode)
	o.KeepDescriptions = o.KeepDescriptions || f.keepDescriptions
	o.KeepExamples = o.KeepExamples || f.keepExamples
	return o
}
