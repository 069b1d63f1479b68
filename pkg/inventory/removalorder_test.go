// Copyright Contributors to the Open Cluster Management project

package inventory

import (
	"slices"
	"testing"

	"open-cluster-management.io/knative-addon/pkg/render"
)

// TestRemovalOrder holds that all but the foundation goes once, in an order that does not block the cluster.
func TestRemovalOrder(t *testing.T) {
	order := RemovalOrder()
	for s := range render.Stages {
		count := len(slices.DeleteFunc(slices.Clone(order), func(o render.Stage) bool { return o != s }))
		if want := map[bool]int{true: 0, false: 1}[s == render.StageFoundation]; count != want {
			t.Errorf("stage %d is removed %d times, want %d", s, count, want)
		}
	}
	if slices.Index(order, render.StageWebhook) > slices.Index(order, render.StageWorkload) {
		t.Error("webhooks outlive those who answer")
	}
	if slices.Equal(order[len(order)-2:], []render.Stage{render.StagePermission, render.StagePolicy}) {
		return
	}
	t.Error("the last stages are not the permissions, which workloads need to the end, and the policies in place of the webhooks")
}
