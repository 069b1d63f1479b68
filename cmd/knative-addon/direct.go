// Copyright Contributors to the Open Cluster Management project

package main

import (
	"github.com/spf13/pflag"

	"open-cluster-management.io/knative-addon/pkg/access"
	"open-cluster-management.io/knative-addon/pkg/controllers"
)

// directFlags are about clusters without a work agent.
type directFlags struct {
	localInstalls               bool
	providers                   string
	allowHTTP, allowInsecureTLS bool
}

func (f *directFlags) add(flags *pflag.FlagSet) {
	flags.BoolVar(&f.localInstalls, "local-installs", false,
		"install resources without spec.clusterProfileRef that are in the namespace that they install into on the hub itself")
	flags.StringVar(&f.providers, "clusterprofile-provider-file", "",
		"JSON file of the access providers through which clusters of ClusterProfiles are connected to; empty means that none is")
	flags.BoolVar(&f.allowHTTP, "allow-plain-http", false, "connect to clusters without TLS, which gives credentials away")
	flags.BoolVar(&f.allowInsecureTLS, "allow-insecure-tls", false,
		"connect to clusters whose ClusterProfile says insecure-skip-tls-verify, which gives credentials away")
}

func (f *directFlags) options() controllers.Direct {
	return controllers.Direct{LocalInstalls: f.localInstalls, Providers: f.providers, Access: access.Options{
		AllowPlainHTTP: f.allowHTTP, AllowInsecureTLS: f.allowInsecureTLS, UserAgent: "knative-addon/" + version,
	}}
}
