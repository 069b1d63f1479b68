// Copyright Contributors to the Open Cluster Management project

package e2e

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/test/lab"
)

// whereValues is a text with a label and a claim of the cluster. Without a work agent, a claim is a property of the ClusterProfile.
const whereValues = "$(cluster.labels.region)/$(cluster.claims.zone)"

// setClusterValues sets label region and claim zone of every cluster.
func (f knativeFleet) setClusterValues(t *testing.T) {
	t.Helper()
	managed := valueFleet{Fleet: f.Fleet}
	for _, c := range f.Managed {
		managed.setRegionLabel(t, c, regionOf(c))
		managed.setZoneClaim(t, c, zoneOf(c))
	}
	for _, c := range f.Spokes {
		f.setProfileLabel(t, c, regionOf(c))
		f.profileStatus(t, c.Name, map[string]any{"properties": []any{map[string]any{"name": "zone", "value": zoneOf(c)}}})
	}
}

func regionOf(c *lab.Cluster) string { return "region-of-" + c.Name }

func zoneOf(c *lab.Cluster) string { return "zone-of-" + c.Name }

// setProfileLabel sets label region of the ClusterProfile of a cluster without a work agent.
func (f knativeFleet) setProfileLabel(t *testing.T, c *lab.Cluster, region string) {
	t.Helper()
	patch := fmt.Appendf(nil, `{"metadata":{"labels":{"region":%q}}}`, region)
	_, err := f.configs.Resource(profileResource).Namespace(f.namespace).Patch(t.Context(), c.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// checkClusterValues holds that every cluster has its own values, and that a changed label of a ClusterProfile changes one cluster.
func (f knativeFleet) checkClusterValues(t *testing.T) {
	reader := valueFleet{Fleet: f.Fleet}
	versions := map[string]string{}
	for _, c := range append(append([]*lab.Cluster{}, f.Managed...), f.Spokes...) {
		reader.has(t, c, regionOf(c)+"/"+zoneOf(c))
		versions[c.Name] = f.featuresVersion(t, c)
	}
	changed := f.Spokes[0]
	f.setProfileLabel(t, changed, "another")
	reader.has(t, changed, "another/"+zoneOf(changed))
	f.becomesReady(t, len(f.clusters))
	for _, c := range f.Managed {
		if now := f.featuresVersion(t, c); now != versions[c.Name] {
			t.Errorf("the ConfigMap of %s was written, and only a value of %s has changed", c.Name, changed.Name)
		}
	}
	f.setProfileLabel(t, changed, regionOf(changed))
	reader.has(t, changed, regionOf(changed)+"/"+zoneOf(changed))
}

// featuresVersion returns the version of the ConfigMap with the values.
func (f knativeFleet) featuresVersion(t *testing.T, c *lab.Cluster) string {
	t.Helper()
	config, err := connect(t, c).kube.CoreV1().ConfigMaps(api.Serving.InstallNamespace()).Get(t.Context(), "config-features", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return config.ResourceVersion
}
