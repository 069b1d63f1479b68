// Copyright Contributors to the Open Cluster Management project

package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"open-cluster-management.io/knative-addon/pkg/hub"
)

// rejoining is how many clusters rejoin the hub at once.
const rejoining = 1000

// writeServer is a hub that accepts every patch at once, and keeps the times of the patches by API group.
type writeServer struct {
	mu     sync.Mutex
	writes map[string][]time.Time
}

func (s *writeServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	group := strings.Split(strings.TrimPrefix(r.URL.Path, "/apis/"), "/")[0]
	s.mu.Lock()
	s.writes[group] = append(s.writes[group], time.Now())
	s.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, `{}`)
}

// TestRejoiningClusters holds that the hub gets no more writes than the flags permit when a thousand clusters ask for writes: of
// each client, --kube-api-burst at once, and --kube-api-qps a second on average. A slow machine only makes the writes rarer.
func TestRejoiningClusters(t *testing.T) {
	const qps, burst = 200, 50
	server := &writeServer{writes: map[string][]time.Time{}}
	api := httptest.NewServer(server)
	t.Cleanup(api.Close)
	clients := clientsOfFlags(t, api.URL, fmt.Sprintf("--kube-api-qps=%d", qps), fmt.Sprintf("--kube-api-burst=%d", burst))

	start := time.Now()
	var writers sync.WaitGroup
	for _, write := range []func(cluster string) error{
		func(cluster string) error {
			_, err := clients.Works.WorkV1().ManifestWorks(cluster).Patch(t.Context(), "w", types.MergePatchType, []byte(`{}`), metav1.PatchOptions{})
			return err
		},
		func(cluster string) error {
			_, err := clients.AddOns.AddonV1beta1().ManagedClusterAddOns(cluster).
				Patch(t.Context(), "a", types.MergePatchType, []byte(`{}`), metav1.PatchOptions{}, "status")
			return err
		},
	} {
		writers.Go(func() { // one after the other: the limiter gives too many tokens to requests that overtake each other
			for n := range rejoining {
				if err := write(fmt.Sprintf("cluster%d", n)); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	writers.Wait()
	for group, writes := range server.writes {
		if len(writes) != rejoining {
			t.Errorf("%s: %d writes, want %d", group, len(writes), rejoining)
		}
		slices.SortFunc(writes, time.Time.Compare)
		for n, at := range writes {
			if permitted := burst + qps*at.Sub(start).Seconds(); float64(n) > permitted {
				t.Fatalf("%s: %d writes within %s, want at most %.0f", group, n+1, at.Sub(start), permitted)
			}
		}
	}
	if len(server.writes) != 2 {
		t.Errorf("the hub has writes of %d groups, want 2", len(server.writes))
	}
}

// clientsOfFlags returns the clients of a manager that runs with the flags.
func clientsOfFlags(t *testing.T, url string, args ...string) hub.Clients {
	t.Helper()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	err := clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{"hub": {Server: url}}, Contexts: map[string]*clientcmdapi.Context{"hub": {Cluster: "hub"}}, CurrentContext: "hub",
	}, file)
	if err != nil {
		t.Fatal(err)
	}
	f := &processFlags{}
	flags := pflag.NewFlagSet("manager", pflag.ContinueOnError)
	f.addFlags(flags)
	if err := flags.Parse(append(args, "--kubeconfig="+file)); err != nil {
		t.Fatal(err)
	}
	config, err := f.hubConfig()
	if err != nil {
		t.Fatal(err)
	}
	clients, err := hub.NewClients(config)
	if err != nil {
		t.Fatal(err)
	}
	return clients
}
