// Copyright Contributors to the Open Cluster Management project

package hub

import (
	"errors"
	"fmt"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	profileclient "sigs.k8s.io/cluster-inventory-api/client/clientset/versioned"

	addonclient "open-cluster-management.io/api/client/addon/clientset/versioned"
	clusterclient "open-cluster-management.io/api/client/cluster/clientset/versioned"
	workclient "open-cluster-management.io/api/client/work/clientset/versioned"
)

// Clients are the clients of one hub.
type Clients struct {
	AddOns   addonclient.Interface
	Clusters clusterclient.Interface
	// Configs reads and writes KnativeServings, KnativeEventings and AddOnDeploymentConfigs.
	Configs dynamic.Interface
	// Kube reads and writes ControllerRevisions, and reads the Deployment of the Knative Operator.
	Kube     kubernetes.Interface
	Profiles profileclient.Interface
	Works    workclient.Interface
}

// NewClients creates all clients with one configuration.
func NewClients(config *rest.Config) (Clients, error) {
	var out Clients
	var errs [6]error
	out.AddOns, errs[0] = addonclient.NewForConfig(config)
	out.Clusters, errs[1] = clusterclient.NewForConfig(config)
	out.Configs, errs[2] = dynamic.NewForConfig(config)
	out.Kube, errs[3] = kubernetes.NewForConfig(config)
	out.Profiles, errs[4] = profileclient.NewForConfig(config)
	out.Works, errs[5] = workclient.NewForConfig(config)
	if err := errors.Join(errs[:]...); err != nil {
		return Clients{}, fmt.Errorf("cannot create the hub's clients: %w", err)
	}
	return out, nil
}
