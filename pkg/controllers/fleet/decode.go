// Copyright Contributors to the Open Cluster Management project

package fleet

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1alpha1 "open-cluster-management.io/knative-addon/pkg/api/fleet/v1alpha1"
)

// decodeFleet decodes a KnativeFleet. The schema of the CustomResourceDefinition may accept texts that Go cannot read, such as a duration
// of "1d". The problem names a rollout strategy that cannot be read; the result is the KnativeFleet without the strategy. A status that
// cannot be read is left out, because the manager writes the status anew.
func decodeFleet(read *unstructured.Unstructured) (*fleetv1alpha1.KnativeFleet, *problem, error) {
	var cause error
	for _, omitted := range [][][]string{nil, {{"status"}}, {{"spec", "rolloutStrategy"}}, {{"status"}, {"spec", "rolloutStrategy"}}} {
		content := read
		if omitted != nil {
			content = read.DeepCopy()
		}
		for _, field := range omitted {
			unstructured.RemoveNestedField(content.Object, field...)
		}
		fleet := &fleetv1alpha1.KnativeFleet{}
		err := runtime.DefaultUnstructuredConverter.FromUnstructured(content.Object, fleet)
		if cause == nil {
			cause = err
		}
		switch {
		case err == nil && len(omitted) > 0 && omitted[len(omitted)-1][0] == "spec":
			return fleet, &problem{fleetv1alpha1.ReasonInvalidSpec, fmt.Sprintf("spec.rolloutStrategy cannot be read; correct the strategy: %v", cause)}, nil
		case err == nil:
			return fleet, nil, nil
		}
	}
	return nil, nil, fmt.Errorf("cannot read KnativeFleet %q: %w", client.ObjectKeyFromObject(read), cause)
}
