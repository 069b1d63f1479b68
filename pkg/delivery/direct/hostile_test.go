// Copyright Contributors to the Open Cluster Management project

package direct

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/render"
)

// TestHostileAnchor holds that an anchor which somebody has edited does not make us delete what is not ours, nor what stays.
func TestHostileAnchor(t *testing.T) {
	secret := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"namespace": "team", "name": "theirs"},
	}}
	for name, tc := range map[string]struct{ line, survives, fault string }{
		"something of others":              {`{"version":"v1","resource":"secrets","kind":"Secret","namespace":"team","name":"theirs"}`, "secrets/team/theirs", ""},
		"something of ours that was ours":  {`{"version":"v1","resource":"secrets","kind":"Secret","namespace":"team","name":"ours","uid":"old"}`, "secrets/team/ours", ""},
		"a CRD":                            {`{"group":"apiextensions.k8s.io","version":"v1","resource":"customresourcedefinitions","kind":"Thing","name":"x.caching.knative.dev"}`, "customresourcedefinitions/x.caching.knative.dev", ""},
		"a namespace":                      {`{"version":"v1","resource":"namespaces","kind":"Namespace","name":"mine"}`, "namespaces/mine", ""},
		"a namespace as something else":    {`{"version":"v1","resource":"namespaces","kind":"Service","name":"mine"}`, "namespaces/mine", "do not belong together"},
		"a CRD of another resource":        {`{"version":"v1","resource":"secrets","kind":"CustomResourceDefinition","namespace":"team","name":"ours"}`, "secrets/team/ours", "do not belong together"},
		"something of a kind that is gone": {`{"group":"gone.dev","version":"v1","resource":"things","kind":"Thing","name":"x"}`, "secrets/team/theirs", ""},
	} {
		t.Run(name, func(t *testing.T) {
			s, b := newClusterFixture(t), bundleOf(t)
			labelled := func(where, what string) render.Object {
				o := rendered(t, where, what, nil)
				o.SetLabels(map[string]string{api.ComponentLabel: string(api.Serving)})
				return o
			}
			s.add(b.Payload[3].Resource, secret, labelled(inSecrets, "Secret team/ours").Unstructured)
			s.add(b.Foundation[0].Resource, labelled(inNamespaces, "Namespace mine").Unstructured)
			s.add(b.Foundation[1].Resource, labelled(inCRDs, "CustomResourceDefinition x.caching.knative.dev").Unstructured)
			s.settle(t, b)
			s.edit(anchorPath, func(u *unstructured.Unstructured) {
				text, _, _ := unstructured.NestedString(u.Object, "data", itemsKey)
				u.Object["data"] = map[string]any{itemsKey: text + tc.line + "\n"}
			})
			s.catchUp(t)
			for range 2 {
				if _, err := s.Sync(t.Context(), b, SyncOptions{}); tc.fault == "" && err != nil || tc.fault != "" && (err == nil || !strings.Contains(err.Error(), tc.fault)) {
					t.Errorf("it ends with %v", err)
				}
				s.catchUp(t)
			}
			if s.find(tc.survives) == nil {
				t.Errorf("%s is gone", tc.survives)
			}
		})
	}
}

// TestEditedAnchorKeepsNoViews holds that an anchor which users of the cluster edit again and again does not block an installation, and that the views
// of the edits end.
func TestEditedAnchorKeepsNoViews(t *testing.T) {
	s, b := newClusterFixture(t), bundleOf(t)
	s.settle(t, b)
	before := len(s.cluster.StartedViews())
	for round := range 4 {
		s.edit(anchorPath, func(u *unstructured.Unstructured) {
			text, _, _ := unstructured.NestedString(u.Object, "data", itemsKey)
			for n := range 80 {
				text += fmt.Sprintf(`{"version":"v1","resource":"secrets","kind":"Secret","namespace":"n%d-%d","name":"a","digest":"d"}`+"\n", round, n)
			}
			u.Object["data"] = map[string]any{itemsKey: text}
		})
		s.settle(t, b)
		if n := len(s.cluster.StartedViews()); n != before {
			t.Errorf("after %d edits there are %d views, want %d", round+1, n, before)
		}
	}
	s.ReleaseViews()
	if n := len(s.cluster.StartedViews()); n != 0 {
		t.Errorf("without the installation there are %d views", n)
	}
}
