// Copyright Contributors to the Open Cluster Management project

package managedclusteraddon

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"open-cluster-management.io/addon-framework/pkg/addonmanager/controllers/agentdeploy"
	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"
	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/knative-addon/pkg/addon"
	"open-cluster-management.io/knative-addon/pkg/delivery/manifestwork"
	"open-cluster-management.io/knative-addon/pkg/hub"
	"open-cluster-management.io/knative-addon/pkg/render"
)

// addon-framework does not repair the metadata of a payload. The framework skips a write when its last write had the same content and the
// payload has the generation of that write, and labels, annotations and owners do not change the generation. The framework also takes a
// payload without the add-on's label for written, because neither cache has the payload and the creation fails with AlreadyExists. The agent
// of the cluster may write both, and OCM would wait for the cluster without end. docs/design/0006-waves.md has the rule.

// metadataWait is the time that addon-framework gets to write the metadata of a payload.
const metadataWait = 10 * time.Second

// restorePayloads restores the label, the configurations and the owner of the payloads when these have differed for metadataWait. The
// result is the time until the next pass; 0 without a difference.
func (r *Reconciler) restorePayloads(ctx context.Context, s *scope, bundle *render.Bundle) (time.Duration, error) {
	key := client.ObjectKeyFromObject(s.addon)
	differing := s.differingPayloads(bundle)
	if len(s.payloads) > 0 && len(differing) == 0 {
		r.differences.Delete(key)
		return 0, nil
	}
	since, _ := r.differences.LoadOrStore(key, r.Clock.Now())
	if wait := metadataWait - r.Clock.Since(since.(time.Time)); wait > 0 { //nolint:forcetypeassert // differences holds times only
		return wait, nil
	}
	if err := r.restoreMetadata(ctx, s, differing); err != nil {
		return 0, err
	}
	r.differences.Delete(key)
	return 0, nil
}

// restoreMetadata restores the label of the only payload, which no cache has, or the configurations and the owner of the differing payloads.
func (r *Reconciler) restoreMetadata(ctx context.Context, s *scope, differing []*workv1.ManifestWork) error {
	if len(s.payloads) == 0 {
		return r.restoreLabel(ctx, s)
	}
	for _, p := range differing {
		_, err := hub.Patch(ctx, r.WorkClient.WorkV1().ManifestWorks(p.Namespace), p, func(p *workv1.ManifestWork) {
			metav1.SetMetaDataAnnotation(&p.ObjectMeta, workv1.ManifestConfigSpecHashAnnotationKey, manifestwork.ConfigsText(s.wantedConfigs()))
			p.OwnerReferences = addon.PayloadOwners(s.addon)
		})
		if err != nil {
			return err
		}
		log.FromContext(ctx).Info("restored configurations and owner of a payload", "work", p.Name)
	}
	return nil
}

// differingPayloads returns the payloads with other configurations than OCM wants, or with another owner than the add-on. Payloads with
// other manifests than the bundle are left out: addon-framework writes these with the metadata.
func (s *scope) differingPayloads(bundle *render.Bundle) []*workv1.ManifestWork {
	wanted := s.wantedConfigs()
	differing := slices.DeleteFunc(slices.Clone(s.payloads), func(p *workv1.ManifestWork) bool {
		isOwned := len(p.OwnerReferences) == 1 && p.OwnerReferences[0].UID == s.addon.UID
		return p.DeletionTimestamp != nil || isOwned && maps.Equal(manifestwork.ConfigsOf(p), wanted)
	})
	if len(differing) == 0 || !manifestwork.MatchBundle(s.payloads, bundle, s.foundation) {
		return nil
	}
	return differing
}

// wantedConfigs returns the configurations that OCM wants for the add-on, with the hashes of the specs.
func (s *scope) wantedConfigs() map[string]string {
	return agentdeploy.ConfigsToMap(s.addon.Status.ConfigReferences)
}

// restoreLabel gives the add-on's label to the first payload, if the hub has the payload. The next passes restore the rest.
func (r *Reconciler) restoreLabel(ctx context.Context, s *scope) error {
	name := addon.PayloadName(s.addon, 0)
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": map[string]string{addonv1beta1.AddonLabelKey: s.addon.Name}}})
	if err != nil {
		return fmt.Errorf("cannot encode the label of ManifestWork \"%s/%s\": %w", s.namespace, name, err)
	}
	_, err = r.WorkClient.WorkV1().ManifestWorks(s.namespace).Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil // addon-framework creates the payload
	case err != nil:
		return fmt.Errorf("cannot label ManifestWork \"%s/%s\": %w", s.namespace, name, err)
	}
	log.FromContext(ctx).Info("restored the label of a payload", "work", name)
	return nil
}
