// Copyright Contributors to the Open Cluster Management project

package render

import (
	"context"
	"strings"

	mf "github.com/manifestival/manifestival"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"knative.dev/operator/pkg/apis/operator/v1beta1"
	"knative.dev/operator/pkg/reconciler/common"
	kec "knative.dev/operator/pkg/reconciler/knativeeventing/common"
	"knative.dev/operator/pkg/reconciler/knativeeventing/source"
	"knative.dev/pkg/logging"

	"open-cluster-management.io/knative-addon/pkg/api"
)

// eventingPipeline is the operator's own order of steps for a KnativeEventing.
func eventingPipeline(ke *v1beta1.KnativeEventing) pipeline {
	return pipeline{
		component:       api.Eventing,
		appendManifests: []stage{common.AppendTarget, source.AppendTargetSources, common.AppendAdditionalManifests},
		transformers: func(ctx context.Context, m *mf.Manifest) []mf.Transformer {
			log := logging.FromContext(ctx)
			return []mf.Transformer{
				brokerDefaultsCheck(ke),
				kec.DefaultBrokerConfigMapTransform(ke, log),
				kec.SinkBindingSelectionModeTransform(ke, log),
				kec.ReplicasEnvVarsTransform(m.Client),
				common.InjectLabel(nameLabel, string(api.Eventing)),
			}
		},
	}
}

// checkEventing refuses a KnativeEventing that names a source which the release directory does not have.
func (c *catalog) checkEventing(ke *v1beta1.KnativeEventing, version string) error {
	if len(ke.Spec.Manifests) > 0 {
		return nil
	}
	minor := directoryOf(version)
	for _, name := range sourcesOf(ke) {
		if !c.hasDirectory("eventing-source", minor, name) {
			return newError(api.ReasonSourceNotBundled, "source %q is not bundled for %s %s: enable only %s in spec.source",
				name, api.Eventing, version, c.formatNames("eventing-source", minor))
		}
	}
	return nil
}

func sourcesOf(ke *v1beta1.KnativeEventing) []string {
	in := ke.Spec.Source
	if in == nil {
		return nil
	}
	var out []string
	for _, e := range []struct {
		name    string
		enabled bool
	}{
		{"ceph", in.Ceph.Enabled},
		{"github", in.Github.Enabled},
		{"gitlab", in.Gitlab.Enabled},
		{"kafka", in.Kafka.Enabled},
		{"rabbitmq", in.Rabbitmq.Enabled},
		{"redis", in.Redis.Enabled},
	} {
		if e.enabled {
			out = append(out, e.name)
		}
	}
	return out
}

// withoutTLS drops the cert-manager objects unless transport encryption is on, as the operator does after the transformers:
// a cluster without cert-manager refuses the objects.
func withoutTLS(ke *v1beta1.KnativeEventing, objects []*unstructured.Unstructured) []*unstructured.Unstructured {
	if encryptsTransport(ke) {
		return objects
	}
	kept := objects[:0]
	for _, u := range objects {
		switch u.GroupVersionKind().Group {
		case "cert-manager.io", "trust.cert-manager.io":
		default:
			kept = append(kept, u)
		}
	}
	return kept
}

// encryptsTransport reads the feature flag as Knative does, regardless of case.
func encryptsTransport(ke *v1beta1.KnativeEventing) bool {
	config := ke.Spec.GetConfig()
	data, found := config["features"]
	if !found {
		data = config["config-features"]
	}
	for name, value := range data {
		if strings.TrimSpace(name) == "transport-encryption" &&
			(strings.EqualFold(value, "permissive") || strings.EqualFold(value, "strict")) {
			return true
		}
	}
	return false
}
