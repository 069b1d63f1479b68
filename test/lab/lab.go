// Copyright Contributors to the Open Cluster Management project

package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"open-cluster-management.io/knative-addon/test/lab/process"
	"open-cluster-management.io/knative-addon/test/lab/tools"
)

// Lab is a running fleet.
type Lab struct {
	// Hub is the control plane that OCM's controllers run against.
	Hub *Cluster
	// Managed are the clusters that joined the hub, in order.
	Managed []*Cluster
	// Spokes are the clusters that OCM does not manage, in order.
	Spokes []*Cluster
	// Light are the light spokes that AddLightSpokes started, in order.
	Light []*Cluster
	// Dir holds logs, keys and kubeconfigs.
	Dir string
	// Bin finds the programs, for example Bin.Path("kubectl").
	Bin tools.Bin

	opts    Options
	procs   *process.Group
	ports   *process.Ports
	etcdURL string
	// hubEtcdURL is empty unless the hub has an etcd of its own.
	hubEtcdURL string
	webhook    int // port of OCM's webhooks
	start      time.Time
	lock       *os.File // held as long as a temporary Dir is in use
	// services is nil without Options.ClusterProxy.
	services *servicesProxy
	// reserved are inotify instances.
	reserved int64

	ctx    context.Context //nolint:containedctx // the lab's own life, ended by Close
	cancel context.CancelFunc
	bg     sync.WaitGroup
}

// New builds missing programs and starts a lab. After an error no program of the lab runs.
func New(ctx context.Context, opts Options) (*Lab, error) {
	if opts.Log == nil {
		opts.Log = io.Discard
	}
	set := tools.Set{tools.Kube, tools.OCM, tools.KWOK, tools.CLI, tools.Knative}
	if opts.KnativeControllers {
		set = append(set, tools.KnativeControllers)
	}
	if opts.ClusterProxy {
		set = append(set, tools.ClusterProxy, tools.ServiceAccounts)
	}
	realSet, err := opts.realNodeSet()
	if err != nil {
		return nil, err
	}
	set = append(set, realSet...)
	bin, err := tools.Build(ctx, set, opts.Log)
	if err != nil {
		return nil, err
	}
	l, err := newLab(opts, bin)
	if err != nil {
		return nil, err
	}
	needed := hubInstances + opts.ManagedClusters*managedInstances + opts.Spokes*spokeInstances
	needed += len(opts.RealNodes) * realNodeInstances
	if err = l.checkRealNodes(); err == nil {
		err = l.reserve(ctx, needed)
	}
	if err == nil {
		err = l.up(ctx)
	}
	if err == nil && opts.ClusterProxy {
		err = l.startClusterProxy(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

func newLab(opts Options, bin tools.Bin) (*Lab, error) {
	l := &Lab{Bin: bin, Dir: opts.Dir, opts: opts, ports: &process.Ports{}, start: time.Now()}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	var err error
	if l.Dir == "" {
		if l.Dir, l.lock, err = newTempDir(); err != nil {
			return nil, err
		}
	}
	if l.procs, err = process.NewGroup(filepath.Join(l.Dir, "logs")); err != nil {
		return nil, err
	}
	l.Hub = l.newCluster("hub")
	for i := range opts.ManagedClusters {
		l.Managed = append(l.Managed, l.newCluster(fmt.Sprintf("cluster%d", i+1)))
	}
	for i := range opts.Spokes {
		l.Spokes = append(l.Spokes, l.newCluster(fmt.Sprintf("spoke%d", i+1)))
	}
	return l, nil
}

// startTimeout is how long a lab may take to start; on two idle cores three clusters need 15 s.
const startTimeout = 4 * time.Minute

func (l *Lab) up(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := l.startEtcds(ctx); err != nil {
		return err
	}
	hubReady := make(chan struct{})
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		if err := l.startControlPlane(ctx, l.Hub); err != nil {
			return err
		}
		if err := l.startHub(ctx); err != nil {
			return err
		}
		if l.opts.HubNodes || l.hasRealNode(l.Hub) {
			if err := l.startNodes(ctx, l.Hub); err != nil {
				return err
			}
		}
		close(hubReady)
		return nil
	})
	for _, c := range l.Managed {
		g.Go(func() error { return l.startManaged(ctx, c, hubReady) })
	}
	for _, c := range l.Spokes {
		g.Go(func() error { return l.startSpoke(ctx, c) })
	}
	if err := g.Wait(); err != nil {
		return err
	}
	l.logf("hub, %d managed clusters and %d other spokes are up", len(l.Managed), len(l.Spokes))
	return nil
}

func (l *Lab) startManaged(ctx context.Context, c *Cluster, hubReady <-chan struct{}) error {
	if err := l.startControlPlane(ctx, c); err != nil {
		return err
	}
	if err := l.startNodes(ctx, c); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-hubReady:
		return l.join(ctx, c)
	}
}

func (l *Lab) startSpoke(ctx context.Context, c *Cluster) error {
	if err := l.startControlPlane(ctx, c); err != nil {
		return err
	}
	if err := l.startNodes(ctx, c); err != nil {
		return err
	}
	return l.register(ctx, c)
}

// Clusters lists the managed clusters, the other spokes and the light ones.
func (l *Lab) Clusters() []*Cluster { return slices.Concat(l.Managed, l.Spokes, l.Light) }

// Close ends every process and removes the lab's directory unless Options named it.
func (l *Lab) Close() error {
	l.cancel()
	l.procs.KillAll()
	l.bg.Wait()
	l.services.close()
	l.release()
	var err error
	for _, c := range append(l.Clusters(), l.Hub) {
		c.serviceIPs.close()
		err = errors.Join(err, c.releaseNode())
	}
	l.ports.Release()
	if l.opts.Dir != "" {
		return err
	}
	defer func() { _ = l.lock.Close() }()
	if err := os.RemoveAll(l.Dir); err != nil {
		return fmt.Errorf("cannot remove the lab's directory: %w", err)
	}
	return err
}

// Component is one process of the lab.
type Component struct {
	Name  string        `json:"name"`
	State process.State `json:"state"`
	PID   int           `json:"pid,omitempty"`
	Log   string        `json:"log"`
	// Command is the program with its arguments.
	Command []string `json:"-"`
}

// Components lists the processes of the lab in the order in which they were started.
func (l *Lab) Components() []Component {
	procs := l.procs.All()
	out := make([]Component, 0, len(procs))
	for _, p := range procs {
		state, pid := p.State()
		out = append(out, Component{Name: p.Name(), State: state, PID: pid, Log: p.LogFile(), Command: p.Command()})
	}
	return out
}

// Run starts one more process that ends with the lab.
func (l *Lab) Run(spec process.Spec) (*process.Process, error) { return l.procs.Start(spec) }

// Port reserves a port of 127.0.0.1 until the lab ends.
func (l *Lab) Port() (int, error) { return l.ports.Next() }

// Stop ends a component; Start runs it again.
func (l *Lab) Stop(component string) error { return l.with(component, (*process.Process).Stop) }

// Kill ends a component as a crash would.
func (l *Lab) Kill(component string) error { return l.with(component, (*process.Process).Kill) }

// Start runs a component that was stopped.
func (l *Lab) Start(component string) error { return l.with(component, (*process.Process).Start) }

// Pause freezes a component with SIGSTOP: the component keeps its connections and answers no request.
func (l *Lab) Pause(component string) error { return l.with(component, (*process.Process).Pause) }

// Resume continues a paused component.
func (l *Lab) Resume(component string) error { return l.with(component, (*process.Process).Resume) }

func (l *Lab) with(component string, do func(*process.Process) error) error {
	p, err := l.procs.Get(component)
	if err != nil {
		return err
	}
	return do(p)
}

// CPUTime returns the processor time, of user and system, that the programs of a closed lab took, by their file names.
func (l *Lab) CPUTime() map[string]time.Duration { return l.procs.CPUTime() }

func (l *Lab) logf(format string, args ...any) {
	_, _ = fmt.Fprintf(l.opts.Log, "lab: %5.1f s  %s\n", time.Since(l.start).Seconds(), fmt.Sprintf(format, args...))
}
