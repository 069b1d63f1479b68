// Copyright Contributors to the Open Cluster Management project

// Command lab runs a fleet of real components on this machine:
//
//	lab up [flags]             start it in the background and wait until every cluster is Available
//	lab down                   end it and remove its directory
//	lab status                 list its components
//	lab env                    print shell commands that set KUBECONFIG and PATH
//	lab logs <component>       print the log of a component
//	lab stop|start <component> a fault, and its end; also kill, pause, resume
//	lab build <group> ...      build groups of programs into the cache, so that a later start need not
//
// Several labs run side by side under different names (--name).
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"open-cluster-management.io/knative-addon/test/lab"
	"open-cluster-management.io/knative-addon/test/lab/realnode"
	"open-cluster-management.io/knative-addon/test/lab/tools"
)

type command struct {
	name string
	dir  string
	opts lab.Options
	args []string
}

func main() {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "lab: %v\n", err)
		os.Exit(1) //nolint:gocritic // the context has nothing left to do
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return fmt.Errorf("name a command: up, down, status, env, logs, check-node, stop, start, kill, pause, resume or build")
	}
	c, err := parse(args[1:])
	if err != nil {
		return err
	}
	verbs := map[string]func(context.Context) error{
		"up": c.up, "serve": c.serve, "down": c.down, "status": c.status, "env": c.env, "logs": c.logs, "build": c.build,
		"check-node": func(context.Context) error { return realnode.CheckMachine() },
	}
	for _, verb := range []string{"stop", "start", "kill", "pause", "resume"} {
		verbs[verb] = func(ctx context.Context) error { return c.fault(ctx, verb) }
	}
	do, ok := verbs[args[0]]
	if !ok {
		return fmt.Errorf("unknown command %q: use up, down, status, env, logs, check-node, stop, start, kill, pause, resume or build", args[0])
	}
	return do(ctx)
}

// build builds the named groups of programs.
func (c *command) build(ctx context.Context) error {
	if len(c.args) == 0 {
		return errors.New("name groups of programs, such as argocd or cluster-proxy")
	}
	_, err := tools.Build(ctx, c.args, os.Stderr)
	return err
}

func parse(args []string) (*command, error) {
	c := &command{}
	f := flag.NewFlagSet("lab", flag.ContinueOnError)
	f.StringVar(&c.name, "name", "default", "name of the lab")
	f.IntVar(&c.opts.ManagedClusters, "managed", 2, "number of managed clusters (up)")
	f.IntVar(&c.opts.Spokes, "spokes", 0, "number of clusters that OCM does not manage (up)")
	f.DurationVar(&c.opts.StatusSyncInterval, "status-sync-interval", 10*time.Second, "how often work agents poll status (up)")
	f.DurationVar(&c.opts.ResyncInterval, "resync-interval", 4*time.Minute, "how often work agents apply everything again (up)")
	f.BoolVar(&c.opts.KnativeControllers, "knative-controllers", false, "run Knative's controllers, not only its webhooks (up)")
	f.BoolVar(&c.opts.ClusterProxy, "cluster-proxy", false, "run the add-ons cluster-proxy and managed-serviceaccount (up)")
	f.BoolFunc("real-node", "give cluster1 a real node, on which pods run; needs root (up)", func(string) error {
		c.opts.RealNodes = []string{"cluster1"}
		return nil
	})
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	c.args = f.Args()
	c.dir = filepath.Join(os.TempDir(), fmt.Sprintf("knative-addon-lab-%d-%s", os.Getuid(), filepath.Base(c.name)))
	c.opts.Dir = c.dir
	return c, nil
}
