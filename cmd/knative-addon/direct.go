// Copyright Contributors to the Open Cluster Management project

package main

import (
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"

	"open-cluster-management.io/knative-addon/pkg/access"
	"open-cluster-management.io/knative-addon/pkg/clustercache"
	"open-cluster-management.io/knative-addon/pkg/controllers"
	"open-cluster-management.io/knative-addon/pkg/trust"
)

// directFlags are about clusters without a work agent.
type directFlags struct {
	localInstalls               bool
	providers                   string
	inventories                 string
	logPluginStderr             bool
	allowHTTP, allowInsecureTLS bool
	watched                     int
	pollInterval                time.Duration
}

// defaultWatched is the default of --watched-clusters; docs/design/0023-large-push-fleets.md has the calculation.
const defaultWatched = 50

func (f *directFlags) add(flags *pflag.FlagSet) {
	flags.BoolVar(&f.localInstalls, "local-installs", false,
		"leave resources without spec.clusterProfileRef in namespaces knative-serving and knative-eventing to command local-installs, which installs them on the hub itself")
	flags.StringVar(&f.providers, "clusterprofile-provider-file", "",
		"JSON file of the access providers through which the manager connects to clusters of ClusterProfiles; empty means that the manager connects to none")
	flags.StringVar(&f.inventories, "inventory-file", "",
		"JSON file of the inventories, the namespaces whose ClusterProfiles may be connected to, with access providers, servers and Secrets; the add-on's own namespace is an inventory unless the file lists that namespace")
	flags.BoolVar(&f.logPluginStderr, "log-plugin-stderr", false,
		"log what a plugin that failed has printed to stderr, without what looks like a secret; a plugin may print secrets that do not look like secrets")
	flags.BoolVar(&f.allowHTTP, "allow-plain-http", false, "connect to clusters without TLS, which exposes credentials")
	flags.BoolVar(&f.allowInsecureTLS, "allow-insecure-tls", false,
		"connect to clusters whose ClusterProfile says insecure-skip-tls-verify, which exposes credentials")
	flags.IntVar(&f.watched, "watched-clusters", defaultWatched,
		"number of clusters of ClusterProfiles on which all objects are watched; on further clusters the manager watches workloads and polls all other objects")
	flags.DurationVar(&f.pollInterval, "remote-deployments-poll-interval", clustercache.DefaultPollInterval,
		"shortest interval to poll objects that are not watched; the default also replaces intervals below a second")
}

// readInventories returns the inventories of the file, and the inventory of the add-on's own namespace where the file does
// not list that namespace.
func (f *directFlags) readInventories(addOnNamespace string) (trust.Inventories, error) {
	var list []trust.Inventory
	if f.inventories != "" {
		data, err := os.ReadFile(f.inventories)
		if err == nil {
			list, err = trust.ParseInventories(data)
		}
		if err != nil {
			return trust.Inventories{}, fmt.Errorf("cannot use --inventory-file=%q: %w", f.inventories, err)
		}
	}
	own := func(in trust.Inventory) bool { return in.Namespace == addOnNamespace }
	if addOnNamespace != "" && !slices.ContainsFunc(list, own) {
		list = append(list, trust.OwnInventory(addOnNamespace))
	}
	out, err := trust.NewInventories(list)
	if err != nil {
		return trust.Inventories{}, fmt.Errorf("cannot use --inventory-file=%q: %w", f.inventories, err)
	}
	return out, nil
}

func (f *directFlags) buildOptions(inventories trust.Inventories, log logr.Logger) controllers.Direct {
	out := controllers.Direct{
		WatchedClusters: f.watched, PollInterval: effectivePollInterval(f.pollInterval),
		LocalInstalls: f.localInstalls, Providers: f.providers, Access: access.Options{
			AllowPlainHTTP: f.allowHTTP, AllowInsecureTLS: f.allowInsecureTLS, UserAgent: "knative-addon/" + version,
			Inventories: inventories,
		},
	}
	if f.logPluginStderr {
		out.Access.PluginStderr = func(provider, command, text string) {
			log.Info("a plugin failed", "accessProvider", provider, "command", command, "stderr", text)
		}
	}
	return out
}
