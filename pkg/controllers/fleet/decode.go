// Copyright Contributors to the Open Cluster Management project

package fleet

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1alpha1 "open-cluster-management.io/knative-addon/pkg/api/fleet/v1alpha1"
)

// decodeFleet decodes a KnativeFleet. The schema of the CustomResourceDefinition may accept values that Go cannot read, such as a duration
// of "1d" or the number 3000000000. The problem names the fields of the spec that cannot be read; the result is the KnativeFleet without these
// fields. A status that cannot be read is left out, because the manager writes the status anew.
func decodeFleet(read *unstructured.Unstructured) (*fleetv1alpha1.KnativeFleet, *problem, error) {
	omissible := []string{"status", "spec.rolloutStrategy", "spec.maxRemoval"}
	var cause error
	for choice := range 1 << len(omissible) {
		content := read
		if choice > 0 {
			content = read.DeepCopy()
		}
		var omitted []string
		for i, field := range omissible {
			if choice&(1<<i) == 0 {
				continue
			}
			unstructured.RemoveNestedField(content.Object, strings.Split(field, ".")...)
			if field != "status" {
				omitted = append(omitted, field)
			}
		}
		fleet := &fleetv1alpha1.KnativeFleet{}
		err := runtime.DefaultUnstructuredConverter.FromUnstructured(content.Object, fleet)
		if cause == nil {
			cause = err
		}
		switch {
		case err == nil && len(omitted) > 0:
			return fleet, &problem{fleetv1alpha1.ReasonInvalidSpec, fmt.Sprintf("%s cannot be read; correct the value: %v", strings.Join(omitted, " and "), cause)}, nil
		case err == nil:
			return fleet, nil, nil
		}
	}
	return nil, nil, fmt.Errorf("cannot read KnativeFleet %q: %w", client.ObjectKeyFromObject(read), cause)
}
