// Copyright Contributors to the Open Cluster Management project

package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/test/e2e/harness"
)

const (
	firstVersion = "1.22"
	lastVersion  = "1.23"
	// loadInterval is the time between two requests of the load, requestTimeout the time that an answer may take. The load goes on for
	// loadMargin before and after an upgrade.
	loadInterval   = 50 * time.Millisecond
	requestTimeout = 15 * time.Second
	loadMargin     = 5 * time.Second
	// patience is how long one step may take.
	patience = 10 * time.Minute
)

// figures holds the results of one round.
type figures struct {
	// firstAnswer is the time from the request of the installation to the first answer of a Service of a user.
	firstAnswer time.Duration
	// coldStart is the mean answer time of a Service without pods.
	coldStart time.Duration
	// upgrade is the time from the request of the upgrade until all Deployments are rolled out, with the requests of that time.
	upgrade          time.Duration
	requests, failed int
	slowest          time.Duration
}

// measure installs and upgrades Serving.
func (b *bench) measure(ctx context.Context, w way) (f figures, err error) {
	start := time.Now()
	if err := w.install(ctx, firstVersion); err != nil {
		return f, err
	}
	if err := b.callService(ctx); err != nil {
		return f, err
	}
	f.firstAnswer = time.Since(start)
	if f.coldStart, err = b.measureColdStarts(ctx); err != nil {
		return f, err
	}
	return f, b.measureUpgrade(ctx, w, &f)
}

// callService applies the Service of a user as soon as the cluster accepts Services, and waits for an answer.
func (b *bench) callService(ctx context.Context) error {
	err := await(ctx, "the acceptance of the Service", func(ctx context.Context) error {
		return b.cluster.Apply(ctx, []byte(harness.HelloManifest))
	})
	if err != nil {
		return err
	}
	return await(ctx, "an answer of the Service", func(ctx context.Context) error {
		request, err := harness.HelloRequest(ctx, b.cluster)
		if err != nil {
			return err
		}
		_, err = harness.Answer(request, harness.HelloText, requestTimeout)
		return err
	})
}

// measureColdStarts returns the mean answer time of the Service without pods.
func (b *bench) measureColdStarts(ctx context.Context) (time.Duration, error) {
	var all time.Duration
	for range b.coldStarts {
		err := await(ctx, "the end of the last pod of the Service", func(ctx context.Context) error {
			pods, err := b.kube.CoreV1().Pods("default").List(ctx, metav1.ListOptions{LabelSelector: "serving.knative.dev/service=hello"})
			if err == nil && len(pods.Items) > 0 {
				err = fmt.Errorf("the Service has %d pods", len(pods.Items))
			}
			return err
		})
		if err != nil {
			return 0, err
		}
		request, err := harness.HelloRequest(ctx, b.cluster)
		if err != nil {
			return 0, err
		}
		start := time.Now()
		if _, err := harness.Answer(request, harness.HelloText, time.Minute); err != nil {
			return 0, fmt.Errorf("cannot start a pod by a request: %w", err)
		}
		all += time.Since(start)
	}
	return all / time.Duration(max(1, b.coldStarts)), nil
}

// measureUpgrade upgrades Serving under a load of requests.
func (b *bench) measureUpgrade(ctx context.Context, w way, f *figures) error {
	request, err := harness.HelloRequest(ctx, b.cluster)
	if err != nil {
		return err
	}
	load := harness.StartLoad(ctx, request, harness.HelloText, loadInterval, requestTimeout)
	time.Sleep(loadMargin)
	start := time.Now()
	err = w.install(ctx, lastVersion)
	if err == nil {
		err = await(ctx, "the end of the upgrade", b.checkRolledOut)
	}
	f.upgrade = time.Since(start)
	time.Sleep(loadMargin)
	report := load.Stop()
	f.requests, f.failed, f.slowest = report.Requests, report.Failed, report.Slowest
	return err
}

// checkRolledOut returns an error unless every Deployment of Serving runs the last version, with only pods of its present spec.
func (b *bench) checkRolledOut(ctx context.Context) error {
	list, err := b.kube.AppsV1().Deployments(api.Serving.InstallNamespace()).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for i := range list.Items {
		d := &list.Items[i]
		version := d.Spec.Template.Labels["app.kubernetes.io/version"]
		if d.Labels["app.kubernetes.io/component"] != "net-kourier" && !strings.HasPrefix(version, lastVersion+".") {
			return fmt.Errorf("the Deployment %s has version %q", d.Name, version)
		}
		if s := d.Status; s.ObservedGeneration != d.Generation || s.UpdatedReplicas != s.Replicas || s.AvailableReplicas != *d.Spec.Replicas {
			return fmt.Errorf("the Deployment %s has status %+v", d.Name, s)
		}
	}
	return nil
}

// deleteService deletes the Service of the user, and waits for the end of its pods.
func (b *bench) deleteService(ctx context.Context) error {
	if err := (&byKubectl{b}).kubectl(ctx, "delete", "services.serving.knative.dev", "hello", "--namespace", "default"); err != nil {
		return err
	}
	return await(ctx, "the end of the Service", func(ctx context.Context) error {
		if _, err := harness.Hello(ctx, b.cluster); !apierrors.IsNotFound(err) {
			return errors.Join(errors.New("the Service exists"), err)
		}
		pods, err := b.kube.CoreV1().Pods("default").List(ctx, metav1.ListOptions{})
		if err == nil && len(pods.Items) > 0 {
			err = fmt.Errorf("%d pods exist", len(pods.Items))
		}
		return err
	})
}

// await polls until check returns nil.
func await(ctx context.Context, what string, check func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		err := check(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("gave up waiting for %s: %w", what, err)
		case <-tick.C:
		}
	}
}
