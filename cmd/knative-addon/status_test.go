// Copyright Contributors to the Open Cluster Management project

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	metadatafake "k8s.io/client-go/metadata/fake"
	clienttesting "k8s.io/client-go/testing"

	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"

	"open-cluster-management.io/knative-addon/pkg/api"
	fleetv1alpha1 "open-cluster-management.io/knative-addon/pkg/api/fleet/v1alpha1"
	"open-cluster-management.io/knative-addon/pkg/installations"
	"open-cluster-management.io/knative-addon/pkg/revision"
)

// writeHubKubeconfig writes a kubeconfig of a server, and returns the file.
func writeHubKubeconfig(t *testing.T, url string) string {
	t.Helper()
	return writeKubeconfig(t, fmt.Sprintf("{server: %q}", url))
}

// newForbiddingHub returns the kubeconfig of a hub that forbids the lists of a resource, and has no objects.
func newForbiddingHub(t *testing.T, forbidden string) string {
	t.Helper()
	return newRefusingHub(t, forbidden, metav1.StatusReasonForbidden, http.StatusForbidden)
}

// newRefusingHub returns the kubeconfig of a hub that refuses the lists of a resource, and has no objects.
func newRefusingHub(t *testing.T, refused string, reason metav1.StatusReason, code int) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if strings.HasSuffix(r.URL.Path, "/"+refused) {
			w.WriteHeader(code)
			fmt.Fprintf(w, `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": %q, "code": %d, "message": "no list of %s"}`, reason, code, refused)
			return
		}
		kind := "List"
		if strings.Contains(r.Header.Get("Accept"), "PartialObjectMetadataList") {
			kind = "PartialObjectMetadataList"
		}
		fmt.Fprintf(w, `{"kind": %q, "apiVersion": "meta.k8s.io/v1", "metadata": {"resourceVersion": "1"}, "items": []}`, kind)
	}))
	t.Cleanup(server.Close)
	return writeHubKubeconfig(t, server.URL)
}

// TestStatusErrors holds that errors name the hub or the list, and the next step.
func TestStatusErrors(t *testing.T) {
	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()
	hub := newForbiddingHub(t, "nothing")
	for name, tc := range map[string]struct {
		args []string
		want []string
	}{
		"no kubeconfig":          {[]string{"--kubeconfig", "/nowhere"}, []string{"/nowhere", "--kubeconfig"}},
		"no server":              {[]string{"--kubeconfig", writeHubKubeconfig(t, closed.URL)}, []string{closed.URL, "--context"}},
		"an unknown format":      {[]string{"--output", "xml"}, []string{"xml", "wide"}},
		"YAML of changes":        {[]string{"--output", "yaml", "--watch"}, []string{"yaml", "json"}},
		"an unknown component":   {[]string{"--component", "istio"}, []string{"istio", "serving or eventing"}},
		"an unknown mode":        {[]string{"--mode", "mail"}, []string{"mail", "ManifestWork"}},
		"a forbidden list":       {[]string{"--kubeconfig", newForbiddingHub(t, "knativeservings")}, []string{"incomplete"}},
		"an unknown cluster":     {[]string{"--kubeconfig", hub, "cluster9"}, []string{"cluster9", "without a name"}},
		"two kinds of namespace": {[]string{"--kubeconfig", hub, "-A", "-n", "team"}, []string{"namespace"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := execute(t, newStatusCommand(), "", tc.args...)
			if err == nil {
				t.Fatal("the command succeeded")
			}
			for _, want := range tc.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q is not in %v", want, err)
				}
			}
		})
	}
	// The column of the versions may be missing.
	out, err := execute(t, newStatusCommand(), "", "--kubeconfig", newForbiddingHub(t, "manifestworks"))
	if err != nil || out != "no installation\n" {
		t.Errorf("without ManifestWorks the command printed %q and ended with %v", out, err)
	}
}

// TestChangesOfNotReady holds that with --not-ready an installation that becomes ready is modified and not deleted, and that the changes of
// ready installations are left out.
func TestChangesOfNotReady(t *testing.T) {
	installation := func(cluster string, ready metav1.ConditionStatus, version string) installations.Installation {
		return installations.Installation{Cluster: cluster, Component: api.Serving, Ready: ready, Version: version}
	}
	before := []installations.Installation{
		installation("recovers", metav1.ConditionFalse, "1"), installation("fails", metav1.ConditionTrue, "1"), installation("stays", metav1.ConditionFalse, "1"),
		installation("upgrades", metav1.ConditionTrue, "1"), installation("leaves", metav1.ConditionTrue, "1"), installation("breaks and leaves", metav1.ConditionFalse, "1"),
	}
	after := []installations.Installation{
		installation("recovers", metav1.ConditionTrue, "1"), installation("fails", metav1.ConditionUnknown, "1"), installation("stays", metav1.ConditionFalse, "1"),
		installation("upgrades", metav1.ConditionTrue, "2"), installation("joins", metav1.ConditionTrue, "1"), installation("joins and breaks", metav1.ConditionFalse, "1"),
	}
	var got []string
	for _, change := range (&statusCommand{notReady: true}).findChanges(before, after) {
		got = append(got, string(change.Type)+" "+change.Object.Cluster)
	}
	want := []string{"MODIFIED recovers", "MODIFIED fails", "ADDED joins and breaks", "DELETED breaks and leaves"}
	if !slices.Equal(got, want) {
		t.Errorf("changes are %q, want %q", got, want)
	}
	if all := (&statusCommand{}).findChanges(before, after); len(all) != 7 {
		t.Errorf("without --not-ready, %d changes are printed", len(all))
	}
}

// watchOutput collects the lines of a watch, and calls changeHub after the list of the watch, and end after the first change.
type watchOutput struct {
	strings.Builder

	changeHub, end func()
}

func (w *watchOutput) Write(lines []byte) (int, error) {
	n, err := w.Builder.Write(lines)
	switch {
	case strings.Contains(w.String(), "ED "):
		w.end()
	case strings.Contains(string(lines), " ready"):
		w.changeHub()
	}
	return n, err
}

// TestWatchNotReady holds that a watch with --not-ready prints that an installation becomes ready.
func TestWatchNotReady(t *testing.T) {
	serving := func(status string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": api.Serving.Resource().GroupVersion().String(), "kind": api.Serving.Kind(),
			"metadata": map[string]any{"namespace": "team", "name": "edge", "finalizers": []any{api.DirectFinalizer}},
			"spec":     map[string]any{"clusterProfileRef": map[string]any{"namespace": "team", "name": "edge"}},
			"status":   map[string]any{"conditions": []any{map[string]any{"type": "Ready", "status": status, "reason": "Any"}}},
		}}
	}
	addOns := schema.GroupVersion(addonv1beta1.GroupVersion).WithResource("managedclusteraddons")
	client := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{
		api.Serving.Resource(): "KnativeServingList", fleetv1alpha1.Resource(): "KnativeFleetList", addOns: "ManagedClusterAddOnList", revision.DeploymentConfig{}.Resource(): "AddOnDeploymentConfigList",
	}, serving("False"))
	scheme := metadatafake.NewTestScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeoutCause(t.Context(), 20*time.Second, errors.New("the watch printed no change"))
	defer cancel()
	changeHub := func() {
		isWatch := func(a clienttesting.Action) bool { return a.Matches("watch", api.Serving.Resource().Resource) }
		// The fake hub sends a watch no change from before the watch, and does not tell when the watch has begun.
		for !slices.ContainsFunc(client.Actions(), isWatch) && ctx.Err() == nil {
			time.Sleep(time.Millisecond)
		}
		if _, err := client.Resource(api.Serving.Resource()).Namespace("team").Update(ctx, serving("True"), metav1.UpdateOptions{}); err != nil {
			t.Error(err)
		}
	}
	out := &watchOutput{changeHub: changeHub, end: cancel}
	c := statusCommand{notReady: true}
	err := c.runWatch(ctx, out, io.Discard, &selection{
		hub:   &installations.Hub{Name: "the hub", Dynamic: client, Metadata: metadatafake.NewSimpleMetadataClient(scheme)},
		query: installations.Query{Components: []api.Component{api.Serving}}, filter: installations.Filter{NotReady: true},
	})
	if err != nil || !strings.Contains(out.String(), "MODIFIED team/edge") || strings.Contains(out.String(), "DELETED") {
		t.Errorf("error is %v, the watch printed:\n%s", err, out.String())
	}
}

// TestWaitNeedsAllLists holds that a wait for ready does not end before the hub has listed what a pending change shows in.
func TestWaitNeedsAllLists(t *testing.T) {
	for _, resource := range []string{"manifestworks", "knativefleets"} {
		hub := newRefusingHub(t, resource, metav1.StatusReasonInternalError, http.StatusInternalServerError)
		if _, err := execute(t, newWaitCommand(), "", "--kubeconfig", hub); err == nil || !strings.Contains(err.Error(), "cannot list "+resource) {
			t.Errorf("without %s, the wait for ready ended with %v", resource, err)
		}
		if out, err := execute(t, newWaitCommand(), "", "--kubeconfig", hub, "--for=removed"); err != nil {
			t.Errorf("without %s, the wait for removed printed %q and ended with %v", resource, out, err)
		}
	}
}

// TestExitCodesOfWrongUse holds that wrong flags and arguments do not end like a difference or a missing image.
func TestExitCodesOfWrongUse(t *testing.T) {
	for args, want := range map[string]int{
		"diff --format name": 2, "diff --installed --namespace team --all-namespaces": 2, "diff --installed --verification Bad": 2,
		"images --check knative.yaml": 2, "images --check": 2, "images --check --filename x --mode X": 2, "wait --nope": 1, "nonsense": 1,
	} {
		root := newRootCommand(programName)
		root.SetArgs(strings.Fields(args))
		cmd, err := root.ExecuteContextC(t.Context())
		if err == nil || exitCodeOf(cmd, err) != want {
			t.Errorf("%s: exit code %d of error %v, want %d", args, exitCodeOf(cmd, err), err, want)
		}
	}
}

// TestWaitExitCodes holds the exit codes that docs/commands.md names.
func TestWaitExitCodes(t *testing.T) {
	for _, tc := range []struct {
		err  error
		want int
	}{
		{errors.New("any"), 1},
		{fmt.Errorf("wrapped: %w", &exitError{&installations.FailedError{}, exitFailed}), 2},
		{&exitError{&installations.TimeoutError{}, exitTimeout}, 1},
	} {
		if got := exitCodeOf(newWaitCommand(), tc.err); got != tc.want {
			t.Errorf("the exit code of %T is %d, want %d", tc.err, got, tc.want)
		}
	}
	if _, err := execute(t, newWaitCommand(), "", "--for", "lunch"); err == nil || !strings.Contains(err.Error(), "ready or removed") {
		t.Errorf("error is %v", err)
	}
	if _, err := execute(t, newWaitCommand(), "", "--timeout", "0s"); err == nil || !strings.Contains(err.Error(), "positive") {
		t.Errorf("error is %v", err)
	}
}

// TestFinalReasonsAreDocumented holds that docs/commands.md names the reasons that end a wait with exit code 2.
func TestFinalReasonsAreDocumented(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root, "docs", "commands.md"))
	if err != nil {
		t.Fatal(err)
	}
	row := regexp.MustCompile(`(?m)^\| 2 \|.*$`).FindString(string(page))
	var documented []string
	for _, m := range namedReason.FindAllStringSubmatch(row, -1) {
		documented = append(documented, m[1])
	}
	for _, reason := range regexp.MustCompile("`(Conflict|Paused)`").FindAllStringSubmatch(row, -1) {
		documented = append(documented, reason[1])
	}
	want := append(installations.FinalReasons(), installations.FinalRemovalReasons()...)
	slices.Sort(documented)
	slices.Sort(want)
	if !slices.Equal(documented, want) {
		t.Errorf("docs/commands.md names %q, the code has %q", documented, want)
	}
}
