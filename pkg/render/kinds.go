// Copyright Contributors to the Open Cluster Management project

package render

import (
	"cmp"
	"iter"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"open-cluster-management.io/knative-addon/pkg/api"
)

// Kind says how every delivery treats the objects of a kind. The table below is the only list of kinds: a new kind of a
// Knative release needs one row.
type Kind struct {
	schema.GroupKind
	// Resource is the plural resource of the kind. Kinds without a row have none.
	Resource string
	// Class is how objects of the kind are kept on a cluster. A Secret with data that the user brings has class Apply.
	Class Class
	// Stage is when Direct delivery applies objects of the kind.
	Stage Stage
	// Orphan reports whether objects of the kind outlive an installation unless a deletion policy says otherwise.
	// Together they are the foundation of a bundle.
	Orphan bool
	// Feedback names the fields that a cluster reports on objects of the kind besides their existence.
	Feedback Feedback

	// rank is the position of the kind in a bundle.
	rank int
	// origin is who brings objects of the kind.
	origin origin
	// hasPods reports whether objects of the kind have a template for pods.
	hasPods bool
	// lacksScope reports whether the kind has no namespaces and the operator's own list of such kinds lacks the kind.
	lacksScope bool

	// tenantMay is what a resource of a namespace without trust may do with objects of the kind, and tenantFields returns
	// the fields of a release's object that such a resource may change; nil means none.
	tenantMay    actions
	tenantFields func(name string) map[string]fieldRule
}

// Stage is when Direct delivery applies an object. The objects of a stage are applied concurrently, after all objects of
// the stages before.
type Stage int

const (
	// StagePolicy applies ValidatingAdmissionPolicies, before the kinds whose resources the policies refuse.
	StagePolicy Stage = iota
	// StageFoundation applies Namespaces and CustomResourceDefinitions.
	StageFoundation
	// StagePermission applies ServiceAccounts, roles and bindings.
	StagePermission
	// StageConfiguration applies ConfigMaps, Secrets and Services.
	StageConfiguration
	// StageWorkload applies Deployments and StatefulSets, with their autoscalers and disruption budgets.
	StageWorkload
	// StageWebhook applies webhook configurations, after the workloads that answer.
	StageWebhook
	// StageDependent applies kinds that Knative or other products define.
	StageDependent
	// StageJob applies Jobs, the last objects of a version: a cluster with the completed Job of a version has every other object of
	// the version.
	StageJob
	// Stages is the number of stages.
	Stages
)

// Feedback names the fields that a cluster reports on an object besides its existence.
type Feedback string

const (
	// NoFeedback means existence only.
	NoFeedback Feedback = ""
	// WorkloadFeedback means the counts of a workload's pods and whether the controller has observed the latest generation.
	WorkloadFeedback Feedback = "Workload"
	// JobFeedback means whether a Job has completed or failed.
	JobFeedback Feedback = "Job"
)

// origin is who brings objects of a kind.
type origin int

const (
	// fromUser means additional manifests of users only, which an administrator has to allow.
	fromUser origin = iota
	// fromRelease means releases of Knative.
	fromRelease
	// fromAddOn means that rendering adds the objects.
	fromAddOn
)

// actions are what a resource of a namespace without trust may do with objects of a kind.
type actions struct {
	// patch permits an entry of spec.patches; add an object that the release lacks; remove leaving out an object of the
	// release.
	patch, add, remove bool
}

const (
	groupCRD       = "apiextensions.k8s.io"
	groupRBAC      = "rbac.authorization.k8s.io"
	groupAdmission = "admissionregistration.k8s.io"
)

// kindTable lists the kinds in the order in which the work agent's configuration names them. A row without kind is for all
// other kinds of its group.
//
//nolint:gochecknoglobals // a constant: every object of every rendering is looked up
var kindTable = []Kind{
	{GroupKind: coreKind("Namespace"), Resource: "namespaces", Class: Apply, Stage: StageFoundation, Orphan: true, rank: 0, origin: fromRelease, tenantFields: namespaceFields},
	{GroupKind: coreKind("ServiceAccount"), Resource: "serviceaccounts", Class: Update, Stage: StagePermission, rank: 10, origin: fromRelease},
	{GroupKind: coreKind("ConfigMap"), Resource: "configmaps", Class: Apply, Stage: StageConfiguration, rank: 20, origin: fromRelease, tenantMay: actions{patch: true, add: true}, tenantFields: configMapFields},
	{GroupKind: coreKind("Service"), Resource: "services", Class: Apply, Stage: StageConfiguration, rank: 30, origin: fromRelease, tenantMay: actions{patch: true}, tenantFields: serviceFields},
	{GroupKind: coreKind("Secret"), Resource: "secrets", Class: CreateOnly, Stage: StageConfiguration, rank: 20, origin: fromRelease},

	{GroupKind: groupKind("apps", "Deployment"), Resource: "deployments", Class: Apply, Stage: StageWorkload, Feedback: WorkloadFeedback, rank: 40, origin: fromRelease, hasPods: true, tenantMay: actions{patch: true}, tenantFields: podFields},
	{GroupKind: groupKind("apps", "StatefulSet"), Resource: "statefulsets", Class: Apply, Stage: StageWorkload, Feedback: WorkloadFeedback, rank: 40, origin: fromRelease, hasPods: true, tenantMay: actions{patch: true}, tenantFields: podFields},
	{GroupKind: groupKind("apps", "DaemonSet"), Resource: "daemonsets", Class: Apply, Stage: StageWorkload, rank: 40, hasPods: true, tenantMay: actions{patch: true}, tenantFields: podFields},
	{GroupKind: groupKind("apps", ""), Class: Apply, Stage: StageWorkload, rank: 40},
	{GroupKind: groupKind("batch", "Job"), Resource: "jobs", Class: OncePerVersion, Stage: StageJob, Feedback: JobFeedback, rank: 70, origin: fromRelease, hasPods: true, tenantMay: actions{patch: true}, tenantFields: podFields},
	{GroupKind: groupKind("batch", ""), Class: Apply, Stage: StageJob, rank: 70},
	{GroupKind: groupKind("autoscaling", "HorizontalPodAutoscaler"), Resource: "horizontalpodautoscalers", Class: Apply, Stage: StageWorkload, rank: 41, origin: fromRelease, tenantMay: actions{patch: true, add: true, remove: true}, tenantFields: autoscalerFields},
	{GroupKind: groupKind("autoscaling", ""), Class: Apply, Stage: StageWorkload, rank: 41},
	{GroupKind: groupKind("policy", "PodDisruptionBudget"), Resource: "poddisruptionbudgets", Class: Apply, Stage: StageWorkload, rank: 41, origin: fromRelease, tenantMay: actions{patch: true, add: true, remove: true}, tenantFields: disruptionBudgetFields},
	{GroupKind: groupKind("policy", ""), Class: Apply, Stage: StageWorkload, rank: 41},

	{GroupKind: groupKind(groupCRD, "CustomResourceDefinition"), Resource: "customresourcedefinitions", Class: Apply, Stage: StageFoundation, Orphan: true, rank: 1, origin: fromRelease},
	{GroupKind: groupKind(groupCRD, ""), Class: Apply, Stage: StageFoundation, rank: 1},
	{GroupKind: groupKind(groupAdmission, "MutatingWebhookConfiguration"), Resource: "mutatingwebhookconfigurations", Class: Apply, Stage: StageWebhook, rank: 31, origin: fromRelease},
	{GroupKind: groupKind(groupAdmission, "ValidatingWebhookConfiguration"), Resource: "validatingwebhookconfigurations", Class: Apply, Stage: StageWebhook, rank: 31, origin: fromRelease},
	{GroupKind: groupKind(groupAdmission, "ValidatingAdmissionPolicy"), Resource: "validatingadmissionpolicies", Class: Apply, Stage: StagePolicy, rank: 5, origin: fromAddOn, lacksScope: true},
	{GroupKind: groupKind(groupAdmission, "ValidatingAdmissionPolicyBinding"), Resource: "validatingadmissionpolicybindings", Class: Apply, Stage: StagePolicy, rank: 5, origin: fromAddOn, lacksScope: true},
	{GroupKind: groupKind(groupAdmission, "MutatingAdmissionPolicy"), Resource: "mutatingadmissionpolicies", Class: Apply, Stage: StageWebhook, rank: 50, lacksScope: true},
	{GroupKind: groupKind(groupAdmission, "MutatingAdmissionPolicyBinding"), Resource: "mutatingadmissionpolicybindings", Class: Apply, Stage: StageWebhook, rank: 50, lacksScope: true},
	{GroupKind: groupKind(groupAdmission, ""), Class: Apply, Stage: StageWebhook, rank: 50},
	{GroupKind: groupKind(groupRBAC, "ClusterRole"), Resource: "clusterroles", Class: Update, Stage: StagePermission, rank: 11, origin: fromRelease},
	{GroupKind: groupKind(groupRBAC, "Role"), Resource: "roles", Class: Update, Stage: StagePermission, rank: 11, origin: fromRelease},
	{GroupKind: groupKind(groupRBAC, "ClusterRoleBinding"), Resource: "clusterrolebindings", Class: Update, Stage: StagePermission, rank: 12, origin: fromRelease},
	{GroupKind: groupKind(groupRBAC, "RoleBinding"), Resource: "rolebindings", Class: Update, Stage: StagePermission, rank: 12, origin: fromRelease},
	{GroupKind: groupKind(groupRBAC, ""), Class: Update, Stage: StagePermission, rank: 12},

	{GroupKind: groupKind("caching.internal.knative.dev", "Image"), Resource: "images", Class: Apply, Stage: StageDependent, rank: 80, origin: fromRelease, tenantMay: actions{patch: true, remove: true}, tenantFields: cachedImageFields},
	{GroupKind: groupKind("caching.internal.knative.dev", ""), Class: Apply, Stage: StageDependent, rank: 80},
	{GroupKind: groupKind("networking.internal.knative.dev", "Certificate"), Resource: "certificates", Class: Apply, Stage: StageDependent, rank: 81, origin: fromRelease},
	{GroupKind: groupKind("networking.internal.knative.dev", ""), Class: Apply, Stage: StageDependent, rank: 81},
	{GroupKind: groupKind("cert-manager.io", "Certificate"), Resource: "certificates", Class: Apply, Stage: StageDependent, rank: 82, origin: fromRelease},
	{GroupKind: groupKind("cert-manager.io", "ClusterIssuer"), Resource: "clusterissuers", Class: Apply, Stage: StageDependent, rank: 82, lacksScope: true},
	{GroupKind: groupKind("cert-manager.io", ""), Class: Apply, Stage: StageDependent, rank: 82},
	{GroupKind: groupKind("trust.cert-manager.io", "Bundle"), Resource: "bundles", Class: Apply, Stage: StageDependent, rank: 82, lacksScope: true},
	{GroupKind: groupKind("trust.cert-manager.io", ""), Class: Apply, Stage: StageDependent, rank: 82},
	{GroupKind: groupKind("networking.istio.io", "Gateway"), Resource: "gateways", Class: Apply, Stage: StageDependent, rank: 82, origin: fromRelease},
	{GroupKind: groupKind("networking.istio.io", ""), Class: Apply, Stage: StageDependent, rank: 82},
	{GroupKind: groupKind("security.istio.io", "PeerAuthentication"), Resource: "peerauthentications", Class: Apply, Stage: StageDependent, rank: 82, origin: fromRelease},
	{GroupKind: groupKind("security.istio.io", ""), Class: Apply, Stage: StageDependent, rank: 82},
	{GroupKind: groupKind("gateway.networking.k8s.io", "GatewayClass"), Resource: "gatewayclasses", Class: Apply, Stage: StageDependent, rank: 82, lacksScope: true},
	{GroupKind: groupKind("gateway.networking.k8s.io", ""), Class: Apply, Stage: StageDependent, rank: 82},
	{GroupKind: groupKind("projectcontour.io", "TLSCertificateDelegation"), Resource: "tlscertificatedelegations", Class: Apply, Stage: StageDependent, rank: 82, origin: fromRelease},
	{GroupKind: groupKind("projectcontour.io", ""), Class: Apply, Stage: StageDependent, rank: 82},

	{GroupKind: groupKind("networking.k8s.io", "IngressClass"), Resource: "ingressclasses", Class: Apply, Stage: StageDependent, rank: otherRank, lacksScope: true},
	{GroupKind: groupKind("node.k8s.io", "RuntimeClass"), Resource: "runtimeclasses", Class: Apply, Stage: StageDependent, rank: otherRank, lacksScope: true},
	{GroupKind: groupKind("flowcontrol.apiserver.k8s.io", "PriorityLevelConfiguration"), Resource: "prioritylevelconfigurations", Class: Apply, Stage: StageDependent, rank: otherRank, lacksScope: true},
	{GroupKind: groupKind("flowcontrol.apiserver.k8s.io", "FlowSchema"), Resource: "flowschemas", Class: Apply, Stage: StageDependent, rank: otherRank, lacksScope: true},
	{GroupKind: groupKind("storage.k8s.io", "CSIDriver"), Resource: "csidrivers", Class: Apply, Stage: StageDependent, rank: otherRank, lacksScope: true},

	// A ClusterClaim names the version and the ingresses of a finished installation.
	{GroupKind: groupKind("cluster.open-cluster-management.io", "ClusterClaim"), Resource: "clusterclaims", Class: Apply, Stage: StageDependent, rank: 90, origin: fromAddOn},
	{GroupKind: groupKind("cluster.open-cluster-management.io", ""), Class: Apply, Stage: StageDependent, rank: 90},
}

// otherRank is the rank of kinds without a row: behind all that such objects may need, before Jobs.
const otherRank = 60

// otherKinds is the row of kinds whose group has no row either.
//
//nolint:gochecknoglobals // a constant
var otherKinds = Kind{Class: Apply, Stage: StageDependent, rank: otherRank}

//nolint:gochecknoglobals // an index of kindTable
var kindIndex = func() map[schema.GroupKind]*Kind {
	out := make(map[schema.GroupKind]*Kind, len(kindTable))
	for i := range kindTable {
		out[kindTable[i].GroupKind] = &kindTable[i]
	}
	return out
}()

func coreKind(kind string) schema.GroupKind { return schema.GroupKind{Kind: kind} }

func groupKind(group, kind string) schema.GroupKind {
	return schema.GroupKind{Group: group, Kind: kind}
}

// KindOf returns how objects of a kind are delivered. A kind without a row is treated as its group is, or as a kind of
// another product.
func KindOf(gk schema.GroupKind) Kind {
	out := *rowOf(gk)
	out.GroupKind = gk
	return out
}

// rowOf returns the row of a kind, of its group, or of all other kinds. The caller must not change it.
func rowOf(gk schema.GroupKind) *Kind {
	if row, found := kindIndex[gk]; found {
		return row
	}
	if row, found := kindIndex[schema.GroupKind{Group: gk.Group}]; found && gk.Group != "" {
		return row
	}
	return &otherKinds
}

func kindOf(u *unstructured.Unstructured) *Kind { return rowOf(u.GroupVersionKind().GroupKind()) }

// DeliveredKinds yields the kinds that every installation may have: the kinds of Knative's releases, and ClusterClaims.
func DeliveredKinds() iter.Seq[Kind] {
	return func(yield func(Kind) bool) {
		for i := range kindTable {
			if kindTable[i].origin != fromUser && !yield(kindTable[i]) {
				return
			}
		}
	}
}

// trackedKinds holds the kinds that are part of a foundation or have feedback. No two of these kinds share a name.
//
//nolint:gochecknoglobals // an index of kindTable
var trackedKinds = func() map[string]*Kind {
	out := map[string]*Kind{}
	for i, k := range kindTable {
		if k.Orphan || k.Feedback != NoFeedback {
			out[k.Kind] = &kindTable[i]
		}
	}
	return out
}()

// KindNamed returns the kind with the name that is part of a foundation or has feedback; the zero Kind for any other name.
// The names of these kinds are unique, so that reports need no group.
func KindNamed(name string) Kind {
	if k, found := trackedKinds[name]; found {
		return *k
	}
	return Kind{}
}

// allowedKinds are the kinds that a bundle may contain, as "Kind.group".
type allowedKinds map[string]bool

// newAllowedKinds allows the kinds of Knative's releases and those that the administrator names.
func newAllowedKinds(configured []string) allowedKinds {
	out := allowedKinds{}
	for _, k := range kindTable {
		if k.origin == fromRelease {
			out[k.String()] = true
		}
	}
	for _, name := range configured {
		out[strings.TrimSuffix(name, ".")] = true
	}
	return out
}

// checkKind refuses an object of a kind that is not allowed.
func (a allowedKinds) checkKind(u *unstructured.Unstructured) error {
	kind := u.GroupVersionKind().GroupKind().String()
	if a["*"] || a[kind] {
		return nil
	}
	return newError(api.ReasonKindNotAllowed, "%s is of kind %s, which the add-on may not deliver: remove it from the "+
		"manifests, or let an administrator allow the kind", describeObject(u), kind)
}

// sortObjects sorts by the rank of the kind and, within a rank, by identity, so that the order does not depend on how the
// manifests were written.
func sortObjects(objects []*unstructured.Unstructured) {
	slices.SortStableFunc(objects, func(a, b *unstructured.Unstructured) int {
		x, y := objectIDOf(a), objectIDOf(b)
		return cmp.Or(
			cmp.Compare(rowOf(x.groupKind()).rank, rowOf(y.groupKind()).rank),
			cmp.Compare(x.Group, y.Group), cmp.Compare(x.Kind, y.Kind),
			cmp.Compare(x.Namespace, y.Namespace), cmp.Compare(x.Name, y.Name))
	})
}
