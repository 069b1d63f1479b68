// Copyright Contributors to the Open Cluster Management project

package controllers

import (
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"

	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"
	workv1 "open-cluster-management.io/api/work/v1"
)

// NewScheme returns a scheme with the kinds of all objects that Events regard: a recorder drops Events on other kinds.
func NewScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), addonv1beta1.Install(scheme), workv1.Install(scheme)); err != nil {
		return nil, fmt.Errorf("cannot register kinds: %w", err)
	}
	return scheme, nil
}
