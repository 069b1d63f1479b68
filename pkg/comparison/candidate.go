// Copyright Contributors to the Open Cluster Management project

package comparison

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"

	"open-cluster-management.io/knative-addon/pkg/addon"
	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/installations"
	"open-cluster-management.io/knative-addon/pkg/render"
	"open-cluster-management.io/knative-addon/pkg/target"
)

// candidate is an installation to compare.
type candidate struct {
	installation installations.Installation
	// addOn is nil without a work agent.
	addOn *addonv1beta1.ManagedClusterAddOn
	// live is the resource on the hub, and wanted the resource of the file; the same resource when only the AddOnDeploymentConfig is in
	// the file. live is nil for a resource that the hub does not have.
	live, wanted *unstructured.Unstructured
	// deployment names the AddOnDeploymentConfig of the add-on; empty without one.
	deployment types.NamespacedName
	// earlierDeployment is the AddOnDeploymentConfig with the earlier spec that OCM wants for the cluster; nil for the present spec.
	earlierDeployment *addon.Deployment
	// record is set for an installation that is compared with the record of the hub, because the hub does not have the objects.
	record *record
	// isIncomplete reports that the cluster has not completed the configuration of the hub.
	isIncomplete bool
}

// listCandidates returns the installations that the file configures.
func (f *File) listCandidates(all []installations.Installation, x *index) []candidate {
	var out []candidate
	for _, i := range all {
		c := candidate{installation: i, addOn: x.findAddOn(&i)}
		key := resourceKey{i.Component, types.NamespacedName{Namespace: i.Object.Namespace, Name: i.Object.Name}}
		if c.addOn != nil {
			key.name = installations.ConfigOf(c.addOn)
			c.deployment = deploymentOf(c.addOn)
		}
		wanted, isInFile := f.resources[key]
		if _, changesDeployment := f.deployments[c.deployment]; !isInFile && !changesDeployment {
			continue
		}
		c.live, c.wanted = x.resources[key], wanted
		if !isInFile {
			c.wanted = c.live
		}
		if c.wanted != nil {
			out = append(out, c)
		}
	}
	return out
}

// deploymentOf returns the AddOnDeploymentConfig that OCM wants for the add-on.
func deploymentOf(addOn *addonv1beta1.ManagedClusterAddOn) types.NamespacedName {
	desired := addon.DeploymentConfigOf(addOn)
	if desired == nil {
		return types.NamespacedName{}
	}
	return types.NamespacedName{Namespace: desired.Namespace, Name: desired.Name}
}

// listNew returns the resources of the file that the hub does not have and that refer to a ClusterProfile, as installations to come.
func (f *File) listNew(x *index) []candidate {
	var out []candidate
	for key, u := range f.resources {
		ref, refers := target.ReferenceOf(u)
		if !refers || x.resources[key] != nil {
			continue
		}
		out = append(out, candidate{wanted: u, installation: installations.Installation{
			Cluster: ref.String(), Component: key.component, Mode: installations.ModeUnknown, ClusterProfile: ref.String(),
			Object: installations.Object{Kind: key.component.Kind(), Namespace: key.name.Namespace, Name: key.name.Name},
		}})
	}
	return out
}

// decodeWanted decodes the resource of the file. The resource keeps the pin of the version that the live resource has.
func (c *candidate) decodeWanted() (*render.Install, error) {
	if c.live != nil {
		before, refersBefore := target.ReferenceOf(c.live)
		after, refersAfter := target.ReferenceOf(c.wanted)
		if before != after || refersBefore != refersAfter {
			return nil, fmt.Errorf("spec.clusterProfileRef of %s %q differs from the hub: the command compares changes of one cluster alone",
				c.wanted.GetKind(), client.ObjectKeyFromObject(c.wanted))
		}
	}
	return c.decode(c.wanted)
}

// decode decodes a resource as a manager installs the resource on the cluster: the hub has a component in one namespace alone.
func (c *candidate) decode(u *unstructured.Unstructured) (*render.Install, error) {
	install, err := decodePinned(u, c.live)
	if err == nil && c.addOn == nil && c.installation.ClusterProfile == "" {
		install = install.In(c.installation.Component.InstallNamespace())
	}
	return install, err
}

// decodePinned decodes a resource with the version that the live resource is pinned to.
func decodePinned(u, live *unstructured.Unstructured) (*render.Install, error) {
	install, err := render.Decode(u)
	if err != nil || live == nil || install.SpecVersion() != "" {
		return install, err
	}
	if pin := live.GetAnnotations()[api.PinnedVersionAnnotation]; pin != "" {
		return install.WithVersion(pin), nil
	}
	return install, nil
}
