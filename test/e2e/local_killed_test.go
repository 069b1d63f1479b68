// Copyright Contributors to the Open Cluster Management project

package e2e

import (
	"context"
	"errors"
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
)

// killManager kills the programs before and after each write of an installation and of its removal.
func (l localInstalls) killManager(t *testing.T) {
	k := newWriteKiller()
	k.fleet = l.Fleet
	l.proxy.Inject(k.faultOnSpoke)
	l.own(t, "first", kourier())
	k.run(t, "installation", 10, func(ctx context.Context) error {
		s, err := l.read(ctx, api.Serving, "first")
		if err == nil && s.conditions[api.Ready].Status != metav1.ConditionTrue {
			err = fmt.Errorf("conditions are %v", s.conditions)
		}
		return err
	})
	l.delete(t, "first")
	k.run(t, "removal", 8, func(ctx context.Context) error {
		_, err := l.resources(api.Serving).Get(ctx, "first", metav1.GetOptions{})
		if err == nil {
			return errors.New("the resource is there")
		}
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	})
	l.proxy.Inject(nil)
	l.awaitRemoved(t)
}
