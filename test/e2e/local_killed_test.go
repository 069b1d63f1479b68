// Copyright Contributors to the Open Cluster Management project

package e2e

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"open-cluster-management.io/knative-addon/pkg/api"
)

// localProgress is what the hub shows of an installation on itself, on its way in or out.
type localProgress struct {
	finalized, leaving                    bool // the resource
	anchor                                *corev1.ConfigMap
	crd, account, config, workload, hooks bool
}

func (l local) progress(ctx context.Context, name string) (p localProgress, err error) {
	if u, err := l.resources(api.Serving).Get(ctx, name, metav1.GetOptions{}); err == nil {
		p.finalized, p.leaving = slices.Contains(u.GetFinalizers(), api.DirectFinalizer), u.GetDeletionTimestamp() != nil
	}
	get := metav1.GetOptions{}
	core := l.kube.CoreV1()
	crds := schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	anchor, err := core.ConfigMaps("knative-serving").Get(ctx, "knativeserving-"+name+"-root-owner", get)
	if err == nil {
		p.anchor = anchor
	}
	there := func(what *bool, err error) error {
		*what = err == nil
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	}
	_, accountErr := core.ServiceAccounts("knative-serving").Get(ctx, "controller", get)
	_, configErr := core.ConfigMaps("knative-serving").Get(ctx, "config-autoscaler", get)
	_, workloadErr := l.kube.AppsV1().Deployments("knative-serving").Get(ctx, "activator", get)
	_, hooksErr := l.kube.AdmissionregistrationV1().ValidatingWebhookConfigurations().Get(ctx, "config.webhook.serving.knative.dev", get)
	_, crdErr := l.dynamic.Resource(crds).Get(ctx, "revisions.serving.knative.dev", get)
	if apierrors.IsNotFound(err) {
		err = nil
	}
	return p, errors.Join(err, there(&p.account, accountErr), there(&p.config, configErr), there(&p.workload, workloadErr),
		there(&p.hooks, hooksErr), there(&p.crd, crdErr))
}

func localInstallSteps() []step[localProgress] {
	return []step[localProgress]{
		{"finalizer", func(p localProgress) bool { return p.finalized }},
		{"anchor", func(p localProgress) bool { return p.anchor != nil }},
		{"recorded objects", func(p localProgress) bool { return p.anchor != nil && p.anchor.Data["inventory"] != "" }},
		{"CRDs", func(p localProgress) bool { return p.crd }},
		{"permissions", func(p localProgress) bool { return p.account }},
		{"configuration", func(p localProgress) bool { return p.config }},
		{"workloads", func(p localProgress) bool { return p.workload }},
		{"webhooks", func(p localProgress) bool { return p.hooks }},
		{"everything recorded as applied", func(p localProgress) bool {
			return p.anchor != nil && p.workload && strings.Count(p.anchor.Data["inventory"], `"digest"`) > 60
		}},
	}
}

func localRemovalSteps() []step[localProgress] {
	return []step[localProgress]{
		{"resource being deleted", func(p localProgress) bool { return p.leaving }},
		{"webhooks gone", func(p localProgress) bool { return !p.hooks }},
		{"workloads gone", func(p localProgress) bool { return !p.workload }},
		{"configuration gone", func(p localProgress) bool { return !p.config }},
		{"permissions gone", func(p localProgress) bool { return !p.account }},
		{"anchor gone", func(p localProgress) bool { return p.anchor == nil }},
	}
}

// killed kills the manager at each step of an installation and of its removal. It must go on where it was.
func (l local) killed(t *testing.T) {
	look := func(ctx context.Context) (localProgress, error) { return l.progress(ctx, "first") }
	l.own(t, "first", kourier())
	killed := killAt(t, l.Fleet, localInstallSteps(), look, func(ctx context.Context) bool {
		s, err := l.read(ctx, api.Serving, "first")
		return err == nil && s.conditions[api.Ready].Status == metav1.ConditionTrue
	})
	enough(t, "installation", killed)
	l.delete(t, "first")
	killed = killAt(t, l.Fleet, localRemovalSteps(), look, func(ctx context.Context) bool {
		_, err := l.resources(api.Serving).Get(ctx, "first", metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
	enough(t, "removal", killed)
	if left := l.left(t); len(left) > 0 {
		t.Errorf("left: %s", strings.Join(left, ", "))
	}
}

// enough holds that a manager was killed at several moments.
func enough(t *testing.T, of string, killed []string) {
	t.Helper()
	t.Logf("killed during the %s at: %s", of, strings.Join(killed, ", "))
	if len(killed) < 3 {
		t.Errorf("the manager was killed only %d times during the %s", len(killed), of)
	}
}
