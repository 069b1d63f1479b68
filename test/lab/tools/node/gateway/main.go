// Copyright Contributors to the Open Cluster Management project

// Command gateway stands in for Envoy in the gateway of Kourier, because no registry of Go modules has Envoy. The program takes
// clusters, listeners and routes from the real controller of Kourier with Envoy's own protocol, and forwards HTTP/1.1 and h2c.
// TLS, retries, time-outs of routes and access logs are missing.
//
// The Deployment of the release runs unedited. Called as sh, the program does what the preStop hook of the Deployment wants of a shell:
// the program tells the gateway to drain, and sleeps as long as the drain takes.
package main

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

const (
	bootstrapFile = "/tmp/config/envoy-bootstrap.yaml"
	adminAddress  = "127.0.0.1:9901"
	statsAddress  = ":9000"
	drainPath     = "/drain_listeners"
	// shutdownTimeout is how long requests may take that the gateway has accepted before SIGTERM.
	shutdownTimeout = 20 * time.Second
	// reconnectPause is how long the gateway waits before a new stream to the controller.
	reconnectPause = 500 * time.Millisecond
)

func main() {
	run := runGateway
	if filepath.Base(os.Args[0]) == "sh" {
		run = drainGateway
	}
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer cancel()
	if err := run(ctx); err != nil {
		log.Print(err)
		os.Exit(1) //nolint:gocritic // the context has nothing left to do
	}
}

// drainGateway tells the gateway of the same pod to drain, and waits until the drain has ended.
func drainGateway(ctx context.Context) error {
	seconds, err := strconv.Atoi(os.Getenv("DRAIN_TIME_SECONDS"))
	if err != nil {
		return fmt.Errorf("cannot read DRAIN_TIME_SECONDS: %w", err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+adminAddress+drainPath, http.NoBody)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("cannot drain the gateway: %w", err)
	}
	_ = response.Body.Close()
	time.Sleep(time.Duration(seconds) * time.Second)
	return nil
}

func runGateway(ctx context.Context) error {
	from, err := readBootstrap(bootstrapFile)
	if err != nil {
		return err
	}
	g := newGateway()
	failed := make(chan error, 1)
	for _, address := range []string{adminAddress, statsAddress} {
		go func() { failed <- g.serveAdmin(address) }()
	}
	go func() {
		for ctx.Err() == nil {
			log.Printf("stream of %s: %v", from.controller, g.follow(ctx, from))
			time.Sleep(reconnectPause)
		}
	}()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer cancel()
	return g.shutdown(ending)
}

// serveAdmin answers as the admin interface of Envoy does to the probes and to the preStop hook of the Deployment.
func (g *gateway) serveAdmin(address string) error {
	mux := http.NewServeMux()
	mux.HandleFunc("/ready", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "LIVE") })
	mux.HandleFunc("/stats/prometheus", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc(drainPath, func(http.ResponseWriter, *http.Request) { g.draining.Store(true) })
	server := &http.Server{Addr: address, Handler: mux, ReadHeaderTimeout: time.Minute}
	return server.ListenAndServe()
}
