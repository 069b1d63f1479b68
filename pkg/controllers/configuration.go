// Copyright Contributors to the Open Cluster Management project

package controllers

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	ctrl "sigs.k8s.io/controller-runtime"

	"open-cluster-management.io/knative-addon/pkg/controllers/configuration"
	"open-cluster-management.io/knative-addon/pkg/hub"
	"open-cluster-management.io/knative-addon/pkg/render"
)

// eventController is the reporting controller of all Events.
const eventController = "knative-addon"

// addConfiguration adds the controller that keeps the history of the resources of a Hub or of a LocalHub. otherManager reports
// whether another manager serves a resource; nil means that no other manager serves any.
func addConfiguration(mgr ctrl.Manager, c hub.Configuration, renderer *render.Renderer, otherManager func(*unstructured.Unstructured) bool) error {
	r := &configuration.Reconciler{
		Recorder: configuration.Recorder{
			Kind: c.Component, Configs: c.Configs.Lister(), Revisions: c.Revisions.Informer().GetIndexer(), References: c.References,
			RevisionClient: c.Clients.Kube, Excludes: otherManager,
		},
		Component: c.Component, Versions: renderer, ConfigClient: c.Clients.Configs, Events: mgr.GetEventRecorder(eventController),
		Operator: c.Operator.Present,
	}
	return r.SetupWithManager(mgr, c)
}

// addDeploymentConfigs adds the controller that keeps the history of the AddOnDeploymentConfigs of add-ons.
func addDeploymentConfigs(mgr ctrl.Manager, h *hub.Hub) error {
	return configuration.NewDeploymentConfigs(h).SetupWithManager(mgr, h)
}
