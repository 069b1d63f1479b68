// Copyright Contributors to the Open Cluster Management project

package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/test/e2e/harness"
	"open-cluster-management.io/knative-addon/test/lab"
)

// hostileSpokes are attacks of clusters that are written to directly, and what their resources say.
func hostileSpokes() map[string]struct {
	attack func(w http.ResponseWriter, r *http.Request) bool
	want   conditionState
	says   string
} {
	refused := conditionState{api.TargetClusterResolved, metav1.ConditionFalse, api.ReasonRemoteAnswerRefused}
	return map[string]struct {
		attack func(w http.ResponseWriter, r *http.Request) bool
		want   conditionState
		says   string
	}{
		"list":    {floodList, refused, "lists more than 2000 items"},
		"gzip":    {bombList, refused, "is longer than 8 MiB"},
		"dribble": {dribbleList, refused, "is not complete after 15s"},
		"version": {floodVersion, conditionState{api.TargetClusterResolved, metav1.ConditionFalse, api.ReasonRemoteClientCreationFailed}, "not as a Kubernetes API server does"},
		"failure": {floodFailure, conditionState{api.InstallSucceeded, metav1.ConditionFalse, api.ReasonApplyFailed}, "cannot get ConfigMap"},
		"watch":   {floodWatch, conditionState{api.TargetClusterResolved, metav1.ConditionTrue, api.ReasonTargetResolved}, "instead of watched"},
	}
}

// TestHostileSpoke installs on an honest cluster while others answer in ways that are to stop the manager, all at once: at first,
// after a restart of the manager, and after a restart while a tenant has written every hostile resource as well. The log has the time
// of the same installation without attacks for comparison.
func TestHostileSpoke(t *testing.T) {
	startRestStory(t)
	p := newPush(t, lab.Options{}, harness.Options{})
	honest, err := p.AddLightSpokes(t.Context(), 5)
	if err != nil {
		t.Fatal(err)
	}
	p.installHonest(t, honest[0], "without attacks")
	p.restartManager(t, nil)
	p.installHonest(t, honest[4], "without attacks, after a restart")
	servers := map[string]*hostileServer{}
	for name, h := range hostileSpokes() {
		servers[name] = newHostileServer(t, "uid-of-"+name, h.attack)
		p.token(t, name, servers[name].cluster(), "token-for-"+name)
		p.apply(t, api.Serving, name, kourier())
	}
	t.Run("other clusters are installed from the start", func(t *testing.T) { p.checkOtherClusterInstalls(t, honest[1], servers) })
	t.Run("other clusters are installed after a restart", func(t *testing.T) {
		p.restartManager(t, servers)
		p.checkOtherClusterInstalls(t, honest[2], servers)
	})
	t.Run("other clusters are installed after a restart with every resource of a hostile tenant", func(t *testing.T) {
		config, err := p.Tenant(t.Context(), tenantNamespace)
		if err != nil {
			t.Fatal(err)
		}
		mallory, inputs := tenantTeam(t, p.Fleet, tenantNamespace, config), hostileInputs()
		mallory.writeInputs(t, inputs)
		p.restartManager(t, servers)
		pid := managerPID(t, p.Fleet)
		p.checkOtherClusterInstalls(t, honest[3], servers)
		mallory.awaitRefusals(t, inputs)
		checkMemory(t, p.Fleet, pid)
	})
}

// restartManager starts the manager again and forgets the attacks of the process before.
func (p push) restartManager(t *testing.T, servers map[string]*hostileServer) {
	t.Helper()
	if err := p.Stop(harness.Manager); err != nil {
		t.Fatal(err)
	}
	for _, s := range servers {
		s.attacks.Store(0)
	}
	if err := p.Start(harness.Manager); err != nil {
		t.Fatal(err)
	}
}

// installHonest installs Serving on a cluster and logs how long the installation took.
func (p push) installHonest(t *testing.T, c *lab.Cluster, circumstances string) {
	t.Helper()
	start := time.Now()
	p.token(t, c.Name, c, c.Credential.Token)
	p.apply(t, api.Serving, c.Name, kourier())
	p.ready(t, api.Serving, c.Name)
	t.Logf("%s: the honest cluster %s is ready after %s", circumstances, c.Name, time.Since(start).Round(10*time.Millisecond))
}

// checkOtherClusterInstalls installs on the honest cluster, and waits until each of the others has attacked and is told about.
func (p push) checkOtherClusterInstalls(t *testing.T, honest *lab.Cluster, servers map[string]*hostileServer) {
	t.Helper()
	pid := managerPID(t, p.Fleet)
	p.installHonest(t, honest, "under attack")
	for name, h := range hostileSpokes() {
		eventually(t, "the attack of "+name+" is told", 5*time.Minute, func(ctx context.Context) error {
			if servers[name].attacks.Load() == 0 {
				return errors.New("it has not attacked yet")
			}
			s, err := p.read(ctx, api.Serving, name)
			if err != nil {
				return err
			}
			c := s.conditions[h.want.condition]
			switch {
			case c.Status != h.want.status || c.Reason != h.want.reason || !strings.Contains(c.Message, h.says):
				return fmt.Errorf("%s: %s %s: %.300s", h.want.condition, c.Status, c.Reason, c.Message)
			case len(c.Message) > 4200 || strings.ContainsAny(c.Message, "\x1b\x07"):
				return fmt.Errorf("the message has %d bytes, or what a terminal obeys", len(c.Message))
			}
			return nil
		})
	}
	checkMemory(t, p.Fleet, pid)
}
