// Copyright Contributors to the Open Cluster Management project

package knative

import (
	"errors"
	"strings"
	"testing"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/render"
)

// TestPaused holds that a paused installation tells what is on the cluster, and never that a spec is applied which is not.
func TestPaused(t *testing.T) {
	for name, tc := range map[string]struct {
		reason string
		change func(*fakeHub)
		want   string // of InstallSucceeded
	}{
		"nothing has changed": {
			reason: "What is delivered is what is asked for.",
			change: func(*fakeHub) {}, want: "InstallSucceeded True Applied",
		},
		"the spec has changed": {
			reason: "The cluster does not have it.",
			change: func(h *fakeHub) {
				h.current = &render.Bundle{Component: api.Serving, Version: "1.23.0", Digest: "d2", FoundationDigest: "f1"}
			},
			want: "InstallSucceeded Unknown Paused",
		},
		"the spec is wrong": {
			reason: "The cluster does not have it.",
			change: func(h *fakeHub) { h.currentErr = errors.New("wrong") }, want: "InstallSucceeded Unknown Paused",
		},
		"nothing is delivered": {
			reason: "Nothing will be.",
			change: func(h *fakeHub) { h.works = nil }, want: "InstallSucceeded Unknown Paused",
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHub(t, serving("self", 100))
			h.settle("self")
			h.delivered()
			h.settle("self")
			h.pausedBy = "annotation a"
			tc.change(h)
			h.settle("self")
			if got := h.conditions("self"); got[4] != tc.want {
				t.Errorf("%s It says %q, want %q", tc.reason, got, tc.want)
			}
			if got := h.message("self", api.InstallSucceeded); strings.HasSuffix(tc.want, "Paused") != strings.Contains(got, "paused by annotation a") {
				t.Errorf("%s It says %q", tc.reason, got)
			}
		})
	}
}

// TestPauseHasEvent holds that users learn of a pause without reading the conditions.
func TestPauseHasEvent(t *testing.T) {
	h := newHub(t, serving("self", 100))
	h.settle("self")
	h.delivered()
	h.settle("self")
	h.told()
	h.pausedBy, h.currentErr = "annotation a", errors.New("wrong")
	h.settle("self")
	if got := h.told(); len(got) != 1 || !strings.HasPrefix(got[0], "Normal Paused InstallSucceeded: paused by annotation a") &&
		!strings.HasPrefix(got[0], "Normal Paused DependenciesInstalled: paused by annotation a") {
		t.Errorf("the Events are %q", got)
	}
}

func TestPausedFleet(t *testing.T) {
	h := newHub(t, serving("fleet", 100, refersToNothing, withAnnotation(api.PausedAnnotation, "true")))
	h.settle("fleet")
	if got := h.message("fleet", api.TargetClusterResolved); !strings.Contains(got, "keeps their clusters unchanged") {
		t.Errorf("it says %q", got)
	}
}
