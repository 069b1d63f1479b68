// Copyright Contributors to the Open Cluster Management project

package lab

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// TestLab starts two labs at once, each a hub with one spoke that OCM does not manage and a light one, and looks at what the
// package promises: they do not disturb each other, listen on loopback only, have a credential that works, and leave nothing.
func TestLab(t *testing.T) {
	for _, name := range []string{"one", "another"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			holdsPromises(t)
		})
	}
}

func holdsPromises(t *testing.T) {
	l, err := New(t.Context(), Options{Spokes: 1, AuditLog: true, RecordChanges: true, Log: os.Stderr})
	if err != nil {
		t.Fatal(err)
	}
	closed := false
	defer func() {
		if !closed {
			_ = l.Close()
		}
	}()
	rollsOut(t, l)
	var pids []int
	for _, c := range l.Components() {
		if c.PID == 0 {
			t.Errorf("%s is %s; the end of its log is in %s", c.Name, c.State, c.Log)
		}
		pids = append(pids, c.PID)
	}
	for _, address := range listening(t, pids) {
		if !strings.HasPrefix(address, "127.") {
			t.Errorf("a component listens on %s", address)
		}
	}
	credential := l.Spokes[0].Credential
	client, err := kubernetes.NewForConfig(&rest.Config{
		Host: credential.Server, BearerToken: credential.Token, TLSClientConfig: rest.TLSClientConfig{CAData: credential.CA},
	})
	if err != nil {
		t.Fatal(err)
	}
	nodes, err := client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if err != nil || len(nodes.Items) != 1 {
		t.Errorf("the credential shows %d nodes (%v), want 1", len(nodes.Items), err)
	}
	awaitAnswer(t, "one list with the credential", func(context.Context) error {
		requests, err := l.Spokes[0].Requests()
		if err == nil && !maps.Equal(requests, map[string]int{"list": 1}) {
			err = fmt.Errorf("with the credential was asked %v", requests)
		}
		return err
	})
	ofOCM := Write{Account: hubNamespace + ":registration-controller-sa", Verb: "create", Resource: "managedclustersets"}
	awaitAnswer(t, "a write of OCM", func(context.Context) error {
		writes, err := l.Writes()
		if err == nil && writes[ofOCM] == 0 {
			err = fmt.Errorf("on the hub was written %v, want %v among it", writes, ofOCM)
		}
		return err
	})
	recordsChanges(t, l.Hub)
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	closed = true
	if _, err := os.Stat(l.Dir); !os.IsNotExist(err) {
		t.Errorf("the lab's directory is still there (%v)", err)
	}
	for _, pid := range pids {
		if cmdline, err := os.ReadFile("/proc/" + itoa(pid) + "/cmdline"); err == nil && len(cmdline) > 0 {
			t.Errorf("process %d is still there: %s", pid, cmdline)
		}
	}
}

// recordsChanges holds that the cluster records the deletion of a Namespace, and no deletion that failed.
func recordsChanges(t *testing.T, c *Cluster) {
	t.Helper()
	client, err := kubernetes.NewForConfig(c.Config)
	if err != nil {
		t.Fatal(err)
	}
	const name = "deleted-by-test"
	if err := c.Apply(t.Context(), namespaces(name)); err != nil {
		t.Fatal(err)
	}
	if err := client.CoreV1().Namespaces().Delete(t.Context(), name+"-absent", metav1.DeleteOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the deletion of an absent Namespace: %v", err)
	}
	if err := client.CoreV1().Namespaces().Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	awaitAnswer(t, "one deletion", func(context.Context) error {
		changes, err := c.Changes()
		deleted := slices.DeleteFunc(changes, func(change Change) bool { return change.Verb != "delete" || !strings.HasPrefix(change.Name, name) })
		if err == nil && (len(deleted) != 1 || deleted[0].Name != name || deleted[0].Resource != "namespaces" || !strings.HasPrefix(deleted[0].Agent, "lab.test/")) {
			err = fmt.Errorf("the recorded deletions are %+v, want that of Namespace %s by lab.test", deleted, name)
		}
		return err
	})
}

// awaitAnswer waits for a result that an API server may have a moment after another answer, such as the record of a request.
func awaitAnswer(t *testing.T, what string, check func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := waitFor(ctx, what, check); err != nil {
		t.Error(err)
	}
}
