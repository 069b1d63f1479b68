// Copyright Contributors to the Open Cluster Management project

// Package resolve says which cluster a KnativeServing or KnativeEventing means with spec.clusterProfileRef, how it is
// reached, or why neither can be said.
//
// A ClusterProfile is only a claim: whoever may create one in some namespace can write any name, label and status into
// it. It maps to a ManagedCluster when all of this holds:
//   - its spec.clusterManager.name is open-cluster-management;
//   - its label open-cluster-management.io/cluster-name and its name are both the ManagedCluster's, as OCM makes them;
//   - its namespace holds a ManagedClusterSetBinding, Bound, of a ManagedClusterSet that contains the ManagedCluster.
//
// The last is what proves consent: OCM lets nobody bind a set who may not. A profile of another cluster manager never
// maps to a ManagedCluster, whatever it says; it is reached directly.
//
// Contract:
//   - Resolve is a function of its Input and changes nothing in it; the order of lists does not matter, but that of the
//     configured access providers.
//   - Rules come in two lists. Those of identity say which cluster is meant, and that it may be; when one objects there
//     is no Target. Those of sight say whether it was seen; when one objects the Target is there all the same, because
//     losing sight of a cluster is not leaving it.
//   - The first rule that objects gives the reason, a constant of package api. Where the Knative Operator has the reasons
//     too, the order is its own.
//   - A Result without Target is never a reason to remove anything: the reference may be denied, forged or not yet
//     readable while the cluster and what is installed there are as they were. Whoever removes goes by what was recorded
//     when the target was last known, and by the ManagedCluster itself.
package resolve
