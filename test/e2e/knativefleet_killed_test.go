// Copyright Contributors to the Open Cluster Management project

package e2e

import (
	"context"
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
	fleetv1alpha1 "open-cluster-management.io/knative-addon/pkg/api/fleet/v1alpha1"
)

// fewestFleetKills is how often TestKnativeFleetKilled kills the manager at least.
const fewestFleetKills = 20

// TestKnativeFleetKilled kills the manager before and after each write while a KnativeFleet of a managed cluster and another cluster is
// installed, edited in waves, loses a cluster, gets the cluster back, and is deleted, and while an add-on hands its works over to the
// next add-on of a Placement. The next manager must go on.
func TestKnativeFleetKilled(t *testing.T) {
	startNightlyStory(t)
	f := newFaultyFleet(t)
	managed := f.Managed[0].Name
	fleet := knativeFleet{push: f.push, clusters: []string{managed, "edge"}}
	k := newWriteKiller()
	k.fleet = f.Fleet
	f.hubProxy.Inject(k.fault)
	f.edgeProxy.Inject(k.faultOnSpoke)

	if _, err := fleet.fleets().Create(t.Context(), fleet.web(kourier()), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	kills := k.run(t, "installation", 15, fleet.isInstalled(2, ""))
	fleet.setServing(t, map[string]any{"config": map[string]any{"defaults": map[string]any{"revision-timeout-seconds": "123"}}})
	kills += k.run(t, "wave", 4, fleet.isInstalled(2, "123"))
	fleet.patchFleet(t, map[string]any{
		"maxRemoval": "100%", "selector": map[string]any{"matchLabels": map[string]any{"open-cluster-management.io/cluster-name": managed}},
	})
	kills += k.run(t, "deselection", 4, func(ctx context.Context) error {
		if err := fleet.isInstalled(1, "123")(ctx); err != nil {
			return err
		}
		return fleet.isChildGone(ctx, "edge")
	})
	fleet.patchFleet(t, map[string]any{"selector": map[string]any{"matchLabels": nil}})
	kills += k.run(t, "selection", 4, fleet.isInstalled(2, "123"))
	if err := fleet.fleets().Delete(t.Context(), "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	kills += k.run(t, "removal", 4, f.allGone)
	if kills < fewestFleetKills {
		t.Errorf("the manager was killed %d times, want at least %d", kills, fewestFleetKills)
	}
	for _, c := range f.clusters {
		connect(t, c).emptied(t)
	}
	f.killDuringHandover(t, k)
}

// killDuringHandover has a Placement select the managed cluster, and lets the cluster be away. OCM deletes the add-on, and creates another
// add-on when the cluster returns. The manager is killed at each write from the return on; the installation stays as the installation was.
func (f faultyFleet) killDuringHandover(t *testing.T, k *writeKiller) {
	t.Helper()
	c := f.Managed[0]
	f.hubProxy.Inject(nil)
	f.createPlacement(t)
	available(t, f.Fleet, []api.Component{api.Serving}, c)
	before := f.readInstallation(t, c)
	shortLease(t, f.team, c.Name)
	f.away(t, c)
	f.awaitRemovalHeld(t, c, api.ReasonClusterUnavailable)
	f.hubProxy.Inject(k.fault)
	if err := f.Start(c.Name + "-agent"); err != nil {
		t.Fatal(err)
	}
	k.run(t, "hand-over", 5, f.checkHandover(c, before.AddOn))
	f.hubProxy.Inject(nil)
	f.awaitHandover(t, c, before)
}

// isInstalled returns a function that reports whether the KnativeFleet is Ready at its generation with so many clusters, and whether each
// of its clusters has the timeout in its configuration.
func (f knativeFleet) isInstalled(clusters int32, timeout string) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		fleet, err := f.readFleet(ctx)
		if err != nil {
			return err
		}
		status := fleet.Status
		if status.ObservedGeneration != fleet.Generation || status.Rollout.Total != clusters || !apimeta.IsStatusConditionTrue(status.Conditions, fleetv1alpha1.Ready) {
			return fmt.Errorf("generation %d of the KnativeFleet has status %+v", fleet.Generation, status)
		}
		if err := hasTimeout(ctx, f.Managed[0], timeout); err != nil || clusters == 1 {
			return err
		}
		return hasTimeout(ctx, f.Spokes[0], timeout)
	}
}

// isChildGone returns an error as long as the KnativeServing of the cluster exists.
func (f knativeFleet) isChildGone(ctx context.Context, name string) error {
	_, err := f.resources(api.Serving).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err == nil {
		err = fmt.Errorf("the KnativeServing of %s exists", name)
	}
	return err
}
