// Copyright Contributors to the Open Cluster Management project

package main

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"open-cluster-management.io/knative-addon/pkg/api"
)

// TestRequestErrors holds that a wrong object or flag is refused before a request, with the next step.
func TestRequestErrors(t *testing.T) {
	for name, tc := range map[string]struct {
		cmd  *cobra.Command
		args []string
		want string
	}{
		"a pause of a cluster":                   {newPauseCommand(), []string{"cluster1"}, "KIND/NAME"},
		"a pause of a definition":                {newPauseCommand(), []string{"clustermanagementaddon/knative-serving"}, "managedclusteraddon"},
		"a pause without a namespace":            {newPauseCommand(), []string{"knativeserving/default"}, "--namespace"},
		"a pause of a fleet without a namespace": {newPauseCommand(), []string{"knativefleet/web"}, "--namespace"},
		"a resume on a hub that forbids": {
			newResumeCommand(), []string{"knativefleet/web", "-n", "team", "--kubeconfig", newForbiddingHub(t, "web")}, "KnativeFleet team/web",
		},
		"a confirmation on a hub that forbids": {
			newRemovalCommand(), []string{"confirm", "knativefleet/web", "-n", "team", "--kubeconfig", newForbiddingHub(t, "web")}, "KnativeFleet team/web",
		},
		"a rollback on a hub that forbids": {
			newRollbackCommand(), []string{"knativefleet/web", "-n", "team", "--to", "3", "--kubeconfig", newForbiddingHub(t, "web")}, "KnativeFleet team/web",
		},
		"an unknown dry run":             {newResumeCommand(), []string{"knativeserving/default", "-n", "team", "--dry-run=maybe"}, "none, client or server"},
		"a rollback without a revision":  {newRollbackCommand(), []string{"knativeserving/default", "-n", "team"}, api.RollbackLastKnownGood},
		"a rollback of an add-on":        {newRollbackCommand(), []string{"managedclusteraddon/x", "-n", "team", "--to", "3"}, "knativeserving"},
		"a removal of a resource":        {newRemovalCommand(), []string{"confirm", "knativeserving/default", "-n", "team"}, "clustermanagementaddon"},
		"a tree of an unknown component": {newTreeCommand(), []string{"cluster1", "istio"}, "serving or eventing"},
		"a tree of an unknown cluster":   {newTreeCommand(), []string{"cluster9", "--kubeconfig", newForbiddingHub(t, "nothing")}, "cluster9"},
		"a pause on a hub that forbids": {
			newPauseCommand(), []string{"knativeserving/default", "-n", "team", "--kubeconfig", newForbiddingHub(t, "default")}, "KnativeServing team/default",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := execute(t, tc.cmd, "", tc.args...); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error is %v, want one with %q", err, tc.want)
			}
		})
	}
}

func TestExplain(t *testing.T) {
	out, err := execute(t, newExplainCommand(), "", api.ReasonMassRemoval)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"RemovalHeld is True with reason MassRemoval", "Meaning:", "What to do: correct the Placement", "docs/troubleshooting.md, A removal waits:"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in %s", want, out)
		}
	}
	if out, err = execute(t, newExplainCommand(), ""); err != nil || strings.Count(out, "\n") < 80 || !strings.Contains(out, "RemovalHeld") {
		t.Errorf("the list has error %v and the text %s", err, out)
	}
	if _, err = execute(t, newExplainCommand(), "", "MasRemoval"); err == nil || !strings.Contains(err.Error(), "near names are MassRemoval") {
		t.Errorf("error is %v", err)
	}
}
