// Copyright Contributors to the Open Cluster Management project

package main

import (
	"time"

	"github.com/spf13/pflag"

	"open-cluster-management.io/knative-addon/pkg/access"
	"open-cluster-management.io/knative-addon/pkg/controllers"
	"open-cluster-management.io/knative-addon/pkg/delivery/direct"
)

// directFlags are about clusters without a work agent.
type directFlags struct {
	localInstalls               bool
	providers                   string
	allowHTTP, allowInsecureTLS bool
	watched                     int
	pollInterval                time.Duration
}

// defaultWatched is how many clusters are watched: docs/design/0005-direct-delivery.md has the reckoning.
const defaultWatched = 400

func (f *directFlags) add(flags *pflag.FlagSet) {
	flags.BoolVar(&f.localInstalls, "local-installs", false,
		"install resources without spec.clusterProfileRef that are in the namespace that they install into on the hub itself")
	flags.StringVar(&f.providers, "clusterprofile-provider-file", "",
		"JSON file of the access providers through which clusters of ClusterProfiles are connected to; empty means that none is")
	flags.BoolVar(&f.allowHTTP, "allow-plain-http", false, "connect to clusters without TLS, which gives credentials away")
	flags.BoolVar(&f.allowInsecureTLS, "allow-insecure-tls", false,
		"connect to clusters whose ClusterProfile says insecure-skip-tls-verify, which gives credentials away")
	flags.IntVar(&f.watched, "watched-clusters", defaultWatched,
		"how many clusters of ClusterProfiles are watched; those beyond are polled, and 0 has all of them polled")
	flags.DurationVar(&f.pollInterval, "remote-deployments-poll-interval", direct.DefaultPollInterval,
		"how often a cluster is polled that is not watched, or refuses it; below a second it is the default")
}

// interval is the one to poll with.
func (f *directFlags) interval() time.Duration {
	if f.pollInterval < direct.MinPollInterval {
		return direct.DefaultPollInterval
	}
	return f.pollInterval
}

func (f *directFlags) options() controllers.Direct {
	return controllers.Direct{
		WatchedClusters: f.watched, PollInterval: f.interval(),
		LocalInstalls: f.localInstalls, Providers: f.providers, Access: access.Options{
			AllowPlainHTTP: f.allowHTTP, AllowInsecureTLS: f.allowInsecureTLS, UserAgent: "knative-addon/" + version,
		},
	}
}
