// Copyright Contributors to the Open Cluster Management project

package reconciler

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/logging"
)

var request = reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "c1", Name: string(api.Serving)}}

// TestWrap holds which errors the wrapper requeues silently, and what a pass logs.
func TestWrap(t *testing.T) {
	works := schema.GroupResource{Group: "work.open-cluster-management.io", Resource: "manifestworks"}
	conflict, exists := apierrors.NewConflict(works, "w", errors.New("the object has been modified")), apierrors.NewAlreadyExists(works, "w")
	broken := errors.New("broken")
	for name, tc := range map[string]struct {
		reason string
		result reconcile.Result
		err    error
		want   reconcile.Result
		failed bool
		logged string
	}{
		"done":                   {reason: "The result stays.", logged: `result="done"`},
		"requeued":               {reason: "The result stays.", result: reconcile.Result{RequeueAfter: time.Minute}, want: reconcile.Result{RequeueAfter: time.Minute}, logged: `result="requeued after 1m0s"`},
		"conflict":               {reason: "The cache was behind.", err: fmt.Errorf("cannot patch: %w", conflict), want: reconcile.Result{RequeueAfter: staleRetry}, logged: `result="conflict, requeued after 1s"`},
		"already exists":         {reason: "The cache was behind.", err: exists, want: reconcile.Result{RequeueAfter: staleRetry}, logged: `result="conflict, requeued after 1s"`},
		"conflicts alone":        {reason: "The cache was behind.", err: fmt.Errorf("cannot patch: %w", errors.Join(conflict, fmt.Errorf("and: %w", exists))), want: reconcile.Result{RequeueAfter: staleRetry}, logged: "conflict"},
		"a conflict and a fault": {reason: "A conflict does not hide a fault.", err: errors.Join(conflict, broken), failed: true, logged: `result="failed"`},
		"a fault":                {reason: "controller-runtime logs and retries.", err: broken, failed: true, logged: `result="failed"`},
		"a fault of the object":  {reason: "A repetition would fail too.", err: reconcile.TerminalError(broken), failed: true, logged: `result="failed, not repeated"`},
		"not found":              {reason: "Only the controller knows whether that is a fault.", err: apierrors.NewNotFound(works, "w"), failed: true, logged: `result="failed"`},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			ctx := log.IntoContext(t.Context(), logging.New(1, &out))
			got, err := Wrap(reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) { return tc.result, tc.err }), OfAddOn).Reconcile(ctx, request)
			if got != tc.want || (err != nil) != tc.failed || tc.failed && !errors.Is(err, tc.err) {
				t.Errorf("%s The result is %v with error %v", tc.reason, got, err)
			}
			if lines := strings.Count(out.String(), "\n"); lines != 1 || !strings.Contains(out.String(), tc.logged) {
				t.Errorf("the log has %d lines, want one with %q:\n%s", lines, tc.logged, out.String())
			}
		})
	}
}

// TestPassLine holds what the line of a pass says, and that verbosity 0 logs no pass.
func TestPassLine(t *testing.T) {
	for verbosity, want := range map[int]bool{0: false, 1: true, 4: true} {
		var out bytes.Buffer
		passes := 0
		r := Wrap(reconcile.Func(func(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
			passes++
			Describe(ctx, Subject{Revision: "abc"})
			Describe(ctx, Subject{Cluster: "c2"})
			return reconcile.Result{}, nil
		}), OfComponent(api.Eventing))
		if _, err := r.Reconcile(log.IntoContext(t.Context(), logging.New(verbosity, &out)), request); err != nil || passes != 1 {
			t.Fatal(err)
		}
		if got := strings.Contains(out.String(), `"reconciled" cluster="c2" component="knative-eventing" revision="abc" result="done" duration="`); got != want {
			t.Errorf("--v=%d logs the pass: %t, want %t:\n%s", verbosity, got, want, out.String())
		}
	}
}

// TestSubjects holds which fields a request tells.
func TestSubjects(t *testing.T) {
	for name, tc := range map[string]struct{ got, want Subject }{
		"an add-on":    {OfAddOn(request), Subject{Cluster: "c1", Component: api.Serving}},
		"a definition": {OfDefinition(request), Subject{Component: api.Serving}},
		"a cluster":    {OfCluster(reconcile.Request{NamespacedName: types.NamespacedName{Name: "c1"}}), Subject{Cluster: "c1"}},
	} {
		if tc.got != tc.want {
			t.Errorf("%s: %v, want %v", name, tc.got, tc.want)
		}
	}
	Describe(t.Context(), Subject{Cluster: "c1"}) // outside of a pass
}

// TestLeadership holds that a pass begins only while this process leads.
func TestLeadership(t *testing.T) {
	for name, tc := range map[string]struct {
		reason string
		leads  func() bool
		want   int
	}{
		"without leader election": {reason: "Nobody else leads.", want: 1},
		"while the process leads": {reason: "The caches are fresh.", leads: func() bool { return true }, want: 1},
		"while another process may lead": {
			reason: "The pass may follow when the process leads again.", leads: func() bool { return false },
		},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			if tc.leads != nil {
				ctx = WithLeadership(ctx, tc.leads)
			}
			passes := 0
			next := reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) {
				passes++
				return reconcile.Result{}, nil
			})
			result, err := Wrap(next, OfAddOn).Reconcile(ctx, request)
			if passes != tc.want || err != nil || (result.RequeueAfter > 0) != (tc.want == 0) {
				t.Errorf("%s %d passes, result %v, error %v", tc.reason, passes, result, err)
			}
		})
	}
}
