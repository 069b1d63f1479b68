// Copyright Contributors to the Open Cluster Management project

package hub

import (
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	clusterinventoryv1alpha1 "sigs.k8s.io/cluster-inventory-api/apis/v1alpha1"
	profileclient "sigs.k8s.io/cluster-inventory-api/client/clientset/versioned"
	profileinformers "sigs.k8s.io/cluster-inventory-api/client/informers/externalversions"
	profilelisters "sigs.k8s.io/cluster-inventory-api/client/listers/apis/v1alpha1"
)

// ClusterProfiles is the cache of the hub's ClusterProfiles. A hub need not serve that kind, and may serve the kind at any
// time.
type ClusterProfiles struct {
	optionalKind
	lister profilelisters.ClusterProfileLister
}

func newClusterProfiles(client profileclient.Interface) *ClusterProfiles {
	factory := profileinformers.NewSharedInformerFactoryWithOptions(client, resync, profileinformers.WithTransform(stripManagedFields))
	return newClusterProfilesOf(client.Discovery(), factory)
}

func newClusterProfilesOf(discovery discovery.DiscoveryInterface, factory profileinformers.SharedInformerFactory) *ClusterProfiles {
	profiles := factory.Apis().V1alpha1().ClusterProfiles()
	p := &ClusterProfiles{lister: profiles.Lister()}
	p.discovery, p.informer = discovery, profiles.Informer()
	p.kind, p.resource = clusterinventoryv1alpha1.GroupVersion.WithKind("ClusterProfile"), "clusterprofiles"
	p.recordErrors()
	return p
}

// Get returns a ClusterProfile, or nil without an error when the hub has no such ClusterProfile. The error is an
// apimeta.NoKindMatchError until the hub serves the kind, and then, until the cache is full, the error of filling the cache. Get
// implements target.Profiles.
func (p *ClusterProfiles) Get(name types.NamespacedName) (*clusterinventoryv1alpha1.ClusterProfile, error) {
	if err := p.checkFilled(); err != nil {
		return nil, err
	}
	return IgnoreNotFound(p.lister.ClusterProfiles(name.Namespace).Get(name.Name))
}

// List returns the ClusterProfiles of a namespace. The error is the error of Get.
func (p *ClusterProfiles) List(namespace string) ([]*clusterinventoryv1alpha1.ClusterProfile, error) {
	if err := p.checkFilled(); err != nil {
		return nil, err
	}
	return p.lister.ClusterProfiles(namespace).List(labels.Everything())
}
