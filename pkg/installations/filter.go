// Copyright Contributors to the Open Cluster Management project

package installations

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"open-cluster-management.io/knative-addon/pkg/api"
)

// Filter selects installations; the zero value selects all.
type Filter struct {
	// Names select by cluster, by ClusterProfile or by resource, each with or without namespace.
	Names []string
	// Mode selects by delivery mode; empty selects every mode.
	Mode api.DeliveryMode
	// NotReady selects installations that are not ready.
	NotReady bool
	// Clusters selects the clusters and the ClusterProfiles of a label selector; nil selects all.
	Clusters sets.Set[string]
}

// Select returns the installations that the filter selects, and the names that belong to no installation.
func (f *Filter) Select(all []Installation) (selected []Installation, unknown []string) {
	for _, name := range f.Names {
		if !slices.ContainsFunc(all, func(i Installation) bool { return i.isNamed(name) }) {
			unknown = append(unknown, name)
		}
	}
	for _, i := range all {
		if f.selects(&i) {
			selected = append(selected, i)
		}
	}
	return selected, unknown
}

func (f *Filter) selects(i *Installation) bool {
	switch {
	case len(f.Names) > 0 && !slices.ContainsFunc(f.Names, i.isNamed):
		return false
	case f.Mode != "" && i.Mode != f.Mode:
		return false
	case f.NotReady && i.Ready == metav1.ConditionTrue:
		return false
	default:
		return f.Clusters == nil || f.Clusters.Has(i.Cluster) || i.ClusterProfile != "" && f.Clusters.Has(i.ClusterProfile)
	}
}

// isNamed reports whether a name belongs to the installation.
func (i *Installation) isNamed(name string) bool {
	resource := i.Object.Namespace + "/" + i.Object.Name
	if slices.Contains([]string{i.Cluster, i.ClusterProfile, resource}, name) {
		return true
	}
	if strings.Contains(name, "/") {
		return false
	}
	_, profile, _ := strings.Cut(i.ClusterProfile, "/")
	return name == profile || name == i.Object.Name && i.Object.Kind == i.Component.Kind()
}

// ParseMode returns the delivery mode that a user names; no text means every mode.
func ParseMode(text string) (api.DeliveryMode, error) {
	modes := []api.DeliveryMode{api.ModeManifestWork, api.ModeDirect, ModeUnknown}
	if text == "" {
		return "", nil
	}
	for _, mode := range modes {
		if strings.EqualFold(text, string(mode)) {
			return mode, nil
		}
	}
	return "", fmt.Errorf("cannot use --mode=%q: use %s, %s or %s", text, modes[0], modes[1], modes[2])
}

// ParseComponents returns the components that a user names; no text means all.
func ParseComponents(text string) ([]api.Component, error) {
	if text == "" {
		return api.Components(), nil
	}
	for _, component := range api.Components() {
		if text == string(component) || text == strings.TrimPrefix(string(component), "knative-") {
			return []api.Component{component}, nil
		}
	}
	return nil, fmt.Errorf("cannot use --component=%q: use serving or eventing", text)
}
