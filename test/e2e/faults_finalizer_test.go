// Copyright Contributors to the Open Cluster Management project

package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/test/e2e/harness"
	"open-cluster-management.io/knative-addon/test/lab"
)

// TestUserFinalizer removes installations together with the resources of users, one of which has a finalizer. The removal waits and
// names the object that the removal waits for, and ends after the finalizer is gone.
func TestUserFinalizer(t *testing.T) {
	startRestStory(t)
	p := newPush(t, lab.Options{ManagedClusters: 1, Spokes: 1, StatusSyncInterval: statusSync, KnativeControllers: true}, harness.Options{})
	p.bind(t)
	p.token(t, p.Spokes[0].Name, p.Spokes[0], p.Spokes[0].Credential.Token)
	ways := []way{{push: p, spoke: connect(t, p.Managed[0])}, {push: p, spoke: connect(t, p.Spokes[0])}}
	// The work agent reports the objects of works, and no objects of users.
	object := map[string]string{
		p.Managed[0].Name: "CustomResourceDefinition services.serving.knative.dev;",
		p.Spokes[0].Name:  "1 services.serving.knative.dev (default/hello with finalizer example.com/hold)",
	}
	for _, w := range ways {
		w.apply(t, api.Serving, w.Name, kourier())
	}
	for _, w := range ways {
		w.ready(t, api.Serving, w.Name)
		w.createService(t, "example.com/hold")
		requestRemoval(t, w.Lab, w.Cluster)
		w.annotate(t, api.DeletionPolicyAnnotation, api.DeletionPolicyDeleteUserResources)
		w.delete(t)
	}
	for _, w := range ways {
		w.saysOfRemoval(t, object[w.Name])
		eventually(t, "the user's Service of "+w.Name+" is being deleted", time.Minute, func(ctx context.Context) error {
			service, err := w.knativeServices().Get(ctx, "hello", metav1.GetOptions{})
			if err == nil && service.GetDeletionTimestamp() == nil {
				err = errors.New("the Service is not being deleted")
			}
			return err
		})
	}
	managed := ways[0]
	eventually(t, "the add-on says so too", time.Minute, func(ctx context.Context) error {
		a, err := managed.current(ctx, managed.Cluster)
		if err != nil || a == nil {
			return fmt.Errorf("the add-on is %v, error %w", a, err)
		}
		c := apimeta.FindStatusCondition(a.Status.Conditions, api.RemovalHeld)
		if c == nil || !strings.Contains(c.Message, object[managed.Name]) {
			return fmt.Errorf("the condition is %v", c)
		}
		return nil
	})
	for _, w := range ways {
		_, err := w.knativeServices().Patch(t.Context(), "hello", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, w := range ways {
		w.gone(t, api.Serving, w.Name)
		w.bare(t)
	}
}

// saysOfRemoval waits until the resource names an object that its removal waits for.
func (w way) saysOfRemoval(t *testing.T, object string) {
	t.Helper()
	eventually(t, "the removal from "+w.Name+" waits for "+object, 3*time.Minute, func(ctx context.Context) error {
		s, err := w.read(ctx, api.Serving, w.Name)
		if err != nil {
			return err
		}
		c := s.conditions[api.InstallSucceeded]
		if c.Reason != api.ReasonRemoving || !strings.Contains(c.Message, object) {
			return fmt.Errorf("%s: %s", c.Reason, c.Message)
		}
		return nil
	})
}

// createService creates a Service of a user.
func (s spoke) createService(t *testing.T, finalizers ...string) {
	t.Helper()
	service := newService("hello")
	service.SetFinalizers(finalizers)
	eventually(t, "a user's Service is on "+s.Name, time.Minute, func(ctx context.Context) error {
		_, err := s.knativeServices().Create(ctx, service, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			return nil
		}
		return err
	})
}
