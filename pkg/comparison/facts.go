// Copyright Contributors to the Open Cluster Management project

package comparison

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clusterinventoryv1alpha1 "sigs.k8s.io/cluster-inventory-api/apis/v1alpha1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"
	clusterv1 "open-cluster-management.io/api/cluster/v1"

	"open-cluster-management.io/knative-addon/pkg/addon"
	"open-cluster-management.io/knative-addon/pkg/render"
	"open-cluster-management.io/knative-addon/pkg/revision"
	"open-cluster-management.io/knative-addon/pkg/values"
)

// facts are the objects of the hub, besides the installations, that decide about the objects of a cluster.
type facts struct {
	file *File
	// deployments are the AddOnDeploymentConfigs of the hub. The maps are empty when no candidate needs the objects.
	deployments map[types.NamespacedName]*addon.Deployment
	// specs are the hashes of the specs of deployments.
	specs    map[types.NamespacedName]string
	clusters map[string]*clusterv1.ManagedCluster
	profiles map[string]*clusterinventoryv1alpha1.ClusterProfile
}

// place holds the facts about a cluster that a rendering needs.
type place struct {
	values    *values.Cluster
	workloads *render.Deployment
}

// readFacts lists the objects that the candidates need, each kind once.
func (c *Comparer) readFacts(ctx context.Context, f *File, all []candidate) (*facts, error) {
	out := &facts{
		file: f, deployments: map[types.NamespacedName]*addon.Deployment{}, specs: map[types.NamespacedName]string{}, clusters: map[string]*clusterv1.ManagedCluster{},
		profiles: map[string]*clusterinventoryv1alpha1.ClusterProfile{},
	}
	var needsDeployments, needsClusters, needsProfiles bool
	for n := range all {
		m := &all[n]
		needsDeployments = needsDeployments || m.deployment.Name != ""
		usesValues := hasReferences(m.wanted) || hasReferences(m.live)
		needsClusters = needsClusters || usesValues && m.addOn != nil
		needsProfiles = needsProfiles || usesValues && m.addOn == nil
	}
	for _, list := range []struct {
		isNeeded bool
		resource schema.GroupVersionResource
		add      func(*unstructured.Unstructured) error
	}{
		{needsDeployments, schema.GroupVersion(addonv1beta1.GroupVersion).WithResource("addondeploymentconfigs"), out.addDeployment},
		{needsClusters, schema.GroupVersion(clusterv1.GroupVersion).WithResource("managedclusters"), out.addCluster},
		{needsProfiles, clusterinventoryv1alpha1.GroupVersion.WithResource("clusterprofiles"), out.addProfile},
	} {
		if !list.isNeeded {
			continue
		}
		objects, err := c.Hub.ListResource(ctx, list.resource, "")
		if err != nil {
			return nil, err
		}
		for _, o := range objects {
			if err := list.add(o); err != nil {
				return nil, fmt.Errorf("cannot read %s %q: %w", o.GetKind(), client.ObjectKeyFromObject(o), err)
			}
		}
	}
	return out, nil
}

// hasReferences reports whether a resource uses values of its cluster. A resource that cannot be decoded uses none.
func hasReferences(u *unstructured.Unstructured) bool {
	if u == nil {
		return false
	}
	install, err := render.Decode(u)
	return err == nil && len(install.References()) > 0
}

func (f *facts) addDeployment(u *unstructured.Unstructured) error {
	decoded, err := addon.DecodeDeployment(u)
	f.deployments[client.ObjectKeyFromObject(u)] = decoded
	if hash, hashErr := revision.Hash(u); hashErr == nil { // an object without a spec has no hash, and equals no desired spec
		f.specs[client.ObjectKeyFromObject(u)] = hash
	}
	return err
}

func (f *facts) addCluster(u *unstructured.Unstructured) error {
	out := &clusterv1.ManagedCluster{}
	f.clusters[u.GetName()] = out
	return runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, out)
}

func (f *facts) addProfile(u *unstructured.Unstructured) error {
	out := &clusterinventoryv1alpha1.ClusterProfile{}
	f.profiles[client.ObjectKeyFromObject(u).String()] = out
	return runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, out)
}

// before returns the place of an installation as the hub has it.
func (f *facts) before(m *candidate) place {
	if m.earlierDeployment != nil {
		return f.locate(m, m.earlierDeployment)
	}
	return f.locate(m, f.deployments[m.deployment])
}

// after returns the place of an installation with the AddOnDeploymentConfigs of the file.
func (f *facts) after(m *candidate) place {
	if changed, isInFile := f.file.deployments[m.deployment]; isInFile {
		return f.locate(m, changed)
	}
	return f.before(m)
}

func (f *facts) locate(m *candidate, deployment *addon.Deployment) place {
	if deployment == nil {
		deployment = &addon.Deployment{}
	}
	out := place{values: values.None("the hub has no ManagedCluster or ClusterProfile " + m.installation.Cluster), workloads: deployment.Workloads}
	if cluster := f.clusters[m.installation.Cluster]; cluster != nil && m.addOn != nil {
		out.values = values.OfManagedCluster(cluster, deployment.Variables)
	}
	if profile := f.profiles[m.installation.ClusterProfile]; profile != nil && m.addOn == nil {
		out.values = values.OfClusterProfile(profile)
	}
	return out
}

// describeState returns a text that is equal for managed clusters whose ManifestWorks have equal objects, as far as the spec decides.
func (f *facts) describeState(m *candidate, install, live *render.Install) string {
	var out []string
	for _, ref := range m.addOn.Status.ConfigReferences {
		for _, config := range []*addonv1beta1.ConfigSpecHash{ref.LastAppliedConfig, ref.DesiredConfig} {
			if config != nil {
				out = append(out, config.Namespace+"/"+config.Name+"@"+config.SpecHash)
			}
		}
	}
	references := append(append([]values.Reference{}, install.References()...), live.References()...)
	if len(references) == 0 {
		return strings.Join(out, "\n")
	}
	if m.installation.NextRevision != "" { // the ManifestWorks may use values that neither spec mentions
		return m.installation.Cluster
	}
	texts, err := f.before(m).values.Values(references)
	if err != nil {
		return m.installation.Cluster
	}
	return strings.Join(append(out, texts...), "\n")
}
