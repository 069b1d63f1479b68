// Copyright Contributors to the Open Cluster Management project

// Command argocd-applicationset-controller is the ApplicationSet controller of Argo CD, which Argo CD's image runs as a link to a program
// of all components.
package main

import (
	"os"

	controller "github.com/argoproj/argo-cd/v3/cmd/argocd-applicationset-controller/commands"
)

func main() {
	if err := controller.NewCommand().Execute(); err != nil {
		os.Exit(1) // the command has printed the error
	}
}
