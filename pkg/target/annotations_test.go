// Copyright Contributors to the Open Cluster Management project

package target

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/trust"
)

func annotated(annotations map[string]string) func(*unstructured.Unstructured) {
	return func(c *unstructured.Unstructured) { c.SetAnnotations(annotations) }
}

func TestAnnotations(t *testing.T) { //nolint:gocognit // the table and its checks belong together
	all := map[string]string{
		api.AdoptAnnotation: "true", api.ForceOrphanAnnotation: "true", api.DeletionPolicyAnnotation: api.DeletionPolicyDeleteUserResources,
	}
	unbound := func(h *hub) { h.bindings = nil }
	for name, tc := range map[string]struct {
		reason      string
		annotations map[string]string
		config      func(*unstructured.Unstructured)
		hub         func(*hub)
		untrusted   bool
		want        []string
		refused     string
	}{
		"nothing": {reason: "Nothing is asked for.", untrusted: true},
		"a trusted namespace": {
			reason: "The administrator has said so.", annotations: all,
			want: []string{api.AdoptAnnotation, api.DeletionPolicyAnnotation, api.ForceOrphanAnnotation},
		},
		"a namespace of tenants": {
			reason: "Nothing counts there.", annotations: all, untrusted: true, refused: api.ReasonEscalationNotPermitted,
		},
		"values that nobody acts on": {
			reason: "They ask for nothing.", untrusted: true,
			annotations: map[string]string{api.AdoptAnnotation: "yes", api.ForceOrphanAnnotation: "false", api.DeletionPolicyAnnotation: "Everything"},
		},
		"a gentle deletion of a tenant": {
			reason: "It takes CRDs from others too.", annotations: map[string]string{api.DeletionPolicyAnnotation: api.DeletionPolicyDelete},
			untrusted: true, refused: api.ReasonEscalationNotPermitted,
		},
		"after the binding was taken away": {
			reason: "Trust alone deletes nothing on a cluster that may not be used.", annotations: all, hub: unbound,
			want: []string{api.ForceOrphanAnnotation}, refused: api.ReasonTargetNotResolved,
		},
		"force-orphan alone, after the binding was removed": {
			reason: "That deletes nothing.", annotations: map[string]string{api.ForceOrphanAnnotation: "true"}, hub: unbound,
			want: []string{api.ForceOrphanAnnotation},
		},
		"without a profile": {
			reason: "As after clusterset unbind.", annotations: map[string]string{api.DeletionPolicyAnnotation: api.DeletionPolicyDeleteUserResources},
			hub: func(h *hub) { h.profiles = nil }, refused: api.ReasonTargetNotResolved,
		},
		"unavailable": {
			reason: "The cluster may be used when it is back.", annotations: all,
			hub:  func(h *hub) { h.clusters[0].Status.Conditions[1].Status = "Unknown" },
			want: []string{api.AdoptAnnotation, api.DeletionPolicyAnnotation, api.ForceOrphanAnnotation},
		},
		"a fleet configuration": {
			reason: "There is no reference to be resolved.", annotations: all, config: refersToNothing, hub: unbound,
			want: []string{api.AdoptAnnotation, api.DeletionPolicyAnnotation, api.ForceOrphanAnnotation},
		},
	} {
		t.Run(name, func(t *testing.T) {
			changes := []func(*unstructured.Unstructured){annotated(tc.annotations)}
			if tc.config != nil {
				changes = append(changes, tc.config)
			}
			self := config("self", 100, changes...)
			h := newHub(self)
			if tc.hub != nil {
				tc.hub(h)
			}
			f := h.finder(t)
			if !tc.untrusted {
				f.Trust = trust.Policy{Namespaces: []string{team}}
			}
			got, err := f.Annotations(self)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, slices.Sorted(maps.Keys(got.Permitted)), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("%s permitted (-want +got):\n%s", tc.reason, diff)
			}
			if got.Reason != tc.refused {
				t.Errorf("%s refused with %q: %s", tc.reason, got.Reason, got.Message)
			}
			for _, r := range got.Refused {
				if !strings.Contains(got.Message, r) {
					t.Errorf("%s the message does not name %q: %s", tc.reason, r, got.Message)
				}
			}
			for asked, value := range tc.annotations {
				refused := slices.Contains(got.Refused, "annotation "+asked+"="+value)
				if refused != (got.Permitted[asked] == "" && len(got.Refused) > 0) {
					t.Errorf("%s %s is refused: %t", tc.reason, asked, refused)
				}
			}
		})
	}
}

func TestAdopts(t *testing.T) {
	for name, tc := range map[string]struct {
		reason          string
		addOn, resource string
		untrusted       bool
		want            bool
	}{
		"nobody":                  {reason: "It is not asked for."},
		"the administrator":       {reason: "Tenants cannot write there.", addOn: "true", untrusted: true, want: true},
		"a trusted resource":      {reason: "The administrator trusts it.", resource: "true", want: true},
		"a resource of tenants":   {reason: "It would own what somebody else has installed.", resource: "true", untrusted: true},
		"what nobody understands": {reason: "It takes nothing over.", resource: "yes"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newHub(config("self", 100, annotated(map[string]string{api.AdoptAnnotation: tc.resource}))).finder(t)
			if !tc.untrusted {
				f.Trust = trust.Policy{Namespaces: []string{team}}
			}
			a := addOn("self")
			a.Annotations[api.AdoptAnnotation] = tc.addOn
			if got := f.Adopts(a); got != tc.want {
				t.Errorf("%s got %t", tc.reason, got)
			}
			if got := f.EntersNamespaces(a); got == tc.untrusted {
				t.Errorf("it enters namespaces: %t", got)
			}
		})
	}
	if newHub().finder(t).Adopts(addOn("gone")) {
		t.Error("nobody has asked for anything")
	}
}

// TestRemoval holds that a passed-on annotation is believed only while the resource may ask for it.
func TestRemoval(t *testing.T) {
	policy := map[string]string{api.DeletionPolicyAnnotation: api.DeletionPolicyDeleteUserResources}
	for name, tc := range map[string]struct {
		reason    string
		resource  map[string]string
		passedOn  bool
		untrusted bool
		hub       func(*hub)
		want      string
	}{
		"the administrator's":          {reason: "It counts.", untrusted: true, want: api.DeletionPolicyDeleteUserResources},
		"passed on":                    {reason: "It counts.", resource: policy, passedOn: true, want: api.DeletionPolicyDeleteUserResources},
		"passed on for a tenant":       {reason: "An older manager did so.", resource: policy, passedOn: true, untrusted: true},
		"passed on and taken back":     {reason: "The resource says otherwise by now.", passedOn: true},
		"passed on, without a binding": {reason: "The cluster may not be used any more.", resource: policy, passedOn: true, hub: func(h *hub) { h.bindings = nil }},
		"passed on, without resource":  {reason: "Nobody asks.", resource: policy, passedOn: true, hub: func(h *hub) { h.configs = nil }},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHub(config("self", 100, annotated(tc.resource), beingDeleted))
			if tc.hub != nil {
				tc.hub(h)
			}
			f := h.finder(t)
			if !tc.untrusted {
				f.Trust = trust.Policy{Namespaces: []string{team}}
			}
			a := addOn("self")
			maps.Copy(a.Annotations, policy)
			if tc.passedOn {
				a.Annotations[api.PassedOnAnnotation] = api.DeletionPolicyAnnotation
			}
			if got := f.Removal(a, api.DeletionPolicyAnnotation); got != tc.want {
				t.Errorf("%s got %q", tc.reason, got)
			}
		})
	}
}
