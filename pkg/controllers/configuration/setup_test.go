// Copyright Contributors to the Open Cluster Management project

package configuration

import (
	"testing"

	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/hub"
)

func TestSetup(t *testing.T) {
	mgr, err := ctrl.NewManager(&rest.Config{Host: "127.0.0.1:1"}, ctrl.Options{
		Metrics: server.Options{BindAddress: "0"}, Controller: config.Controller{SkipNameValidation: new(true)},
	})
	if err != nil {
		t.Fatal(err)
	}
	h, err := hub.NewForConfig(&rest.Config{Host: "127.0.0.1:1"}, hub.DefaultOperatorNamespace)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range api.Components() {
		if err := (&Reconciler{Recorder: Recorder{Kind: c}, Component: c}).SetupWithManager(mgr, h.Configuration(c)); err != nil {
			t.Errorf("%s: %v", c, err)
		}
	}
	if err := NewDeploymentConfigs(h).SetupWithManager(mgr, h); err != nil {
		t.Errorf("AddOnDeploymentConfigs: %v", err)
	}
}
