// Copyright Contributors to the Open Cluster Management project

package supportbundle

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	workv1 "open-cluster-management.io/api/work/v1"
)

// redactWork returns a ManifestWork with names and digests in place of the manifests.
func redactWork(work *workv1.ManifestWork) (map[string]any, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(work)
	if err != nil {
		return nil, err
	}
	u := &unstructured.Unstructured{Object: content}
	out := redactMetadata(u)
	var manifests []any
	for _, m := range work.Spec.Workload.Manifests {
		manifests = append(manifests, describeManifest(m.Raw))
	}
	out["manifests"] = manifests
	if status, found := u.Object["status"]; found {
		out["status"] = scrubValue(status)
	}
	return out, nil
}

// describeManifest returns the name of a manifest and its digest. The digest of a Secret would confirm a guess of its content.
func describeManifest(raw []byte) map[string]any {
	var u unstructured.Unstructured
	if err := json.Unmarshal(raw, &u.Object); err != nil {
		return map[string]any{"error": "the manifest is no JSON object"}
	}
	out := map[string]any{"apiVersion": u.GetAPIVersion(), "kind": u.GetKind(), "namespace": u.GetNamespace(), "name": u.GetName()}
	if u.GetKind() != "Secret" {
		sum := sha256.Sum256(raw)
		out["sha256"] = hex.EncodeToString(sum[:])
	}
	return out
}
