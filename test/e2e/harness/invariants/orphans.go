// Copyright Contributors to the Open Cluster Management project

package invariants

import (
	"fmt"
	"slices"
	"strings"
)

// Object is an object on a cluster that the add-on has delivered.
type Object struct{ Group, Resource, Namespace, Name string }

func (o Object) String() string {
	return strings.TrimSuffix(o.Resource+"."+o.Group, ".") + " " + strings.TrimPrefix(o.Namespace+"/"+o.Name, "/")
}

// OrphanNothing is invariant I2 for one cluster: each delivered object is in an inventory of the cluster, or an Event has said that
// the cluster keeps the installation. Inventories are the anchors of direct delivery and the AppliedManifestWorks of work agents.
func OrphanNothing(cluster string, delivered []Object, recorded map[Object]bool, orphanedEvents []string) []string {
	if slices.ContainsFunc(orphanedEvents, func(note string) bool { return strings.Contains(note, fmt.Sprintf("cluster %q keeps", cluster)) }) {
		return nil
	}
	var lost []string
	for _, o := range delivered {
		if !recorded[o] && !staysByDefault(o) && !isMark(o) {
			lost = append(lost, o.String())
		}
	}
	if len(lost) == 0 {
		return nil
	}
	slices.Sort(lost)
	return []string{fmt.Sprintf("%s: %d delivered objects are in no inventory, and no Event Orphaned names the cluster: %s",
		cluster, len(lost), strings.Join(lost[:min(len(lost), mostNamed)], ", "))}
}

// mostNamed is how many objects a violation names.
const mostNamed = 5

// staysByDefault reports whether every removal leaves the object, unless its owner requests otherwise.
func staysByDefault(o Object) bool {
	return o.Group == "" && o.Resource == "namespaces" || o.Group == "apiextensions.k8s.io" && o.Resource == "customresourcedefinitions"
}

// isMark reports whether the object is the mark of a payload: a ConfigMap that names the digest. The mark of a payload that the hub
// replaces while a work agent applies the payload stays on the cluster until the removal of the installation: the agent drops the list of
// applied objects when the agent's report on the ManifestWork is a conflict.
func isMark(o Object) bool {
	return o.Group == "" && o.Resource == "configmaps" && strings.Contains(o.Name, "-bundle-")
}
