// Copyright Contributors to the Open Cluster Management project

package comparison

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"
	clusterv1 "open-cluster-management.io/api/cluster/v1"
	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/delivery/manifestwork"
	"open-cluster-management.io/knative-addon/pkg/installations"
	"open-cluster-management.io/knative-addon/pkg/render"
	"open-cluster-management.io/knative-addon/pkg/revision"
	"open-cluster-management.io/knative-addon/pkg/values"
)

const fleetYAML = `
apiVersion: operator.knative.dev/v1beta1
kind: KnativeServing
metadata: {name: default, namespace: team, generation: 1}
spec:
  version: "1.23"
  ingress: {kourier: {enabled: true}}
  config: {network: {ingress-class: kourier.ingress.networking.knative.dev}, domain: {$(DOMAIN).example.com: ""}}
`

// parse decodes the resource with a text in place of $(DOMAIN).
func parse(t testing.TB, text string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &u.Object); err != nil {
		t.Fatal(err)
	}
	return u
}

func withDomain(domain string) string { return strings.ReplaceAll(fleetYAML, "$(DOMAIN)", domain) }

// withValue returns the resource with a value of the cluster.
func withValue(text string) string {
	return strings.ReplaceAll(withDomain("old"), "config: {", "config: {defaults: {container-name-template: \""+text+"-$(cluster.labels.region)\"}, ")
}

// fakeHub plays the lists of a hub, and the ControllerRevisions.
type fakeHub struct {
	items map[string][]any
	// revisions are the ControllerRevisions by path.
	revisions map[string]any

	mu       sync.Mutex
	requests []string
}

func (h *fakeHub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	h.requests = append(h.requests, r.URL.Path)
	h.mu.Unlock()
	_, path, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/apis/"), "/")
	_, path, _ = strings.Cut(path, "/")
	kind, version := "List", "v1"
	if strings.Contains(r.Header.Get("Accept"), "PartialObjectMetadataList") {
		kind, version, path = "PartialObjectMetadataList", "meta.k8s.io/v1", "foundations"
	}
	if strings.Contains(path, "/controllerrevisions/") {
		h.serveRevision(w, path)
		return
	}
	path += strings.TrimPrefix(r.URL.Query().Get("fieldSelector"), "metadata.name")
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{
		"apiVersion": version, "kind": kind, "metadata": map[string]any{"resourceVersion": "1"}, "items": append([]any{}, h.items[path]...),
	})
}

func (h *fakeHub) serveRevision(w http.ResponseWriter, path string) {
	w.Header().Set("Content-Type", "application/json")
	if h.revisions[path] == nil {
		w.WriteHeader(http.StatusNotFound)
		_ = json.NewEncoder(w).Encode(apierrors.NewNotFound(schema.GroupResource{Resource: "controllerrevisions"}, path).ErrStatus)
		return
	}
	_ = json.NewEncoder(w).Encode(h.revisions[path])
}

// fleet is a hub with installations of one resource.
type fleet struct {
	*fakeHub
	renderer *render.Renderer
}

func newFleet(t testing.TB) *fleet {
	t.Helper()
	renderer, err := render.New(render.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = renderer.Close() })
	return &fleet{fakeHub: &fakeHub{items: map[string][]any{}, revisions: map[string]any{}}, renderer: renderer}
}

func (f *fleet) add(path string, objects ...any) { f.items[path] = append(f.items[path], objects...) }

// addManaged adds a managed cluster with the ManifestWorks of a resource, and returns its add-on.
func (f *fleet) addManaged(t testing.TB, name, region string, config *unstructured.Unstructured) *addonv1beta1.ManagedClusterAddOn {
	t.Helper()
	of := api.Serving.Resource()
	hash, err := revision.Hash(config)
	if err != nil {
		t.Fatal(err)
	}
	desired := &addonv1beta1.ConfigSpecHash{ConfigReferent: addonv1beta1.ConfigReferent{Namespace: config.GetNamespace(), Name: config.GetName()}, SpecHash: hash}
	resource := addonv1beta1.ConfigGroupResource{Group: of.Group, Resource: of.Resource}
	addOn := &addonv1beta1.ManagedClusterAddOn{
		TypeMeta:   metav1.TypeMeta{APIVersion: addonv1beta1.GroupVersion.String(), Kind: "ManagedClusterAddOn"},
		ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: api.Serving.AddOnName()},
		Spec:       addonv1beta1.ManagedClusterAddOnSpec{Configs: []addonv1beta1.AddOnConfig{{ConfigGroupResource: resource, ConfigReferent: desired.ConfigReferent}}},
	}
	addOn.Status.ConfigReferences = []addonv1beta1.ConfigReference{{ConfigGroupResource: resource, DesiredConfig: desired, LastAppliedConfig: desired}}
	cluster := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"region": region}}}
	works := f.newWorks(t, addOn, cluster, config)
	f.add("managedclusteraddons=knative-serving", addOn)
	f.add("managedclusters", cluster)
	f.add("foundations", &metav1.PartialObjectMetadata{ObjectMeta: works[0].ObjectMeta})
	f.add("namespaces/"+name+"/manifestworks", works[0], works[1])
	return addOn
}

// newWorks returns the ManifestWorks of a cluster as the manager and addon-framework write them.
func (f *fleet) newWorks(t testing.TB, addOn *addonv1beta1.ManagedClusterAddOn, cluster *clusterv1.ManagedCluster, config *unstructured.Unstructured) []*workv1.ManifestWork {
	t.Helper()
	install, err := render.Decode(config)
	if err != nil {
		t.Fatal(err)
	}
	if install, err = install.On(values.OfManagedCluster(cluster, nil), nil); err != nil {
		t.Fatal(err)
	}
	bundle, err := f.renderer.Render(t.Context(), install, render.DefaultOptions(api.ModeManifestWork))
	if err != nil {
		t.Fatal(err)
	}
	foundation, err := manifestwork.Foundation(bundle, addOn, "hub-uid")
	if err != nil {
		t.Fatal(err)
	}
	foundation.Annotations[api.RunningVersionAnnotation] = bundle.Version
	payload := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{
		Namespace: addOn.Namespace, Name: "addon-knative-serving-deploy-0", Labels: map[string]string{addonv1beta1.AddonLabelKey: addOn.Name},
	}}
	for _, o := range manifestwork.Payload(bundle, foundation) {
		raw, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		payload.Spec.Workload.Manifests = append(payload.Spec.Workload.Manifests, workv1.Manifest{RawExtension: runtime.RawExtension{Raw: raw}})
	}
	for _, w := range []*workv1.ManifestWork{foundation, payload} {
		w.TypeMeta = metav1.TypeMeta{APIVersion: workv1.GroupVersion.String(), Kind: "ManifestWork"}
	}
	return []*workv1.ManifestWork{foundation, payload}
}

// newComparer returns a Comparer of the hub, and the objects of the hub.
func (f *fleet) newComparer(t testing.TB) (*Comparer, installations.Objects) {
	t.Helper()
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	hub, err := installations.Connect(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	objects, failed := hub.List(t.Context(), installations.Query{Components: api.Components(), InstalledOnly: true})
	if len(failed) > 0 {
		t.Fatal(failed)
	}
	return &Comparer{Hub: hub, Renderer: f.renderer, Options: render.DefaultOptions}, objects
}

// compare compares a file with the hub.
func (f *fleet) compare(t testing.TB, file string, names ...string) (groups []Group, unused []string) {
	t.Helper()
	comparer, objects := f.newComparer(t)
	read, err := ReadFile([]byte(file), "team")
	if err != nil {
		t.Fatal(err)
	}
	groups, unused, err = comparer.Compare(t.Context(), read, objects, &installations.Filter{Names: names})
	if err != nil {
		t.Fatal(err)
	}
	return groups, unused
}

// describeGroups returns a line for each group: its clusters, its problem, and its changes.
func describeGroups(groups []Group) string {
	var out strings.Builder
	for _, g := range groups {
		fmt.Fprintf(&out, "%s %s:", strings.Join(g.Clusters, ","), g.Mode)
		for _, c := range g.Changes {
			fmt.Fprintf(&out, " %s %s;", c.Action, c.Object)
		}
		if g.Problem != "" {
			out.WriteString(" problem")
		}
		if g.Rendering != nil {
			out.WriteString(" rendering")
		}
		out.WriteString("\n")
	}
	return out.String()
}

func expectGroups(t *testing.T, groups []Group, want string) {
	t.Helper()
	if got := describeGroups(groups); got != want {
		t.Errorf("groups are\n%swant\n%s", got, want)
	}
}

// TestCompareCost holds that a comparison of 1,000 clusters needs the lists of all clusters and one list for each group.
func TestCompareCost(t *testing.T) {
	f := newFleet(t)
	live := parse(t, withDomain("old"))
	f.add("knativeservings", live)
	for n := range 500 {
		f.addManaged(t, fmt.Sprintf("c-%03d", n), "eu", live)
		direct := parse(t, withDomain("old"))
		direct.SetName(fmt.Sprintf("d-%03d", n))
		direct.SetFinalizers([]string{api.DirectFinalizer})
		direct.Object["spec"].(map[string]any)["clusterProfileRef"] = map[string]any{"namespace": "team", "name": direct.GetName()}
		f.add("knativeservings", direct)
	}
	groups, _ := f.compare(t, withDomain("new"))
	if len(groups) != 1 || len(groups[0].Clusters) != 500 {
		t.Fatalf("groups are %s", describeGroups(groups))
	}
	// The six lists of package installations, and the ManifestWorks of one cluster.
	if len(f.requests) != 7 {
		t.Errorf("the comparison needed %d requests, want 7:\n%s", len(f.requests), strings.Join(f.requests, "\n"))
	}
}

func TestCompareManagedClusters(t *testing.T) {
	f := newFleet(t)
	live := parse(t, withDomain("old"))
	f.add("knativeservings", live)
	f.addManaged(t, "c1", "eu", live)
	f.addManaged(t, "c2", "us", live)
	t.Run("an edit of the configuration", func(t *testing.T) {
		groups, _ := f.compare(t, withDomain("new"))
		expectGroups(t, groups, "c1,c2 ManifestWork: update ConfigMap knative-serving/config-domain;\n")
		if diff := groups[0].Changes[0].Diff; !strings.Contains(diff, "\n-  old.example.com: \"\"\n") || !strings.Contains(diff, "\n+  new.example.com: \"\"\n") {
			t.Errorf("the difference is %s", diff)
		}
	})
	t.Run("the same file", func(t *testing.T) {
		groups, _ := f.compare(t, withDomain("old"))
		expectGroups(t, groups, "c1,c2 ManifestWork:\n")
		if HasDifference(groups) || HasProblem(groups) {
			t.Error("clusters without a difference count as a difference or a problem")
		}
	})
	t.Run("one cluster alone", func(t *testing.T) {
		groups, _ := f.compare(t, withDomain("new"), "c2")
		expectGroups(t, groups, "c2 ManifestWork: update ConfigMap knative-serving/config-domain;\n")
	})
	t.Run("a version that cannot be reached in one step", func(t *testing.T) {
		groups, _ := f.compare(t, strings.ReplaceAll(withDomain("old"), `"1.23"`, `"1.20"`))
		expectGroups(t, groups, "c1,c2 ManifestWork: problem\n")
	})
	t.Run("a KnativeFleet without children", func(t *testing.T) {
		groups, unused := f.compare(t, "kind: KnativeFleet\nmetadata: {name: new, namespace: team}\nspec: {selector: {}, serving: {spec: {}}}")
		if len(groups) != 0 || len(unused) != 1 || !strings.Contains(unused[0], "the knative-serving template of KnativeFleet team/new yet") {
			t.Errorf("groups are %s, unused are %q", describeGroups(groups), unused)
		}
	})
	t.Run("an unknown cluster", func(t *testing.T) {
		comparer, objects := f.newComparer(t)
		read, err := ReadFile([]byte(withDomain("new")), "team")
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err = comparer.Compare(t.Context(), read, objects, &installations.Filter{Names: []string{"c3"}}); err == nil || !strings.Contains(err.Error(), `"c3"`) {
			t.Errorf("the error is %v, want an error about c3", err)
		}
	})
	t.Run("an unused resource", func(t *testing.T) {
		groups, unused := f.compare(t, strings.ReplaceAll(withDomain("old"), "name: default", "name: other"))
		if len(groups) != 0 || !slices.Equal(unused, []string{"KnativeServing team/other"}) {
			t.Errorf("groups are %s, unused are %q", describeGroups(groups), unused)
		}
	})
}

// TestCompareValues holds that clusters whose values differ are compared each with its own ManifestWorks.
func TestCompareValues(t *testing.T) {
	f := newFleet(t)
	live := parse(t, withValue("a"))
	f.add("knativeservings", live)
	f.addManaged(t, "c1", "eu", live)
	f.addManaged(t, "c2", "us", live)
	f.addManaged(t, "c3", "us", live)
	groups, _ := f.compare(t, withValue("b"))
	if len(groups) != 2 || len(groups[0].Clusters) != 1 || len(groups[1].Clusters) != 2 || !strings.Contains(groups[1].Changes[0].Diff, "b-us") {
		t.Errorf("groups are %s", describeGroups(groups))
	}
	groups, _ = f.compare(t, withValue("a"))
	expectGroups(t, groups, "c1,c2,c3 ManifestWork:\n")
}

// TestCompareDeploymentConfig holds that an AddOnDeploymentConfig of the file is compared without a resource in the file.
func TestCompareDeploymentConfig(t *testing.T) {
	const config = "apiVersion: addon.open-cluster-management.io/v1beta1\nkind: AddOnDeploymentConfig\nmetadata: {name: nodes, namespace: team}\nspec: {nodePlacement: {nodeSelector: {pool: %s}}}\n"
	f := newFleet(t)
	live := parse(t, withDomain("old"))
	f.add("knativeservings", live)
	addOn := f.addManaged(t, "c1", "eu", live)
	f.add("addondeploymentconfigs", parse(t, "apiVersion: v1\nkind: AddOnDeploymentConfig\nmetadata: {name: nodes, namespace: team}\nspec: {}"))
	resource := addonv1beta1.ConfigGroupResource{Group: "addon.open-cluster-management.io", Resource: "addondeploymentconfigs"}
	referent := addonv1beta1.ConfigReferent{Namespace: "team", Name: "nodes"}
	addOn.Spec.Configs = append(addOn.Spec.Configs, addonv1beta1.AddOnConfig{ConfigGroupResource: resource, ConfigReferent: referent})
	addOn.Status.ConfigReferences = append(addOn.Status.ConfigReferences, addonv1beta1.ConfigReference{
		ConfigGroupResource: resource, DesiredConfig: &addonv1beta1.ConfigSpecHash{ConfigReferent: referent, SpecHash: "h"},
	})
	groups, unused := f.compare(t, fmt.Sprintf(config, "edge"))
	if len(groups) != 1 || len(unused) != 0 || !strings.Contains(describeGroups(groups), "update Deployment.apps knative-serving/controller;") {
		t.Errorf("groups are %s, unused %q", describeGroups(groups), unused)
	}
	if diff := groups[0].Changes[0].Diff; !strings.Contains(diff, "pool: edge") {
		t.Errorf("the difference is %s", diff)
	}
}

// TestCompareDirect holds that a cluster without a work agent, the children of a fleet and a new resource are compared by the objects
// of the resources.
func TestCompareDirect(t *testing.T) {
	f := newFleet(t)
	child := parse(t, withDomain("old"))
	child.SetName("edge")
	child.SetLabels(map[string]string{api.FleetLabel: "web"})
	child.SetFinalizers([]string{api.DirectFinalizer})
	child.Object["spec"].(map[string]any)["clusterProfileRef"] = map[string]any{"namespace": "team", "name": "edge"}
	f.add("knativeservings", child)
	t.Run("the template of a fleet", func(t *testing.T) {
		template, err := json.Marshal(parse(t, withDomain("new")).Object["spec"])
		if err != nil {
			t.Fatal(err)
		}
		groups, _ := f.compare(t, "kind: KnativeFleet\nmetadata: {name: web}\nspec: {selector: {}, serving: {spec: "+string(template)+"}}")
		expectGroups(t, groups, "team/edge Direct: update ConfigMap knative-serving/config-domain;\n")
	})
	t.Run("a new resource", func(t *testing.T) {
		text := strings.ReplaceAll(strings.ReplaceAll(withDomain("old"), "name: default", "name: new"), "spec:", "spec:\n  clusterProfileRef: {namespace: team, name: new}")
		groups, unused := f.compare(t, text)
		if len(groups) != 1 || len(unused) != 0 || slices.ContainsFunc(groups[0].Changes, func(c Change) bool { return c.Action != Create }) || len(groups[0].Changes) < 50 {
			t.Errorf("groups are %s, unused %q", describeGroups(groups), unused)
		}
	})
	t.Run("another cluster", func(t *testing.T) {
		text := strings.ReplaceAll(strings.ReplaceAll(withDomain("old"), "name: default", "name: edge"), "spec:", "spec:\n  clusterProfileRef: {namespace: team, name: other}")
		groups, _ := f.compare(t, text)
		expectGroups(t, groups, "team/edge Direct: problem\n")
	})
}

// TestSecretsAreMasked holds that no value of a Secret is printed, and that a change of a value is.
func TestSecretsAreMasked(t *testing.T) {
	set := func(value string) objectSet {
		out := objectSet{}
		text := fmt.Sprintf(`{"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "n", "annotations": `+
			`{"kubectl.kubernetes.io/last-applied-configuration": "{data: {key: %s}}"}}, "data": {"key": %q, "same": "c2FtZQ=="}}`, value, value)
		if err := out.add(api.Serving, []byte(text)); err != nil {
			t.Fatal(err)
		}
		return out
	}
	changes, err := compareObjects(set("aHVudGVy"), set("c3dvcmRmaXNo"))
	if err != nil || len(changes) != 1 {
		t.Fatalf("changes are %v, error %v", changes, err)
	}
	diff := changes[0].Diff
	for _, value := range []string{"aHVudGVy", "c3dvcmRmaXNo", "c2FtZQ=="} {
		if strings.Contains(diff, value) {
			t.Errorf("the difference has the value of a Secret: %s", diff)
		}
	}
	if !strings.Contains(diff, "-  key: '*** (before)'") || !strings.Contains(diff, "+  key: '*** (after)'") {
		t.Errorf("the difference hides the change: %s", diff)
	}
	if !strings.Contains(diff, "last-applied-configuration: '*** (after)'") {
		t.Errorf("the difference hides the change of the annotation: %s", diff)
	}
}

// TestInvalidSecret holds that values that no Secret can have are compared and masked like others.
func TestInvalidSecret(t *testing.T) {
	set := func(value string) objectSet {
		out := objectSet{}
		text := fmt.Sprintf(`{"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "n"}, "data": {"key": {"nested": %q}}}`, value)
		if err := out.add(api.Serving, []byte(text)); err != nil {
			t.Fatal(err)
		}
		return out
	}
	if changes, err := compareObjects(set("same"), set("same")); err != nil || len(changes) != 0 {
		t.Errorf("changes of equal values are %v, error %v", changes, err)
	}
	changes, err := compareObjects(set("hunter"), set("swordfish"))
	if err != nil || len(changes) != 1 || strings.Contains(changes[0].Diff, "swordfish") || !strings.Contains(changes[0].Diff, "*** (after)") {
		t.Errorf("changes are %v, error %v", changes, err)
	}
	text := objectSet{}
	if err := text.add(api.Serving, []byte(`{"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "n"}, "data": "hunter", "stringData": ["hunter"]}`)); err != nil {
		t.Fatal(err)
	}
	if changes, err = compareObjects(text, set("swordfish")); err != nil || len(changes) != 1 || strings.Contains(changes[0].Diff, "hunter") {
		t.Errorf("changes of a Secret without a map are %v, error %v", changes, err)
	}
}

// TestTextsOfClusters holds that no text of a ManifestWork controls the terminal of the reader.
func TestTextsOfClusters(t *testing.T) {
	before := objectSet{}
	text := `{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a\u001b[2J\nb"}, "data": {"key": "c\u001b[2J"}}`
	if err := before.add(api.Serving, []byte(text)); err != nil {
		t.Fatal(err)
	}
	changes, err := compareObjects(before, objectSet{})
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	problem := newProblem(&installations.Installation{Cluster: "cluster1"}, errors.New("cannot read \x1b[2J"))
	if err := Write(&out, []Group{{Clusters: []string{"cluster1"}, Changes: changes}, problem}, false); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(out.String(), "\x1b") || strings.Contains(out.String(), "[2J\nb") {
		t.Errorf("the output is %q", out.String())
	}
}

// TestRemovedObjects holds that an object that leaves the file is deleted, and that a CRD stays.
func TestRemovedObjects(t *testing.T) {
	before := objectSet{}
	for _, text := range []string{
		`{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "n"}}`,
		`{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "d"}}`,
	} {
		if err := before.add(api.Serving, []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	changes, err := compareObjects(before, objectSet{})
	if err != nil || len(changes) != 2 || changes[0].Action != Delete || changes[1].Action != Keep {
		t.Errorf("changes are %v, error %v", changes, err)
	}
}

// TestRecordOfCreation holds that the record of the creation of a CRD, which the manager adds, is no difference.
func TestRecordOfCreation(t *testing.T) {
	before, after := objectSet{}, objectSet{}
	const object = `{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "d"%s}}`
	err := errors.Join(
		before.add(api.Serving, fmt.Appendf(nil, object, `, "annotations": {"`+api.CreatedByHubAnnotation+`": "hub"}`)), after.add(api.Serving, fmt.Appendf(nil, object, "")))
	if changes, compareErr := compareObjects(before, after); err != nil || compareErr != nil || len(changes) != 0 {
		t.Errorf("changes are %v, errors %v and %v", changes, err, compareErr)
	}
}
