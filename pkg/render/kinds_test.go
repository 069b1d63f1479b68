// Copyright Contributors to the Open Cluster Management project

package render

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// TestKindTable holds the rows of the table against each other.
func TestKindTable(t *testing.T) {
	rows, tracked := map[schema.GroupKind]bool{}, map[string]bool{}
	for _, k := range kindTable {
		if rows[k.GroupKind] {
			t.Errorf("%s has two rows", k.GroupKind)
		}
		rows[k.GroupKind] = true
		if k.Kind == "" {
			checkGroupRow(t, k)
			continue
		}
		checkKindRow(t, k)
		if !k.Orphan && k.Feedback == NoFeedback {
			continue
		}
		if tracked[k.Kind] {
			t.Errorf("two tracked kinds have the name %s", k.Kind)
		}
		tracked[k.Kind] = true
		if got := KindNamed(k.Kind); got.GroupKind != k.GroupKind {
			t.Errorf("KindNamed(%q) is %s, want %s", k.Kind, got.GroupKind, k.GroupKind)
		}
	}
}

func checkGroupRow(t *testing.T, k Kind) {
	t.Helper()
	if k.Resource != "" || k.origin != fromUser || k.Orphan || k.Feedback != NoFeedback || k.tenantMay != (actions{}) {
		t.Errorf("the row of group %q has what only a kind may have", k.Group)
	}
}

func checkKindRow(t *testing.T, k Kind) {
	t.Helper()
	if want := pluralOf(strings.ToLower(k.Kind)); k.Resource != want {
		t.Errorf("%s has resource %q, want %q", k.GroupKind, k.Resource, want)
	}
	if k.Orphan != (k.origin == fromRelease && k.Stage == StageFoundation) {
		t.Errorf("%s: stage %d and orphan %t disagree", k.GroupKind, k.Stage, k.Orphan)
	}
	if (k.tenantMay.patch || k.tenantMay.add) && k.tenantFields == nil {
		t.Errorf("%s may be changed without trust, in no field", k.GroupKind)
	}
}

func TestKindOf(t *testing.T) {
	for name, want := range map[string]Kind{
		"Secret":                             {Class: CreateOnly, Stage: StageConfiguration},
		"Event":                              {Class: Apply, Stage: StageDependent},
		"ReplicaSet.apps":                    {Class: Apply, Stage: StageWorkload},
		"CronJob.batch":                      {Class: Apply, Stage: StageJob},
		"Job.batch":                          {Class: OncePerVersion, Stage: StageJob, Feedback: JobFeedback},
		"Anything.rbac.authorization.k8s.io": {Class: Update, Stage: StagePermission},
		"Service.serving.knative.dev":        {Class: Apply, Stage: StageDependent},
		"CustomResourceDefinition.apiextensions.k8s.io": {Class: Apply, Stage: StageFoundation, Orphan: true},
	} {
		gk := schema.ParseGroupKind(name)
		got := KindOf(gk)
		if got.GroupKind != gk || got.Class != want.Class || got.Stage != want.Stage || got.Orphan != want.Orphan || got.Feedback != want.Feedback {
			t.Errorf("KindOf(%s) is %+v, want %+v", name, got, want)
		}
	}
	if KindNamed("ConfigMap").Kind != "" {
		t.Error("a kind without feedback is found by its name")
	}
}

func TestStages(t *testing.T) {
	for s, kinds := range map[Stage][]string{
		StageFoundation:    {"Namespace", "CustomResourceDefinition.apiextensions.k8s.io"},
		StagePermission:    {"ServiceAccount", "ClusterRole.rbac.authorization.k8s.io"},
		StageConfiguration: {"ConfigMap", "Secret", "Service"},
		StageWorkload:      {"Deployment.apps", "PodDisruptionBudget.policy", "HorizontalPodAutoscaler.autoscaling"},
		StageJob:           {"Job.batch"},
		StageWebhook:       {"ValidatingWebhookConfiguration.admissionregistration.k8s.io"},
		StageDependent:     {"Image.caching.internal.knative.dev", "Pod", "Namespace.x"},
	} {
		for _, name := range kinds {
			if got := KindOf(schema.ParseGroupKind(name)).Stage; got != s {
				t.Errorf("%s is of stage %d, want %d", name, got, s)
			}
		}
	}
}
