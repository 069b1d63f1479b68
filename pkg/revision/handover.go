// Copyright Contributors to the Open Cluster Management project

package revision

import (
	"encoding/json"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"
	clusterv1 "open-cluster-management.io/api/cluster/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
)

// A hand-over is a ControllerRevision in the namespace of a cluster. The hand-over passes spec.configs of a deleted
// ManagedClusterAddOn to its successor. The agent of a cluster may write ManifestWorks in that namespace, and no
// ControllerRevisions. The ManagedCluster owns the hand-over, so that a cluster that registers later under the same name inherits
// nothing.

// HandoverName returns the name of the hand-over of the component in the namespace of a cluster.
func HandoverName(component api.Component) string { return component.AddOnName() + "-handover" }

// handoverData is the data of a hand-over.
type handoverData struct {
	Configs []addonv1beta1.AddOnConfig `json:"configs"`
}

// NewHandover returns the hand-over of the add-on on the cluster.
func NewHandover(addOn *addonv1beta1.ManagedClusterAddOn, cluster *clusterv1.ManagedCluster) (*appsv1.ControllerRevision, error) {
	raw, err := json.Marshal(handoverData{Configs: append([]addonv1beta1.AddOnConfig{}, addOn.Spec.Configs...)})
	if err != nil {
		return nil, fmt.Errorf("cannot encode the configs of ManagedClusterAddOn \"%s/%s\": %w", addOn.Namespace, addOn.Name, err)
	}
	component := api.Component(addOn.Name)
	return &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: addOn.Namespace, Name: HandoverName(component), Labels: map[string]string{api.RevisionLabel: string(component)},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: clusterv1.GroupVersion.String(), Kind: "ManagedCluster", Name: cluster.Name, UID: cluster.UID,
			}},
		},
		Data: runtime.RawExtension{Raw: raw}, Revision: 1,
	}, nil
}

// HandoverOf returns the hand-over of the component in the namespace of the cluster, or nil. Stale is a hand-over that another
// ManagedCluster of the same name owns.
func HandoverOf(
	revisions cache.Store, component api.Component, namespace string, cluster *clusterv1.ManagedCluster,
) (current, stale *appsv1.ControllerRevision, err error) {
	o, exists, err := revisions.GetByKey(namespace + "/" + HandoverName(component))
	if err != nil || !exists {
		return nil, nil, err
	}
	record, ok := o.(*appsv1.ControllerRevision)
	switch {
	case !ok:
		return nil, nil, fmt.Errorf("cannot read hand-over \"%s/%s\": it is a %T", namespace, HandoverName(component), o)
	case record.DeletionTimestamp != nil:
		return nil, nil, nil
	case cluster == nil || !slices.ContainsFunc(record.OwnerReferences, func(o metav1.OwnerReference) bool { return o.UID == cluster.UID }):
		return nil, record, nil
	}
	return record, nil, nil
}

// HandedOverConfigs returns the spec.configs in a hand-over.
func HandedOverConfigs(record *appsv1.ControllerRevision) ([]addonv1beta1.AddOnConfig, error) {
	var out handoverData
	if err := json.Unmarshal(record.Data.Raw, &out); err != nil {
		return nil, fmt.Errorf("cannot read ControllerRevision \"%s/%s\": %w", record.Namespace, record.Name, err)
	}
	return out.Configs, nil
}

// HandoverIndex indexes hand-overs by component.
const HandoverIndex = "handover"

func indexHandover(o any) ([]string, error) {
	r, ok := o.(*appsv1.ControllerRevision)
	if !ok || r.Name != HandoverName(api.Component(r.Labels[api.RevisionLabel])) {
		return nil, nil
	}
	return []string{r.Labels[api.RevisionLabel]}, nil
}
