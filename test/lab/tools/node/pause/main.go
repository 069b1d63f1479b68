// Copyright Contributors to the Open Cluster Management project

// Command pause holds the namespaces of a pod until the node ends the pod.
package main

import (
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGINT, syscall.SIGTERM)
	<-ended
}
