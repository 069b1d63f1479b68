// Copyright Contributors to the Open Cluster Management project

package installations

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
)

// Summary counts installations.
type Summary struct {
	Total  int `json:"total"`
	Ready  int `json:"ready"`
	Paused int `json:"paused"`
	// Pending counts the installations with a pending change.
	Pending int `json:"pending,omitempty"`
	// Worst is the installation that is False, or else Unknown, for the longest time; nil when every installation is ready.
	Worst *Installation `json:"worst,omitempty"`
}

// Summarize counts installations.
func Summarize(all []Installation) Summary {
	out := Summary{Total: len(all)}
	var notReady []Installation
	for _, i := range all {
		if i.Paused {
			out.Paused++
		}
		if i.PendingChange != "" {
			out.Pending++
		}
		if i.Ready == metav1.ConditionTrue {
			out.Ready++
			continue
		}
		notReady = append(notReady, i)
	}
	if len(notReady) > 0 {
		worst := slices.MinFunc(notReady, compareSeverity)
		out.Worst = &worst
	}
	return out
}

// compareSeverity orders False before Unknown, then by age, then by name.
func compareSeverity(a, b Installation) int {
	rank := func(i Installation) int {
		if i.Ready == metav1.ConditionUnknown {
			return 1
		}
		return 0
	}
	return cmp.Or(cmp.Compare(rank(a), rank(b)), compareAge(a.Since, b.Since), compareInstallations(a, b))
}

// compareAge orders older times first, and an unknown time last.
func compareAge(a, b *metav1.Time) int {
	switch {
	case a == nil && b == nil:
		return 0
	case a == nil:
		return 1
	case b == nil:
		return -1
	default:
		return a.Compare(b.Time)
	}
}

// Text returns the summary as a sentence.
func (s Summary) Text(now time.Time) string {
	if s.Total == 0 {
		return "no installation"
	}
	out := []string{fmt.Sprintf("%d of %d ready", s.Ready, s.Total)}
	if s.Paused > 0 {
		out = append(out, fmt.Sprintf("%d paused", s.Paused))
	}
	if s.Pending > 0 {
		out = append(out, fmt.Sprintf("%d with a pending change", s.Pending))
	}
	text := strings.Join(out, ", ")
	if w := s.Worst; w != nil {
		text += fmt.Sprintf("; worst: %s %s is %s", w.Cluster, w.Component, w.Reason)
		if w.Since != nil {
			text += " for " + duration.HumanDuration(now.Sub(w.Since.Time))
		}
	}
	return text
}
