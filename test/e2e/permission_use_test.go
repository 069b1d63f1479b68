// Copyright Contributors to the Open Cluster Management project

package e2e

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"open-cluster-management.io/knative-addon/test/e2e/harness"
	"open-cluster-management.io/knative-addon/test/lab"
)

// auditedAccounts are the ServiceAccounts whose requests the hub records. The requests of the first are compared with permissions.
func auditedAccounts() []string {
	return []string{harness.Namespace + ":" + harness.ManagerAccount, harness.Namespace + ":" + harness.LocalAccount}
}

// grantedPermission is one verb on one resource of a role of the chart, for objects with one of the names, separated by a space; without
// names for every object.
type grantedPermission struct{ Role, Verb, Group, Resource, Names string }

func (g grantedPermission) String() string {
	return strings.TrimSpace(fmt.Sprintf("%s: %s %s %s", g.Role, g.Verb, strings.TrimSuffix(g.Resource+"."+g.Group, "."), g.Names))
}

// coversRequest reports whether the request needs the permission. A list or a watch with a field selector for a name has that name.
func (g grantedPermission) coversRequest(r lab.Request) bool {
	// An API server that does not stream lists, as before Kubernetes 1.34, is asked for a list before a watch.
	lists := g.Verb == "list" && r.Verb == "watch"
	named := g.Names == "" || slices.Contains(strings.Fields(g.Names), r.Name)
	return (g.Verb == r.Verb || lists) && g.Group == r.Group && anyKind(g.Resource) == anyKind(r.Resource) && named
}

// anyKind is one name for KnativeServings and KnativeEventings, which the same controllers serve.
func anyKind(resource string) string {
	return strings.Replace(resource, "knativeeventings", "knativeservings", 1)
}

// isObservable reports whether a request can show the need of the permission. Only an admission plugin asks for finalizers, which
// the lab's API servers do not run, and only OCM's webhook asks who may execute works as an account. An Event is patched when
// the same Event happens to come again.
func (g grantedPermission) isObservable() bool {
	return !strings.HasSuffix(g.Resource, "/finalizers") && g.Verb != "execute-as" && (g.Resource != "events" || g.Verb != "patch")
}

// permissionUse has the permissions and the requests of the manager in all labs of this run.
var permissionUse permissionUsage

// permissionUsage compares permissions with requests.
type permissionUsage struct {
	mu      sync.Mutex
	granted map[grantedPermission]bool // true when a request has used the permission
	labs    int
}

// collectFrom notes permissions and requests of a lab, and returns an error when the permissions did not allow a request.
func (u *permissionUsage) collectFrom(l *lab.Lab) error {
	kube, err := kubernetes.NewForConfig(l.Hub.Config)
	if err != nil {
		return fmt.Errorf("cannot connect to the hub: %w", err)
	}
	permissions, err := permissionsOf(context.Background(), kube)
	if err != nil || len(permissions) == 0 { // the chart is not installed
		return err
	}
	asked, err := l.RequestsOf(auditedAccounts()[0])
	if err != nil {
		return err
	}
	return u.addLab(permissions, asked)
}

func (u *permissionUsage) addLab(permissions []grantedPermission, requests map[lab.Request]int) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.labs++
	if u.granted == nil {
		u.granted = map[grantedPermission]bool{}
	}
	for _, g := range permissions {
		if _, known := u.granted[g]; !known {
			u.granted[g] = false
		}
	}
	var refused []string
	for r, count := range requests {
		if !strings.HasPrefix(r.Agent, "knative-addon/") {
			continue // a plugin or a test with the token of the manager
		}
		if r.Forbidden && !wasAllowed(r, requests) {
			refused = append(refused, fmt.Sprintf("the manager may not %s %s.%s %s/%s (%d times)", r.Verb, r.Resource, r.Group, r.Namespace, r.Name, count))
		}
		for g := range u.granted {
			if g.coversRequest(r) {
				u.granted[g] = true
			}
		}
	}
	if len(refused) == 0 {
		return nil
	}
	slices.Sort(refused)
	return errors.New(strings.Join(refused, "\n"))
}

// wasAllowed reports whether the API server has also allowed the same request. An API server that has just started refuses requests
// until it has read all roles. A refused creation has no name in the audit log.
func wasAllowed(r lab.Request, requests map[lab.Request]int) bool {
	r.Forbidden = false
	if r.Verb != "create" {
		return requests[r] > 0
	}
	for allowed := range requests {
		if allowed.Name = r.Name; allowed == r {
			return true
		}
	}
	return false
}

// judgeRun returns an error after all tests of `make test-rest` or `make test-e2e` when the chart grants a permission that no request
// has used.
func (u *permissionUsage) judgeRun(passed bool) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	unused := u.unusedPermissions()
	if u.labs > 0 {
		fmt.Fprintf(os.Stderr, "permissions of the manager on %d labs: %d, unused: %d\n", u.labs, len(u.granted), len(unused))
	}
	if os.Getenv("KNATIVE_ADDON_SHOW_UNUSED") != "" {
		fmt.Fprintln(os.Stderr, strings.Join(unused, "\n"))
	}
	judged := *storiesFlag == restStories || *storiesFlag == allStories
	if !passed || !wholeSuite() || !judged || len(unused) == 0 {
		return nil
	}
	return fmt.Errorf("no test has used these permissions of the chart's manager; remove each from the chart, or test what needs it:\n%s",
		strings.Join(unused, "\n"))
}

func (u *permissionUsage) unusedPermissions() []string {
	var out []string
	for g, used := range u.granted {
		if !used && g.isObservable() {
			out = append(out, g.String())
		}
	}
	slices.Sort(out)
	return out
}

// wholeSuite reports whether every test of the tier was run: some only use permissions that others do not.
func wholeSuite() bool {
	for _, name := range []string{"test.run", "test.skip", "test.list"} {
		if f := flag.Lookup(name); f == nil || f.Value.String() != "" {
			return false
		}
	}
	return true
}

// permissionsOf are the permissions of the manager's roles on a hub.
func permissionsOf(ctx context.Context, kube kubernetes.Interface) ([]grantedPermission, error) {
	cluster, err := kube.RbacV1().ClusterRoles().Get(ctx, harness.ManagerAccount, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read the permissions of the manager: %w", err)
	}
	own, err := kube.RbacV1().Roles(harness.Namespace).Get(ctx, harness.ManagerAccount, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("cannot read the permissions of the manager: %w", err)
	}
	return append(grantedBy("ClusterRole", cluster.Rules), grantedBy("Role", own.Rules)...), nil
}

func grantedBy(role string, rules []rbacv1.PolicyRule) []grantedPermission {
	var out []grantedPermission
	for _, rule := range rules {
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				for _, verb := range rule.Verbs {
					out = append(out, grantedPermission{role, verb, group, resource, strings.Join(rule.ResourceNames, " ")})
				}
			}
		}
	}
	return out
}

// TestPermissionUse holds that a permission which no request needs is found, and a request that is refused.
func TestPermissionUse(t *testing.T) {
	rules := grantedBy("ClusterRole", []rbacv1.PolicyRule{
		{APIGroups: []string{"apps"}, Resources: []string{"deployments"}, ResourceNames: []string{"one", "two"}, Verbs: []string{"get", "list"}},
		{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get", "delete"}},
		{APIGroups: []string{"apps"}, Resources: []string{"deployments/finalizers"}, Verbs: []string{"update"}},
		{APIGroups: []string{"apps"}, Resources: []string{"deployments/status"}, Verbs: []string{"patch"}},
	})
	const agent = "knative-addon/devel"
	var u permissionUsage
	err := u.addLab(rules, map[lab.Request]int{
		{Agent: agent, Verb: "get", Group: "apps", Resource: "deployments", Name: "other"}:      1,
		{Agent: agent, Verb: "watch", Group: "apps", Resource: "deployments", Name: "two"}:      1,
		{Agent: agent, Verb: "get", Resource: "secrets", Namespace: "a", Name: "b"}:             1,
		{Agent: "e2e.test", Verb: "delete", Resource: "secrets", Namespace: "a", Name: "b"}:     1,
		{Agent: "e2e.test", Verb: "watch", Resource: "secrets", Forbidden: true}:                1,
		{Agent: agent, Verb: "patch", Group: "apps", Resource: "deployments", Name: "whatever"}: 1,
	})
	if err != nil {
		t.Error(err)
	}
	want := []string{"ClusterRole: delete secrets", "ClusterRole: get deployments.apps one two", "ClusterRole: patch deployments/status.apps"}
	if got := u.unusedPermissions(); !slices.Equal(got, want) {
		t.Errorf("unused are %q, want %q", got, want)
	}
	err = u.addLab(rules, map[lab.Request]int{{Agent: agent, Verb: "list", Resource: "secrets", Forbidden: true}: 2})
	if err == nil || !strings.Contains(err.Error(), "may not list secrets") {
		t.Errorf("the error is %v", err)
	}
	err = u.addLab(rules, map[lab.Request]int{
		{Agent: agent, Verb: "list", Resource: "secrets", Forbidden: true}: 2,
		{Agent: agent, Verb: "list", Resource: "secrets"}:                  1,
	})
	if err != nil {
		t.Errorf("a request that is allowed later is refused: %v", err)
	}
}
