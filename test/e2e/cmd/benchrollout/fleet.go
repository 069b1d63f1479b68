// Copyright Contributors to the Open Cluster Management project

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"
	addoninformers "open-cluster-management.io/api/client/addon/informers/externalversions"

	"open-cluster-management.io/knative-addon/test/e2e/harness"
	"open-cluster-management.io/knative-addon/test/e2e/harness/played"
	"open-cluster-management.io/knative-addon/test/lab"
)

// fleet is a hub with managed clusters that are played.
type fleet struct {
	*harness.Fleet

	opts    options
	configs dynamic.Interface
	// registration plays the registration agents of the clusters, agents the work agents.
	registration *played.Clusters
	agents       *played.Agents
	// profiles is the address of the manager's profiles.
	profiles string
	addOns   played.Watchers[*addonv1beta1.ManagedClusterAddOn]
	// line is the value of the edited line of the KnativeServing, and values creates further values.
	line   []byte
	values markers
	// clusters are their names.
	clusters []string
}

// newFleet starts a hub, installs the chart with Placements that select nothing yet, and has the clusters join.
func newFleet(ctx context.Context, opts options) (*fleet, error) {
	l, err := lab.New(ctx, lab.Options{AuditLog: true, LargeHub: opts.clusters >= largeFleet, Log: os.Stderr})
	if err != nil {
		return nil, err
	}
	f := &fleet{opts: opts}
	if err := f.start(ctx, l); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return f, nil
}

func (f *fleet) start(ctx context.Context, l *lab.Lab) error {
	var install harness.Options
	for _, c := range f.opts.components {
		strategy := strings.TrimPrefix(string(c), "knative-") + ".installStrategy."
		install.Helm = append(install.Helm, "--set", strategy+"type=Placements", "--set", strategy+"rolloutStrategy.type=All")
	}
	port, err := l.Port()
	if err != nil {
		return err
	}
	install.Manager = []string{fmt.Sprintf("--pprof-port=%d", port)}
	f.profiles = fmt.Sprintf("http://127.0.0.1:%d/debug/pprof/", port)
	if f.Fleet, err = harness.Install(ctx, l, install); err != nil {
		return err
	}
	if f.configs, err = dynamic.NewForConfig(l.Hub.Config); err != nil {
		return fmt.Errorf("cannot create a client for the hub: %w", err)
	}
	if f.opts.has(partEdit) { // an edit, and the bare client, replace the value of the line
		if err := f.writeLine(ctx, f.values.next()); err != nil {
			return err
		}
	}
	kube, err := kubernetes.NewForConfig(l.Hub.Config)
	if err != nil {
		return fmt.Errorf("cannot create a client for the hub: %w", err)
	}
	if f.agents, err = played.StartAgents(ctx, f.Works); err != nil {
		return err
	}
	if err := f.watchAddOns(ctx); err != nil {
		return err
	}
	f.registration = &played.Clusters{Client: f.Clusters, Kube: kube, ReportError: func(err error) { progress("%v", err) }}
	if err := f.registration.JoinHub(ctx, f.opts.clusters); err != nil {
		return err
	}
	f.clusters = f.registration.Names()
	progress("%d managed clusters have joined", len(f.clusters))
	return nil
}

func (f *fleet) watchAddOns(ctx context.Context) error {
	factory := addoninformers.NewSharedInformerFactory(f.AddOns, 0)
	changed := func(o any) {
		if a, ok := o.(*addonv1beta1.ManagedClusterAddOn); ok {
			f.addOns.NotifyWatchers(a)
		}
	}
	_, err := factory.Addon().V1beta1().ManagedClusterAddOns().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: changed, UpdateFunc: func(_, o any) { changed(o) },
	})
	if err != nil {
		return fmt.Errorf("cannot watch ManagedClusterAddOns: %w", err)
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	return nil
}

// quiet is the time without a change of works and add-ons before a measurement.
const quiet = 10 * time.Second

// calm waits until no work and no add-on changes any more.
func (f *fleet) calm(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		now := min(f.agents.QuietFor(), f.addOns.QuietFor())
		if now >= quiet {
			return nil
		}
		if err := pause(ctx, quiet-now); err != nil {
			return fmt.Errorf("works or add-ons do not stop changing: %w", err)
		}
	}
}

// end closes the lab. After an error, end keeps the logs of the lab.
func (f *fleet) end(failed error) error {
	if failed != nil {
		dir, err := f.KeepLogs()
		if err == nil {
			progress("the logs of the lab's components are in %s", dir)
		}
		failed = errors.Join(failed, err)
	}
	return errors.Join(failed, f.Close())
}
