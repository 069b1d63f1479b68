// Copyright Contributors to the Open Cluster Management project

package render

import (
	"context"
	"encoding/json"
	"os"
	"strings"
	"testing"

	mf "github.com/manifestival/manifestival"
	"go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"knative.dev/eventing/pkg/apis/feature"
	"knative.dev/operator/pkg/apis/operator/base"
	"knative.dev/operator/pkg/apis/operator/v1beta1"
	"knative.dev/operator/pkg/reconciler/common"
	kec "knative.dev/operator/pkg/reconciler/knativeeventing/common"
	"knative.dev/operator/pkg/reconciler/knativeeventing/source"
	ksc "knative.dev/operator/pkg/reconciler/knativeserving/common"
	"knative.dev/operator/pkg/reconciler/knativeserving/ingress"
	"knative.dev/operator/pkg/reconciler/knativeserving/security"
	"knative.dev/pkg/logging"

	"open-cluster-management.io/knative-addon/pkg/api"
)

// The oracle: the operator's reconcilers, written down again from their source (ReconcileKind and transform in
// knativeserving.go and knativeeventing.go, handleTLSResources in eventing_tls.go), without anything of this package.

// bareCluster answers that nothing is there.
type bareCluster struct{}

func (bareCluster) Get(u *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	return nil, apierrors.NewNotFound(schema.GroupResource{}, u.GetName())
}
func (bareCluster) Create(*unstructured.Unstructured, ...mf.ApplyOption) error  { return nil }
func (bareCluster) Update(*unstructured.Unstructured, ...mf.ApplyOption) error  { return nil }
func (bareCluster) Delete(*unstructured.Unstructured, ...mf.DeleteOption) error { return nil }

// operatorObjects is what the operator applies, in its order, for a typed CR in the namespace that it installs into.
func operatorObjects(tb testing.TB, dir string, cr base.KComponent) []unstructured.Unstructured {
	tb.Helper()
	objects, err := operatorRender(dir, cr)
	if err != nil {
		tb.Fatalf("the operator cannot render: %v", err)
	}
	return objects
}

func operatorRender(dir string, cr base.KComponent) ([]unstructured.Unstructured, error) {
	operatorMu.Lock()
	defer operatorMu.Unlock()
	if err := os.Setenv("KO_DATA_PATH", dir); err != nil {
		return nil, err
	}
	defer os.Unsetenv("KO_DATA_PATH") //nolint:errcheck // it was not set before
	ctx := logging.WithLogger(context.Background(), zap.NewNop().Sugar())
	if err := common.IsVersionValidMigrationEligible(cr); err != nil {
		return nil, err
	}
	m, err := mf.ManifestFrom(mf.Slice{}, mf.UseClient(bareCluster{}))
	if err != nil {
		return nil, err
	}
	if ks, ok := cr.(*v1beta1.KnativeServing); ok {
		return operatorServing(ctx, m, ks)
	}
	return operatorEventing(ctx, m, cr.(*v1beta1.KnativeEventing))
}

func operatorServing(ctx context.Context, m mf.Manifest, ks *v1beta1.KnativeServing) ([]unstructured.Unstructured, error) {
	stages := common.Stages{
		common.AppendTarget, ingress.AppendTargetIngress, security.AppendTargetSecurity, common.AppendAdditionalManifests,
	}
	if _, err := stages.Execute(ctx, &m, ks); err != nil {
		return nil, err
	}
	log := logging.FromContext(ctx)
	extra := []mf.Transformer{
		common.InjectOwner(ks, nil), ksc.CustomCertsTransform(ks, log),
		common.InjectLabel("app.kubernetes.io/name", "knative-serving"),
	}
	extra = append(extra, ingress.Transformers(ctx, ks)...)
	extra = append(extra, ingress.IngressServiceTransform(ks))
	extra = append(extra, security.Transformers(ctx, ks)...)
	err := common.Transform(ctx, &m, ks, extra...)
	return m.Resources(), err
}

func operatorEventing(ctx context.Context, m mf.Manifest, ke *v1beta1.KnativeEventing) ([]unstructured.Unstructured, error) {
	stages := common.Stages{common.AppendTarget, source.AppendTargetSources, common.AppendAdditionalManifests}
	if _, err := stages.Execute(ctx, &m, ke); err != nil {
		return nil, err
	}
	log := logging.FromContext(ctx)
	err := common.Transform(ctx, &m, ke, common.InjectOwner(ke, nil), kec.DefaultBrokerConfigMapTransform(ke, log),
		kec.SinkBindingSelectionModeTransform(ke, log), kec.ReplicasEnvVarsTransform(m.Client),
		common.InjectLabel("app.kubernetes.io/name", "knative-eventing"))
	if !operatorTLS(ke) {
		m = m.Filter(func(u *unstructured.Unstructured) bool {
			return !strings.HasSuffix(u.GroupVersionKind().Group, "cert-manager.io")
		})
	}
	return m.Resources(), err
}

func operatorTLS(ke *v1beta1.KnativeEventing) bool {
	features, ok := ke.Spec.GetConfig()["features"]
	if !ok {
		features = ke.Spec.GetConfig()["config-features"]
	}
	flags, err := feature.NewFlagsConfigFromConfigMap(&corev1.ConfigMap{Data: features})
	return err == nil && (flags.IsPermissiveTransportEncryption() || flags.IsStrictTransportEncryption())
}

// typed is the CR as the operator's informers deliver it, in the namespace that it installs into.
func typed(tb testing.TB, u *unstructured.Unstructured, namespace string) base.KComponent {
	tb.Helper()
	data, err := json.Marshal(u.Object)
	if err != nil {
		tb.Fatal(err)
	}
	var cr base.KComponent = &v1beta1.KnativeServing{}
	if u.GetKind() == api.Eventing.Kind() {
		cr = &v1beta1.KnativeEventing{}
	}
	if err := json.Unmarshal(data, cr); err != nil {
		tb.Fatalf("cannot decode as the operator does: %v", err)
	}
	cr.SetNamespace(namespace)
	return cr
}
