// Copyright Contributors to the Open Cluster Management project

package hub

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/tools/cache"
	clusterinventoryv1alpha1 "sigs.k8s.io/cluster-inventory-api/apis/v1alpha1"
	profileclient "sigs.k8s.io/cluster-inventory-api/client/clientset/versioned"
	profileinformers "sigs.k8s.io/cluster-inventory-api/client/informers/externalversions"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// servedPoll is the interval at which the hub is asked for the kind ClusterProfile until the hub serves the kind.
const servedPoll = 10 * time.Second

// ClusterProfiles is the cache of the hub's ClusterProfiles. A hub need not serve that kind, and may serve the kind at any
// time.
type ClusterProfiles struct {
	discovery discovery.DiscoveryInterface
	factory   profileinformers.SharedInformerFactory
	// started reports whether the hub serves the kind, so that the cache is being filled.
	started atomic.Bool
	// failure is the last error of filling the cache.
	failure atomic.Pointer[error]
}

func newClusterProfiles(client profileclient.Interface) *ClusterProfiles {
	factory := profileinformers.NewSharedInformerFactoryWithOptions(client, resync, profileinformers.WithTransform(stripManagedFields))
	p := &ClusterProfiles{discovery: client.Discovery(), factory: factory}
	p.prepareInformer()
	return p
}

// prepareInformer requests the informer, because the factory starts only informers that were requested before, and makes the informer
// record its errors.
func (p *ClusterProfiles) prepareInformer() {
	err := p.Informer().SetWatchErrorHandlerWithContext(func(ctx context.Context, _ *cache.Reflector, err error) {
		if apierrors.IsResourceExpired(err) || apierrors.IsGone(err) || errors.Is(err, io.EOF) {
			return // the informer lists again
		}
		p.failure.Store(&err)
		log.FromContext(ctx).Info("ClusterProfiles cannot be listed or watched, and the manager tries again", "cause", err.Error())
	})
	if err != nil {
		p.failure.Store(&err) // only a started informer refuses the handler
	}
}

// fillCache starts the informer.
func (p *ClusterProfiles) fillCache(ctx context.Context) {
	p.started.Store(true)
	p.factory.Start(ctx.Done())
}

// Informer returns the informer of ClusterProfiles.
func (p *ClusterProfiles) Informer() cache.SharedIndexInformer {
	return p.factory.Apis().V1alpha1().ClusterProfiles().Informer()
}

// start fills the cache at once where the hub serves ClusterProfiles, and otherwise as soon as the hub does. synced is nil in the
// second case.
func (p *ClusterProfiles) start(ctx context.Context) (synced cache.InformerSynced, err error) {
	served, err := awaitServed(ctx, p.isServed)
	if err != nil {
		return nil, err
	}
	if !served {
		go p.startWhenServed(ctx)
		return nil, nil
	}
	p.fillCache(ctx)
	return p.Informer().HasSynced, nil
}

// awaitServed reports whether the hub serves ClusterProfiles, and repeats a failed request until the context ends.
func awaitServed(ctx context.Context, isServed func() (bool, error)) (served bool, err error) {
	err = newProbeBackoff().DelayFunc().Until(ctx, true, true, func(ctx context.Context) (bool, error) {
		var failure error
		if served, failure = isServed(); failure != nil {
			log.FromContext(ctx).Info("a request to the hub failed and is repeated", "cause", failure.Error())
		}
		return failure == nil, nil
	})
	return served, err
}

func (p *ClusterProfiles) startWhenServed(ctx context.Context) {
	err := wait.PollUntilContextCancel(ctx, servedPoll, false, func(context.Context) (bool, error) {
		served, err := p.isServed()
		return served && err == nil, nil
	})
	if err == nil {
		p.fillCache(ctx)
	}
}

func (p *ClusterProfiles) isServed() (bool, error) {
	resources, err := p.discovery.ServerResourcesForGroupVersion(clusterinventoryv1alpha1.GroupVersion.String())
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("cannot ask the hub whether it has ClusterProfiles: %w", err)
	}
	return slices.ContainsFunc(resources.APIResources, func(r metav1.APIResource) bool { return r.Name == "clusterprofiles" }), nil
}

// Get returns a ClusterProfile, or nil without an error when the hub has no such ClusterProfile. The error is an
// apimeta.NoKindMatchError until the hub serves the kind, and then, until the cache is full, the error of filling the cache. Get
// implements target.Profiles.
func (p *ClusterProfiles) Get(name types.NamespacedName) (*clusterinventoryv1alpha1.ClusterProfile, error) {
	switch synced := p.Informer().HasSynced(); {
	case !synced && p.started.Load():
		if failure := p.failure.Load(); failure != nil {
			return nil, fmt.Errorf("cannot list ClusterProfiles: %w", *failure)
		}
		return nil, apierrors.NewServiceUnavailable("the ClusterProfiles are being listed")
	case !synced:
		kind := clusterinventoryv1alpha1.GroupVersion.WithKind("ClusterProfile")
		return nil, &apimeta.NoKindMatchError{GroupKind: kind.GroupKind(), SearchedVersions: []string{kind.Version}}
	}
	profile, err := p.factory.Apis().V1alpha1().ClusterProfiles().Lister().ClusterProfiles(name.Namespace).Get(name.Name)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return profile, err
}
