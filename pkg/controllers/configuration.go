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
		Component: c.Component, Configs: c.Configs.Lister(), Revisions: c.Revisions.Informer().GetIndexer(), References: c.References,
		Versions: renderer, RevisionClient: c.Clients.Kube, ConfigClient: c.Clients.Configs, Events: mgr.GetEventRecorder(eventController),
		Operator: c.Operator.Present, OtherManager: otherManager,
	}
	return r.SetupWithManager(mgr, c)
}
