// Copyright Contributors to the Open Cluster Management project

package addon

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"open-cluster-management.io/addon-framework/pkg/addonmanager/controllers/agentdeploy"
	"open-cluster-management.io/addon-framework/pkg/utils"
	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"

	"open-cluster-management.io/knative-addon/pkg/delivery/manifestwork"
)

// TestWithConfigs holds that the configurations of a work become the configurations that OCM wants.
func TestWithConfigs(t *testing.T) {
	addOn := configuredBy("h2")
	addOn.Status.ConfigReferences = append(addOn.Status.ConfigReferences, addonv1beta1.ConfigReference{
		ConfigGroupResource: addonv1beta1.ConfigGroupResource{Group: utils.AddOnDeploymentConfigGVR.Group, Resource: utils.AddOnDeploymentConfigGVR.Resource},
		DesiredConfig: &addonv1beta1.ConfigSpecHash{
			ConfigReferent: addonv1beta1.ConfigReferent{Namespace: "fleet", Name: "mirrors"}, SpecHash: "d1",
		},
	})
	wanted := agentdeploy.ConfigsToMap(addOn.Status.ConfigReferences)
	got := WithConfigs(addOn, wanted)
	byResource := cmpopts.SortSlices(func(a, b addonv1beta1.ConfigReference) bool { return a.Resource < b.Resource })
	if diff := cmp.Diff(addOn.Status.ConfigReferences, got.Status.ConfigReferences, byResource); diff != "" {
		t.Errorf("the configurations change (-want +got):\n%s", diff)
	}
	former := map[string]string{}
	for name := range wanted {
		former[name] = "h1"
	}
	if diff := cmp.Diff(former, agentdeploy.ConfigsToMap(WithConfigs(addOn, former).Status.ConfigReferences)); diff != "" {
		t.Errorf("the hashes are wrong (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(wanted, agentdeploy.ConfigsToMap(addOn.Status.ConfigReferences)); diff != "" {
		t.Errorf("the add-on of the cache is changed (-want +got):\n%s", diff)
	}
	for _, name := range []string{"", "x", "a.b/c", "a.b/c/d/e"} {
		if got := WithConfigs(addOn, map[string]string{name: "h1"}); got != nil {
			t.Errorf("%q names configurations %+v", name, got.Status.ConfigReferences)
		}
	}
}

// TestRedeliveredPayloadNeedsNoSync holds that a payload of PayloadWorks is the payload that addon-framework builds.
func TestRedeliveredPayloadNeedsNoSync(t *testing.T) {
	r := atRest(t)
	works, err := PayloadWorks(manifestwork.Payload(r.bundle, foundation()), r.addOn, agentdeploy.ConfigsToMap(r.addOn.Status.ConfigReferences), nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(works) != 1 || works[0].Name != r.payload.Name || works[0].Namespace != r.addOn.Namespace {
		t.Fatalf("the works are %+v", works)
	}
	r.payload = works[0]
	if r.needsSync(t) {
		t.Errorf("addon-framework writes the payload once more: %+v", r.payload)
	}
}
