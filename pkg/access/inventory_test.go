// Copyright Contributors to the Open Cluster Management project

package access

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	clientcmdv1 "k8s.io/client-go/tools/clientcmd/api/v1"
	clusterinventoryv1alpha1 "sigs.k8s.io/cluster-inventory-api/apis/v1alpha1"
	inventoryaccess "sigs.k8s.io/cluster-inventory-api/pkg/access"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/trust"
)

// TestInventory holds that no plugin runs and nothing is sent for a ClusterProfile that the administrator has not permitted,
// whatever the profile says.
func TestInventory(t *testing.T) {
	var proxied atomic.Int32
	proxy := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { proxied.Add(1) }))
	t.Cleanup(proxy.Close)
	victim := func(c *clientcmdv1.Cluster) {
		c.Extensions = []clientcmdv1.NamedExtension{extension(extensionConfig, `{"clusterName":"victim"}`)}
	}
	for name, tc := range map[string]struct {
		// change is what the author of the profile changes, and entry what the administrator does.
		change func(*clusterinventoryv1alpha1.ClusterProfile, *clientcmdv1.Cluster)
		entry  func(*trust.Inventory)
		// refused is part of the message; empty means that the cluster answers.
		refused string
	}{
		"the honest profile": {},
		"a namespace that is no inventory": {
			change: func(p *clusterinventoryv1alpha1.ClusterProfile, c *clientcmdv1.Cluster) {
				p.Namespace = "tenant"
				victim(c)
			},
			refused: `namespace "tenant" is not an inventory`,
		},
		"the Secret of another cluster": {
			change:  func(_ *clusterinventoryv1alpha1.ClusterProfile, c *clientcmdv1.Cluster) { victim(c) },
			refused: "lists no Secret",
		},
		"a server that is not listed": {
			entry:   func(in *trust.Inventory) { in.Servers = []string{"edge.example.com", "10.0.0.0/8"} },
			refused: "does not list server",
		},
		"a server on another port": {
			entry:   func(in *trust.Inventory) { in.Servers = []string{"127.0.0.1:1"} },
			refused: "does not list server",
		},
		"an access provider that is not listed": {
			entry:   func(in *trust.Inventory) { in.Providers = []string{"another"} },
			refused: `does not list access provider "exec"`,
		},
		"a proxy that is not listed": {
			change:  func(_ *clusterinventoryv1alpha1.ClusterProfile, c *clientcmdv1.Cluster) { c.ProxyURL = proxy.URL },
			refused: "does not list proxy",
		},
		"a name whose address is not listed": {
			change: func(_ *clusterinventoryv1alpha1.ClusterProfile, c *clientcmdv1.Cluster) {
				c.Server = strings.Replace(c.Server, "127.0.0.1", "localhost", 1)
			},
			entry:   func(in *trust.Inventory) { in.Servers = []string{"localhost"} },
			refused: badAddress,
		},
		"a proxy whose address is not listed": {
			change: func(_ *clusterinventoryv1alpha1.ClusterProfile, c *clientcmdv1.Cluster) {
				c.ProxyURL = strings.Replace(proxy.URL, "127.0.0.1", "localhost", 1)
			},
			entry:   func(in *trust.Inventory) { in.Proxies = []string{"localhost"} },
			refused: badAddress,
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSpoke(t)
			entry := trust.Inventory{Namespace: "fleet", Providers: []string{"exec"}, Servers: []string{"127.0.0.1"}, Secrets: []string{"edge"}}
			if tc.entry != nil {
				tc.entry(&entry)
			}
			cluster := s.cluster()
			cluster.Extensions = []clientcmdv1.NamedExtension{extension(extensionConfig, `{"clusterName":"edge"}`)}
			p := profile("p", cluster)
			if tc.change != nil {
				tc.change(p, &p.Status.AccessProviders[0].Cluster)
			}
			ran, err := reached(t, entry, p)
			sent := s.requests.Load() + int64(proxied.Load())
			if tc.refused == "" {
				if err != nil || sent == 0 || !ran {
					t.Fatalf("the honest profile fails: %v", err)
				}
				return
			}
			refuses(t, err, tc.refused)
			// The address of a name is known only once the name is looked up for the first request.
			if sent != 0 || ran && tc.refused != badAddress {
				t.Errorf("%d requests were sent, and a plugin ran: %t", sent, ran)
			}
		})
	}
}

// badAddress is the refusal of an address.
const badAddress = "has an address that the inventory does not permit"

// reached tries to reach the cluster of a profile with one inventory. It reports whether a plugin has run.
func reached(t *testing.T, entry trust.Inventory, p *clusterinventoryv1alpha1.ClusterProfile) (ran bool, failure error) {
	t.Helper()
	permitted, err := trust.NewInventories([]trust.Inventory{entry})
	if err != nil {
		t.Fatal(err)
	}
	script, runs := counting(t, tokenScript(goodToken))
	sessions := NewSessions(providers(plugin(t, script)), options(func(o *Options) { o.Inventories = permitted }))
	t.Cleanup(sessions.Close)
	session, err := sessions.For(p)
	if err == nil {
		_, err = session.Probe(t.Context())
	}
	return runs() > 0, err
}

// refuses checks a refusal, which names no Secret of others.
func refuses(t *testing.T, err error, want string) {
	t.Helper()
	got, ok := errors.AsType[*Error](err)
	if !ok || got.Reason != api.ReasonReferenceNotPermitted || !strings.Contains(got.Message, want) || !strings.Contains(got.Message, "multicluster.inventories") {
		t.Fatalf("error is %v, want %q", err, want)
	}
	if strings.Contains(got.Message, "victim") {
		t.Errorf("the message tells too much: %s", got.Message)
	}
}

// TestInventorySecretNamespace holds that a plugin looks for Secrets where the administrator says, unless the access provider
// says otherwise.
func TestInventorySecretNamespace(t *testing.T) {
	r := specFor("/p")
	r.SecretNamespace = "vault"
	lookup := func(name string) (string, bool) { return "knative-addon", name == "POD_NAMESPACE" }
	env, wrong := r.buildEnvironment(lookup)
	if wrong != nil || !slices.Contains(env, "POD_NAMESPACE=vault") || !slices.Contains(env, "NAMESPACE=vault") {
		t.Errorf("environment is %v, %v", env, wrong)
	}
	r.Env = []clientcmdapi.ExecEnvVar{{Name: "POD_NAMESPACE", Value: "ours"}}
	if env, _ = r.buildEnvironment(lookup); !slices.Contains(env, "POD_NAMESPACE=ours") {
		t.Errorf("the access provider's own value is lost: %v", env)
	}
}

// TestVariablesOfClusterProfiles holds what a ClusterProfile may not set, in any case, and what it may.
func TestVariablesOfClusterProfiles(t *testing.T) {
	for _, name := range []string{
		"LD_PRELOAD", "LD_AUDIT", "DYLD_INSERT_LIBRARIES", "GLIBC_TUNABLES", "GCONV_PATH", "MALLOC_PERTURB_", "RES_OPTIONS", "LOCALDOMAIN",
		"HOSTALIASES", "NLSPATH", "TZDIR", "LOCPATH", "OPENSSL_CONF", "OPENSSL_MODULES", "OPENSSL_ENGINES", "SSL_CERT_FILE", "SSL_CERT_DIR",
		"SSLKEYLOGFILE", "GODEBUG", "GOTRACEBACK", "GOCOVERDIR", "PYTHONPATH", "PYTHONSTARTUP", "NODE_OPTIONS", "PERL5OPT", "PERL5LIB", "RUBYOPT",
		"BASH_ENV", "ENV", "SHELLOPTS", "BASHOPTS", "IFS", "PS4", "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "DOTNET_STARTUP_HOOKS", "KUBECONFIG",
		"KUBERNETES_EXEC_INFO", "KUBERNETES_SERVICE_HOST", "https_proxy", "HTTP_PROXY", "GRPC_PROXY_EXP", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_STS",
		"AWS_EC2_METADATA_SERVICE_ENDPOINT", "AWS_CA_BUNDLE", "AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE",
		"AWS_CONTAINER_CREDENTIALS_FULL_URI", "GOOGLE_APPLICATION_CREDENTIALS", "GOOGLE_EXTERNAL_ACCOUNT_ALLOW_EXECUTABLES", "GCE_METADATA_HOST",
		"CLOUDSDK_API_ENDPOINT_OVERRIDES_CONTAINER", "CLOUDSDK_AUTH_ACCESS_TOKEN_FILE", "AZURE_AUTHORITY_HOST", "AZURE_CONFIG_DIR", "MSI_ENDPOINT",
		"IDENTITY_ENDPOINT", "XDG_CONFIG_HOME", "GIT_SSH_COMMAND", "KRB5_CONFIG", "PATH", "HOME", "TMPDIR", "POD_NAMESPACE", "Ld_Preload",
	} {
		if !isGuardedVariable(name) {
			t.Errorf("a ClusterProfile may set %s", name)
		}
	}
	for _, name := range []string{"AZURE_CLIENT_ID", "AZURE_TENANT_ID", "AWS_REGION", "AWS_PROFILE", "CLUSTER", "ID", "TENANT_NAME"} {
		if isGuardedVariable(name) {
			t.Errorf("a ClusterProfile may not set %s", name)
		}
	}
}

// TestInheritedVariables holds that no ClusterProfile replaces what a plugin has from the manager.
func TestInheritedVariables(t *testing.T) {
	opts := permitting()
	opts.LookupEnv = func(name string) (string, bool) { return "ours", name == "AZURE_CLIENT_ID" }
	for name, tc := range map[string]struct {
		policy                   inventoryaccess.ProfileSourcedEnvVarsPolicy
		variables, want, refused string
	}{
		"AppendIfNotExists keeps what is inherited": {policy: inventoryaccess.ProfileSourcedEnvVarsPolicyAppendIfNotExists, variables: `{"AZURE_CLIENT_ID":"theirs","ID":"1"}`, want: "ID=1"},
		"Replace is refused":                        {policy: inventoryaccess.ProfileSourcedEnvVarsPolicyReplace, variables: `{"AZURE_CLIENT_ID":"theirs"}`, refused: `has from the manager: "AZURE_CLIENT_ID"`},
		"Replace of another":                        {policy: inventoryaccess.ProfileSourcedEnvVarsPolicyReplace, variables: `{"AZURE_TENANT_ID":"theirs"}`, want: "AZURE_TENANT_ID=theirs"},
		"a function of a shell":                     {policy: inventoryaccess.ProfileSourcedEnvVarsPolicyReplace, variables: `{"BASH_FUNC_ls%%":"() { id; }"}`, refused: "no variable can have"},
		"a value that is a function of a shell":     {policy: inventoryaccess.ProfileSourcedEnvVarsPolicyReplace, variables: `{"X":"() { id; }"}`, refused: "no variable can have"},
	} {
		t.Run(name, func(t *testing.T) {
			source := providers("/p", func(p *Provider) { p.ProfileSourcedEnvVarsPolicy = tc.policy })
			r, wrong := newConnectionSpec(source.State(), opts, profile("p", clientcmdv1.Cluster{
				Extensions: []clientcmdv1.NamedExtension{extension(extensionEnvs, tc.variables)},
			}))
			if tc.refused != "" {
				failsWith(t, wrong, tc.refused)
				return
			}
			if wrong != nil || assignments(r.Env) != tc.want {
				t.Errorf("variables are %v, %v, want %s", r, wrong, tc.want)
			}
		})
	}
}

// TestPluginStderr holds that what a plugin prints reaches no error, and the log only where the administrator asks for the
// text.
func TestPluginStderr(t *testing.T) {
	const script = "echo 'login as admin / hunter2pw refused' >&2; echo 'password: hunter3pw' >&2; exit 1"
	var mu sync.Mutex
	var got []string
	for _, report := range []func(provider, command, text string){nil, func(provider, _, text string) {
		mu.Lock()
		defer mu.Unlock()
		got = append(got, provider+": "+text)
	}} {
		s := newSpoke(t)
		session := sessionFor(t, providers(plugin(t, script)), profile("p", s.cluster()), options(func(o *Options) { o.PluginStderr = report }))
		_, err := session.Probe(t.Context())
		if err == nil || strings.Contains(strings.Join(everything(err), "\n"), "hunter") || !strings.Contains(err.Error(), "exit code 1") ||
			!strings.Contains(err.Error(), "--log-plugin-stderr") {
			t.Errorf("the error is %v", err)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if want := []string{"exec: login as admin / hunter2pw refused password: [withheld]"}; !slices.Equal(got, want) {
		t.Errorf("the log has %q, want %q", got, want)
	}
}

// TestMessagesOfHostileProfilesAreShort holds that the author of a profile does not decide how long a condition is, nor how many
// lines a condition has.
func TestMessagesOfHostileProfilesAreShort(t *testing.T) {
	s := newSpoke(t)
	long := strings.Repeat("x\n", 100<<10)
	for name, change := range map[string]func(*clusterinventoryv1alpha1.ClusterProfile){
		"the name for TLS": func(p *clusterinventoryv1alpha1.ClusterProfile) {
			p.Status.AccessProviders[0].Cluster.TLSServerName = strings.Repeat("x", 100<<10) + ".example.com"
		},
		"the cluster manager": func(p *clusterinventoryv1alpha1.ClusterProfile) {
			p.Spec.ClusterManager.Name, p.Status.AccessProviders = long, nil
		},
		"the access provider": func(p *clusterinventoryv1alpha1.ClusterProfile) { p.Status.AccessProviders[0].Name = long },
		"the server": func(p *clusterinventoryv1alpha1.ClusterProfile) {
			p.Status.AccessProviders[0].Cluster.Server = "https://" + strings.Repeat("x", 100<<10)
		},
		"a key for the plugin": func(p *clusterinventoryv1alpha1.ClusterProfile) {
			p.Status.AccessProviders[0].Cluster.Extensions = []clientcmdv1.NamedExtension{extension(extensionConfig, asJSON(t, map[string]string{long[:8<<10]: ""}))}
		},
		"a variable": func(p *clusterinventoryv1alpha1.ClusterProfile) {
			p.Status.AccessProviders[0].Cluster.Extensions = []clientcmdv1.NamedExtension{extension(extensionEnvs, asJSON(t, map[string]string{"LD_" + strings.Repeat("X", 8<<10): ""}))}
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := profile("p", s.cluster())
			change(p)
			permitted, err := trust.NewInventories([]trust.Inventory{{Namespace: "fleet", Providers: []string{"*"}, Servers: []string{"127.0.0.1"}}})
			if err != nil {
				t.Fatal(err)
			}
			source := providers(plugin(t, tokenScript(goodToken)), func(p *Provider) { p.ProfileSourcedEnvVarsPolicy = inventoryaccess.ProfileSourcedEnvVarsPolicyReplace })
			sessions := NewSessions(source, options(func(o *Options) { o.Inventories = permitted }))
			t.Cleanup(sessions.Close)
			session, err := sessions.For(p)
			if err == nil {
				_, err = session.Probe(t.Context())
			}
			if err == nil || len(err.Error()) > 1500 || strings.Contains(err.Error(), "\n") {
				t.Errorf("the message has %d bytes: %.200v", len(err.Error()), err)
			}
		})
	}
}
