// Copyright Contributors to the Open Cluster Management project

package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/render/releases"
	"open-cluster-management.io/knative-addon/test/e2e/harness"
)

// lackVersion replaces the manager by a manager whose archive lacks the version that runs. The manager refuses the spec, observes both
// clusters, and repairs nothing on the cluster without a work agent.
func lackVersion(t *testing.T, ways []way) {
	p := ways[0].push
	archive := archiveWithout(t, "knative-serving/1.23.0")
	if err := errors.Join(p.Kill(harness.Manager), p.RunManagerWithEnv(t.Context(), harness.Manager, []string{"KO_DATA_PATH=" + archive})); err != nil {
		t.Fatal(err)
	}
	lacking, stopped := unrendered("UnknownVersion"), unrendered("UnknownVersion")
	stopped[api.DeploymentsAvailable] = "False " + api.ReasonWorkloadsNotReady
	for _, w := range ways {
		w.shows(t, lacking, `version "1.23" of knative-serving is not bundled`)
	}
	for _, w := range ways {
		w.quota(t, corev1.ResourcePods)
		pods := w.kube.CoreV1().Pods("knative-serving")
		if err := pods.DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "app=autoscaler"}); err != nil {
			t.Fatal(err)
		}
	}
	for _, w := range ways {
		w.shows(t, stopped)
		endQuota(t, w)
		if err := w.kube.AppsV1().Deployments("knative-serving").Delete(t.Context(), "autoscaler", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	pulled, direct := ways[0], ways[1]
	eventually(t, "the missing Deployment of "+direct.Name+" is reported", time.Minute, func(ctx context.Context) error {
		s, err := direct.read(ctx, api.Serving, direct.Name)
		if got := s.conditions[api.DeploymentsAvailable].Message; err == nil && !strings.Contains(got, "Deployment knative-serving/autoscaler: not seen yet") {
			err = fmt.Errorf("the message is %q", got)
		}
		return err
	})
	pulled.shows(t, lacking)
	if err := pulled.findDeployment(t.Context(), "autoscaler"); err != nil {
		t.Errorf("the work agent has not repaired the Deployment: %v", err)
	}
	direct.shows(t, stopped)
	if err := direct.findDeployment(t.Context(), "autoscaler"); !apierrors.IsNotFound(err) {
		t.Errorf("a Deployment of a version without manifests: %v", err)
	}
	p.runManager(t)
	for _, w := range ways {
		w.shows(t, verdicts{})
	}
	if err := direct.findDeployment(t.Context(), "autoscaler"); err != nil {
		t.Error(err)
	}
}

func (w way) findDeployment(ctx context.Context, name string) error {
	_, err := w.kube.AppsV1().Deployments("knative-serving").Get(ctx, name, metav1.GetOptions{})
	return err
}

// archiveWithout returns a directory with the releases of the program but for some directories.
func archiveWithout(t *testing.T, without ...string) string {
	t.Helper()
	dir := t.TempDir()
	if _, err := releases.Unpack(dir); err != nil {
		t.Fatal(err)
	}
	for _, release := range without {
		if err := os.RemoveAll(filepath.Join(dir, release)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
