// Copyright Contributors to the Open Cluster Management project

package rollout

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	clusterv1alpha1 "open-cluster-management.io/api/cluster/v1alpha1"
)

// TestFutureTimes holds that a cluster whose phase changed in the future keeps no place of the wave for ever.
func TestFutureTimes(t *testing.T) {
	now := time.Now()
	for name, tc := range map[string]struct {
		reason          string
		phase           Phase
		since           time.Time
		timedOut, holds bool
	}{
		"a cluster progresses":                    {reason: "progressDeadline has not passed.", phase: Progressing, since: now, holds: true},
		"a cluster progresses by a clock ahead":   {reason: "Clocks differ.", phase: Progressing, since: now.Add(time.Minute), holds: true},
		"a cluster progresses since the future":   {reason: "The time is forged.", phase: Progressing, since: now.Add(24 * time.Hour), timedOut: true},
		"a cluster succeeded":                     {reason: "minSuccessTime has not passed.", phase: Succeeded, since: now, holds: true},
		"a cluster succeeded in the future":       {reason: "The time is forged.", phase: Succeeded, since: now.Add(24 * time.Hour)},
		"a cluster succeeded a long time ago":     {reason: "minSuccessTime has passed.", phase: Succeeded, since: now.Add(-24 * time.Hour)},
		"a cluster progresses since the past":     {reason: "progressDeadline has passed.", phase: Progressing, since: now.Add(-24 * time.Hour), timedOut: true},
		"a cluster progresses since unknown time": {reason: "progressDeadline counts from the beginning.", phase: Progressing, timedOut: true},
	} {
		t.Run(name, func(t *testing.T) {
			plan, err := Determine(clusterv1alpha1.RolloutStrategy{
				Type: clusterv1alpha1.Progressive,
				Progressive: &clusterv1alpha1.RolloutProgressive{
					MaxConcurrency: intstr.FromInt32(1),
					RolloutConfig: clusterv1alpha1.RolloutConfig{
						ProgressDeadline: "10m", MaxFailures: intstr.FromString("100%"), MinSuccessTime: metav1.Duration{Duration: 10 * time.Minute},
					},
				},
			}, []Cluster{{Name: "cluster1", Phase: tc.phase, Since: tc.since}, {Name: "cluster2", Phase: Waiting}})
			if err != nil {
				t.Fatal(err)
			}
			if got := plan.TimedOut.Has("cluster1"); got != tc.timedOut {
				t.Errorf("%s cluster1 timed out: %t", tc.reason, got)
			}
			if got := !plan.Update.Has("cluster2"); got != tc.holds {
				t.Errorf("%s cluster2 waits: %t", tc.reason, got)
			}
		})
	}
}
