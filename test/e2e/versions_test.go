// Copyright Contributors to the Open Cluster Management project

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/test/e2e/harness"
)

// stepVersions takes a cluster down a minor version and up again, is refused a step over two, and sees an empty version
// pinned.
func stepVersions(t *testing.T, f *harness.Fleet) {
	cluster := f.Managed[1]
	serving := []api.Component{api.Serving}
	enabled(t, f, serving, cluster)
	s := connect(t, cluster)
	kourier := map[string]any{"kourier": map[string]any{"enabled": true}}
	for config, version := range map[string]string{"previous": "1.22", "too-far": "1.21"} {
		createServing(t, f, config, map[string]any{"version": version, "ingress": kourier})
	}
	t.Cleanup(func() { setConfiguration(t, f, cluster, "") })

	installed, err := s.deploymentUIDs(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	before := workGenerations(t, f, cluster)
	setConfiguration(t, f, cluster, "too-far")
	eventually(t, "the step over two minor versions is refused", time.Minute, func(ctx context.Context) error {
		return checkEligibility(ctx, f, cluster.Name, metav1.ConditionFalse, "1.22")
	})
	for name, generation := range workGenerations(t, f, cluster) {
		if generation != before[name] {
			t.Errorf("work %s has changed from generation %d to %d", name, before[name], generation)
		}
	}

	setConfiguration(t, f, cluster, "previous")
	eventually(t, "the cluster goes down to 1.22", 2*time.Minute, s.runs("1.22."))
	available(t, f, serving, cluster)
	s.checkKept(t, installed)
	eventually(t, "the step is eligible again", time.Minute, func(ctx context.Context) error {
		return checkEligibility(ctx, f, cluster.Name, metav1.ConditionTrue, "")
	})

	setConfiguration(t, f, cluster, "")
	eventually(t, "the cluster goes up to 1.23", 2*time.Minute, s.runs("1.23."))
	available(t, f, serving, cluster)
	s.checkKept(t, installed)

	createServing(t, f, "unpinned", map[string]any{"ingress": kourier})
	eventually(t, "an empty version is pinned", time.Minute, func(ctx context.Context) error { return checkPinned(ctx, f, "unpinned", "1.23.0") })
}

// checkKept holds that the Deployments are the same objects as before: a step between versions recreates Jobs alone.
func (s spoke) checkKept(t *testing.T, before map[string]types.UID) {
	t.Helper()
	now, err := s.deploymentUIDs(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, now); diff != "" {
		t.Errorf("Deployments were recreated, created or deleted (-before +now):\n%s", diff)
	}
}

// runs tells whether every Deployment of Serving has a version with the prefix.
func (s spoke) runs(prefix string) func(context.Context) error {
	return func(ctx context.Context) error {
		list, err := s.kube.AppsV1().Deployments("knative-serving").List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, d := range list.Items {
			version := d.Spec.Template.Labels["app.kubernetes.io/version"]
			if d.Labels["app.kubernetes.io/component"] != "net-kourier" && !strings.HasPrefix(version, prefix) {
				return fmt.Errorf("Deployment %s has version %q", d.Name, version)
			}
		}
		if len(list.Items) == 0 {
			return fmt.Errorf("there are no Deployments")
		}
		return nil
	}
}

func checkEligibility(ctx context.Context, f *harness.Fleet, cluster string, want metav1.ConditionStatus, message string) error {
	addOn, err := f.AddOns.AddonV1beta1().ManagedClusterAddOns(cluster).Get(ctx, api.Serving.AddOnName(), metav1.GetOptions{})
	if err != nil {
		return err
	}
	c := apimeta.FindStatusCondition(addOn.Status.Conditions, api.VersionMigrationEligible)
	if c == nil || c.Status != want || !strings.Contains(c.Message, message) {
		return fmt.Errorf("%s is %+v", api.VersionMigrationEligible, c)
	}
	return nil
}

func checkPinned(ctx context.Context, f *harness.Fleet, serving, want string) error {
	client, err := dynamic.NewForConfig(f.Hub.Config)
	if err != nil {
		return err
	}
	u, err := client.Resource(api.Serving.Resource()).Namespace(harness.Namespace).Get(ctx, serving, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if got := u.GetAnnotations()[api.PinnedVersionAnnotation]; got != want {
		return fmt.Errorf("the pin is %q, want %q", got, want)
	}
	return nil
}
