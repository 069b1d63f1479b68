// Copyright Contributors to the Open Cluster Management project

package main

import (
	"crypto/tls"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	clusterv1 "open-cluster-management.io/api/cluster/v1"
	ocmfeature "open-cluster-management.io/api/feature"
	workv1 "open-cluster-management.io/api/work/v1"
	workv1alpha1 "open-cluster-management.io/api/work/v1alpha1"
	addonv1alpha1 "open-cluster-management.io/ocm/pkg/addon/webhook/v1alpha1"
	addonv1beta1 "open-cluster-management.io/ocm/pkg/addon/webhook/v1beta1"
	"open-cluster-management.io/ocm/pkg/features"
	clusterwebhookv1 "open-cluster-management.io/ocm/pkg/registration/webhook/v1"
	clusterwebhookv1beta2 "open-cluster-management.io/ocm/pkg/registration/webhook/v1beta2"
	"open-cluster-management.io/ocm/pkg/work/webhook/common"
	workwebhookv1 "open-cluster-management.io/ocm/pkg/work/webhook/v1"
	workwebhookv1alpha1 "open-cluster-management.io/ocm/pkg/work/webhook/v1alpha1"
)

// manifestLimit is the size limit of a ManifestWork's manifests in bytes: the default of OCM's webhook.
const manifestLimit = 500 * 1024

// newWebhooks serves all of OCM's admission and conversion webhooks from one process on 127.0.0.1. (The stock
// webhook-server commands of v1.2.1 listen on every interface, with health and metrics on fixed ports.)
func newWebhooks() *cobra.Command {
	var port int
	var certDir string
	cmd := &cobra.Command{Use: "webhooks", Args: cobra.NoArgs, RunE: func(*cobra.Command, []string) error {
		return serveWebhooks(port, certDir)
	}}
	cmd.Flags().IntVar(&port, "port", 0, "port on 127.0.0.1")
	cmd.Flags().StringVar(&certDir, "cert-dir", "", "directory with tls.crt and tls.key")
	return cmd
}

func serveWebhooks(port int, certDir string) error {
	ctrl.SetLogger(klog.Background())
	utilruntime.Must(features.HubMutableFeatureGate.Add(ocmfeature.DefaultHubRegistrationFeatureGates))
	utilruntime.Must(features.HubMutableFeatureGate.Add(ocmfeature.DefaultHubWorkFeatureGates))
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, clusterv1.Install, clusterwebhookv1beta2.Install,
		workv1.Install, workv1alpha1.Install, addonv1alpha1.Install, addonv1beta1.Install,
	} {
		if err := add(scheme); err != nil {
			return err
		}
	}
	common.ManifestValidator.WithLimit(manifestLimit)
	mgr, err := ctrl.NewManager(ctrl.GetConfigOrDie(), ctrl.Options{
		Scheme:                 scheme,
		HealthProbeBindAddress: "0",
		Metrics:                metricsserver.Options{BindAddress: "0"},
		WebhookServer: webhook.NewServer(webhook.Options{
			Host: "127.0.0.1", Port: port, CertDir: certDir,
			TLSOpts: []func(*tls.Config){func(c *tls.Config) { c.MinVersion = tls.VersionTLS12 }},
		}),
	})
	if err != nil {
		return err
	}
	for _, w := range []interface{ Init(ctrl.Manager) error }{
		&clusterwebhookv1.ManagedClusterWebhook{}, &clusterwebhookv1beta2.ManagedClusterSetBindingWebhook{},
		&workwebhookv1.ManifestWorkWebhook{}, &workwebhookv1alpha1.ManifestWorkReplicaSetWebhook{},
		&addonv1alpha1.ManagedClusterAddOnWebhook{}, &addonv1beta1.ManagedClusterAddOnWebhook{},
		&addonv1alpha1.ClusterManagementAddOnWebhook{}, &addonv1beta1.ClusterManagementAddOnWebhook{},
	} {
		if err := w.Init(mgr); err != nil {
			return err
		}
	}
	return mgr.Start(ctrl.SetupSignalHandler())
}
