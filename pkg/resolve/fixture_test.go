// Copyright Contributors to the Open Cluster Management project

package resolve

import (
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterinventoryv1alpha1 "sigs.k8s.io/cluster-inventory-api/apis/v1alpha1"

	clusterv1 "open-cluster-management.io/api/cluster/v1"
	clusterv1beta2 "open-cluster-management.io/api/cluster/v1beta2"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/trust"
)

// reference is what all test cases refer to.
var reference = types.NamespacedName{Namespace: "team", Name: "c1"}

func workTarget() *Target {
	return &Target{Mode: api.ModeManifestWork, Profile: reference, ManagedCluster: reference.Name}
}

// closedTarget is a cluster that nothing new may be begun on.
func closedTarget() *Target {
	t := workTarget()
	t.Closed = true
	return t
}

func directTarget(provider string) *Target {
	return &Target{Mode: api.ModeDirect, Profile: reference, Provider: provider}
}

// pulled is what there is when OCM published the profile of a cluster that is there.
func pulled() Input {
	return Input{
		Reference: reference,
		Namespace: reference.Namespace,
		Profile: &clusterinventoryv1alpha1.ClusterProfile{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: reference.Namespace, Name: reference.Name, Annotations: map[string]string{},
				Labels: map[string]string{
					clusterinventoryv1alpha1.LabelClusterManagerKey: api.ClusterManagerOCM,
					clusterv1.ClusterNameLabelKey:                   reference.Name,
				},
			},
			Spec: clusterinventoryv1alpha1.ClusterProfileSpec{
				DisplayName: reference.Name, ClusterManager: clusterinventoryv1alpha1.ClusterManager{Name: api.ClusterManagerOCM},
			},
			Status: clusterinventoryv1alpha1.ClusterProfileStatus{Conditions: []metav1.Condition{
				is(clusterinventoryv1alpha1.ClusterConditionControlPlaneHealthy, metav1.ConditionTrue),
				is("Joined", metav1.ConditionTrue),
			}},
		},
		Cluster: &clusterv1.ManagedCluster{
			ObjectMeta: metav1.ObjectMeta{
				Name: reference.Name, Labels: map[string]string{clusterv1beta2.ClusterSetLabel: "dev", "vendor": "kind"},
			},
			Spec: clusterv1.ManagedClusterSpec{HubAcceptsClient: true},
			Status: clusterv1.ManagedClusterStatus{
				Conditions: []metav1.Condition{
					is(clusterv1.ManagedClusterConditionHubAccepted, metav1.ConditionTrue),
					is(clusterv1.ManagedClusterConditionJoined, metav1.ConditionTrue),
					is(clusterv1.ManagedClusterConditionAvailable, metav1.ConditionTrue),
				},
			},
		},
		Bindings: []*clusterv1beta2.ManagedClusterSetBinding{binding(reference.Namespace, "dev")},
		Sets:     []*clusterv1beta2.ManagedClusterSet{set("dev"), set("test")},
	}
}

// pushed is what there is when another manager published the profile, of a cluster with an access provider.
func pushed() Input {
	return input(pulled, managedBy("gke-fleet"), offers("gke"), configured("gke"), func(in *Input) {
		in.Profile.Labels, in.Cluster, in.Bindings, in.Sets = nil, nil, nil, nil
	})
}

func input(base func() Input, changes ...change) Input {
	in := base()
	for _, c := range changes {
		c(&in)
	}
	return in
}

func is(conditionType string, status metav1.ConditionStatus) metav1.Condition {
	return metav1.Condition{
		Type: conditionType, Status: status, Reason: "Because", Message: "at 12:00:00 token=canary", LastTransitionTime: metav1.Unix(1, 0),
	}
}

func binding(namespace, set string) *clusterv1beta2.ManagedClusterSetBinding {
	return &clusterv1beta2.ManagedClusterSetBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: set},
		Spec:       clusterv1beta2.ManagedClusterSetBindingSpec{ClusterSet: set},
		Status: clusterv1beta2.ManagedClusterSetBindingStatus{
			Conditions: []metav1.Condition{is(clusterv1beta2.ClusterSetBindingBoundType, metav1.ConditionTrue)},
		},
	}
}

func set(name string) *clusterv1beta2.ManagedClusterSet {
	return &clusterv1beta2.ManagedClusterSet{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: clusterv1beta2.ManagedClusterSetSpec{ClusterSelector: clusterv1beta2.ManagedClusterSelector{
			SelectorType: clusterv1beta2.ExclusiveClusterSetLabel,
		}},
	}
}

func noProfile(in *Input) { in.Profile = nil }

func noCluster(in *Input) { in.Cluster = nil }

func fromElsewhere(in *Input) { in.Namespace = "other" }

func managedBy(manager string) change {
	return func(in *Input) { in.Profile.Spec.ClusterManager.Name = manager }
}

func labelled(cluster string) change {
	return func(in *Input) { in.Profile.Labels[clusterv1.ClusterNameLabelKey] = cluster }
}

func clusterNamed(name string) change { return func(in *Input) { in.Cluster.Name = name } }

func asksFor(delivery string) change {
	return func(in *Input) { in.Profile.Annotations[api.DeliveryAnnotation] = delivery }
}

func offers(providers ...string) change {
	return func(in *Input) {
		in.Profile.Status.AccessProviders = nil
		for _, name := range providers {
			in.Profile.Status.AccessProviders = append(in.Profile.Status.AccessProviders, clusterinventoryv1alpha1.AccessProvider{Name: name})
		}
	}
}

func configured(providers ...string) change {
	return func(in *Input) {
		in.Direct = DirectDelivery{Configured: true, Providers: providers, Inventories: inventory(reference.Namespace, providers...)}
	}
}

// inventory lists one namespace with access providers.
func inventory(namespace string, providers ...string) trust.Inventories {
	out, err := trust.NewInventories([]trust.Inventory{{Namespace: namespace, Providers: providers, Servers: []string{"*"}}})
	if err != nil {
		panic(err)
	}
	return out
}

func listedIn(inventories trust.Inventories) change {
	return func(in *Input) { in.Direct.Inventories = inventories }
}

func bound(status metav1.ConditionStatus) change {
	return func(in *Input) { in.Bindings[0].Status.Conditions[0].Status = status }
}

// setSelects makes the bound set one by labels.
func setSelects(selector *metav1.LabelSelector) change {
	return func(in *Input) {
		in.Sets[0].Spec.ClusterSelector = clusterv1beta2.ManagedClusterSelector{SelectorType: clusterv1beta2.LabelSelector, LabelSelector: selector}
	}
}

func profileSays(status metav1.ConditionStatus) change {
	return func(in *Input) {
		apimeta.SetStatusCondition(&in.Profile.Status.Conditions, is(clusterinventoryv1alpha1.ClusterConditionControlPlaneHealthy, status))
	}
}

func clusterSays(conditionType string, status metav1.ConditionStatus) change {
	return func(in *Input) { apimeta.SetStatusCondition(&in.Cluster.Status.Conditions, is(conditionType, status)) }
}
