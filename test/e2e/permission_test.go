// Copyright Contributors to the Open Cluster Management project

package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/clock"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/clustercache"
	"open-cluster-management.io/knative-addon/pkg/delivery/direct"
	"open-cluster-management.io/knative-addon/pkg/inventory"
	"open-cluster-management.io/knative-addon/pkg/render"
	"open-cluster-management.io/knative-addon/test/lab"
)

// credential is what a hub has for a cluster: a ServiceAccount that may do what `knative-addon rbac` prints, and no more.
type credential struct {
	spoke
	lab       *lab.Lab
	component api.Component
	spec      string
	config    *rest.Config
	client    *http.Client
	requests  *requests
	renderer  *render.Renderer
}

const (
	credentialName = "knative-addon"
	credentialUser = "system:serviceaccount:knative-addon:knative-addon"
)

// TestPermissions installs, upgrades, repairs and removes with the permissions that are printed, and without each of them.
func TestPermissions(t *testing.T) {
	startRestStory(t)
	l := ownLab(t, lab.Options{Spokes: 2})
	for i, of := range []struct {
		component api.Component
		spec      string
		mine      string
	}{
		{
			api.Serving, `{"ingress": {"kourier": {"enabled": true}}, "version": "1.23"}`,
			`{"apiVersion": "networking.internal.knative.dev/v1alpha1", "kind": "ClusterDomainClaim", "metadata": {"name": "mine.example.com"}, "spec": {"namespace": "default"}}`,
		},
		{
			api.Eventing, `{"version": "1.23"}`,
			`{"apiVersion": "eventing.knative.dev/v1beta2", "kind": "EventType", "metadata": {"name": "mine", "namespace": "default"}, "spec": {"type": "com.example.mine"}}`,
		},
	} {
		t.Run(string(of.component), func(t *testing.T) {
			t.Parallel()
			c := newCredential(t, l, l.Spokes[i])
			c.component, c.spec = of.component, of.spec
			grant := c.grant(t, "", "--from=1.22")
			t.Run("the permissions suffice for the lifecycle of an installation", func(t *testing.T) { c.runLifecycle(t) })
			t.Run("each permission was used", func(t *testing.T) { c.checkEachUsed(t, grant) })
			t.Run("a pass without one of the permissions reports the refusal", func(t *testing.T) { c.removeEachPermission(t, grant) })
			t.Run("a deletion policy needs further permissions", func(t *testing.T) { c.removeWithPolicies(t, grant, of.mine) })
		})
	}
}

func newCredential(t *testing.T, l *lab.Lab, cluster *lab.Cluster) *credential {
	t.Helper()
	c := &credential{lab: l, spoke: connect(t, cluster)}
	admin := c.kube.CoreV1()
	_, err := admin.Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: credentialName}}, metav1.CreateOptions{})
	if err == nil {
		_, err = admin.ServiceAccounts(credentialName).Create(t.Context(),
			&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: credentialName}}, metav1.CreateOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
	file, err := cluster.ServiceAccountKubeconfig(t.Context(), credentialName, credentialName)
	if err != nil {
		t.Fatal(err)
	}
	if c.config, err = clientcmd.BuildConfigFromFlags("", file); err != nil {
		t.Fatal(err)
	}
	c.config.QPS = -1
	c.config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		c.requests = &requests{next: next, made: map[asked]bool{}, refused: map[asked]bool{}}
		return c.requests
	})
	if c.client, err = rest.HTTPClientFor(c.config); err != nil {
		t.Fatal(err)
	}
	if c.renderer, err = render.New(render.Config{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.renderer.Close() })
	return c
}

// resource is the resource that is installed, as its users write it.
func (c *credential) resource(policy string) string {
	return fmt.Sprintf(`{"apiVersion": %q, "kind": %q, "metadata": {"name": "test", "namespace": "team", "annotations": {%q: %q}}, "spec": %s}`,
		api.Group+"/v1beta1", c.component.Kind(), api.DeletionPolicyAnnotation, policy, c.spec)
}

// grant gives the credential what `knative-addon rbac` prints for a deletion policy, and waits until the API server follows.
func (c *credential) grant(t *testing.T, policy string, args ...string) []permission {
	t.Helper()
	printed := c.run(t, filepath.Join("..", "..", "bin", "knative-addon"), c.resource(policy), append([]string{"rbac", "-f", "-"}, args...)...)
	c.run(t, c.lab.Bin.Path("kubectl"), printed, "--kubeconfig", c.Kubeconfig, "apply", "-f", "-")
	role, err := c.kube.RbacV1().ClusterRoles().Get(t.Context(), credentialName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	out := permissionsIn("", role.Rules)
	roles, err := c.kube.RbacV1().Roles("").List(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=" + credentialName})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range roles.Items {
		out = append(out, permissionsIn(r.Namespace, r.Rules)...)
	}
	for _, p := range out {
		c.awaitAllowed(t, p, true)
	}
	t.Logf("%d permissions with policy %q", len(out), policy)
	return out
}

func (c *credential) run(t *testing.T, program, input string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, args...) //nolint:gosec // a program of ours or of the lab
	cmd.Stdin, cmd.Stderr = strings.NewReader(input), os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %v: %v", filepath.Base(program), args, err)
	}
	return string(out)
}

func (c *credential) bundle(t *testing.T, version string) *render.Bundle {
	t.Helper()
	installs, err := render.DecodeYAML([]byte(c.resource("")))
	if err != nil {
		t.Fatal(err)
	}
	b, err := c.renderer.Render(t.Context(), installs[0].WithVersion(version), render.DefaultOptions(api.ModeDirect))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// connect makes a connection that remembers nothing.
func (c *credential) connect(t *testing.T) *clustercache.Cluster {
	t.Helper()
	cluster, err := clustercache.Connect(c.config, c.client, clustercache.Options{Changed: func(api.Component) {}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	return cluster
}

func (c *credential) installation(cluster *clustercache.Cluster) *direct.Installation {
	return direct.NewInstallation(cluster, inventory.Owner{
		Component: c.component, Hub: "hub", Name: types.NamespacedName{Namespace: "team", Name: "test"},
	}, clock.RealClock{})
}

func (c *credential) namespace() string { return c.component.InstallNamespace() }

// outcomeError is what a pass says that is not as it should be.
func outcomeError(out direct.Outcome, err error) error {
	for _, f := range out.Observation.Failed {
		err = errors.Join(err, fmt.Errorf("%s: %s", f.Object, f.Cause))
	}
	if err == nil && out.Observation.Waiting != "" {
		err = errors.New(out.Observation.Waiting)
	}
	return err
}

// awaitInstalled waits until everything of the bundle is applied.
func (c *credential) awaitInstalled(t *testing.T, i *direct.Installation, b *render.Bundle) {
	t.Helper()
	eventually(t, "version "+b.Version+" is installed", time.Minute, func(ctx context.Context) error {
		return outcomeError(i.Sync(ctx, b, direct.SyncOptions{}))
	})
}

func (c *credential) removes(t *testing.T, i *direct.Installation, options direct.RemoveOptions) {
	t.Helper()
	options.Namespace = c.namespace()
	eventually(t, "it is removed", time.Minute, func(ctx context.Context) error {
		waiting, err := i.Remove(ctx, options)
		if err == nil && waiting != "" {
			err = errors.New(waiting)
		}
		return err
	})
}

// runLifecycle goes through all that may come. A cluster of each kind has its way to list.
func (c *credential) runLifecycle(t *testing.T) {
	for _, old := range []bool{true, false} {
		c.requests.pretendOldServer(old)
		cluster := c.connect(t)
		if _, err := cluster.UID(t.Context()); err != nil {
			t.Fatal(err)
		}
		i := c.installation(cluster)
		for _, version := range []string{"1.22", "1.23"} {
			c.awaitInstalled(t, i, c.bundle(t, version))
			c.deleteAnchor(t)
			c.awaitInstalled(t, i, c.bundle(t, version)) // it is recorded again
		}
		c.damageObjects(t)
		b, repaired := c.bundle(t, "1.23"), []string{}
		eventually(t, "it is repaired", time.Minute, func(ctx context.Context) error {
			out, err := i.Sync(ctx, b, direct.SyncOptions{})
			if repaired = append(repaired, out.Repaired...); err == nil && len(repaired) < 2 {
				err = fmt.Errorf("repaired is only %q", repaired)
			}
			return err
		})
		c.awaitInstalled(t, i, c.bundle(t, "1.23"))
		c.removes(t, i, direct.RemoveOptions{})
		c.awaitInstalled(t, i, c.bundle(t, "1.23"))
		c.deleteAnchor(t)
		c.removes(t, i, direct.RemoveOptions{})
	}
	for _, a := range c.requests.takeRefusals() {
		t.Errorf("refused: %+v", a)
	}
}

// damageObjects changes a ClusterRole and deletes a Deployment, as anybody on the cluster might.
func (c *credential) damageObjects(t *testing.T) {
	t.Helper()
	var role, deployment string
	for _, o := range c.bundle(t, "1.23").Objects() {
		switch {
		case o.GetKind() == "ClusterRole" && o.Object["rules"] != nil:
			role = o.GetName()
		case o.GetKind() == "Deployment" && !strings.Contains(o.GetName(), "webhook"):
			deployment = o.GetName()
		}
	}
	err := c.kube.AppsV1().Deployments(c.namespace()).Delete(t.Context(), deployment, metav1.DeleteOptions{})
	if err == nil {
		_, err = c.kube.RbacV1().ClusterRoles().Patch(t.Context(), role, types.MergePatchType, []byte(`{"rules":[]}`), metav1.PatchOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
}

func (c *credential) deleteAnchor(t *testing.T) {
	t.Helper()
	name, err := inventory.Owner{Component: c.component, Name: types.NamespacedName{Name: "test"}}.AnchorName()
	if err == nil {
		orphan := metav1.DeletePropagationOrphan
		err = c.kube.CoreV1().ConfigMaps(c.namespace()).Delete(t.Context(), name, metav1.DeleteOptions{PropagationPolicy: &orphan})
	}
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the anchor is gone", time.Minute, func(ctx context.Context) error {
		_, err := c.kube.CoreV1().ConfigMaps(c.namespace()).Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("it is still there, or cannot be read: %s", fmt.Sprint(err))
	})
}

// checkEachUsed holds that nothing was allowed that was not asked for. What an apply asks of RBAC besides shows in lacks.
func (c *credential) checkEachUsed(t *testing.T, grant []permission) {
	for _, p := range grant {
		if p.verb == "escalate" || p.verb == "bind" {
			continue
		}
		names := p.names
		if len(names) == 0 {
			names = []string{""}
		}
		for _, name := range names {
			if !c.requests.hasUsed(p, name) {
				t.Errorf("nothing needs to %s (%s)", p, name)
			}
		}
	}
}

// removeWithPolicies removes CRDs too, with a resource of a user.
func (c *credential) removeWithPolicies(t *testing.T, base []permission, mine string) {
	requestRemoval(t, c.lab, c.Cluster)
	grant := c.grant(t, api.DeletionPolicyDeleteUserResources)
	i := c.installation(c.connect(t))
	c.awaitInstalled(t, i, c.bundle(t, "1.23"))
	eventually(t, "the cluster accepts a resource of a user", time.Minute, func(ctx context.Context) error { return c.Apply(ctx, []byte(mine)) })
	c.requests.takeRefusals()
	waiting, err := i.Remove(t.Context(), direct.RemoveOptions{Namespace: c.namespace(), Foundation: true})
	if err != nil || !strings.Contains(waiting, "1 ") {
		t.Errorf("it does not wait for resources of users: %q, %v", waiting, err)
	}
	c.removes(t, i, direct.RemoveOptions{Foundation: true, UserResources: true})
	for _, a := range c.requests.takeRefusals() {
		t.Errorf("refused: %+v", a)
	}
	for _, crd := range c.list(t, "apiextensions.k8s.io", "v1", "customresourcedefinitions") {
		if strings.HasSuffix(crd.GetName(), ".knative.dev") {
			t.Errorf("CRD %s is left", crd.GetName())
		}
	}
	if _, err := c.kube.CoreV1().Namespaces().Get(t.Context(), c.namespace(), metav1.GetOptions{}); err != nil {
		t.Errorf("the administrator's namespace: %v", err)
	}
	c.checkEachUsed(t, slices.DeleteFunc(grant, func(p permission) bool {
		ofUsers := p.verb == "delete" && p.namespace == "" && len(p.names) == 0 // there was something of one kind
		return ofUsers || slices.ContainsFunc(base, p.same)
	}))
}
