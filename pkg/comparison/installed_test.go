// Copyright Contributors to the Open Cluster Management project

package comparison

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"
	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/installations"
	"open-cluster-management.io/knative-addon/pkg/render"
	"open-cluster-management.io/knative-addon/pkg/revision"
	"open-cluster-management.io/knative-addon/pkg/values"
)

// compareInstalled compares the installations of the hub with what the renderer makes of the configurations.
func (f *fleet) compareInstalled(t testing.TB, names ...string) ([]Group, []Omission) {
	t.Helper()
	comparer, objects := f.newComparer(t)
	groups, omitted, err := comparer.CompareInstalled(t.Context(), objects, &installations.Filter{Names: names})
	if err != nil {
		t.Fatal(err)
	}
	return groups, omitted
}

// changePayload replaces a text in the payload of a cluster, as if another manager had rendered the payload.
func (f *fleet) changePayload(t testing.TB, cluster, before, after string) {
	t.Helper()
	changed := false
	for _, item := range f.items["namespaces/"+cluster+"/manifestworks"] {
		work, isWork := item.(*workv1.ManifestWork)
		if !isWork {
			continue
		}
		for n := range work.Spec.Workload.Manifests {
			raw := &work.Spec.Workload.Manifests[n].Raw
			changed = changed || bytes.Contains(*raw, []byte(before))
			*raw = bytes.ReplaceAll(*raw, []byte(before), []byte(after))
		}
	}
	if !changed {
		t.Fatalf("no manifest of cluster %s has %q", cluster, before)
	}
}

// record adds the ControllerRevision of a resource.
func (f *fleet) record(t testing.TB, config *unstructured.Unstructured) *appsv1.ControllerRevision {
	t.Helper()
	kind := revision.Kind(api.Serving)
	if config.GetKind() == deploymentKind {
		kind = revision.DeploymentConfig{}
	}
	recorded, err := revision.New(kind, config, 1)
	if err != nil {
		t.Fatal(err)
	}
	recorded.APIVersion, recorded.Kind = "apps/v1", "ControllerRevision"
	f.revisions["namespaces/"+recorded.Namespace+"/controllerrevisions/"+recorded.Name] = recorded
	return recorded
}

const sameObjects = "c1,c2 ManifestWork:\n"

func TestCompareInstalledRenderings(t *testing.T) {
	live := parse(t, withDomain("old"))
	newInstalled := func(t *testing.T) (f *fleet, c2 *addonv1beta1.ManagedClusterAddOn) {
		t.Helper()
		f = newFleet(t)
		f.add("knativeservings", live)
		f.addManaged(t, "c1", "eu", live)
		return f, f.addManaged(t, "c2", "us", live)
	}
	t.Run("clusters with the objects of this program do not change", func(t *testing.T) {
		f, _ := newInstalled(t)
		groups, omitted := f.compareInstalled(t)
		expectGroups(t, groups, sameObjects)
		if len(omitted) > 0 || HasDifference(groups) || HasProblem(groups) {
			t.Errorf("groups are %s, omitted %v", describeGroups(groups), omitted)
		}
	})
	t.Run("objects of another rendering change", func(t *testing.T) {
		f, _ := newInstalled(t)
		for _, cluster := range []string{"c1", "c2"} {
			f.changePayload(t, cluster, "old.example.com", "older.example.com")
		}
		groups, _ := f.compareInstalled(t)
		expectGroups(t, groups, "c1,c2 ManifestWork: update ConfigMap knative-serving/config-domain;\n")
		if diff := groups[0].Changes[0].Diff; !strings.Contains(diff, "\n-  older.example.com: \"\"\n") || !strings.Contains(diff, "\n+  old.example.com: \"\"\n") {
			t.Errorf("the difference is %s", diff)
		}
	})
	t.Run("a cluster that still waits for the last rendering is compared with its own objects", func(t *testing.T) {
		f, c2 := newInstalled(t)
		f.changePayload(t, "c2", "old.example.com", "older.example.com")
		c2.Status.Conditions = []metav1.Condition{{Type: api.RenderingCurrent, Status: metav1.ConditionFalse, Message: "rendering a runs, and rendering b waits"}}
		groups, _ := f.compareInstalled(t)
		expectGroups(t, groups, "c1 ManifestWork:\nc2 ManifestWork: update ConfigMap knative-serving/config-domain;\n")
	})
	t.Run("a selected cluster is compared alone", func(t *testing.T) {
		f, _ := newInstalled(t)
		groups, _ := f.compareInstalled(t, "c2")
		expectGroups(t, groups, "c2 ManifestWork:\n")
	})
	t.Run("an unknown cluster is an error", func(t *testing.T) {
		f, _ := newInstalled(t)
		comparer, objects := f.newComparer(t)
		if _, _, err := comparer.CompareInstalled(t.Context(), objects, &installations.Filter{Names: []string{"c3"}}); err == nil || !strings.Contains(err.Error(), `"c3"`) {
			t.Errorf("error is %v", err)
		}
	})
	t.Run("installations without objects and removals are left out", func(t *testing.T) {
		f, c2 := newInstalled(t)
		c2.DeletionTimestamp = &metav1.Time{}
		*c2.DeletionTimestamp = metav1.Unix(1, 0)
		f.addManaged(t, "c3", "us", live)
		f.items["foundations"] = f.items["foundations"][:2]
		groups, omitted := f.compareInstalled(t)
		expectGroups(t, groups, "c1 ManifestWork:\n")
		if got := fmt.Sprint(omitted); got != "[{the installation is being removed [c2 knative-serving]} {no version is installed yet [c3 knative-serving]}]" {
			t.Errorf("omitted are %s", got)
		}
	})
}

// TestCompareInstalledConfiguration holds that a cluster is compared with the configuration that OCM wants for the cluster.
func TestCompareInstalledConfiguration(t *testing.T) {
	old := parse(t, withDomain("old"))
	newEdited := func(t *testing.T) (*fleet, *addonv1beta1.ManagedClusterAddOn) {
		t.Helper()
		f := newFleet(t)
		f.add("knativeservings", parse(t, withDomain("new")))
		return f, f.addManaged(t, "c1", "eu", old)
	}
	t.Run("an edit that OCM has not assigned yet is no difference", func(t *testing.T) {
		f, _ := newEdited(t)
		f.record(t, old)
		groups, _ := f.compareInstalled(t)
		expectGroups(t, groups, "c1 ManifestWork:\n")
		if len(groups[0].Incomplete) > 0 {
			t.Errorf("incomplete are %q", groups[0].Incomplete)
		}
	})
	t.Run("an edit that OCM has assigned is a difference of an incomplete cluster", func(t *testing.T) {
		f, addOn := newEdited(t)
		hash, err := revision.Hash(parse(t, withDomain("new")))
		if err != nil {
			t.Fatal(err)
		}
		desired := *addOn.Status.ConfigReferences[0].DesiredConfig
		desired.SpecHash = hash
		addOn.Status.ConfigReferences[0].DesiredConfig = &desired
		groups, _ := f.compareInstalled(t)
		expectGroups(t, groups, "c1 ManifestWork: update ConfigMap knative-serving/config-domain;\n")
		if !slices.Equal(groups[0].Incomplete, []string{"c1"}) {
			t.Errorf("incomplete are %q", groups[0].Incomplete)
		}
	})
	t.Run("a spec that the hub did not record is a problem", func(t *testing.T) {
		f, _ := newEdited(t)
		groups, _ := f.compareInstalled(t)
		expectGroups(t, groups, "c1 ManifestWork: problem\n")
		if !strings.Contains(groups[0].Problem, "no ControllerRevision") {
			t.Errorf("the problem is %s", groups[0].Problem)
		}
	})
	t.Run("a configuration that the hub did not give is a problem", func(t *testing.T) {
		f, addOn := newEdited(t)
		addOn.Spec.Configs = nil
		groups, _ := f.compareInstalled(t)
		expectGroups(t, groups, "c1 ManifestWork: problem\n")
		if !strings.Contains(groups[0].Problem, "has not assigned") {
			t.Errorf("the problem is %s", groups[0].Problem)
		}
	})
	t.Run("a deleted configuration is a problem", func(t *testing.T) {
		f, _ := newEdited(t)
		f.items["knativeservings"] = nil
		groups, _ := f.compareInstalled(t)
		expectGroups(t, groups, "c1 ManifestWork: problem\n")
		if !strings.Contains(groups[0].Problem, "does not exist") {
			t.Errorf("the problem is %s", groups[0].Problem)
		}
	})
	t.Run("a version that this program lacks is a problem", func(t *testing.T) {
		f, addOn := newEdited(t)
		gone := parse(t, strings.ReplaceAll(withDomain("old"), `"1.23"`, `"1.5"`))
		hash, err := revision.Hash(gone)
		if err != nil {
			t.Fatal(err)
		}
		f.items["knativeservings"] = []any{gone}
		addOn.Status.ConfigReferences[0].DesiredConfig.SpecHash = hash
		groups, _ := f.compareInstalled(t)
		expectGroups(t, groups, "c1 ManifestWork: problem\n")
		if !strings.Contains(groups[0].Problem, "1.5") {
			t.Errorf("the problem is %s", groups[0].Problem)
		}
	})
}

// TestCompareInstalledChangedRecords holds that a ControllerRevision that a user changed proves nothing.
func TestCompareInstalledChangedRecords(t *testing.T) {
	old := parse(t, withDomain("old"))
	other, err := revision.New(api.Serving, parse(t, withDomain("other")), 1)
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*appsv1.ControllerRevision){
		"another spec":                          func(r *appsv1.ControllerRevision) { r.Data = other.Data },
		"another spec and the hash of the spec": func(r *appsv1.ControllerRevision) { r.Data, r.Annotations = other.Data, other.Annotations },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFleet(t)
			f.add("knativeservings", parse(t, withDomain("new")))
			f.addManaged(t, "c1", "eu", old)
			change(f.record(t, old))
			groups, _ := f.compareInstalled(t)
			expectGroups(t, groups, "c1 ManifestWork: problem\n")
		})
	}
}

// TestCompareInstalledEarlierDeploymentConfig holds that an AddOnDeploymentConfig counts with the recorded spec that OCM wants for the
// cluster while OCM rolls out an edit.
func TestCompareInstalledEarlierDeploymentConfig(t *testing.T) {
	const nodes = "{apiVersion: v1, kind: AddOnDeploymentConfig, metadata: {name: nodes, namespace: team}, spec: {nodePlacement: {nodeSelector: {pool: %s}}}}"
	old, live := parse(t, fmt.Sprintf(nodes, "edge")), parse(t, withDomain("old"))
	hash, err := revision.Hash(old)
	if err != nil {
		t.Fatal(err)
	}
	f := newFleet(t)
	f.add("knativeservings", live)
	f.add("addondeploymentconfigs", parse(t, fmt.Sprintf(nodes, "core")))
	f.record(t, old)
	addOn := f.addManaged(t, "c1", "eu", live)
	resource := addonv1beta1.ConfigGroupResource{Group: "addon.open-cluster-management.io", Resource: "addondeploymentconfigs"}
	referent := addonv1beta1.ConfigReferent{Namespace: "team", Name: "nodes"}
	addOn.Spec.Configs = append(addOn.Spec.Configs, addonv1beta1.AddOnConfig{ConfigGroupResource: resource, ConfigReferent: referent})
	addOn.Status.ConfigReferences = append(addOn.Status.ConfigReferences, addonv1beta1.ConfigReference{
		ConfigGroupResource: resource, DesiredConfig: &addonv1beta1.ConfigSpecHash{ConfigReferent: referent, SpecHash: hash},
	})
	groups, _ := f.compareInstalled(t)
	if got := describeGroups(groups); !strings.HasPrefix(got, "c1 ManifestWork: update Deployment.apps ") {
		t.Fatalf("groups are %s", got)
	}
	if diff := groups[0].Changes[0].Diff; !strings.Contains(diff, "pool: edge") || strings.Contains(diff, "core") {
		t.Errorf("the difference is %s", diff)
	}
}

// TestCompareInstalledDeploymentConfig holds that an AddOnDeploymentConfig counts with the spec that OCM wants for the cluster.
func TestCompareInstalledDeploymentConfig(t *testing.T) {
	nodes := parse(t, "{apiVersion: v1, kind: AddOnDeploymentConfig, metadata: {name: nodes, namespace: team}, spec: {nodePlacement: {nodeSelector: {pool: edge}}}}")
	hash, err := revision.Hash(nodes)
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		hash            string
		exists, granted bool
		want            string
	}{
		"the present spec":                    {hash, true, true, "c1 ManifestWork: update Deployment.apps "},
		"no hash":                             {"", true, true, "c1 ManifestWork: update Deployment.apps "},
		"an earlier spec":                     {"earlier", true, true, "c1 ManifestWork: problem\n"},
		"a deleted object":                    {hash, false, true, "c1 ManifestWork: problem\n"},
		"an object that the hub did not give": {hash, true, false, "c1 ManifestWork: problem\n"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFleet(t)
			live := parse(t, withDomain("old"))
			f.add("knativeservings", live)
			addOn := f.addManaged(t, "c1", "eu", live)
			if tc.exists {
				f.add("addondeploymentconfigs", nodes)
			}
			resource := addonv1beta1.ConfigGroupResource{Group: "addon.open-cluster-management.io", Resource: "addondeploymentconfigs"}
			referent := addonv1beta1.ConfigReferent{Namespace: "team", Name: "nodes"}
			if tc.granted {
				addOn.Spec.Configs = append(addOn.Spec.Configs, addonv1beta1.AddOnConfig{ConfigGroupResource: resource, ConfigReferent: referent})
			}
			addOn.Status.ConfigReferences = append(addOn.Status.ConfigReferences, addonv1beta1.ConfigReference{
				ConfigGroupResource: resource, DesiredConfig: &addonv1beta1.ConfigSpecHash{ConfigReferent: referent, SpecHash: tc.hash},
			})
			groups, _ := f.compareInstalled(t)
			if got := describeGroups(groups); !strings.HasPrefix(got, tc.want) {
				t.Errorf("groups are %s, want %s", got, tc.want)
			}
		})
	}
}

// renderingOf returns the name of the rendering of a resource on a cluster without a work agent.
func (f *fleet) renderingOf(t testing.TB, config *unstructured.Unstructured) string {
	t.Helper()
	install, err := render.Decode(config)
	if err == nil {
		install, err = install.On(values.None("none"), nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	bundle, err := f.renderer.Render(t.Context(), install, render.DefaultOptions(api.ModeDirect))
	if err != nil {
		t.Fatal(err)
	}
	return bundle.RenderingName()
}

// newDirect returns a resource that is installed without a work agent, with the records of the manager.
func newDirect(t testing.TB, version, rendering string) *unstructured.Unstructured {
	t.Helper()
	u := parse(t, withDomain("old"))
	u.SetName("edge")
	u.SetFinalizers([]string{api.DirectFinalizer})
	u.Object["spec"].(map[string]any)["clusterProfileRef"] = map[string]any{"namespace": "team", "name": "edge"}
	status, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&struct {
		ObservedGeneration int64              `json:"observedGeneration"`
		Version            string             `json:"version"`
		Annotations        map[string]string  `json:"annotations"`
		Conditions         []metav1.Condition `json:"conditions"`
	}{1, version, map[string]string{api.DeliveredRenderingAnnotation: rendering}, []metav1.Condition{{Type: api.InstallSucceeded, Status: metav1.ConditionTrue}}})
	if err != nil {
		t.Fatal(err)
	}
	u.Object["status"] = status
	return u
}

// TestCompareInstalledRecords holds that a cluster without a work agent is compared by the records of the hub.
func TestCompareInstalledRecords(t *testing.T) {
	rendering := newFleet(t).renderingOf(t, newDirect(t, "", ""))
	for name, tc := range map[string]struct {
		version, rendering string
		want               string
		text               string
	}{
		"the rendering of this program":     {"1.23.0", rendering, "team/edge Direct:\n", "no difference"},
		"another rendering":                 {"1.23.0", "0123456789ab", "team/edge Direct: rendering\n", "rendering 0123456789ab of version 1.23.0 becomes rendering " + rendering + "; the hub does not have the objects"},
		"another version without a record":  {"1.22.0", "", "team/edge Direct: rendering\n", "rendering (not recorded) of version 1.22.0 becomes rendering " + rendering},
		"the same version without a record": {"1.23.0", "", "team/edge Direct: problem\n", "the hub does not record which rendering of version 1.23.0"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFleet(t)
			f.add("knativeservings", newDirect(t, tc.version, tc.rendering))
			groups, omitted := f.compareInstalled(t)
			if len(omitted) > 0 {
				t.Fatalf("omitted are %v", omitted)
			}
			expectGroups(t, groups, tc.want)
			if HasDifference(groups) != strings.Contains(tc.want, "rendering") || HasProblem(groups) != strings.Contains(tc.want, "problem") {
				t.Errorf("difference: %v, problem: %v", HasDifference(groups), HasProblem(groups))
			}
			var out strings.Builder
			if err := Write(&out, groups, false); err != nil || !strings.Contains(out.String(), tc.text) {
				t.Errorf("the text is %s, want %q, error %v", &out, tc.text, err)
			}
		})
	}
	t.Run("a spec that is not delivered yet", func(t *testing.T) {
		f := newFleet(t)
		u := newDirect(t, "1.23.0", "0123456789ab")
		u.SetGeneration(2)
		f.add("knativeservings", u)
		groups, _ := f.compareInstalled(t)
		var out strings.Builder
		if err := Write(&out, groups, false); err != nil || !strings.Contains(out.String(), "configuration not completed, so that the change may be of the configuration: team/edge") {
			t.Errorf("the text is %s, error %v", &out, err)
		}
	})
	t.Run("the hub itself, whose namespace no annotation changes", func(t *testing.T) {
		f := newFleet(t)
		u := newDirect(t, "1.23.0", rendering)
		delete(u.Object["spec"].(map[string]any), "clusterProfileRef") //nolint:forcetypeassert // a resource has a spec
		u.SetAnnotations(map[string]string{api.InstallNamespaceAnnotation: "apps"})
		f.add("knativeservings", u)
		groups, _ := f.compareInstalled(t)
		expectGroups(t, groups, "hub Direct:\n")
	})
}

// TestCompareInstalledCost holds that the comparison of 1,000 clusters needs the lists of all clusters and one list for each group.
func TestCompareInstalledCost(t *testing.T) {
	f := newFleet(t)
	old := parse(t, withDomain("old"))
	f.add("knativeservings", parse(t, withDomain("new")))
	f.record(t, old)
	for n := range 500 {
		f.addManaged(t, fmt.Sprintf("c-%03d", n), "eu", old)
		direct := newDirect(t, "1.23.0", "0123456789ab")
		direct.SetName(fmt.Sprintf("d-%03d", n))
		direct.Object["spec"].(map[string]any)["clusterProfileRef"] = map[string]any{"namespace": "team", "name": direct.GetName()}
		f.add("knativeservings", direct)
	}
	groups, _ := f.compareInstalled(t)
	if len(groups) != 2 || len(groups[0].Clusters) != 500 || len(groups[1].Clusters) != 500 {
		t.Fatalf("groups are %s", describeGroups(groups))
	}
	// The six lists of package installations, one ControllerRevision, and the ManifestWorks of one cluster.
	if len(f.requests) != 8 {
		t.Errorf("the comparison needed %d requests, want 8:\n%s", len(f.requests), strings.Join(f.requests, "\n"))
	}
}
