// Copyright Contributors to the Open Cluster Management project

package manifestwork

import (
	"bytes"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/knative-addon/pkg/delivery"
	"open-cluster-management.io/knative-addon/pkg/render"
	"open-cluster-management.io/knative-addon/pkg/workload"
)

// A configuration that yields no bundle changes no work: the payloads then define the expected state of the cluster.

// KeptWorkloads returns the workloads in the manifests of the payloads.
func KeptWorkloads(payloads []*workv1.ManifestWork) ([]workload.Expected, error) {
	objects, err := decodeScaledObjects(payloads)
	if err != nil {
		return nil, err
	}
	return render.WorkloadsOf(objects), nil
}

// ObserveKept returns the state of the installation of the payloads; nil without a payload.
func ObserveKept(payloads []*workv1.ManifestWork) (*delivery.Kept, error) {
	if len(payloads) == 0 {
		return nil, nil
	}
	objects, err := decodeScaledObjects(payloads)
	if err != nil {
		return nil, err
	}
	kept := &delivery.Kept{Workloads: render.WorkloadsOf(objects)}
	for _, o := range objects {
		if render.KindNamed(o.GetKind()).Feedback == render.JobFeedback {
			kept.Jobs = append(kept.Jobs, workload.JobRef{Namespace: o.GetNamespace(), Name: o.GetName()})
		}
	}
	for _, p := range payloads {
		// The agent reports on the objects before the apply too: that report is about the objects of the payload before.
		switch {
		case kept.Observation.Waiting != "":
		case !observedBy(p, workv1.WorkApplied):
			kept.Observation.Waiting = fmt.Sprintf("waiting for the work agent to apply ManifestWork %q", p.Name)
		case !observedBy(p, workv1.WorkAvailable):
			kept.Observation.Waiting = fmt.Sprintf("waiting for the work agent to report on ManifestWork %q", p.Name)
		}
		for _, m := range p.Status.ResourceStatus.Manifests {
			observeManifest(&kept.Observation, m)
		}
	}
	return kept, nil
}

// decodeScaledObjects decodes the workloads, the Jobs and the scalers of workloads in the manifests of the payloads. All other
// manifests, most of the bytes of a payload, stay encoded.
func decodeScaledObjects(payloads []*workv1.ManifestWork) ([]*unstructured.Unstructured, error) {
	var out []*unstructured.Unstructured
	for _, p := range payloads {
		for i, m := range p.Spec.Workload.Manifests {
			if !mayBeScaled(m.Raw) {
				continue
			}
			o := &unstructured.Unstructured{}
			if err := o.UnmarshalJSON(m.Raw); err != nil {
				return nil, fmt.Errorf("cannot read manifest %d of ManifestWork \"%s/%s\": %w", i, p.Namespace, p.Name, err)
			}
			out = append(out, o)
		}
	}
	return out, nil
}

// mayBeScaled reports whether a manifest contains the name of a kind that decodeScaledObjects looks for.
func mayBeScaled(manifest []byte) bool {
	for _, kind := range []string{`"Deployment"`, `"StatefulSet"`, `"Job"`, `"HorizontalPodAutoscaler"`, `"ScaledObject"`} {
		if bytes.Contains(manifest, []byte(kind)) {
			return true
		}
	}
	return false
}
