// Copyright Contributors to the Open Cluster Management project

// Command cluster-proxy is programs of cluster-proxy's image in one file: user-server, service-proxy and controllers of cluster-proxy by
// the first argument, and proxy-server and proxy-agent of the Kubernetes project's network proxy by the name of the file.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"k8s.io/klog/v2"
	agentapp "sigs.k8s.io/apiserver-network-proxy/cmd/agent/app"
	agentoptions "sigs.k8s.io/apiserver-network-proxy/cmd/agent/app/options"
	serverapp "sigs.k8s.io/apiserver-network-proxy/cmd/server/app"
	serveroptions "sigs.k8s.io/apiserver-network-proxy/cmd/server/app/options"

	"open-cluster-management.io/cluster-proxy/pkg/controllers"
	"open-cluster-management.io/cluster-proxy/pkg/serviceproxy"
	"open-cluster-management.io/cluster-proxy/pkg/userserver"
)

func main() {
	if err := aliasHosts(os.Getenv(hostsEnv)); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", hostsEnv, err)
		os.Exit(2)
	}
	klog.InitFlags(flag.CommandLine)
	cmd := newCommand()
	if name := filepath.Base(os.Args[0]); name != cmd.Name() {
		cmd.SetArgs(append([]string{name}, os.Args[1:]...))
	}
	if err := cmd.Execute(); err != nil {
		fmt.Fprintf(os.Stderr, "%v\n", err)
		os.Exit(1)
	}
}

func newCommand() *cobra.Command {
	server, agent := serveroptions.NewProxyRunOptions(), agentoptions.NewGrpcProxyAgentOptions()
	proxyServer, proxyAgent := serverapp.NewProxyCommand(&serverapp.Proxy{}, server), agentapp.NewAgentCommand(&agentapp.Agent{}, agent)
	proxyServer.Use, proxyAgent.Use = "proxy-server", "proxy-agent"
	proxyServer.Flags().AddFlagSet(server.Flags())
	proxyAgent.Flags().AddFlagSet(agent.Flags())
	cmd := &cobra.Command{Use: "cluster-proxy", SilenceUsage: true}
	cmd.PersistentFlags().AddGoFlagSet(flag.CommandLine)
	cmd.AddCommand(
		userserver.NewUserServerCommand(), serviceproxy.NewServiceProxyCommand(), controllers.NewControllersCommand(), proxyServer, proxyAgent)
	return cmd
}
