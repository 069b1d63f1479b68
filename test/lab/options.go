// Copyright Contributors to the Open Cluster Management project

package lab

import (
	"io"
	"time"
)

// Options of a lab. The zero value is a hub without clusters.
type Options struct {
	// ManagedClusters is how many clusters join the hub: cluster1, cluster2, ...
	ManagedClusters int
	// Spokes is how many clusters OCM does not manage: spoke1, spoke2, ...
	Spokes int
	// HubNodes gives the hub a node too, so that Knative can run on it.
	HubNodes bool
	// RegistrationFeatureGates are set on the hub's registration controller over ClusterProfile, DefaultClusterSet,
	// ManagedClusterAutoApproval and ResourceCleanup, which are on.
	RegistrationFeatureGates map[string]bool
	// WorkFeatureGates are set on the hub's work controller over ManifestWorkReplicaSet, which is on.
	WorkFeatureGates map[string]bool
	// StatusSyncInterval is how often a work agent polls the status of what it applied; 0 means 10 s, OCM's own default.
	StatusSyncInterval time.Duration
	// ResyncInterval is the interval at which a work agent applies all works again. The agent adds up to half of the interval at random;
	// 0 means 4 min, the default of OCM.
	ResyncInterval time.Duration
	// OwnHubEtcd gives the hub an etcd of its own: see Lab.SnapshotHub, Lab.RestoreHub and Lab.RebuildHub.
	OwnHubEtcd bool
	// RealNodes names clusters that have a real node in place of KWOK's, such as "cluster1": pods run there, and except on the hub the
	// programs of Knative Serving are real. Pods on a real node reach the API servers of clusters with real nodes. A real node needs root
	// and packages of Debian: see realnode.CheckMachine.
	RealNodes []string
	// RealEventing gives the nodes, except the node of the hub, the programs of Knative Eventing too.
	RealEventing bool
	// ClusterProxy runs the add-ons cluster-proxy and managed-serviceaccount on the hub and on the managed clusters, with the gates for
	// ClusterProfiles on. A program outside of pods reaches cluster-proxy's Service UserServer through Lab.HubServicesProxy. The plugin is
	// Bin.Path("cp-creds").
	ClusterProxy bool
	// KnativeControllers runs Knative's controllers too, not only its webhooks.
	KnativeControllers bool
	// LargeHub prepares the hub for a thousand managed clusters. The live objects of the API server then take 5 GB and more, so that the variable
	// GOGC is 100: with the 300 of the other servers, the heap exceeds the memory of a small machine. OCM's registration controller may send 200
	// requests a second in place of 50, since each cluster that joins takes 24 requests.
	LargeHub bool
	// AuditLog has the API servers of spokes count the requests that are made with their Credential, and the hub's what
	// ServiceAccounts write: see Cluster.Requests and Lab.Writes.
	AuditLog bool
	// AuditedAccounts are ServiceAccounts of the hub, as "namespace:name", whose requests of all kinds the hub's API server
	// records: see Lab.RequestsOf and Lab.ListRequestsOf.
	AuditedAccounts []string
	// RecordChanges has every API server record who deletes CRDs, Namespaces and resources of Knative. The API servers of spokes
	// also record the writes of administrators and of ServiceAccounts from outside of the cluster, such as their Credential, and the hub's the
	// content of the Events and statuses that AuditedAccounts write: see Cluster.Changes and Lab.RecordsChanges. On spokes, AuditLog takes
	// precedence.
	RecordChanges bool
	// Dir is the lab's directory; empty means a new temporary one that is removed at the end.
	Dir string
	// Log takes progress lines; nil discards them.
	Log io.Writer
}
