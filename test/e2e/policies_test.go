// Copyright Contributors to the Open Cluster Management project

package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/resolve"
	"open-cluster-management.io/knative-addon/test/e2e/harness"
	"open-cluster-management.io/knative-addon/test/lab"
)

var (
	namespaceResource = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
	policyBindings    = schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingadmissionpolicybindings"}
)

// policyArgs allow references as allowedReferences does, and protect ClusterProfiles.
var policyArgs = []string{
	"--set-json", `references.allowed={"blue":["inventory","shared"],"*":["public"],"admin":["*"]}`,
	"--set", "admissionPolicies.protectClusterProfiles.enabled=true",
}

func allowedReferences() resolve.ReferencePolicy {
	return resolve.ReferencePolicy{Allowed: map[string][]string{
		"blue": {"inventory", "shared"}, "*": {"public"}, "admin": {"*"},
	}}
}

// TestPolicies holds what the chart's admission policies refuse, on a hub without clusters.
func TestPolicies(t *testing.T) {
	startMainStory(t)
	l := ownLab(t, lab.Options{})
	if _, err := harness.Install(t.Context(), l, harness.Options{Helm: policyArgs, Trusted: []string{"*"}}); err != nil {
		t.Fatal(err)
	}
	client, err := dynamic.NewForConfig(l.Hub.Config)
	if err != nil {
		t.Fatal(err)
	}
	namespaces := []string{"blue", "green", "admin", "inventory", "public", "shared"}
	for _, n := range namespaces {
		namespace := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": n}}}
		if _, err := client.Resource(namespaceResource).Create(t.Context(), namespace, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	// Policies take effect a moment after they are made.
	eventually(t, "the policies are in force", time.Minute, func(ctx context.Context) error {
		if err := dryRun(ctx, client, api.Serving, "green", "shared"); !refused(err) {
			return fmt.Errorf("a reference that is not allowed: %w", err)
		}
		return nil
	})
	t.Run("admission and the manager allow the same references", func(t *testing.T) {
		policy := allowedReferences()
		for _, c := range api.Components() {
			for _, from := range []string{"blue", "green", "admin", harness.Namespace} {
				for _, to := range append(namespaces, harness.Namespace) {
					err := dryRun(t.Context(), client, c, from, to)
					if want := policy.Permits(from, to); want && err != nil || !want && !refused(err) {
						t.Errorf("%s in %q to a profile in %q: error %v, want allowed=%t", c.Kind(), from, to, err, want)
					}
				}
			}
		}
		err := dryRun(t.Context(), client, api.Serving, "green", "shared")
		for _, want := range []string{"namespace green", "namespace shared", "references.allowed", "green, public"} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("the refusal %v does not say %q", err, want)
			}
		}
	})
	t.Run("a reference is immutable", func(t *testing.T) { checkImmutableReference(t, client) })
	t.Run("a reference that is no longer allowed can be deleted, not changed", func(t *testing.T) { revokeReference(t, client) })
	t.Run("only OCM publishes its ClusterProfiles", func(t *testing.T) { protectProfiles(t, l, client) })
}

func refused(err error) bool {
	return err != nil && strings.Contains(err.Error(), "ValidatingAdmissionPolicy")
}

func referring(c api.Component, from, name string, spec map[string]any) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": api.Group + "/v1beta1", "kind": c.Kind(), "metadata": map[string]any{"name": name, "namespace": from},
	}}
	if spec != nil {
		u.Object["spec"] = spec
	}
	return u
}

func reference(to string) map[string]any { return map[string]any{"namespace": to, "name": "c1"} }

func dryRun(ctx context.Context, client dynamic.Interface, c api.Component, from, to string) error {
	u := referring(c, from, "dry", map[string]any{"clusterProfileRef": reference(to)})
	_, err := client.Resource(c.Resource()).Namespace(from).Create(ctx, u, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	return err
}

// checkImmutableReference tries every change of a reference, against the CRD's own rule and the policy.
func checkImmutableReference(t *testing.T, client dynamic.Interface) {
	with := func(to string) map[string]any { return map[string]any{"clusterProfileRef": reference(to)} }
	for name, tc := range map[string]struct {
		before, after map[string]any
		allowed       bool
	}{
		"added where there was no spec":     {nil, with("blue"), false},
		"added to a spec":                   {map[string]any{"version": "1.23"}, with("blue"), false},
		"removed from the spec":             {with("blue"), map[string]any{"version": "1.23"}, false},
		"removed with the spec":             {with("blue"), nil, false},
		"changed":                           {with("blue"), with("public"), false},
		"kept while something else changes": {with("blue"), map[string]any{"clusterProfileRef": reference("blue"), "version": "1.22"}, true},
		"never there":                       {nil, map[string]any{"version": "1.22"}, true},
	} {
		for _, c := range api.Components() {
			t.Run(c.Kind()+" "+name, func(t *testing.T) {
				resources := client.Resource(c.Resource()).Namespace("blue")
				made, err := resources.Create(t.Context(), referring(c, "blue", "immutable", tc.before), metav1.CreateOptions{})
				if err != nil {
					t.Fatal(err)
				}
				defer removeForGood(t, resources, made.GetName())
				// The manager writes too, so the change has to be tried on what there is now.
				var changeErr error
				eventually(t, "the change is tried", time.Minute, func(ctx context.Context) error {
					now, err := resources.Get(ctx, made.GetName(), metav1.GetOptions{})
					if err != nil {
						return err
					}
					changed := referring(c, "blue", "immutable", tc.after)
					changed.SetResourceVersion(now.GetResourceVersion())
					changed.SetFinalizers(now.GetFinalizers())
					changed.SetAnnotations(now.GetAnnotations())
					_, changeErr = resources.Update(ctx, changed, metav1.UpdateOptions{})
					if changeErr != nil && strings.Contains(changeErr.Error(), "the object has been modified") {
						return changeErr
					}
					return nil
				})
				immutable := apierrors.IsInvalid(changeErr) && strings.Contains(changeErr.Error(), "spec.clusterProfileRef")
				if tc.allowed && changeErr != nil || !tc.allowed && !immutable {
					t.Errorf("error is %v, want allowed=%t", changeErr, tc.allowed)
				}
			})
		}
	}
}

// removeForGood deletes a resource and waits until it is gone.
func removeForGood(t *testing.T, resources dynamic.ResourceInterface, name string) {
	t.Helper()
	if err := resources.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, name+" is gone", time.Minute, func(ctx context.Context) error {
		list, err := resources.List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + name})
		if err == nil && len(list.Items) > 0 {
			err = errors.New("it is there")
		}
		return err
	})
}

// revokeReference has a resource from before its reference was forbidden: made while the policy's binding was away.
func revokeReference(t *testing.T, client dynamic.Interface) {
	bindings := client.Resource(policyBindings)
	binding, err := bindings.Get(t.Context(), "knative-addon-references", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := bindings.Delete(t.Context(), binding.GetName(), metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	resources := client.Resource(api.Serving.Resource()).Namespace("green")
	eventually(t, "the policy is off", time.Minute, func(ctx context.Context) error {
		_, err := resources.Create(ctx, referring(api.Serving, "green", "old", map[string]any{"clusterProfileRef": reference("shared")}), metav1.CreateOptions{})
		return err
	})
	unstructured.RemoveNestedField(binding.Object, "metadata", "resourceVersion")
	unstructured.RemoveNestedField(binding.Object, "metadata", "uid")
	if _, err := bindings.Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the policy is on again", time.Minute, func(ctx context.Context) error {
		if err := dryRun(ctx, client, api.Serving, "green", "shared"); !refused(err) {
			return errors.New("not yet")
		}
		return nil
	})
	patch := func(data string) error {
		_, err := resources.Patch(t.Context(), "old", types.MergePatchType, []byte(data), metav1.PatchOptions{})
		return err
	}
	if err := patch(`{"spec":{"version":"1.22"}}`); !refused(err) {
		t.Errorf("a change of the spec: error %v, want a refusal", err)
	}
	if err := patch(fmt.Sprintf(`{"metadata":{"annotations":{%q:"true"}}}`, api.ForceOrphanAnnotation)); err != nil {
		t.Errorf("an annotation: error %v", err)
	}
	removeForGood(t, resources, "old")
}

// protectProfiles writes a ClusterProfile of OCM as an administrator, and as OCM's controller.
func protectProfiles(t *testing.T, l *lab.Lab, client dynamic.Interface) {
	profile := func(manager string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "multicluster.x-k8s.io/v1alpha1", "kind": "ClusterProfile", "metadata": map[string]any{"name": "c1", "namespace": "blue"},
			"spec": map[string]any{"displayName": "c1", "clusterManager": map[string]any{"name": manager}},
		}}
	}
	dry := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
	if _, err := client.Resource(clusterProfiles).Namespace("blue").Create(t.Context(), profile(api.ClusterManagerOCM), dry); !refused(err) {
		t.Errorf("a profile of OCM by somebody else: error %v, want a refusal", err)
	}
	if _, err := client.Resource(clusterProfiles).Namespace("blue").Create(t.Context(), profile("acme"), dry); err != nil {
		t.Errorf("a profile of another manager: error %v", err)
	}
	config := rest.CopyConfig(l.Hub.Config)
	config.Impersonate.UserName = "system:serviceaccount:open-cluster-management-hub:registration-controller-sa"
	ocm, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ocm.Resource(clusterProfiles).Namespace("blue").Create(t.Context(), profile(api.ClusterManagerOCM), dry); err != nil {
		t.Errorf("a profile of OCM by OCM: error %v", err)
	}
}
