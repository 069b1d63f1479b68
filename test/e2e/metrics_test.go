// Copyright Contributors to the Open Cluster Management project

package e2e

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"open-cluster-management.io/knative-addon/test/e2e/harness"
)

// scrape returns the answer of a manager's endpoint for metrics to a token.
func scrape(ctx context.Context, t *testing.T, f *harness.Fleet, component, token string) (status int, body string) {
	t.Helper()
	client := &http.Client{
		Timeout:   time.Minute,
		Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}, //nolint:gosec // the certificate signs itself
	}
	defer client.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, f.MetricsURL(component), http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	answer, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(text)
}

// createMetricsReader returns a token of a ServiceAccount with the chart's role for readers of metrics.
func createMetricsReader(t *testing.T, f *harness.Fleet) string {
	t.Helper()
	if err := f.Hub.Apply(t.Context(), []byte("apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: prometheus, namespace: default}")); err != nil {
		t.Fatal(err)
	}
	_, err := connect(t, f.Hub).kube.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "prometheus"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "knative-addon-metrics-reader"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "default", Name: "prometheus"}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	token, err := f.Command(t.Context(), "kubectl", "create", "token", "prometheus", "-n", "default")
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(token)
}

// countsInstallations holds that the metrics count one working installation in each mode, besides the chart's own resource, and that
// a plugin gave a credential.
func countsInstallations(t *testing.T, p push, pull, push string) {
	t.Helper()
	token := createMetricsReader(t, p.Fleet)
	want := []string{
		`knative_addon_managedclusteraddons{component="knative-serving",condition="Available",mode="ManifestWork",reason="ProbeAvailable",status="True"} 1`,
		`knative_addon_managedclusteraddons{component="knative-serving",condition="TargetClusterResolved",mode="ManifestWork",reason="TargetResolved",status="True"} 1`,
		`knative_addon_resources{component="knative-serving",condition="Ready",mode="ManifestWork",reason="Ready",status="True"} 1`,
		`knative_addon_resources{component="knative-serving",condition="Ready",mode="ManifestWork",reason="Unused",status="True"} 1`,
		`knative_addon_resources{component="knative-serving",condition="Ready",mode="Direct",reason="Ready",status="True"} 1`,
		`knative_addon_direct_connections{circuit_breaker="Closed"} 1`,
		`knative_addon_direct_connections{circuit_breaker="Open"} 0`,
		`knative_addon_omitted_clusters 0`,
		fmt.Sprintf(`knative_addon_cluster_condition{cluster="%s",component="knative-serving",condition="Available",mode="ManifestWork",reason="ProbeAvailable"} 1`, pull),
		fmt.Sprintf(`knative_addon_cluster_condition{cluster="%s/%s",component="knative-serving",condition="Ready",mode="Direct",reason="Ready"} 1`, p.namespace, push),
		`knative_addon_credential_requests_total{provider="secretreader",result="success"} `,
	}
	for _, mode := range []string{"ManifestWork", "Direct"} {
		for _, series := range []string{
			`knative_addon_resources{component="knative-serving",condition="TargetClusterResolved",mode=%q,reason="TargetResolved",status="True"} 1`,
			`knative_addon_desired_version_clusters{component="knative-serving",mode=%q,version="1.23.0"} 1`,
			`knative_addon_running_version_clusters{component="knative-serving",mode=%q,version="1.23.0"} 1`,
			`knative_addon_outdated_clusters{component="knative-serving",mode=%q,state="Delivering"} 0`,
			`knative_addon_paused_clusters{component="knative-serving",mode=%q} 0`,
			`knative_addon_time_to_ready_seconds_count{component="knative-serving",mode=%q} `,
		} {
			want = append(want, fmt.Sprintf(series, mode))
		}
	}
	eventually(t, "the metrics count the installations", time.Minute, func(ctx context.Context) error {
		status, body := scrape(ctx, t, p.Fleet, harness.Manager, token)
		var missing []string
		for _, series := range want {
			if !strings.Contains(body, "\n"+series) {
				missing = append(missing, series)
			}
		}
		if len(missing) > 0 {
			return fmt.Errorf("the answer %d lacks\n%s", status, strings.Join(missing, "\n"))
		}
		return nil
	})
}
