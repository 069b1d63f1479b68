// Copyright Contributors to the Open Cluster Management project

package rollout

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Report is the finding of a delivery without a work agent about the rendering of a cluster.
type Report struct {
	// Rendering names the rendering of this manager for the cluster; empty while the manager delivers nothing, because of a
	// pause or a fault.
	Rendering string
	// Waits reports that the cluster has another rendering, which stays until the turn of the cluster.
	Waits bool
	// FailingSince is the time of the first pass since which every pass over the resource has failed; zero after another pass.
	FailingSince time.Time
}

// RunningMessage returns the message of condition RenderingCurrent of a cluster that runs the rendering.
func RunningMessage(rendering string) string { return "the cluster runs rendering " + rendering }

// FollowsTurn reports whether condition RenderingCurrent of a cluster that does not wait follows the delivery of the rendering. turn names
// the rendering that the cluster may get. The turn may come before the report that the cluster waits: no condition exists then, or the
// condition names an earlier rendering. A cluster that never waited has no such condition.
func FollowsTurn(last *metav1.Condition, rendering, turn string) bool {
	if last == nil || last.Status == metav1.ConditionTrue {
		return rendering != "" && turn == rendering && (last == nil || last.Message != RunningMessage(rendering))
	}
	return true
}
