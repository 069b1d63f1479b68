// Copyright Contributors to the Open Cluster Management project

package dashboard

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"

	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"

	"open-cluster-management.io/knative-addon/docs"
	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/explanation"
	"open-cluster-management.io/knative-addon/pkg/installations"
)

// now is the time of every page.
func now() time.Time { return time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC) }

// newObjects returns the objects of a fleet in the middle of a rollout from 1.22.1 to 1.23.0, with two problems.
func newObjects(clusters int) installations.Objects {
	config := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"version": "1.23"}}}
	config.SetNamespace("knative-addon")
	config.SetName("default")
	out := installations.Objects{Resources: map[api.Component][]*unstructured.Unstructured{}}
	for _, component := range api.Components() {
		out.Resources[component] = []*unstructured.Unstructured{config}
		for n := range clusters {
			if component == api.Eventing && n%3 == 1 {
				continue
			}
			addOn, foundation := newAddOn(component, fmt.Sprintf("cluster-%04d", n), n*10 < clusters*7)
			switch {
			case n%29 == 3:
				setCondition(addOn, addonv1beta1.ManagedClusterAddOnConditionAvailable, metav1.ConditionFalse, "WorkloadsNotReady",
					"Deployment knative-serving/webhook: 0 of 1 available: ImagePullBackOff: cannot pull gcr.io/knative-releases/webhook")
			case n%97 == 41:
				setCondition(addOn, api.TargetClusterResolved, metav1.ConditionFalse, api.ReasonManagedClusterUnavailable, "the work agent has not reported for 7 minutes")
			case n == 2:
				addOn.Annotations = map[string]string{api.PausedAnnotation: "true"}
			}
			out.AddOns = append(out.AddOns, addOn)
			out.Works = append(out.Works, foundation)
		}
	}
	return out
}

// newAddOn returns an add-on that is ready, with the version of its foundation.
func newAddOn(component api.Component, cluster string, isUpdated bool) (*addonv1beta1.ManagedClusterAddOn, *metav1.PartialObjectMetadata) {
	out := &addonv1beta1.ManagedClusterAddOn{ObjectMeta: metav1.ObjectMeta{Namespace: cluster, Name: component.AddOnName()}}
	foundation := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Namespace: cluster, Name: component.AddOnName() + "-foundation", Labels: map[string]string{api.FoundationLabel: string(component)},
		Annotations: map[string]string{api.RunningVersionAnnotation: "1.23.0", api.VersionAnnotation: "1.23.0"},
	}}
	of := component.Resource()
	resource := addonv1beta1.ConfigGroupResource{Group: of.Group, Resource: of.Resource}
	referent := addonv1beta1.ConfigReferent{Namespace: "other", Name: "config"}
	completed := "new"
	if !isUpdated {
		completed, foundation.Annotations[api.RunningVersionAnnotation] = "old", "1.22.1"
	}
	out.Spec.Configs = []addonv1beta1.AddOnConfig{{ConfigGroupResource: resource, ConfigReferent: referent}}
	out.Status.ConfigReferences = []addonv1beta1.ConfigReference{{
		ConfigGroupResource: resource, DesiredConfig: &addonv1beta1.ConfigSpecHash{ConfigReferent: referent, SpecHash: "new"},
		LastAppliedConfig: &addonv1beta1.ConfigSpecHash{ConfigReferent: referent, SpecHash: completed},
	}}
	for _, of := range []string{api.TargetClusterResolved, addonv1beta1.ManagedClusterAddOnManifestApplied, addonv1beta1.ManagedClusterAddOnConditionAvailable} {
		setCondition(out, of, metav1.ConditionTrue, "AsExpected", "")
	}
	return out, foundation
}

func setCondition(addOn *addonv1beta1.ManagedClusterAddOn, of string, status metav1.ConditionStatus, reason, message string) {
	for n := range addOn.Status.Conditions {
		if addOn.Status.Conditions[n].Type == of {
			addOn.Status.Conditions = append(addOn.Status.Conditions[:n], addOn.Status.Conditions[n+1:]...)
			break
		}
	}
	addOn.Status.Conditions = append(addOn.Status.Conditions, metav1.Condition{
		Type: of, Status: status, Reason: reason, Message: message, LastTransitionTime: metav1.NewTime(now().Add(-7 * time.Minute)),
	})
}

// newDashboard returns a dashboard with the objects, and the number of requests that the hub has got.
func newDashboard(t *testing.T, objects installations.Objects) (*Dashboard, *atomic.Int32) {
	t.Helper()
	requests := &atomic.Int32{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		requests.Add(1)
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"kind": "List", "apiVersion": "v1", "metadata": {}, "items": []}`)
	}))
	t.Cleanup(server.Close)
	hub, err := installations.Connect(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	hub.Name = "the hub (https://hub.example.com)"
	book, err := explanation.Read(docs.Pages)
	if err != nil {
		t.Fatal(err)
	}
	out := New(hub, book, clocktesting.NewFakePassiveClock(now()))
	out.setState(objects, nil)
	return out, requests
}

// TestStateOfHub holds that no page shows a state that is not complete, and that every page tells of watches without answers.
func TestStateOfHub(t *testing.T) {
	d, _ := newDashboard(t, installations.Objects{})
	d.last = nil
	for _, path := range []string{"/", "/status.json"} {
		answer := request(t, d, http.MethodGet, "127.0.0.1:8700", path)
		_ = answer.Body.Close()
		if answer.StatusCode != http.StatusServiceUnavailable {
			t.Errorf("before the lists %s answers %s", path, answer.Status)
		}
	}
	d.setState(installations.Objects{}, []string{"no permission"})
	d.failedWatches = func() []error { return []error{errors.New("connection refused")} }
	for _, path := range []string{"/", "/reason?name=InvalidSpec"} {
		page := readPage(t, d, path)
		for _, want := range []string{"no permission", "this state may be old: connection refused"} {
			if !strings.Contains(page, want) {
				t.Errorf("%s lacks %q:\n%s", path, want, page)
			}
		}
	}
}

// request returns the answer to a request for a host.
func request(t *testing.T, d *Dashboard, method, host, path string) *http.Response {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, "http://"+host+path, http.NoBody)
	w := httptest.NewRecorder()
	d.Handler().ServeHTTP(w, r)
	return w.Result()
}

func readPage(t *testing.T, d *Dashboard, path string) string {
	t.Helper()
	answer := request(t, d, http.MethodGet, "127.0.0.1:8700", path)
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Fatalf("%s answers %d, error %v: %s", path, answer.StatusCode, err, text)
	}
	return string(text)
}

// TestProtection holds that no other site reads the pages, and that nothing but reads are answered.
func TestProtection(t *testing.T) {
	d, _ := newDashboard(t, newObjects(5))
	for _, tc := range []struct {
		method, host string
		want         int
	}{
		{http.MethodGet, "127.0.0.1:8700", http.StatusOK},
		{http.MethodHead, "localhost:8700", http.StatusOK},
		{http.MethodGet, "[::1]:8700", http.StatusOK},
		{http.MethodGet, "evil.example.com:8700", http.StatusForbidden},
		{http.MethodGet, "127.0.0.1.evil.example.com", http.StatusForbidden},
		{http.MethodGet, "10.0.0.7:8700", http.StatusForbidden},
		{http.MethodPost, "127.0.0.1:8700", http.StatusMethodNotAllowed},
		{http.MethodDelete, "127.0.0.1:8700", http.StatusMethodNotAllowed},
	} {
		answer := request(t, d, tc.method, tc.host, "/")
		_ = answer.Body.Close()
		if answer.StatusCode != tc.want {
			t.Errorf("%s for %s answers %d, want %d", tc.method, tc.host, answer.StatusCode, tc.want)
		}
		policy := answer.Header.Get("Content-Security-Policy")
		if !strings.HasPrefix(policy, "default-src 'none'; style-src 'sha256-") || strings.Contains(policy, "unsafe") || answer.Header.Get("X-Frame-Options") != "DENY" {
			t.Errorf("the headers for %s are %v", tc.host, answer.Header)
		}
	}
}

// TestPages holds what the pages say, and that a page of all clusters sends no request to the hub.
func TestPages(t *testing.T) {
	d, requests := newDashboard(t, newObjects(1000))
	fleet := readPage(t, d, "/")
	for _, want := range []string{
		"knative-serving", "knative-eventing", "1000", "1.22.1 → 1.23.0", "WorkloadsNotReady", "ManagedClusterUnavailable", "ImagePullBackOff", "7m", "more</a>", `class="failed"`,
	} {
		if !strings.Contains(fleet, want) {
			t.Errorf("the page of 1,000 clusters lacks %q", want)
		}
	}
	if count := strings.Count(fleet, "aria-label="); count != 1667 {
		t.Errorf("the grids have %d cells, want 1667", count)
	}
	if count := strings.Count(fleet, `<span class="state paused">`); count != 1 {
		t.Errorf("the legend names paused clusters %d times, want once", count)
	}
	for _, component := range newFleetView(d.state(), now()).Components {
		// The two paused installations are ready.
		want := map[string]int{"knative-serving": 669, "knative-eventing": 445}[component.Name]
		if component.Ready != want {
			t.Errorf("%d clusters are ready with %s, want %d", component.Ready, component.Name, want)
		}
	}
	if strings.Contains(fleet, "<script") {
		t.Error("the page has a script")
	}
	var status struct{ Summary installations.Summary }
	if err := json.Unmarshal([]byte(readPage(t, d, "/status.json")), &status); err != nil || status.Summary.Total != 1667 {
		t.Errorf("status.json has %+v, error %v", status, err)
	}
	if got := requests.Load(); got != 0 {
		t.Errorf("the pages of all clusters needed %d requests", got)
	}
	if page := readPage(t, d, "/reason?name="+api.ReasonManagedClusterUnavailable); !strings.Contains(page, "What to do:") || !strings.Contains(page, "cluster-0041") {
		t.Errorf("the page of a reason is %s", page)
	}
	if page := readPage(t, d, "/cluster?name=cluster-0003"); !strings.Contains(page, "ManagedClusterAddOn cluster-0003/knative-serving") || !strings.Contains(page, "ImagePullBackOff") {
		t.Errorf("the page of a cluster is %s", page)
	}
	if got := requests.Load(); got != 1 {
		t.Errorf("the page of a cluster needed %d requests, want 1", got)
	}
}

// TestPageOfOneCluster holds that the page of a cluster shows no installation of another cluster whose resource has the name of the cluster.
func TestPageOfOneCluster(t *testing.T) {
	objects := newObjects(1)
	other := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"clusterProfileRef": map[string]any{"namespace": "team", "name": "edge"}}}}
	other.SetNamespace("team")
	other.SetName("cluster-0000")
	objects.Resources[api.Serving] = append(objects.Resources[api.Serving], other)
	d, _ := newDashboard(t, objects)
	if page := readPage(t, d, "/cluster?name=cluster-0000"); strings.Contains(page, "team/edge") {
		t.Errorf("the page has the installation of another cluster: %s", page)
	}
	if page := readPage(t, d, "/cluster?name=team%2Fedge"); !strings.Contains(page, "team/edge knative-serving") {
		t.Errorf("the page of the other cluster is %s", page)
	}
}

// TestHostileTexts holds that texts of clusters and of the address are escaped in elements, in attributes and in queries.
func TestHostileTexts(t *testing.T) {
	const hostile = `<script>"&'/?#`
	const text, query = "&lt;script&gt;&#34;&amp;&#39;/?#", "%3Cscript%3E%22%26%27%2F%3F%23"
	small, large := newObjects(1), newObjects(maxRows+1)
	for _, objects := range []installations.Objects{small, large} {
		objects.AddOns[0].Namespace, objects.Works[0].Namespace = hostile, hostile
		setCondition(objects.AddOns[0], api.TargetClusterResolved, metav1.ConditionFalse, "R"+hostile, "M"+hostile)
	}
	clusterLink := `<a href="/cluster?name=` + query + `">` + text + "</a>"
	reasonLink := `<a href="/reason?name=R` + query + `">R` + text + "</a>"
	messageCell := `<td class="message">M` + text + "</td>"
	for name, tc := range map[string]struct {
		objects installations.Objects
		path    string
		want    []string
	}{
		"a row of the fleet": {small, "/", []string{clusterLink, reasonLink, messageCell, `<p class="warning">F` + text + "</p>"}},
		"a square of the fleet": {large, "/", []string{
			clusterLink, `href="/cluster?name=` + query + `" title="` + text + ", ", ": M" + text + `" aria-label="` + text + ` failed"`,
		}},
		"a cluster":        {small, "/cluster?name=" + query, []string{"<title>" + text + "</title>", "<h1>" + text + "</h1>", reasonLink, messageCell, "ManagedClusterAddOn " + text}},
		"a reason":         {small, "/reason?name=R" + query, []string{"<title>R" + text + "</title>", "<h1>R" + text + "</h1>", clusterLink, messageCell}},
		"a missing reason": {small, "/reason?name=" + query, []string{"<title>" + text + "</title>", "<h1>" + text + "</h1>"}},
	} {
		t.Run(name, func(t *testing.T) {
			d, _ := newDashboard(t, tc.objects)
			d.setState(tc.objects, []string{"F" + hostile})
			page := readPage(t, d, tc.path)
			if strings.Contains(page, "<script") || strings.Contains(page, hostile) {
				t.Errorf("%s has HTML of others: %s", tc.path, page)
			}
			for _, want := range tc.want {
				if !strings.Contains(page, want) {
					t.Errorf("%s lacks %q: %s", tc.path, want, page)
				}
			}
		})
	}
}

// TestUnknownCluster holds that the dashboard has no page of a cluster without an installation.
func TestUnknownCluster(t *testing.T) {
	d, _ := newDashboard(t, newObjects(1))
	answer := request(t, d, http.MethodGet, "localhost", "/cluster?name=nowhere")
	_ = answer.Body.Close()
	if answer.StatusCode != http.StatusNotFound {
		t.Errorf("an unknown cluster answers %d", answer.StatusCode)
	}
}
