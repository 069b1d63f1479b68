// Copyright Contributors to the Open Cluster Management project

package configuration

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"open-cluster-management.io/knative-addon/pkg/hub"
	"open-cluster-management.io/knative-addon/pkg/reconciler"
	"open-cluster-management.io/knative-addon/pkg/revision"
)

// DeploymentConfigs records the specs of the AddOnDeploymentConfigs that configure an add-on of this manager. AddOnDeploymentConfigs of
// other add-ons get no history.
type DeploymentConfigs struct{ Recorder }

// NewDeploymentConfigs returns the recorder of the hub's AddOnDeploymentConfigs.
func NewDeploymentConfigs(h *hub.Hub) *DeploymentConfigs {
	d := &DeploymentConfigs{Recorder{
		Kind: revision.DeploymentConfig{}, Configs: h.AddOnDeploymentConfigs().Lister(), Revisions: h.ControllerRevisions().Informer().GetIndexer(),
		References: h.NewReferences(), RevisionClient: h.Clients.Kube,
	}}
	d.Excludes = d.isUnused
	return d
}

// Reconcile records the specs of an AddOnDeploymentConfig.
func (d *DeploymentConfigs) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	config, err := revision.Live(d.Configs, d.Kind, req.NamespacedName)
	if err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{}, d.recordSpecs(ctx, req.NamespacedName, config)
}

// isUnused reports whether the AddOnDeploymentConfig configures no add-on of this manager. A failed look-up counts as a use: a
// superfluous record harms no cluster.
func (d *DeploymentConfigs) isUnused(config *unstructured.Unstructured) bool {
	isUsed, err := d.References.ConfiguresAddOn(client.ObjectKeyFromObject(config))
	return err == nil && !isUsed
}

// SetupWithManager makes the manager run the controller. The spec of an AddOnDeploymentConfig is recorded as soon as an add-on names
// the AddOnDeploymentConfig, which is before OCM refers to the spec.
func (d *DeploymentConfigs) SetupWithManager(mgr ctrl.Manager, h *hub.Hub) error {
	err := d.newBuilder(mgr, h.AddOnDeploymentConfigs().Informer(), h.ControllerRevisions().Informer()).
		WatchesRawSource(&source.Informer{Informer: h.ManagedClusterAddOns().Informer(), Handler: d.addOnHandler()}).
		WatchesRawSource(&source.Informer{Informer: h.ClusterManagementAddOns().Informer(), Handler: d.addOnHandler()}).
		Complete(reconciler.Wrap(d, reconciler.OfOther))
	if err != nil {
		return fmt.Errorf("cannot set up the history of AddOnDeploymentConfigs: %w", err)
	}
	return nil
}

// addOnHandler enqueues the AddOnDeploymentConfigs that an add-on names and did not name before.
func (d *DeploymentConfigs) addOnHandler() handler.EventHandler {
	enqueue := func(names []types.NamespacedName, q queue) {
		for _, name := range names {
			d.observations.markUnchecked(name)
			q.Add(reconcile.Request{NamespacedName: name})
		}
	}
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q queue) { enqueue(revision.DeploymentsOf(e.Object), q) },
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q queue) {
			before := revision.DeploymentsOf(e.ObjectOld)
			enqueue(slices.DeleteFunc(revision.DeploymentsOf(e.ObjectNew), func(name types.NamespacedName) bool {
				return slices.Contains(before, name)
			}), q)
		},
	}
}
