// Copyright Contributors to the Open Cluster Management project

package revision

import (
	"errors"
	"strings"
	"sync"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/cache"

	"open-cluster-management.io/addon-framework/pkg/index"
	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"
	addonlisters "open-cluster-management.io/api/client/addon/listers/addon/v1beta1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/render"
)

// fleet is a KnativeServing whose spec changes while its clusters are at other specs.
type fleet struct {
	t         *testing.T
	source    *Source
	configs   cache.Indexer
	revisions cache.Indexer
	number    int64
}

func newFleet(t *testing.T) *fleet {
	t.Helper()
	s, configs := source(t)
	return &fleet{t: t, source: s, configs: configs, revisions: s.revisions}
}

// apply changes the resource, and returns the hash of its spec.
func (f *fleet) apply(version string, annotations map[string]string) string {
	f.t.Helper()
	f.number++
	u := serving(f.number, version)
	u.SetAnnotations(annotations)
	if err := f.configs.Add(u); err != nil {
		f.t.Fatal(err)
	}
	hash, err := Hash(u)
	if err != nil {
		f.t.Fatal(err)
	}
	return hash
}

// record keeps the resource as it is.
func (f *fleet) record() {
	f.t.Helper()
	o, _, err := f.configs.GetByKey("fleet/default")
	if err != nil {
		f.t.Fatal(err)
	}
	r, err := New(api.Serving, o.(*unstructured.Unstructured), f.number) //nolint:forcetypeassert // it is one
	if err != nil {
		f.t.Fatal(err)
	}
	if err := f.revisions.Add(r); err != nil {
		f.t.Fatal(err)
	}
}

// at is the add-on of a cluster that is to have the spec with the hash.
func at(hash string) *addonv1beta1.ManagedClusterAddOn {
	ref := reference("knativeservings", "default")
	ref.DesiredConfig.SpecHash = hash
	return addOn(ref)
}

func (f *fleet) version(hash string) string {
	f.t.Helper()
	install, err := f.source.Install(at(hash))
	if err != nil {
		f.t.Fatal(err)
	}
	return install.SpecVersion()
}

// TestRolloutIsTrue holds that a cluster has what its hash says, whatever the resource says by now.
func TestRolloutIsTrue(t *testing.T) {
	f := newFleet(t)
	first := f.apply("1.22", nil)
	if got := f.version(first); got != "1.22" {
		t.Errorf("before anything is recorded the version is %q", got)
	}
	f.record()
	second := f.apply("1.23", nil)
	for hash, want := range map[string]string{first: "1.22", second: "1.23", "": "1.23"} {
		if got := f.version(hash); got != want {
			t.Errorf("hash %.12q has version %q, want %q", hash, got, want)
		}
	}
	one, _ := f.source.Install(at(first))
	two, _ := f.source.Install(at(first))
	if one != two {
		t.Error("a revision is decoded twice")
	}
}

// TestUnknownRevision holds that nobody gets the live spec under another hash, and that a revision which comes later is found.
func TestUnknownRevision(t *testing.T) {
	f := newFleet(t)
	first := f.apply("1.22", nil)
	if got := f.version(first); got != "1.22" { // known, and forgotten with the next spec
		t.Errorf("version is %q", got)
	}
	unrecorded, _, _ := f.configs.GetByKey("fleet/default")
	f.apply("1.23", nil)
	_, err := f.source.Install(at(first))
	if got := render.ReasonOf(err); got != api.ReasonRevisionNotFound {
		t.Fatalf("reason is %q (%v)", got, err)
	}
	for _, want := range []string{first[:12], `"fleet/default"`, "keeps its installation", "apply the old spec again"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in: %v", want, err)
		}
	}
	r, err := New(api.Serving, unrecorded.(*unstructured.Unstructured), 1) //nolint:forcetypeassert // it is one
	if err != nil {
		t.Fatal(err)
	}
	if err := f.revisions.Add(r); err != nil {
		t.Fatal(err)
	}
	if got := f.version(first); got != "1.22" {
		t.Errorf("version is %q", got)
	}
	if err := f.configs.Delete(unrecorded); err != nil {
		t.Fatal(err)
	}
	if _, err := f.source.Install(at(first)); render.ReasonOf(err) != api.ReasonConfigNotFound {
		t.Errorf("without the resource the error is %v", err)
	}
}

// TestAnnotationsAreThoseOfTheTime holds that what decides besides the spec what is rendered stays with it.
func TestAnnotationsAreThoseOfTheTime(t *testing.T) {
	f := newFleet(t)
	first := f.apply("", map[string]string{api.PinnedVersionAnnotation: "1.22.1", api.InstallNamespaceAnnotation: "old"})
	f.record()
	f.apply("1.23", map[string]string{api.InstallNamespaceAnnotation: "new"})
	install, err := f.source.Install(at(first))
	if err != nil {
		t.Fatal(err)
	}
	if install.SpecVersion() != "1.22.1" || install.InstallNamespace() != "old" {
		t.Errorf("version is %q, namespace %q", install.SpecVersion(), install.InstallNamespace())
	}
	f.apply("", nil) // the same spec again, not pinned yet
	if got := f.version(first); got != "1.22.1" {
		t.Errorf("before it is pinned again the version is %q", got)
	}
	f.apply("", map[string]string{api.PinnedVersionAnnotation: "1.23.0"})
	if got := f.version(first); got != "1.23.0" {
		t.Errorf("the pin of the resource counts for the spec as it is, but the version is %q", got)
	}
}

func TestBrokenRevisions(t *testing.T) {
	f := newFleet(t)
	first := f.apply("1.22", nil)
	f.record()
	f.apply("1.23", nil)
	o, _, _ := f.revisions.GetByKey("fleet/" + Name(api.Serving, "default", first))
	if err := f.revisions.Update(&metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "fleet", Name: Name(api.Serving, "default", first)}}); err == nil {
		if _, err := f.source.Install(at(first)); err == nil || errors.As(err, new(*render.Error)) {
			t.Errorf("error is %v", err)
		}
	}
	forged, err := New(api.Serving, serving(9, "1.20"), 9)
	if err != nil {
		t.Fatal(err)
	}
	forged.Name = Name(api.Serving, "default", first)
	if err := f.revisions.Update(forged); err != nil {
		t.Fatal(err)
	}
	if _, err := f.source.Install(at(first)); render.ReasonOf(err) != api.ReasonRevisionNotFound {
		t.Errorf("with another spec under the name, the error is %v", err)
	}
	changed := o.(*appsv1.ControllerRevision).DeepCopy() //nolint:forcetypeassert // it is one
	changed.Data.Raw = forged.Data.Raw
	if err := f.revisions.Update(changed); err != nil {
		t.Fatal(err)
	}
	if _, err := f.source.Install(at(first)); render.ReasonOf(err) != api.ReasonRevisionNotFound || !strings.Contains(err.Error(), changed.Name) {
		t.Errorf("with the data of another spec, the error is %v", err)
	}
	if err := f.revisions.Update(o); err != nil {
		t.Fatal(err)
	}
	if got := f.version(first); got != "1.22" {
		t.Errorf("version is %q", got)
	}
}

// TestNewerRevision holds that a recorded spec with a field of a newer manager keeps the field, and is refused with the name of the
// field instead of being delivered without the field.
func TestNewerRevision(t *testing.T) {
	f := newFleet(t)
	f.number++
	u := serving(f.number, "1.23")
	if err := unstructured.SetNestedField(u.Object, "on", "spec", "fieldOfANewerManager"); err != nil {
		t.Fatal(err)
	}
	if err := f.configs.Add(u); err != nil {
		t.Fatal(err)
	}
	f.record()
	hash, err := Hash(u)
	if err != nil {
		t.Fatal(err)
	}
	f.apply("1.22", nil)
	o, _, err := f.revisions.GetByKey("fleet/" + Name(api.Serving, "default", hash))
	if err != nil {
		t.Fatal(err)
	}
	restored, err := Restore(o.(*appsv1.ControllerRevision)) //nolint:forcetypeassert // it is one
	if err != nil {
		t.Fatal(err)
	}
	if got, _, _ := unstructured.NestedString(restored.Object, "spec", "fieldOfANewerManager"); got != "on" {
		t.Errorf("the field is lost: %v", restored.Object)
	}
	if _, err := f.source.Install(at(hash)); err == nil || !strings.Contains(err.Error(), "fieldOfANewerManager") {
		t.Errorf("the error is %v", err)
	}
}

// TestConcurrentUse is for the race detector: the framework's worker and our controllers ask at the same time.
func TestConcurrentUse(t *testing.T) {
	f := newFleet(t)
	first := f.apply("1.22", nil)
	f.record()
	second := f.apply("1.23", nil)
	f.record()
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for range 200 {
				hash, want := first, "1.22"
				if i%2 == 0 {
					hash, want = second, "1.23"
				}
				install, err := f.source.Install(at(hash))
				if err != nil || install.SpecVersion() != want {
					t.Errorf("hash %.12s: %v", hash, err)
				}
			}
		})
	}
	for i := range 50 {
		u := serving(int64(100+i), []string{"1.22", "1.23"}[i%2])
		if err := f.configs.Update(u); err != nil {
			t.Error(err)
		}
	}
	wg.Wait()
}

func TestPausedBy(t *testing.T) {
	f := newFleet(t)
	hash := f.apply("1.22", nil)
	paused := map[string]string{api.PausedAnnotation: "true"}
	if got := f.source.PausedBy(at(hash)); got != "" {
		t.Errorf("it is paused by %q", got)
	}
	a := at(hash)
	a.Annotations = paused
	if got := f.source.PausedBy(a); !strings.Contains(got, "ManagedClusterAddOn \"cluster1/knative-serving\"") {
		t.Errorf("it is paused by %q", got)
	}
	f.apply("1.22", paused)
	if got := f.source.PausedBy(at(hash)); !strings.Contains(got, "KnativeServing \"fleet/default\"") {
		t.Errorf("it is paused by %q", got)
	}
	f.apply("1.22", map[string]string{api.PausedAnnotation: "false"})
	for _, a := range []*addonv1beta1.ManagedClusterAddOn{at(hash), addOn(), addOn(reference("knativeservings", "gone"))} {
		if got := f.source.PausedBy(a); got != "" {
			t.Errorf("it is paused by %q", got)
		}
	}
}

func TestReferences(t *testing.T) {
	f := newFleet(t)
	first := f.apply("", map[string]string{api.PinnedVersionAnnotation: "1.22.1"})
	f.record()
	here := func(hash string) *addonv1beta1.ConfigSpecHash {
		return &addonv1beta1.ConfigSpecHash{ConfigReferent: addonv1beta1.ConfigReferent{Namespace: "fleet", Name: "default"}, SpecHash: hash}
	}
	group := addonv1beta1.ConfigGroupResource{Group: api.Group, Resource: "knativeservings"}
	addOns := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{index.AddonByConfig: index.IndexAddonByConfig})
	definitions := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	a := addOn(addonv1beta1.ConfigReference{ConfigGroupResource: group, DesiredConfig: here(first), LastAppliedConfig: here("applied")},
		addonv1beta1.ConfigReference{ConfigGroupResource: addonv1beta1.ConfigGroupResource{Group: "x", Resource: "y"}, DesiredConfig: here("foreign")})
	elsewhere := here("elsewhere")
	elsewhere.Name = "other"
	d := &addonv1beta1.ClusterManagementAddOn{ObjectMeta: metav1.ObjectMeta{Name: "knative-serving"}}
	d.Status.InstallProgressions = []addonv1beta1.InstallProgression{{ConfigReferences: []addonv1beta1.InstallConfigReference{
		{ConfigGroupResource: group, DesiredConfig: here("next"), LastAppliedConfig: here("before"), LastKnownGoodConfig: here("good")},
		{ConfigGroupResource: group, DesiredConfig: elsewhere, LastKnownGoodConfig: here("")},
	}}}
	for indexer, o := range map[cache.Indexer]any{addOns: a, definitions: d} {
		if err := indexer.Add(o); err != nil {
			t.Fatal(err)
		}
	}
	refs := &References{AddOns: addOns, Definitions: addonlisters.NewClusterManagementAddOnLister(definitions)}
	config := serving(1, "")
	got, err := refs.Of(api.Serving, cache.MetaObjectToName(config).AsNamespacedName())
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Desired) != 2 || !got.Desired[first] || !got.Desired["next"] {
		t.Errorf("desired are %v", got.Desired)
	}
	if len(got.Good) != 2 || !got.Good["before"] || !got.Good["good"] {
		t.Errorf("good are %v", got.Good)
	}
	if len(got.Named) != 2 || !got.Named[first] || !got.Named["applied"] {
		t.Errorf("named are %v", got.Named)
	}
	forged := a.DeepCopy()
	forged.Spec.Configs = nil
	if err := addOns.Update(forged); err != nil {
		t.Fatal(err)
	}
	got, err = refs.Of(api.Serving, cache.MetaObjectToName(config).AsNamespacedName())
	if err != nil || len(got.Desired) != 1 || !got.Desired["next"] || !got.Named[first] {
		t.Errorf("of a status that the hub does not bear out, desired are %v and named %v (error %v)", got.Desired, got.Named, err)
	}
	refs.AddOns = definitions
	if _, err := refs.Of(api.Serving, cache.MetaObjectToName(config).AsNamespacedName()); err == nil {
		t.Error("without the index nobody refers to anything")
	}
}
