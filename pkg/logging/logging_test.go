// Copyright Contributors to the Open Cluster Management project

package logging

import (
	"bytes"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	workv1 "open-cluster-management.io/api/work/v1"
)

const canary = "c4n4ry"

func secret() *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "edge-7"},
		Data:       map[string][]byte{"token": []byte(canary)}, StringData: map[string]string{"token": canary},
	}
}

// TestNoVerbosityLogsObjects holds that the content of objects stays out of the log, however the objects come there.
func TestNoVerbosityLogsObjects(t *testing.T) {
	values := map[string]any{
		"a Secret": secret(), "Secrets": []*corev1.Secret{secret()}, "Secrets by value": []corev1.Secret{*secret()}, "a Secret by value": *secret(),
		"a list": &corev1.SecretList{Items: []corev1.Secret{*secret()}}, "data": secret().Data, "bytes": []byte(canary),
		"an unstructured object":     &unstructured.Unstructured{Object: map[string]any{"data": canary}},
		"the content of an object":   map[string]any{"data": canary},
		"a manifest":                 workv1.Manifest{RawExtension: runtime.RawExtension{Raw: []byte(`{"kind":"Secret","stringData":{"token":"` + canary + `"}}`)}},
		"headers":                    http.Header{"Authorization": {"Bearer " + canary}},
		"a pointer to a credential":  &struct{ Token string }{canary},
		"a function":                 func() {},
		"nothing":                    nil,
		"no Secret":                  (*corev1.Secret)(nil),
		"a text as the body":         []any{"body", canary},
		"a text as the header":       []any{"Response Headers", canary},
		"a text as the patch":        []any{"patch", canary},
		"a Secret in place of a key": []any{secret(), "value"},
	}
	for _, verbosity := range []int{0, 4, 9, 100} {
		for name, value := range values {
			pair := []any{"value", value}
			if list, ok := value.([]any); ok {
				pair = list
			}
			var out bytes.Buffer
			logger := New(verbosity, &out)
			logger.Info("info", pair...)
			logger.V(min(verbosity, MaxVerbosity)).Info("verbose", pair...)
			logger.Error(errors.New("broken"), "error", pair...)
			logger.WithName("name").WithValues(pair...).WithCallDepth(0).Info("values")
			if strings.Contains(out.String(), canary) || strings.Contains(out.String(), "99 52 110") {
				t.Errorf("--v=%d logs the content of %s:\n%s", verbosity, name, out.String())
			}
			if lines := strings.Count(out.String(), "\n"); lines < 4 {
				t.Errorf("--v=%d logs %d of 4 lines of %s", verbosity, lines, name)
			}
		}
	}
}

// TestNamesAreLogged holds that what is no content passes, with the place of the caller.
func TestNamesAreLogged(t *testing.T) {
	var out bytes.Buffer
	New(0, &out).WithName("direct").Info("message", "object", secret(), "name", types.NamespacedName{Namespace: "team", Name: "a"}, "count", 3, "ready", true, "list", []string{"x"})
	for _, want := range []string{"logging_test.go:", `"message"`, `logger="direct"`, `object="team/edge-7"`, `name="team/a"`, "count=3", "ready=true", `list=["x"]`} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing in %s", want, out.String())
		}
	}
}

// TestVerbosityWorks holds that each level shows more, up to the highest.
func TestVerbosityWorks(t *testing.T) {
	lines := func(verbosity int) int {
		var out bytes.Buffer
		logger := New(verbosity, &out)
		for level := range 12 {
			logger.V(level).Info("message")
		}
		return strings.Count(out.String(), "\n")
	}
	for verbosity, want := range map[int]int{0: 1, 1: 2, 4: 5, 6: 7, 8: 7, 100: 7} {
		if got := lines(verbosity); got != want {
			t.Errorf("--v=%d logs %d levels, want %d", verbosity, got, want)
		}
	}
}

// TestClientLogsNoBodies holds that client-go logs no bodies of requests, with the highest verbosity.
func TestClientLogsNoBodies(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"kind":"Secret","apiVersion":"v1","metadata":{"name":"x"},"stringData":{"token":"` + canary + `"}}`))
	}))
	t.Cleanup(server.Close)
	client, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL, BearerToken: canary})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	ctx := logr.NewContext(t.Context(), New(10, &out))
	if _, err := client.CoreV1().Secrets("team").Create(ctx, secret(), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(out.String(), canary) {
		t.Errorf("the log has a Secret:\n%s", out.String())
	}
	if klog.V(1).Enabled() { //nolint:forbidigo // klog itself is tested
		t.Error("klog's own verbosity is not 0: libraries format Secrets into texts")
	}
}
