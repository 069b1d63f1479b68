// Copyright Contributors to the Open Cluster Management project

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/delivery/direct"
	"open-cluster-management.io/knative-addon/pkg/register"
	"open-cluster-management.io/knative-addon/pkg/render"
)

const registerExample = `  # Connect the cluster of edge-7.yaml with the permissions that the resources of knative.yaml need:
  knative-addon register edge-7 --kubeconfig edge-7.yaml --namespace team --filename knative.yaml

  # Print the objects of both clusters, and write nothing:
  knative-addon register edge-7 --kubeconfig edge-7.yaml --namespace team --filename knative.yaml --dry-run

  # Before an upgrade from 1.22, add the permissions for the version in knative.yaml:
  knative-addon register edge-7 --kubeconfig edge-7.yaml --namespace team --filename knative.yaml --from 1.22

  # Replace the token:
  knative-addon register edge-7 --kubeconfig edge-7.yaml --namespace team --rotate-token`

// registerCommand holds the flags of `knative-addon register`.
type registerCommand struct {
	offlineCommand
	clusters registeredClusters
	endpoint register.EndpointOptions

	secretNamespace, provider, account string
	from                               []string
	tokenDuration, timeout             time.Duration
	rotateToken, dryRun                bool
}

func newRegisterCommand() *cobra.Command {
	c := registerCommand{offlineCommand: offlineCommand{mode: api.ModeDirect}}
	cmd := &cobra.Command{
		Use: "register NAME --kubeconfig FILE --namespace NAMESPACE", Args: cobra.ExactArgs(1),
		Short: "Connect a cluster without a work agent to the hub",
		Long: "Creates a ServiceAccount with the fewest permissions and a token on the cluster, checks that the cluster answers with the token, and creates " +
			"Secret and ClusterProfile NAME on the hub. Then KnativeServings and KnativeEventings with spec.clusterProfileRef install Knative on the cluster. " +
			"A second run updates permissions and token. Objects that another client has created are not changed.\n\n" +
			"The permissions are those of the resources in --filename, and of the resources on the hub that refer to the ClusterProfile: before and after a " +
			"change of a resource. When there is neither, the permissions are those of a KnativeServing with Kourier and a KnativeEventing, both with name NAME and " +
			"the newest version.",
		Example: registerExample,
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.runRegister(cmd, args[0])
		},
	}
	c.addRendering(cmd)
	c.clusters.add(cmd, "kubeconfig of the cluster to register, with the permissions of an administrator")
	_ = cmd.MarkFlagRequired("kubeconfig") // the command has the flag
	flags := cmd.Flags()
	flags.StringVarP(&c.file, "filename", "f", "", "KnativeServings and KnativeEventings for the cluster as YAML or JSON; - is standard input")
	flags.StringSliceVar(&c.from, "from", nil, "versions, such as 1.22, that the cluster may have now, and is to be upgraded from")
	flags.StringVar(&c.secretNamespace, "secret-namespace", "", "namespace of the Secret on the hub, as secretNamespace of the inventory; empty means --namespace")
	flags.StringVar(&c.provider, "provider", "secretreader", "access provider of the manager that reads key token of the Secret")
	flags.StringVar(&c.account, "service-account", "knative-addon/knative-addon", "namespace/name of the ServiceAccount on the cluster; its roles have the same name")
	flags.StringVar(&c.endpoint.Server, "server", "", "address of the cluster's API server for the manager; empty means the server of --kubeconfig")
	flags.BoolVar(&c.endpoint.AllowPlainHTTP, "allow-plain-http", false, "register a server without TLS; the manager needs the same flag")
	flags.BoolVar(&c.endpoint.AllowInsecureTLS, "allow-insecure-tls", false, "register a kubeconfig with insecure-skip-tls-verify; the manager needs the same flag")
	flags.DurationVar(&c.tokenDuration, "token-duration", 0, "lifetime of the token, after which the command has to run again; 0 means a token that lasts until its Secret on the cluster is deleted")
	flags.BoolVar(&c.rotateToken, "rotate-token", false, "end all tokens of earlier runs by a new ServiceAccount, and create another token")
	flags.DurationVar(&c.timeout, "timeout", 2*time.Minute, "time for the token, for an answer with the token, and for condition TargetClusterResolved")
	flags.BoolVar(&c.dryRun, "dry-run", false, "read both clusters, print the objects of both without the token, and write nothing")
	flags.StringVarP(&c.output, "output", "o", "yaml", "format of --dry-run: yaml or json (one object a line)")
	return cmd
}

func (c *registerCommand) runRegister(cmd *cobra.Command, name string) error {
	request, err := c.parseRequest(name)
	if err != nil {
		return err
	}
	hub, cluster, err := c.clusters.connectBoth()
	if err != nil {
		return err
	}
	if request.Endpoint, err = c.clusters.readEndpoint(c.endpoint); err != nil {
		return err
	}
	if request.Grant, err = c.computeGrant(cmd, hub, request); err != nil {
		return err
	}
	registration, err := register.Check(cmd.Context(), hub, cluster, request)
	if err != nil {
		return err
	}
	if err := c.printWarnings(cmd, registration); err != nil {
		return err
	}
	if c.dryRun {
		return c.printRegistration(cmd.OutOrStdout(), registration, hub, cluster)
	}
	out := cmd.OutOrStdout()
	if err := c.connectCluster(cmd.Context(), out, registration); err != nil {
		return err
	}
	return c.awaitResolved(cmd.Context(), out, hub, request)
}

// parseRequest returns the request without Endpoint and Grant.
func (c *registerCommand) parseRequest(name string) (*register.Request, error) {
	profile, err := c.clusters.parseProfile(name)
	if err != nil {
		return nil, err
	}
	if c.output != "yaml" && c.output != "json" {
		return nil, fmt.Errorf("--output is %q: use yaml or json", c.output)
	}
	if c.tokenDuration != 0 && c.tokenDuration < 10*time.Minute {
		return nil, fmt.Errorf("--token-duration is %s: Kubernetes creates no token for less than 10m", c.tokenDuration)
	}
	namespace, account, ok := strings.Cut(c.account, "/")
	if !ok || len(validation.IsDNS1123Label(namespace)) > 0 || len(validation.IsDNS1123Subdomain(account)) > 0 {
		return nil, fmt.Errorf("cannot use --service-account=%q: it has to be namespace/name", c.account)
	}
	out := &register.Request{
		Profile: profile, SecretNamespace: profile.Namespace, Provider: c.provider, Account: types.NamespacedName{Namespace: namespace, Name: account},
		TokenDuration: c.tokenDuration, Timeout: c.timeout,
	}
	if c.secretNamespace != "" {
		out.SecretNamespace = c.secretNamespace
	}
	return out, nil
}

// computeGrant returns the permissions for the resources of the file and of the hub, or of the default.
func (c *registerCommand) computeGrant(cmd *cobra.Command, hub *register.Cluster, request *register.Request) (*direct.Grant, error) {
	var needs []direct.Need
	err := c.withRenderer(func(r *render.Renderer) error {
		var installs []*render.Install
		if c.file != "" {
			var err error
			if installs, err = c.read(cmd); err != nil {
				return err
			}
		}
		ofFile, err := c.computeNeeds(cmd, r, request, installs)
		if err != nil {
			return err
		}
		if installs, err = c.readReferring(cmd, hub, request.Profile); err != nil {
			return err
		}
		ofHub, err := c.computeNeedsOfHub(cmd, r, request, installs)
		needs = slices.Concat(ofFile, ofHub)
		return err
	})
	if err != nil {
		return nil, err
	}
	subject := rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: request.Account.Namespace, Name: request.Account.Name}
	return direct.GrantFor(request.Account.Name, []rbacv1.Subject{subject}, needs...), nil
}

// computeNeedsOfHub returns what the resources of the hub need. A resource that cannot be rendered is an error without a file; the file may
// correct the resource.
func (c *registerCommand) computeNeedsOfHub(cmd *cobra.Command, r *render.Renderer, request *register.Request, installs []*render.Install) ([]direct.Need, error) {
	var out []direct.Need
	for _, install := range installs {
		needs, err := c.computeNeeds(cmd, r, request, []*render.Install{install})
		if fault := (*render.Error)(nil); c.file != "" && errors.As(err, &fault) {
			fmt.Fprintf(cmd.ErrOrStderr(), "warning: the permissions of %s %q on the hub are not included: %v\n", install.Component().Kind(), install.Name(), err)
			continue
		}
		if err != nil {
			return nil, err
		}
		out = append(out, needs...)
	}
	return out, nil
}

// computeNeeds returns what the resources of the ClusterProfile need.
func (c *registerCommand) computeNeeds(cmd *cobra.Command, r *render.Renderer, request *register.Request, installs []*render.Install) ([]direct.Need, error) {
	var out []direct.Need
	for _, install := range installs {
		if ref := install.ClusterProfileRef(); ref != nil && (ref.Namespace != request.Profile.Namespace || ref.Name != request.Profile.Name) {
			return nil, fmt.Errorf("%s %q refers to ClusterProfile %q, not to %q: correct spec.clusterProfileRef, or NAME and --namespace",
				install.Component().Kind(), install.Name(), ref.Namespace+"/"+ref.Name, request.Profile)
		}
		from := c.from
		if installed := install.InstalledVersion(); installed != "" {
			from = append([]string{installed}, from...)
		}
		need, err := c.computeNeed(cmd, r, install, from)
		if err != nil {
			return nil, err
		}
		out = append(out, need)
	}
	return out, nil
}

// readReferring returns the resources of the hub that refer to the ClusterProfile: the manager repairs their installations until the file is
// applied, and changes the installations then. Without any resource, readReferring returns a KnativeServing and a KnativeEventing with the
// name of the ClusterProfile.
func (c *registerCommand) readReferring(cmd *cobra.Command, hub *register.Cluster, profile types.NamespacedName) ([]*render.Install, error) {
	referring, err := register.ListReferring(cmd.Context(), hub, profile)
	if err != nil {
		return nil, err
	}
	if len(referring) == 0 && c.file == "" {
		for _, component := range api.Components() {
			referring = append(referring, newDefaultResource(component, profile))
		}
	}
	var out []*render.Install
	for _, resource := range referring {
		install, err := render.Decode(resource)
		if fault := (*render.Error)(nil); c.file != "" && errors.As(err, &fault) {
			fmt.Fprintf(cmd.ErrOrStderr(), "warning: the permissions of %s \"%s/%s\" on the hub are not included: %v\n",
				resource.GetKind(), resource.GetNamespace(), resource.GetName(), err)
			continue
		}
		if err != nil {
			return nil, err
		}
		out = append(out, install)
	}
	return out, nil
}

// newDefaultResource returns the smallest resource of a component for a cluster.
func newDefaultResource(component api.Component, profile types.NamespacedName) *unstructured.Unstructured {
	spec := map[string]any{}
	if component == api.Serving {
		spec["ingress"] = map[string]any{"kourier": map[string]any{"enabled": true}}
	}
	out := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	out.SetAPIVersion(component.Resource().GroupVersion().String())
	out.SetKind(component.Kind())
	out.SetNamespace(profile.Namespace)
	out.SetName(profile.Name)
	return out
}

// printWarnings prints to stderr why the manager may not connect.
func (c *registerCommand) printWarnings(cmd *cobra.Command, registration *register.Registration) error {
	if register.IsLoopback(registration.Endpoint.Server) {
		fmt.Fprintf(cmd.ErrOrStderr(), "warning: %s is an address of this machine, where a manager in a pod finds another machine: name the address with --server\n",
			registration.Endpoint.Server)
	}
	warning, err := registration.ReviewInventories(cmd.Context(), c.addOnNamespace)
	if warning != "" {
		fmt.Fprintf(cmd.ErrOrStderr(), "warning: %s\n", warning)
	}
	return err
}

func (c *registerCommand) printRegistration(out io.Writer, registration *register.Registration, hub, cluster *register.Cluster) error {
	onCluster, onHub, err := registration.Objects()
	if err != nil {
		return err
	}
	for _, side := range []struct {
		of      *register.Cluster
		objects []*unstructured.Unstructured
	}{{cluster, onCluster}, {hub, onHub}} {
		var lines [][]byte
		for _, o := range register.Redact(side.objects) {
			data, err := json.Marshal(o)
			if err != nil {
				return fmt.Errorf("cannot print an object: %w", err)
			}
			lines = append(lines, data)
		}
		if c.output == "yaml" {
			fmt.Fprintf(out, "# %s\n", side.of.Name)
		}
		if err := printObjects(out, c.output, lines); err != nil {
			return err
		}
	}
	return nil
}

// connectCluster writes the objects of both clusters, and proves the credential before the hub gets the credential.
func (c *registerCommand) connectCluster(ctx context.Context, out io.Writer, r *register.Registration) error {
	written, err := r.WriteCluster(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "wrote %d objects on the cluster: ServiceAccount %s with token and permissions\n", written, r.Account)
	if !c.rotateToken {
		return c.provideCredential(ctx, out, r)
	}
	if err = r.RotateToken(ctx); err == nil {
		err = c.provideCredential(ctx, out, r)
	}
	if err != nil {
		return fmt.Errorf("%w\nThe former token has ended, or may end: run the command again", err)
	}
	return nil
}

// provideCredential gives the hub a token that the cluster accepts, and deletes the objects of earlier registrations.
func (c *registerCommand) provideCredential(ctx context.Context, out io.Writer, r *register.Registration) error {
	token, expires, err := r.FetchToken(ctx)
	if err != nil {
		return err
	}
	if !expires.IsZero() {
		fmt.Fprintf(out, "the token expires at %s: run the command again before\n", expires.UTC().Format(time.RFC3339))
	}
	version, err := r.CheckCredential(ctx, token)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "the cluster (Kubernetes %s) answers requests with the token\n", version)
	if err := r.WriteHub(ctx, token, version, time.Now()); err != nil {
		return err
	}
	fmt.Fprintf(out, "wrote Secret %s/%s and ClusterProfile %s on the hub\n", r.SecretNamespace, r.Profile.Name, r.Profile)
	removed, err := r.RemoveObsolete(ctx)
	for _, o := range removed {
		fmt.Fprintf(out, "deleted %s of an earlier registration\n", o)
	}
	return err
}

// awaitResolved waits until the resources of the ClusterProfile are resolved, and prints the next step without such resources.
func (c *registerCommand) awaitResolved(ctx context.Context, out io.Writer, hub *register.Cluster, request *register.Request) error {
	resolved, err := register.AwaitResolved(ctx, hub, request.Profile, c.timeout)
	if err != nil {
		return fmt.Errorf("the cluster is registered, but the manager does not use it: %w", err)
	}
	for _, o := range resolved {
		fmt.Fprintf(out, "%s: %s is True\n", o, api.TargetClusterResolved)
	}
	if len(resolved) == 0 {
		fmt.Fprintf(out, "no resource refers to the ClusterProfile yet: a KnativeFleet of the namespace may select the ClusterProfile, or apply a KnativeServing or "+
			"KnativeEventing with spec.clusterProfileRef {namespace: %s, name: %s}\n", request.Profile.Namespace, request.Profile.Name)
	}
	return nil
}
