// Copyright Contributors to the Open Cluster Management project

package controllers

import (
	"context"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	clusterinventoryv1alpha1 "sigs.k8s.io/cluster-inventory-api/apis/v1alpha1"
	profileclient "sigs.k8s.io/cluster-inventory-api/client/clientset/versioned"
	profileinformers "sigs.k8s.io/cluster-inventory-api/client/informers/externalversions"
)

// servedPoll is how often the hub is asked whether it has ClusterProfiles by now, as long as it has not.
const servedPoll = 10 * time.Second

// profiles is the cache of the hub's ClusterProfiles. The hub need not have that kind, and may get it at any time.
type profiles struct {
	discovery discovery.DiscoveryInterface
	factory   profileinformers.SharedInformerFactory
	mu        sync.Mutex
	started   bool
}

func newProfiles(config *rest.Config) (*profiles, error) {
	client, err := profileclient.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("cannot create the client of ClusterProfiles: %w", err)
	}
	factory := profileinformers.NewSharedInformerFactoryWithOptions(client, resync, profileinformers.WithTransform(withoutManagedFields))
	p := &profiles{discovery: client.Discovery(), factory: factory}
	p.informer() // the factory starts what was asked for
	return p, nil
}

func (p *profiles) informer() cache.SharedIndexInformer {
	return p.factory.Apis().V1alpha1().ClusterProfiles().Informer()
}

// start fills the cache when the hub serves ClusterProfiles, and otherwise as soon as it does. synced is nil in the
// latter case, and again when start was called before.
func (p *profiles) start(ctx context.Context) (synced cache.InformerSynced, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.started {
		return nil, nil
	}
	served, err := p.served()
	if err != nil {
		return nil, err
	}
	p.started = true
	if !served {
		go p.await(ctx)
		return nil, nil
	}
	p.factory.Start(ctx.Done())
	return p.informer().HasSynced, nil
}

func (p *profiles) await(ctx context.Context) {
	err := wait.PollUntilContextCancel(ctx, servedPoll, false, func(context.Context) (bool, error) {
		served, err := p.served()
		return served && err == nil, nil
	})
	if err == nil {
		p.factory.Start(ctx.Done())
	}
}

func (p *profiles) served() (bool, error) {
	resources, err := p.discovery.ServerResourcesForGroupVersion(clusterinventoryv1alpha1.GroupVersion.String())
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("cannot ask the hub whether it has ClusterProfiles: %w", err)
	}
	for _, r := range resources.APIResources {
		if r.Name == "clusterprofiles" {
			return true, nil
		}
	}
	return false, nil
}

// Get implements target.Profiles.
func (p *profiles) Get(name types.NamespacedName) (*clusterinventoryv1alpha1.ClusterProfile, error) {
	if !p.informer().HasSynced() {
		kind := clusterinventoryv1alpha1.GroupVersion.WithKind("ClusterProfile")
		return nil, &apimeta.NoKindMatchError{GroupKind: kind.GroupKind(), SearchedVersions: []string{kind.Version}}
	}
	profile, err := p.factory.Apis().V1alpha1().ClusterProfiles().Lister().ClusterProfiles(name.Namespace).Get(name.Name)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return profile, err
}
