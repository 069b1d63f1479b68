// Copyright Contributors to the Open Cluster Management project

package controllers

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	workfake "open-cluster-management.io/api/client/work/clientset/versioned/fake"
	workinformers "open-cluster-management.io/api/client/work/informers/externalversions"
	workv1 "open-cluster-management.io/api/work/v1"
	workapplier "open-cluster-management.io/sdk-go/pkg/apis/work/v1/applier"

	"open-cluster-management.io/knative-addon/pkg/delivery/manifestwork"
)

// TestExecutor holds, with the applier of addon-framework, which executor a payload has after a write.
func TestExecutor(t *testing.T) { //nolint:gocognit // the table and its setup belong together
	configured, set := manifestwork.Executor("agent", "installer"), manifestwork.Executor("payroll", "admin")
	for name, tc := range map[string]struct {
		reason           string
		configured, have *workv1.ManifestWorkExecutor
		exists           bool
		want             string
	}{
		"none, new":                      {reason: "Nobody has asked for one."},
		"none, changed":                  {reason: "Nobody has asked for one.", exists: true},
		"configured, new":                {reason: "The work is created with it.", configured: configured, want: "installer"},
		"configured, changed":            {reason: "The work gets it with the next write.", configured: configured, exists: true, want: "installer"},
		"set by an administrator":        {reason: "It is not taken back.", have: set, exists: true, want: "admin"},
		"set, and another is configured": {reason: "The administrator knows better.", configured: configured, have: set, exists: true, want: "admin"},
	} {
		t.Run(name, func(t *testing.T) {
			client := workfake.NewSimpleClientset()
			informer := workinformers.NewSharedInformerFactory(client, 0).Work().V1().ManifestWorks()
			desired := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Namespace: "c1", Name: "payload"}}
			if tc.exists {
				there := desired.DeepCopy()
				there.Labels, there.Spec.Executor = map[string]string{"a": "b"}, tc.have
				if err := client.Tracker().Add(there); err != nil {
					t.Fatal(err)
				}
				if err := informer.Informer().GetIndexer().Add(there); err != nil {
					t.Fatal(err)
				}
			}
			applier := workapplier.NewWorkApplierWithTypedClient(newExecutingClient(client, tc.configured), informer.Lister())
			if _, err := applier.Apply(t.Context(), desired); err != nil {
				t.Fatal(err)
			}
			w, err := client.WorkV1().ManifestWorks("c1").Get(t.Context(), "payload", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			if w.Spec.Executor != nil {
				got = w.Spec.Executor.Subject.ServiceAccount.Name
			}
			if got != tc.want || len(w.Labels) > 0 {
				t.Errorf("%s The executor is %q, and labels are %v", tc.reason, got, w.Labels)
			}
			if desired.Spec.Executor != nil {
				t.Error("the framework's own object was changed")
			}
		})
	}
}
