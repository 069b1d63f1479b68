// Copyright Contributors to the Open Cluster Management project

package register

import (
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientcmdv1 "k8s.io/client-go/tools/clientcmd/api/v1"
	clusterinventoryv1alpha1 "sigs.k8s.io/cluster-inventory-api/apis/v1alpha1"

	"open-cluster-management.io/knative-addon/pkg/api"
)

// ClusterManager is spec.clusterManager.name of the ClusterProfiles of registrations.
const ClusterManager = "knative-addon"

// execExtension is the extension that cluster-inventory-api hands to the plugin of an access provider.
const execExtension = "client.authentication.k8s.io/exec"

// PlaceholderToken stands for the token in objects that are only printed.
const PlaceholderToken = "TOKEN-OF-THE-SERVICEACCOUNT"

// toUnstructured returns an object as its JSON says, without status and without a time of creation.
func toUnstructured(object any) (*unstructured.Unstructured, error) {
	out := &unstructured.Unstructured{}
	data, err := json.Marshal(object)
	if err == nil {
		err = json.Unmarshal(data, &out.Object)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot encode an object: %w", err)
	}
	delete(out.Object, "status")
	unstructured.RemoveNestedField(out.Object, "metadata", "creationTimestamp")
	return out, nil
}

// tokenName returns the name of the Secret with the token of the ServiceAccount.
func (r *Registration) tokenName() types.NamespacedName {
	return types.NamespacedName{Namespace: r.Account.Namespace, Name: r.Account.Name + "-token"}
}

// clusterObjects returns the objects of the registration on the cluster in the order in which the objects can be applied.
func (r *Registration) clusterObjects() ([]*unstructured.Unstructured, error) {
	account := metav1.ObjectMeta{Namespace: r.Account.Namespace, Name: r.Account.Name}
	objects := []any{
		corev1.Namespace{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}, ObjectMeta: metav1.ObjectMeta{Name: r.Account.Namespace}},
		corev1.ServiceAccount{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ServiceAccount"}, ObjectMeta: account},
	}
	if r.TokenDuration == 0 {
		token := r.tokenName()
		objects = append(objects, corev1.Secret{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}, Type: corev1.SecretTypeServiceAccountToken,
			ObjectMeta: metav1.ObjectMeta{
				Namespace: token.Namespace, Name: token.Name, Annotations: map[string]string{corev1.ServiceAccountNameKey: r.Account.Name},
			},
		})
	}
	return r.markObjects(append(objects, r.Grant.Objects()...))
}

// hubObjects returns the Secret with the token and the ClusterProfile, without status.
func (r *Registration) hubObjects(token string) ([]*unstructured.Unstructured, error) {
	objects, err := r.markObjects([]any{
		corev1.Secret{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}, Type: corev1.SecretTypeOpaque,
			ObjectMeta: metav1.ObjectMeta{Namespace: r.SecretNamespace, Name: r.Profile.Name}, Data: map[string][]byte{"token": []byte(token)},
		},
		clusterinventoryv1alpha1.ClusterProfile{
			TypeMeta: metav1.TypeMeta{APIVersion: clusterinventoryv1alpha1.GroupVersion.String(), Kind: "ClusterProfile"},
			ObjectMeta: metav1.ObjectMeta{
				Namespace: r.Profile.Namespace, Name: r.Profile.Name,
				Labels:      map[string]string{clusterinventoryv1alpha1.LabelClusterManagerKey: ClusterManager},
				Annotations: map[string]string{api.RegisteredSecretAnnotation: r.SecretNamespace + "/" + r.Profile.Name},
			},
			Spec: clusterinventoryv1alpha1.ClusterProfileSpec{
				DisplayName: r.Profile.Name, ClusterManager: clusterinventoryv1alpha1.ClusterManager{Name: ClusterManager},
			},
		},
	})
	return objects, err
}

func (r *Registration) markObjects(objects []any) ([]*unstructured.Unstructured, error) {
	out := make([]*unstructured.Unstructured, 0, len(objects))
	for _, object := range objects {
		o, err := toUnstructured(object)
		if err != nil {
			return nil, err
		}
		r.id.mark(o)
		out = append(out, o)
	}
	return out, nil
}

// profileWithStatus returns the ClusterProfile with the status that publishes the address of the cluster. healthySince is the time
// of the condition's last transition, and version the Kubernetes version of the cluster or empty.
func (r *Registration) profileWithStatus(version string, healthySince metav1.Time) (*unstructured.Unstructured, error) {
	config, err := json.Marshal(map[string]string{"clusterName": r.Profile.Name})
	if err != nil {
		return nil, fmt.Errorf("cannot encode the extension of the ClusterProfile: %w", err)
	}
	endpoint := r.Endpoint
	endpoint.Extensions = []clientcmdv1.NamedExtension{{Name: execExtension, Extension: runtime.RawExtension{Raw: config}}}
	profile := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": clusterinventoryv1alpha1.GroupVersion.String(), "kind": "ClusterProfile",
		"metadata": map[string]any{"namespace": r.Profile.Namespace, "name": r.Profile.Name},
	}}
	status, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&clusterinventoryv1alpha1.ClusterProfileStatus{
		Conditions: []metav1.Condition{{
			Type: clusterinventoryv1alpha1.ClusterConditionControlPlaneHealthy, Status: metav1.ConditionTrue, Reason: "Registered",
			Message: "The API server answered with the credential when the cluster was registered.", LastTransitionTime: healthySince,
		}},
		Version:         clusterinventoryv1alpha1.ClusterVersion{Kubernetes: version},
		AccessProviders: []clusterinventoryv1alpha1.AccessProvider{{Name: r.Provider, Cluster: endpoint}},
	})
	if err != nil {
		return nil, fmt.Errorf("cannot encode the status of the ClusterProfile: %w", err)
	}
	profile.Object["status"] = status
	return profile, nil
}
