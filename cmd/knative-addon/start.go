// Copyright Contributors to the Open Cluster Management project

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"open-cluster-management.io/knative-addon/pkg/hub"
)

// probeHeaderTimeout is the time that a client of /healthz and /readyz has to send a request.
const probeHeaderTimeout = 10 * time.Second

// hubCaches are the caches of a hub. Start returns when all caches are full.
type hubCaches interface {
	Start(ctx context.Context) error
}

// runWithHub waits for the hub, fills the caches and runs the manager. Full caches come before the Lease: a replica that takes
// over can act at once. The probes are served from the beginning: a process that waits for its hub is alive, and not ready.
func (f *processFlags) runWithHub(ctx context.Context, mgr ctrl.Manager, caches hubCaches) error {
	liveness, err := hub.NewLiveness(mgr.GetConfig())
	if err != nil {
		return err
	}
	var filled atomic.Bool
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if err := f.serveProbes(ctx, cancel, func() bool { return filled.Load() && liveness.Answers() }); err != nil {
		return err
	}
	go liveness.Run(ctx)
	if err := liveness.AwaitAnswer(ctx); err != nil {
		return fmt.Errorf("ended before the hub answered: %w", context.Cause(ctx))
	}
	if err := caches.Start(ctx); err != nil {
		return err
	}
	filled.Store(true)
	return errors.Join(f.explainLeaseLoss(mgr.Start(ctx)), ignoreCancel(context.Cause(ctx)))
}

// leaseLost is the text of controller-runtime's error for a manager that could not renew its Lease. The error has no type.
const leaseLost = "leader election lost"

// explainLeaseLoss names the Lease in the error of a manager that lost the Lease.
func (f *processFlags) explainLeaseLoss(err error) error {
	if err == nil || err.Error() != leaseLost {
		return err
	}
	name := f.lease
	if f.leaseNamespace != "" {
		name = f.leaseNamespace + "/" + name
	}
	return fmt.Errorf("cannot renew Lease %q within %s: this process ends, and another replica may lead now: %w", name, renewDeadline, err)
}

// ignoreCancel returns nil for the end of a process after a signal.
func ignoreCancel(cause error) error {
	if errors.Is(cause, context.Canceled) {
		return nil
	}
	return cause
}

// serveProbes serves /healthz and /readyz until the context ends. A server that fails ends the process with its error.
func (f *processFlags) serveProbes(ctx context.Context, fail context.CancelCauseFunc, isReady func() bool) error {
	if f.probes == "" || f.probes == "0" {
		return nil
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", f.probes)
	if err != nil {
		return fmt.Errorf("cannot serve --health-probe-bind-address: %w", err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok")) })
	mux.HandleFunc("/readyz", func(w http.ResponseWriter, _ *http.Request) {
		if !isReady() {
			http.Error(w, "the manager waits for the hub: see its log", http.StatusServiceUnavailable)
		}
	})
	server := &manager.Server{
		Name: "health probe", Listener: listener, Server: &http.Server{Handler: mux, ReadHeaderTimeout: probeHeaderTimeout},
	}
	go func() {
		if err := server.Start(ctx); err != nil {
			fail(fmt.Errorf("cannot serve --health-probe-bind-address: %w", err))
		}
	}()
	return nil
}
