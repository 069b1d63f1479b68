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
	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/delivery/manifestwork"
	"open-cluster-management.io/knative-addon/pkg/hub"
	"open-cluster-management.io/knative-addon/pkg/render"
)

// addon-framework does not repair the metadata of a payload. The framework skips a write when its last write had the same content and the
// payload has the generation of that write, and labels, annotations and owners do not change the generation. The framework also takes a
// payload without the add-on's label for written, because neither cache has the payload and the creation fails with AlreadyExists. At last,
// every write of the framework fails while a payload has a manifest whose kind or name cannot be read. The agent of the cluster may cause all
// three, and OCM would wait for the cluster without end. docs/design/0006-waves.md has the rule.

const (
	// metadataWait is the time that addon-framework gets to write the metadata of a payload, or a payload of an installation that ran.
	metadataWait = 10 * time.Second
	// firstPayloadWait is the time that addon-framework gets to create the first payload: when a thousand clusters are installed at once,
	// the creation takes minutes.
	firstPayloadWait = 10 * time.Minute
)

// restorePayloads writes payloads that addon-framework cannot read or name, at once, and restores the label, the configurations and the owner of the
// payloads when these have differed for metadataWait or firstPayloadWait. The result is the time until the next pass; 0 without a difference.
func (r *Reconciler) restorePayloads(ctx context.Context, s *scope, bundle *render.Bundle) (time.Duration, error) {
	isLeaving := slices.ContainsFunc(s.payloads, func(p *workv1.ManifestWork) bool { return p.DeletionTimestamp != nil })
	isUnwritable := addon.HasNameGap(s.addon, s.payloads) || manifestwork.HasUnreadableManifest(s.payloads, bundle, s.foundation)
	if isUnwritable && !isLeaving && !manifestwork.MatchBundle(s.payloads, bundle, s.foundation) {
		return 0, r.writePayload(ctx, s, bundle, s.wantedConfigs())
	}
	key := client.ObjectKeyFromObject(s.addon)
	differing := s.differingPayloads(bundle)
	if len(s.payloads) > 0 && len(differing) == 0 {
		r.differences.Delete(key)
		return 0, nil
	}
	since, _ := r.differences.LoadOrStore(key, r.Clock.Now())
	limit := metadataWait
	if len(s.payloads) == 0 && s.annotationOfFoundation(api.RunningVersionAnnotation) == "" {
		limit = firstPayloadWait
	}
	if wait := limit - r.Clock.Since(since.(time.Time)); wait > 0 { //nolint:forcetypeassert // differences holds times only
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
		err := r.patchWork(ctx, p, func(p *workv1.ManifestWork) {
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

// restoreLabel labels the first payload, if the hub has the payload. The next passes restore the rest. The cache of payloads leaves out works
// with the label of foundations.
func (r *Reconciler) restoreLabel(ctx context.Context, s *scope) error {
	labels := map[string]any{addonv1beta1.AddonLabelKey: s.addon.Name, api.FoundationLabel: nil}
	name := addon.PayloadName(s.addon, 0)
	err := r.labelWork(ctx, s.namespace, name, labels)
	switch {
	case apierrors.IsNotFound(err):
		return nil // addon-framework creates the payload
	case err != nil:
		return err
	}
	log.FromContext(ctx).Info("restored the label of a payload", "work", name)
	return nil
}

// createWork creates a work, and labels a work that exists: the work may have lost the label by which the caches find works. The label
// changes nothing where the caches are only behind the hub.
func (r *Reconciler) createWork(ctx context.Context, work *workv1.ManifestWork) error {
	_, err := r.WorkClient.WorkV1().ManifestWorks(work.Namespace).Create(ctx, work, metav1.CreateOptions{})
	if hub.IsCacheBehind(err) {
		return nil // the event of the work follows
	}
	if apierrors.IsAlreadyExists(err) {
		label := addonv1beta1.AddonLabelKey
		if work.Labels[api.FoundationLabel] != "" {
			label = api.FoundationLabel
		}
		return r.labelWork(ctx, work.Namespace, work.Name, map[string]any{label: work.Labels[label]})
	}
	if err != nil {
		return fmt.Errorf("cannot create ManifestWork \"%s/%s\": %w", work.Namespace, work.Name, err)
	}
	return nil
}

// labelWork sets labels of a work that the caches do not have; nil removes a label. The patch has no resource version.
func (r *Reconciler) labelWork(ctx context.Context, namespace, name string, labels map[string]any) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": labels}})
	if err != nil {
		return fmt.Errorf("cannot encode the labels of ManifestWork \"%s/%s\": %w", namespace, name, err)
	}
	if _, err := r.WorkClient.WorkV1().ManifestWorks(namespace).Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		return fmt.Errorf("cannot label ManifestWork \"%s/%s\": %w", namespace, name, err)
	}
	return nil
}
