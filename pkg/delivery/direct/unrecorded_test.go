// Copyright Contributors to the Open Cluster Management project

package direct

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/clustercache"
)

// TestPruneUnrecorded holds which objects without a record are pruned.
func TestPruneUnrecorded(t *testing.T) {
	for name, tc := range map[string]struct {
		reason string
		kind   string
		change func(*clustercache.Object)
		want   []string
	}{
		"an object of the add-on": {"The anchor was deleted.", "ConfigMap", func(*clustercache.Object) {}, []string{"ConfigMap unrecorded"}},
		"a copy by a user":        {"The copy has the label, and no field of the add-on.", "ConfigMap", func(s *clustercache.Object) { s.FieldsDigest = "" }, nil},
		"of another component":    {"The other component records the object.", "ConfigMap", func(s *clustercache.Object) { s.Component = api.Eventing }, nil},
		"a CRD":                   {"CRDs stay.", "CustomResourceDefinition", func(*clustercache.Object) {}, nil},
		"a namespace":             {"Namespaces stay.", "Namespace", func(*clustercache.Object) {}, nil},
		"an object of the bundle": {"The bundle has the object.", "ConfigMap", func(s *clustercache.Object) { s.Name = "config-network" }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			d := newPlanFixture(t)
			id := d.of(tc.kind).ID()
			id.Name = "unrecorded"
			s := d.cachedObject(id)
			tc.change(s)
			d.put(d.of(tc.kind), s)
			if diff := cmp.Diff(tc.want, d.planned().Prune); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}
