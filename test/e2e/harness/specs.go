// Copyright Contributors to the Open Cluster Management project

package harness

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/delivery/manifestwork"
)

// WorkSpecs are the generations of works, by namespace, name and UID of the work.
type WorkSpecs map[string]int64

// ListWorkSpecs lists the works of all clusters except gates, of which a work agent applies nothing.
func (f *Fleet) ListWorkSpecs(ctx context.Context) (WorkSpecs, error) {
	list, err := f.Works.WorkV1().ManifestWorks(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("cannot list ManifestWorks: %w", err)
	}
	out := WorkSpecs{}
	for i := range list.Items {
		if w := &list.Items[i]; !IsGate(w) {
			out[strings.Join([]string{w.Namespace, w.Name, string(w.UID)}, "/")] = w.Generation
		}
	}
	return out, nil
}

// ListChanged lists the works of s that later specs lack, or that have another generation there.
func (s WorkSpecs) ListChanged(later WorkSpecs) []string {
	changed := maps.Clone(s)
	maps.DeleteFunc(changed, func(work string, generation int64) bool { return later[work] == generation })
	return slices.Sorted(maps.Keys(changed))
}

// IsGate reports whether a work is a gate: OCM waits for a gate, and a work agent writes nothing of a gate.
func IsGate(w *workv1.ManifestWork) bool {
	return slices.ContainsFunc(api.Components(), func(c api.Component) bool { return w.Name == manifestwork.GateName(c) })
}
