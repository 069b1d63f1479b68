// Copyright Contributors to the Open Cluster Management project

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/delivery/manifestwork"
	"open-cluster-management.io/knative-addon/test/e2e/harness"
)

// renderOffline compares what `knative-addon render` prints for the chart's default configurations with what the
// works on the hub carry.
func renderOffline(t *testing.T, f *harness.Fleet) {
	cluster := f.Managed[1] // no story removes a Job there
	enabled(t, f, api.Components(), cluster)
	client, err := dynamic.NewForConfig(f.Hub.Config)
	if err != nil {
		t.Fatal(err)
	}
	for _, component := range api.Components() {
		t.Run(string(component), func(t *testing.T) {
			cr, err := client.Resource(component.Resource()).Namespace(harness.Namespace).Get(t.Context(), "default", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			input, err := cr.MarshalJSON()
			if err != nil {
				t.Fatal(err)
			}
			var printed []string
			for line := range bytes.Lines(renderManifests(t, f, input)) {
				printed = append(printed, canonicalJSON(t, line))
			}
			slices.Sort(printed)
			eventually(t, "the works have what render prints", time.Minute, func(ctx context.Context) error {
				works, err := f.ComponentWorks(ctx, component, cluster.Name)
				if err != nil {
					return err
				}
				var delivered []string
				for _, w := range works {
					for _, m := range w.Spec.Workload.Manifests {
						if w.Name != manifestwork.GateName(component) && !bytes.Contains(m.Raw, []byte(`"name":"`+component.AddOnName()+`-bundle-`)) {
							delivered = append(delivered, withoutHub(t, canonicalJSON(t, m.Raw)))
						}
					}
				}
				slices.Sort(delivered)
				if diff := cmp.Diff(printed, delivered); diff != "" {
					return errors.New("they differ (-printed +delivered):\n" + diff)
				}
				return nil
			})
		})
	}
}

// withoutHub returns a manifest without the UID of the hub, which is not known offline: in the role of the work agent, and on
// what the cluster did not have before.
func withoutHub(t *testing.T, manifest string) string {
	t.Helper()
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON([]byte(manifest)); err != nil {
		t.Fatal(err)
	}
	annotations := u.GetAnnotations()
	delete(annotations, api.HubAnnotation)
	delete(annotations, api.CreatedByHubAnnotation)
	if len(annotations) == 0 {
		annotations = nil // else there is an empty map
	}
	u.SetAnnotations(annotations)
	out, err := json.Marshal(u.Object)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func renderManifests(t *testing.T, f *harness.Fleet, input []byte) []byte {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), f.Binary, "render", "--filename=-", "--output=json") //nolint:gosec // our own program
	cmd.Stdin = bytes.NewReader(input)
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func canonicalJSON(t *testing.T, raw []byte) string {
	t.Helper()
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatal(err)
	}
	out, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}
