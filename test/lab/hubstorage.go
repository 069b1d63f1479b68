// Copyright Contributors to the Open Cluster Management project

package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

const (
	hubEtcd = "hub-etcd"
	// hubIdentity is the Secret in which the first agent of a managed cluster keeps its certificate for the hub.
	hubIdentity = "hub-kubeconfig-secret"
)

var errSharedEtcd = errors.New("the hub has no etcd of its own: set Options.OwnHubEtcd")

// SnapshotHub saves the content of the hub's etcd for RestoreHub. The etcd is down while the lab copies the files.
func (l *Lab) SnapshotHub(ctx context.Context) error {
	if !l.opts.OwnHubEtcd {
		return errSharedEtcd
	}
	if err := l.Stop(hubEtcd); err != nil {
		return err
	}
	if err := replaceDir(l.etcdDir(hubEtcd), l.hubSnapshot()); err != nil {
		return err
	}
	return l.restartEtcd(ctx, hubEtcd)
}

// RestoreHub restores the hub's etcd from the last snapshot and restarts the API server, the controller manager and the scheduler of
// the hub, as Kubernetes' documentation of a restore says. The lab restarts no other client of the hub.
func (l *Lab) RestoreHub(ctx context.Context) error {
	if !l.opts.OwnHubEtcd {
		return errSharedEtcd
	}
	if err := l.stopAll(l.Hub.Name+"-scheduler", l.Hub.Name+"-controller-manager", l.Hub.Name+"-apiserver", hubEtcd); err != nil {
		return err
	}
	if err := replaceDir(l.hubSnapshot(), l.etcdDir(hubEtcd)); err != nil {
		return err
	}
	return l.restartHubControlPlane(ctx)
}

// RebuildHub destroys the hub's storage, and builds a hub without clusters at the same address. The new hub has another UID of
// namespace kube-system. Programs of tests that run against the hub have to be stopped before; ManagedClusters join with Rejoin.
func (l *Lab) RebuildHub(ctx context.Context) error {
	if !l.opts.OwnHubEtcd {
		return errSharedEtcd
	}
	var parts []string
	for _, p := range l.procs.All() {
		if name := p.Name(); strings.HasPrefix(name, l.Hub.Name+"-") || strings.HasPrefix(name, "ocm-") {
			parts = append([]string{name}, parts...) // clients of the API server end before the API server
		}
	}
	if err := l.stopAll(parts...); err != nil {
		return err
	}
	if err := os.RemoveAll(l.etcdDir(hubEtcd)); err != nil {
		return fmt.Errorf("cannot destroy the storage of the hub: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := l.restartHubControlPlane(ctx); err != nil {
		return err
	}
	if err := l.startHub(ctx); err != nil {
		return err
	}
	l.logf("hub: built again")
	return nil
}

// Rejoin has the agent of a managed cluster join the rebuilt hub: the agent loses its certificate of the lost hub, as with a new
// bootstrap kubeconfig, and keeps its ID.
func (l *Lab) Rejoin(ctx context.Context, c *Cluster) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := l.Stop(c.Name + "-agent"); err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(c.Config)
	if err != nil {
		return fmt.Errorf("cannot create a client for %s: %w", c.Name, err)
	}
	if err := client.CoreV1().Secrets(agentNamespace).Delete(ctx, c.hubSecret, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("cannot delete the agent's certificate of %s: %w", c.Name, err)
	}
	if err := os.RemoveAll(c.path("hub-kubeconfig")); err != nil {
		return fmt.Errorf("cannot delete the agent's certificate of %s: %w", c.Name, err)
	}
	return l.startMembership(ctx, c)
}

// restartHubControlPlane starts the stopped etcd, API server, controller manager and scheduler of the hub, and waits until
// service accounts work.
func (l *Lab) restartHubControlPlane(ctx context.Context) error {
	if err := l.restartEtcd(ctx, hubEtcd); err != nil {
		return err
	}
	if err := l.StartHubServer(ctx); err != nil {
		return err
	}
	for _, name := range []string{"controller-manager", "scheduler"} {
		if err := l.Start(l.Hub.Name + "-" + name); err != nil {
			return err
		}
	}
	return l.awaitControllers(ctx, l.Hub)
}

func (l *Lab) restartEtcd(ctx context.Context, name string) error {
	p, err := l.procs.Get(name)
	if err != nil {
		return err
	}
	if err := p.Start(); err != nil {
		return err
	}
	return awaitEtcd(ctx, p, l.etcdURLOf(l.Hub))
}

func (l *Lab) stopAll(components ...string) error {
	for _, name := range components {
		if err := l.Stop(name); err != nil {
			return err
		}
	}
	return nil
}

func (l *Lab) etcdDir(name string) string { return filepath.Join(l.Dir, name) }

func (l *Lab) hubSnapshot() string { return filepath.Join(l.Dir, "hub-etcd-snapshot") }

// replaceDir makes the directory to a copy of the directory from.
func replaceDir(from, to string) error {
	err := os.RemoveAll(to)
	if err == nil {
		err = os.CopyFS(to, os.DirFS(from))
	}
	if err != nil {
		return fmt.Errorf("cannot copy %s to %s: %w", from, to, err)
	}
	return nil
}
