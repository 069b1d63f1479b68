// Copyright Contributors to the Open Cluster Management project

package values

import (
	"fmt"
	"strings"

	clusterinventoryv1alpha1 "sigs.k8s.io/cluster-inventory-api/apis/v1alpha1"

	clusterv1 "open-cluster-management.io/api/cluster/v1"
)

// Cluster has the values of a cluster.
type Cluster struct {
	name     string
	labels   map[string]string
	claim    func(name string) string
	variable func(name string) string
	// remedy names the place where a user sets values of a source.
	remedy func(Source) string
}

// OfManagedCluster returns the values of a managed cluster, with the variables of an AddOnDeploymentConfig.
func OfManagedCluster(c *clusterv1.ManagedCluster, variables map[string]string) *Cluster {
	return &Cluster{
		name: c.Name, labels: c.Labels, variable: func(name string) string { return variables[name] },
		claim: func(name string) string {
			for _, claim := range c.Status.ClusterClaims {
				if claim.Name == name {
					return claim.Value
				}
			}
			return ""
		},
		remedy: func(s Source) string {
			return map[Source]string{
				Labels: fmt.Sprintf("labels of ManagedCluster %q", c.Name), Claims: "ClusterClaims on the cluster",
				Variables: "customizedVariables of an AddOnDeploymentConfig of the add-on",
			}[s]
		},
	}
}

// OfClusterProfile returns the values of the cluster of a ClusterProfile: the properties are the claims, and there are no
// variables.
func OfClusterProfile(p *clusterinventoryv1alpha1.ClusterProfile) *Cluster {
	return &Cluster{
		name: p.Name, labels: p.Labels, variable: func(string) string { return "" },
		claim: func(name string) string {
			for _, property := range p.Status.Properties {
				if property.Name == name {
					return property.Value
				}
			}
			return ""
		},
		remedy: func(s Source) string {
			return map[Source]string{
				Labels: fmt.Sprintf("labels of ClusterProfile \"%s/%s\"", p.Namespace, p.Name), Claims: "its status.properties",
				Variables: "no variables: only clusters with a work agent have them",
			}[s]
		},
	}
}

// Given returns a cluster with the given values, by reference.
func Given(values map[Reference]string) *Cluster {
	of := func(s Source) func(string) string {
		return func(key string) string { return values[Reference{s, key}] }
	}
	labels := map[string]string{}
	for r, value := range values {
		if r.Source == Labels {
			labels[r.Key] = value
		}
	}
	return &Cluster{
		name: values[Reference{Source: Name}], labels: labels, claim: of(Claims), variable: of(Variables),
		remedy: func(s Source) string { return string(s) },
	}
}

// None returns a cluster without any value.
func None(why string) *Cluster {
	none := func(string) string { return "" }
	return &Cluster{claim: none, variable: none, remedy: func(Source) string { return why }}
}

// Name returns the name of the cluster for messages.
func (c *Cluster) Name() string { return c.name }

// Values returns the values of the references in order. The error is a *MissingError when a reference has no value.
func (c *Cluster) Values(references []Reference) ([]string, error) {
	out := make([]string, len(references))
	var missing []Reference
	for i, r := range references {
		if out[i] = c.lookupValue(r); out[i] == "" {
			missing = append(missing, r)
		}
	}
	if len(missing) > 0 {
		return nil, &MissingError{cluster: c, Missing: missing}
	}
	return out, nil
}

func (c *Cluster) lookupValue(r Reference) string {
	switch r.Source {
	case Name:
		return c.name
	case Labels:
		return c.labels[r.Key]
	case Claims:
		return c.claim(r.Key)
	case Variables:
		return c.variable(r.Key)
	default:
		return ""
	}
}

// MissingError names the values that a cluster lacks.
type MissingError struct {
	Missing []Reference
	cluster *Cluster
}

// Error implements error.
func (e *MissingError) Error() string {
	var names, remedies []string
	last := Source("")
	for _, r := range e.Missing {
		names = append(names, r.String())
		if remedy := e.cluster.remedy(r.Source); r.Source != last && remedy != "" {
			remedies = append(remedies, remedy)
		}
		last = r.Source
	}
	what := "the cluster"
	if e.cluster.name != "" {
		what = fmt.Sprintf("cluster %q", e.cluster.name)
	}
	text := what + " has no value for " + strings.Join(names, ", ")
	if len(remedies) > 0 {
		text += " (" + strings.Join(remedies, "; ") + ")"
	}
	return text
}
