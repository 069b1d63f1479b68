// Copyright Contributors to the Open Cluster Management project

package e2e

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/test/e2e/harness"
	"open-cluster-management.io/knative-addon/test/lab"
)

// quickstart is a reader who follows docs/quickstart.md.
type quickstart struct {
	pageReader
	// before are the objects of each cluster at the beginning of the page.
	before map[string]map[string]bool
}

// TestQuickstart runs every command of docs/quickstart.md in order, and compares the outputs with those of the page.
func TestQuickstart(t *testing.T) {
	startRestStory(t)
	blocks := readBlocks(t, "quickstart.md")
	q := startQuickstart(t, ownLab(t, lab.Options{ManagedClusters: 2, Spokes: 1, StatusSyncInterval: statusSync}))
	if !q.followPage(t, blocks) {
		return
	}
	t.Run("only CRDs and Namespaces of Knative are left", func(t *testing.T) { q.checkNothingLeft(t) })
}

func startQuickstart(t *testing.T, l *lab.Lab) *quickstart {
	t.Helper()
	f, err := harness.Prepare(l, harness.Options{LeaderElection: true})
	if err != nil {
		t.Fatal(err)
	}
	q := &quickstart{pageReader: newPageReader(t, f), before: map[string]map[string]bool{}}
	q.values["IMAGE"], q.values["DIGEST"] = "registry.example.com/team/knative-addon", "sha256:"+strings.Repeat("0", 64)
	for _, c := range append(l.Clusters(), l.Hub) {
		if q.before[c.Name], err = listObjects(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	q.steps = []pageStep{
		{command: "helm test", before: q.runManager},
		{command: "knative-addon wait cluster1 cluster2\n", after: q.checkInstalled},
		{command: "knative-addon dashboard", after: func(t *testing.T) { q.checkDashboard(t, "cluster1", "cluster2") }},
		{command: "helm upgrade", after: q.runUpgradedManager},
		{command: "knative-addon wait edge-7", after: func(t *testing.T) { q.checkDashboard(t, "cluster1", "cluster2", "team/edge-7") }},
		// The command deletes the Namespaces that register has created.
		{command: "knative-addon unregister", before: func(t *testing.T) { requestRemoval(t, l, q.edge) }},
		{command: "helm uninstall", before: q.stopPrograms},
	}
	logManagerOnFailure(t, f)
	return q
}

// checkInstalled holds that the clusters run what `knative-addon wait` has reported, and that the second terminal shows the same.
func (q *quickstart) checkInstalled(t *testing.T) {
	for _, c := range q.Managed {
		d, err := connect(t, c).kube.AppsV1().Deployments(api.Serving.InstallNamespace()).Get(t.Context(), "activator", metav1.GetOptions{})
		if err != nil || d.Status.AvailableReplicas < 1 {
			t.Errorf("%s: error %v, the activator has status %+v", c.Name, err, d.Status)
		}
		q.terminals[0].shows(t, " "+c.Name+" knative-serving ManifestWork", " True Ready")
	}
}

// stopPrograms interrupts the second terminal, and stops the manager as the removal of the Deployment would.
func (q *quickstart) stopPrograms(t *testing.T) {
	for _, terminal := range q.terminals {
		terminal.interrupt(t)
	}
	if err := q.Stop(upgradedManager); err != nil {
		t.Fatal(err)
	}
}

// checkNothingLeft compares the objects of each cluster with those before the first command.
func (q *quickstart) checkNothingLeft(t *testing.T) {
	for _, c := range append(q.Lab.Clusters(), q.Hub) {
		eventually(t, "nothing is left on "+c.Name, time.Minute, func(ctx context.Context) error {
			now, err := listObjects(ctx, c)
			if err != nil {
				return err
			}
			var left []string
			for object := range now {
				if !q.before[c.Name][object] && !q.mayStay(c, object) {
					left = append(left, object)
				}
			}
			if len(left) > 0 {
				slices.Sort(left)
				return errors.New(strings.Join(left, ", "))
			}
			return nil
		})
	}
}

// mayStay reports whether the page says that the object stays: CRDs of Knative on each cluster but the hub, and the Namespace on the
// managed clusters.
func (q *quickstart) mayStay(c *lab.Cluster, object string) bool {
	resource, name, _ := strings.Cut(object, " ")
	switch {
	case resource == "certificatesigningrequests.certificates.k8s.io": // of OCM's agents
		return true
	case c == q.Hub:
		return false
	case resource == "customresourcedefinitions.apiextensions.k8s.io", resource == "apiservices.apiregistration.k8s.io":
		return strings.HasSuffix(name, ".knative.dev")
	}
	namespace := api.Serving.InstallNamespace()
	ofNamespace := []string{
		"namespaces /" + namespace, "serviceaccounts " + namespace + "/default", "configmaps " + namespace + "/kube-root-ca.crt",
	}
	return c != q.edge && slices.Contains(ofNamespace, object)
}
