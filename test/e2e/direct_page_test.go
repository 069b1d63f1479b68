// Copyright Contributors to the Open Cluster Management project

package e2e

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/test/e2e/harness"
	"open-cluster-management.io/knative-addon/test/lab"
)

// TestDirectPage runs the commands of docs/direct.md that connect a cluster without a work agent, with both plugins of
// cluster-inventory-api.
func TestDirectPage(t *testing.T) {
	startRestStory(t)
	blocks := readBlocks(t, "direct.md", "Clusters of ClusterProfiles", "A ClusterProfile by hand", "A Secret with a kubeconfig")
	f, err := harness.Install(t.Context(), ownLab(t, lab.Options{Spokes: 1}), harness.Options{})
	if err != nil {
		t.Fatal(err)
	}
	logManagerOnFailure(t, f)
	r := newPageReader(t, f)
	team := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team"}}
	if _, err := r.hub.kube.CoreV1().Namespaces().Create(t.Context(), team, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	r.exports = []string{`export PATH="$PWD/bin:$PATH"`} // the reader has the program, as in the quickstart
	r.steps = []pageStep{
		{command: "helm upgrade", after: r.runUpgradedManager},
		// The command deletes the Namespaces that register has created.
		{command: "knative-addon unregister", before: func(t *testing.T) { requestRemoval(t, f.Lab, r.edge) }, after: r.awaitUnregistered},
		{command: "kubectl delete secret edge-7 ", after: r.awaitKubeconfigPlugin},
		{command: "delete --filename permissions.yaml", before: func(t *testing.T) { requestRemoval(t, f.Lab, r.edge) }},
	}
	if r.followPage(t, blocks) {
		connect(t, r.edge).emptied(t)
	}
}

// awaitUnregistered waits until the cluster has deleted the Namespaces of the registration: the next commands create the same Namespaces.
func (r *pageReader) awaitUnregistered(t *testing.T) {
	edge := connect(t, r.edge)
	eventually(t, "the Namespaces of the registration are gone", time.Minute, func(ctx context.Context) error {
		list, err := edge.kube.CoreV1().Namespaces().List(ctx, metav1.ListOptions{LabelSelector: api.RegisteredLabel + "=true"})
		if err == nil && len(list.Items) > 0 {
			err = errors.New(list.Items[0].Name)
		}
		return err
	})
}

// awaitKubeconfigPlugin waits until plugin kubeconfig-secretreader has returned a credential, and the resource is Ready with it.
func (r *pageReader) awaitKubeconfigPlugin(t *testing.T) {
	token := createMetricsReader(t, r.Fleet)
	const series = "\nknative_addon_credential_requests_total{provider=\"kubeconfig-secretreader\",result=\"success\"} "
	eventually(t, "the plugin has returned a credential", time.Minute, func(ctx context.Context) error {
		if _, body := scrape(ctx, t, r.Fleet, upgradedManager, token); !strings.Contains(body, series) {
			return errors.New("no such series")
		}
		return nil
	})
	p := push{team: team{Fleet: r.Fleet, namespace: "team", configs: r.hub.dynamic}, hub: r.hub}
	p.ready(t, api.Serving, "edge-7")
	p.repairDeployment(t, "edge-7", r.edge)
}
