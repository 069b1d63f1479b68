// Copyright Contributors to the Open Cluster Management project

package main

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spf13/pflag"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	ctrl "sigs.k8s.io/controller-runtime"
)

// recordingManager records that the manager runs.
type recordingManager struct {
	ctrl.Manager

	config *rest.Config
	runs   atomic.Bool
}

func (m *recordingManager) GetConfig() *rest.Config { return m.config }

func (m *recordingManager) Start(ctx context.Context) error {
	m.runs.Store(true)
	<-ctx.Done()
	return nil
}

type fullCaches struct{}

func (fullCaches) Start(context.Context) error { return nil }

// lostLock is a Lease that a leader gets and cannot renew.
type lostLock struct {
	record *resourcelock.LeaderElectionRecord
}

func (l *lostLock) Get(context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	if l.record == nil {
		return nil, nil, apierrors.NewNotFound(schema.GroupResource{Resource: "leases"}, "knative-addon")
	}
	return nil, nil, errors.New("the hub is down")
}

func (l *lostLock) Create(_ context.Context, record resourcelock.LeaderElectionRecord) error {
	l.record = &record
	return nil
}

func (l *lostLock) Update(context.Context, resourcelock.LeaderElectionRecord) error {
	return errors.New("the hub is down")
}

func (l *lostLock) RecordEvent(string) {}

func (l *lostLock) Identity() string { return "this-replica" }

func (l *lostLock) Describe() string { return "lease" }

// TestLeaseLoss holds that a leader that loses its Lease names the Lease, by the error of the real manager of controller-runtime.
func TestLeaseLoss(t *testing.T) {
	f := &processFlags{leaderElect: true, leaseNamespace: "addons", lease: "knative-addon"}
	options := f.managerOptions(f.lease)
	lease, renew, retry := 300*time.Millisecond, 200*time.Millisecond, 50*time.Millisecond
	options.LeaseDuration, options.RenewDeadline, options.RetryPeriod = &lease, &renew, &retry
	options.LeaderElectionResourceLockInterface, options.Metrics.BindAddress = &lostLock{}, "0"
	options.MapperProvider = func(*rest.Config, *http.Client) (apimeta.RESTMapper, error) {
		return apimeta.NewDefaultRESTMapper(nil), nil
	}
	mgr, err := ctrl.NewManager(&rest.Config{Host: "http://127.0.0.1:1"}, options)
	if err != nil {
		t.Fatal(err)
	}
	err = f.explainLeaseLoss(mgr.Start(t.Context()))
	if err == nil {
		t.Fatal("a manager that lost its Lease goes on")
	}
	for _, want := range []string{`Lease "addons/knative-addon"`, "another replica may lead"} {
		if !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q is not in the one line %q", want, err)
		}
	}
	if other := errors.New("x"); f.explainLeaseLoss(other) != other || f.explainLeaseLoss(nil) != nil { //nolint:errorlint // the same error
		t.Error("another error is changed")
	}
}

// TestStartWithoutHub starts before the hub answers: the process is alive and not ready, and goes on when the hub answers.
func TestStartWithoutHub(t *testing.T) {
	var up atomic.Bool
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if !up.Load() {
			w.WriteHeader(http.StatusBadGateway)
		}
	}))
	defer server.Close()
	// No other process of a test binds this loopback address: the port stays free.
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.2:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	_ = listener.Close()

	mgr := &recordingManager{config: &rest.Config{Host: server.URL}}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- (&processFlags{probes: address}).runWithHub(ctx, mgr, fullCaches{}) }()

	awaitStatus(t, "http://"+address+"/healthz", http.StatusOK)
	awaitStatus(t, "http://"+address+"/readyz", http.StatusServiceUnavailable)
	if mgr.runs.Load() {
		t.Error("the manager runs without a hub")
	}
	up.Store(true)
	awaitStatus(t, "http://"+address+"/readyz", http.StatusOK)
	cancel()
	if err := <-ended; err != nil || !mgr.runs.Load() {
		t.Errorf("error is %v, the manager ran: %t", err, mgr.runs.Load())
	}
}

// TestProfiles holds that profiles are served by the loopback address, and only with a port.
func TestProfiles(t *testing.T) {
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, err := net.SplitHostPort(listener.Addr().String())
	_ = listener.Close()
	if err != nil {
		t.Fatal(err)
	}
	f := &processFlags{}
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	f.addFlags(flags)
	if options := f.managerOptions("a"); options.PprofBindAddress != "0" {
		t.Errorf("without the flag profiles are served at %q", options.PprofBindAddress)
	}
	if err := flags.Parse([]string{"--pprof-port=" + port, "--leader-elect=false", "--metrics-bind-address=0"}); err != nil {
		t.Fatal(err)
	}
	options := f.managerOptions("a")
	if host, _, err := net.SplitHostPort(options.PprofBindAddress); err != nil || !net.ParseIP(host).IsLoopback() {
		t.Fatalf("profiles are served at %q (error %v), want a loopback address", options.PprofBindAddress, err)
	}
	options.MapperProvider = func(*rest.Config, *http.Client) (apimeta.RESTMapper, error) {
		return apimeta.NewDefaultRESTMapper(nil), nil
	}
	mgr, err := ctrl.NewManager(&rest.Config{Host: "http://127.0.0.1:1"}, options)
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = mgr.Start(t.Context()) }()
	awaitStatus(t, "http://127.0.0.1:"+port+"/debug/pprof/heap", http.StatusOK)
}

// awaitStatus waits until the URL answers with the status.
func awaitStatus(t *testing.T, url string, want int) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		response, err := http.DefaultClient.Do(request)
		if err == nil {
			_ = response.Body.Close()
			if response.StatusCode == want {
				return
			}
		}
	}
	t.Fatalf("%s has not answered %d", url, want)
}
