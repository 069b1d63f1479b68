// Copyright Contributors to the Open Cluster Management project

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"open-cluster-management.io/knative-addon/test/lab"
)

func (c *command) socket() string { return filepath.Join(c.dir, "lab.sock") }

// up starts "lab serve" in a session of its own and shows its progress until the lab answers or has failed.
func (c *command) up(ctx context.Context) error {
	if c.call(ctx, http.MethodGet, "/status", nil) == nil {
		return fmt.Errorf("lab %q runs already; `lab down --name=%s` ends it", c.name, c.name)
	}
	if err := os.RemoveAll(c.dir); err != nil {
		return fmt.Errorf("cannot remove what an earlier lab left: %w", err)
	}
	if err := os.MkdirAll(c.dir, 0o700); err != nil {
		return fmt.Errorf("cannot create the lab's directory: %w", err)
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("cannot find this program: %w", err)
	}
	log, err := os.Create(filepath.Join(c.dir, "lab.log")) // a pipe to us would break when we end
	if err != nil {
		return fmt.Errorf("cannot create the lab's log: %w", err)
	}
	defer func() { _ = log.Close() }()
	server := exec.Command(self, append([]string{"serve"}, os.Args[2:]...)...) //nolint:gosec,noctx // this program, and it goes on after us
	server.Stdout, server.Stderr = log, log
	server.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := server.Start(); err != nil {
		return fmt.Errorf("cannot start the lab: %w", err)
	}
	done := make(chan error, 1)
	go func() { done <- server.Wait() }()
	return c.await(ctx, server.Process.Pid, done)
}

func (c *command) await(ctx context.Context, pid int, done <-chan error) error {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	shown := 0
	for {
		shown += c.showLog(shown)
		select {
		case <-ctx.Done():
			_ = syscall.Kill(pid, syscall.SIGTERM)
			<-done
			return errors.New("interrupted")
		case err := <-done:
			c.showLog(shown)
			return fmt.Errorf("the lab has ended: %w", err)
		case <-tick.C:
			if c.call(ctx, http.MethodGet, "/status", nil) == nil {
				c.showLog(shown)
				fmt.Fprintf(os.Stderr, "lab: eval \"$(lab env --name=%s)\" sets KUBECONFIG and PATH\n", c.name)
				return nil
			}
		}
	}
}

// showLog prints what the lab has logged beyond the first bytes, and returns how much that was.
func (c *command) showLog(from int) int {
	content, err := os.ReadFile(filepath.Join(c.dir, "lab.log"))
	if err != nil || len(content) <= from {
		return 0
	}
	n, _ := os.Stderr.Write(content[from:])
	return n
}

// serve holds the lab and answers on a socket until it is told to end.
func (c *command) serve(ctx context.Context) error {
	c.opts.Log = os.Stderr
	l, err := lab.New(ctx, c.opts)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	listener, err := (&net.ListenConfig{}).Listen(ctx, "unix", c.socket())
	if err != nil {
		cancel()
		return errors.Join(fmt.Errorf("cannot listen: %w", err), l.Close())
	}
	server := &http.Server{Handler: handler(l, cancel), ReadHeaderTimeout: time.Second}
	go func() { _ = server.Serve(listener) }()
	<-ctx.Done()
	err = l.Close()
	_ = server.Shutdown(context.WithoutCancel(ctx)) // lets "down" have its answer
	return errors.Join(err, os.RemoveAll(c.dir))
}

func handler(l *lab.Lab, end context.CancelFunc) http.Handler {
	mux := http.NewServeMux()
	reply := func(w http.ResponseWriter, err error) {
		if err != nil {
			http.Error(w, err.Error(), http.StatusConflict)
		}
	}
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(newStatus(l))
	})
	mux.HandleFunc("POST /down", func(http.ResponseWriter, *http.Request) { end() })
	for verb, do := range map[string]func(string) error{"stop": l.Stop, "start": l.Start, "kill": l.Kill, "pause": l.Pause, "resume": l.Resume} {
		mux.HandleFunc("POST /"+verb+"/{component}", func(w http.ResponseWriter, r *http.Request) {
			reply(w, do(r.PathValue("component")))
		})
	}
	return mux
}
