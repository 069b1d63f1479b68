// Copyright Contributors to the Open Cluster Management project

package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// newCompletionHub returns the kubeconfig of a hub with one managed cluster and one resource for another cluster.
func newCompletionHub(t *testing.T) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		items := ""
		switch {
		case strings.HasSuffix(r.URL.Path, "/managedclusteraddons") && strings.Contains(r.URL.RawQuery, "knative-serving"):
			items = `{"apiVersion": "addon.open-cluster-management.io/v1beta1", "kind": "ManagedClusterAddOn", "metadata": {"name": "knative-serving", "namespace": "cluster1"}}`
		case strings.HasSuffix(r.URL.Path, "/knativefleets"):
			items = `{"apiVersion": "knative.open-cluster-management.io/v1alpha1", "kind": "KnativeFleet", "metadata": {"name": "web", "namespace": "team"}}`
		case strings.HasSuffix(r.URL.Path, "/knativeeventings"):
			items = `{"apiVersion": "operator.knative.dev/v1beta1", "kind": "KnativeEventing", "metadata": {"name": "bus", "namespace": "team"},
				"spec": {"clusterProfileRef": {"namespace": "team", "name": "edge"}}}`
		}
		kind := "List"
		if strings.Contains(r.Header.Get("Accept"), "PartialObjectMetadataList") {
			kind = "PartialObjectMetadataList"
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"kind": %q, "apiVersion": "meta.k8s.io/v1", "metadata": {"resourceVersion": "1"}, "items": [%s]}`, kind, items)
	}))
	t.Cleanup(server.Close)
	return writeHubKubeconfig(t, server.URL)
}

// TestCompletion holds the words that a shell gets from the program.
func TestCompletion(t *testing.T) {
	hub := newCompletionHub(t)
	for line, want := range map[string][]string{
		"status ":                             {"cluster1", "team/bus", "team/edge"},
		"status cluster1 ":                    {"team/bus", "team/edge"},
		"status c":                            {"cluster1"},
		"wait team/":                          {"team/bus", "team/edge"},
		"tree ":                               {"cluster1", "team/edge"},
		"tree cluster1 ":                      {"eventing", "serving"},
		"bundle ":                             {"cluster1", "team/edge"},
		"status --namespace ":                 {"cluster1", "team"},
		"status --component ":                 {"eventing", "serving"},
		"status --output ":                    {"json", "wide", "yaml"},
		"pause k":                             {"knativeeventing/", "knativefleet/", "knativeserving/"},
		"pause knativeeventing/":              {"knativeeventing/bus"},
		"pause managedclusteraddon/":          {"managedclusteraddon/knative-serving"},
		"resume knativefleet/":                {"knativefleet/web"},
		"removal confirm clustermanagement":   {"clustermanagementaddon/"},
		"removal cancel managedclusteraddon/": {"managedclusteraddon/knative-serving"},
		"explain RemoteClusterS":              {"RemoteClusterStale"},
	} {
		t.Run(line, func(t *testing.T) {
			words := strings.Split(line, " ")
			args := append([]string{cobra.ShellCompNoDescRequestCmd}, words[:len(words)-1]...)
			if words[0] != "explain" {
				args = append(args, "--kubeconfig="+hub)
				// A flag that is completed stays the last word before the prefix.
				if n := len(words) - 2; strings.HasPrefix(words[n], "--") {
					args = append([]string{cobra.ShellCompNoDescRequestCmd, words[0], "--kubeconfig=" + hub}, words[1:n+1]...)
				}
			}
			out, err := execute(t, newRootCommand(programName), "", append(args, words[len(words)-1])...)
			if err != nil {
				t.Fatal(err)
			}
			got := strings.Fields(out)
			got = got[:len(got)-1] // the directive for the shell
			if !slices.Equal(got, want) {
				t.Errorf("words are %q, want %q", got, want)
			}
		})
	}
}

// TestPluginName holds that help texts name the program as the user has called the program.
func TestPluginName(t *testing.T) {
	if got := invokedName("/usr/local/bin/" + pluginFile); got != pluginName {
		t.Errorf("the plugin is named %q", got)
	}
	if got := invokedName("bin/" + programName); got != programName {
		t.Errorf("the program is named %q", got)
	}
	for _, name := range []string{programName, pluginName} {
		root := newRootCommand(name)
		for _, sub := range []string{"status", "wait", "tree", "diff", "bundle", "pause", "rollback"} {
			out, err := execute(t, root, "", sub, "--help")
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(out, "\n  "+name+" "+sub) || name == pluginName && (strings.Contains(out, "  "+programName+" ") || strings.Contains(out, "`"+programName)) {
				t.Errorf("the help of %s %s does not name the program as the user does:\n%s", name, sub, out)
			}
		}
	}
}
