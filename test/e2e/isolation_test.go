// Copyright Contributors to the Open Cluster Management project

package e2e

import (
	"flag"
	"fmt"
	"net"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/test/e2e/harness"
	"open-cluster-management.io/knative-addon/test/lab"
)

// compareIsolation is what `make bench-isolation` sets.
var compareIsolation = flag.Int("compare-isolation", 0, "how many times TestIsolation installs without and with dead clusters, to compare the times")

const (
	// reachable is how many clusters can be installed on, and silent how many never say a word.
	reachable, silent = 14, 5
	// stuck is an access provider whose plugin never ends.
	stuck = "stuck"
)

// TestIsolation installs on many clusters at a time while others never answer, and the plugin of one never ends. None of
// them comes back during the test, so that whoever waited for one would not become ready. A further cluster is reachable and
// unreachable in turns.
func TestIsolation(t *testing.T) {
	startNightlyStory(t)
	if *compareIsolation == 0 {
		newManyClusters(t).installAll(t, true)
		return
	}
	// Each in a lab of its own, in turns: the machine may be slower for a while.
	var alone, among []time.Duration
	for i := range *compareIsolation {
		t.Run(fmt.Sprintf("alone %d", i), func(t *testing.T) { alone = append(alone, newManyClusters(t).installAll(t, false)) })
		t.Run(fmt.Sprintf("among dead ones %d", i), func(t *testing.T) { among = append(among, newManyClusters(t).installAll(t, true)) })
	}
	if t.Failed() {
		return
	}
	t.Logf("%d clusters are ready after %s alone and after %s among %d dead ones: %.2f times", reachable,
		slices.Min(alone), slices.Min(among), silent+1, slices.Min(among).Seconds()/slices.Min(alone).Seconds())
}

// manyClusters is a hub with many clusters.
type manyClusters struct {
	push
	good []*lab.Cluster
	// unsteady is a cluster that is reachable and unreachable in turns.
	unsteady *lab.Cluster
}

func newManyClusters(t *testing.T) manyClusters {
	t.Helper()
	l := ownLab(t, lab.Options{})
	c := manyClusters{push: installDeliveryHub(t, l, harness.Options{})}
	spokes, err := l.AddLightSpokes(t.Context(), reachable+1)
	if err != nil {
		t.Fatal(err)
	}
	c.good, c.unsteady = spokes[:reachable], spokes[reachable]
	sleep := map[string]any{"apiVersion": "client.authentication.k8s.io/v1", "command": "/bin/sleep", "args": []any{"60"}}
	c.writeProviderFile(t, c.provider("secretreader"), map[string]any{"name": stuck, "execConfig": sleep})
	for _, g := range c.good {
		c.token(t, g.Name, g, g.Credential.Token)
	}
	return c
}

// installAll makes the resources for the good clusters, after the others if they are there, and returns how long that took.
func (c manyClusters) installAll(t *testing.T, bad bool) time.Duration {
	t.Helper()
	var holes []*silentServer
	var flapping *flappingCluster
	if bad {
		holes, flapping = c.startSilentServers(t), c.startFlapping(t, c.unsteady)
	}
	start := time.Now()
	for _, g := range c.good {
		c.apply(t, api.Serving, g.Name, kourier())
	}
	for _, g := range c.good {
		c.ready(t, api.Serving, g.Name)
	}
	took := time.Since(start).Round(10 * time.Millisecond)
	t.Logf("%d are ready after %s", reachable, took)
	if !bad {
		return took
	}
	for i, h := range holes {
		c.awaitUnresolved(t, api.Serving, silentServerName(i), api.ReasonRemoteClientCreationFailed)
		if h.calls.Load() == 0 {
			t.Errorf("nobody has tried to reach %s", silentServerName(i))
		}
	}
	c.awaitUnresolved(t, api.Serving, stuck, api.ReasonAccessProviderFailed)
	flapping.checkReports(t)
	return took
}

// startSilentServers are resources for clusters that never answer, and for one whose plugin never ends.
func (c manyClusters) startSilentServers(t *testing.T) []*silentServer {
	t.Helper()
	var out []*silentServer
	for i := range silent {
		h := newSilentServer(t, c.Hub)
		out = append(out, h)
		c.token(t, silentServerName(i), &lab.Cluster{URL: "https://" + h.Addr().String(), CA: c.good[0].CA}, c.good[0].Credential.Token)
		c.apply(t, api.Serving, silentServerName(i), kourier())
	}
	c.publishProfile(t, stuck, c.good[0], stuck, map[string]any{})
	c.apply(t, api.Serving, stuck, kourier())
	return out
}

func silentServerName(i int) string { return fmt.Sprintf("hole%d", i) }

// silentServer takes connections and never says anything.
type silentServer struct {
	net.Listener
	calls atomic.Int32
}

// newSilentServer starts a server that is silent until the checks of the invariants have ended.
func newSilentServer(t *testing.T, hub *lab.Cluster) *silentServer {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	h := &silentServer{Listener: listener}
	closeAfterInvariants(t, hub, func() { _ = listener.Close() })
	go func() {
		var held []net.Conn
		for {
			conn, err := listener.Accept()
			if err != nil {
				break
			}
			h.calls.Add(1)
			held = append(held, conn)
		}
		for _, conn := range held {
			_ = conn.Close()
		}
	}()
	return h
}
