// Copyright Contributors to the Open Cluster Management project

package fleet

import (
	"k8s.io/apimachinery/pkg/types"

	sdkv1beta1 "open-cluster-management.io/sdk-go/pkg/apis/cluster/v1beta1"

	"open-cluster-management.io/knative-addon/pkg/rollout"
)

// Selection returns the selection of a KnativeFleet; nil when the KnativeFleet does not exist, or cannot be followed now. A KnativeFleet that cannot be
// read is no error, which would stop the rollouts of all namespaces.
func (r *Reconciler) Selection(name types.NamespacedName) (*rollout.Selection, error) {
	read, err := r.Fleets.Get(name)
	if err != nil || read == nil {
		return nil, err
	}
	fleet, no, err := decodeFleet(read)
	if err != nil || no != nil {
		return nil, nil //nolint:nilerr // the pass over the KnativeFleet returns the error
	}
	p := &pass{Reconciler: r, read: read, fleet: fleet}
	in, err := p.gatherSelection()
	if err != nil || p.report.problem != nil {
		return nil, err
	}
	clusters, no := selectClusters(in)
	if no != nil {
		return nil, nil
	}
	out := &rollout.Selection{Strategy: in.strategy(), Annotations: fleet.Annotations, Groups: map[string]sdkv1beta1.GroupKey{}}
	for _, c := range clusters {
		out.Groups[c.name] = c.group
	}
	return out, nil
}
