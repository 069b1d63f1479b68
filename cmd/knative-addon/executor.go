// Copyright Contributors to the Open Cluster Management project

package main

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/knative-addon/pkg/delivery/manifestwork"
)

// parseExecutor reads --work-executor; the empty text names no executor.
func parseExecutor(text string) (*workv1.ManifestWorkExecutor, error) {
	if text == "" {
		return nil, nil
	}
	namespace, name, ok := strings.Cut(text, "/")
	if !ok || len(validation.IsDNS1123Label(namespace)) > 0 || len(validation.IsDNS1123Subdomain(name)) > 0 {
		return nil, fmt.Errorf("cannot use --work-executor=%q: it has to be the NAMESPACE/NAME of a ServiceAccount", text)
	}
	return manifestwork.Executor(namespace, name), nil
}
