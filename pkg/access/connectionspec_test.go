// Copyright Contributors to the Open Cluster Management project

package access

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	clientcmdv1 "k8s.io/client-go/tools/clientcmd/api/v1"
	clusterinventoryv1alpha1 "sigs.k8s.io/cluster-inventory-api/apis/v1alpha1"
	inventoryaccess "sigs.k8s.io/cluster-inventory-api/pkg/access"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/trust"
)

func TestChoiceOfAccessProvider(t *testing.T) {
	offer := func(name, server string) clusterinventoryv1alpha1.AccessProvider {
		return clusterinventoryv1alpha1.AccessProvider{Name: name, Cluster: clientcmdv1.Cluster{Server: server}}
	}
	configured := FileState{Configured: true}
	for _, name := range []string{"a", "b"} {
		configured.Providers = append(configured.Providers, Provider{Name: name, ExecConfig: &clientcmdapi.ExecConfig{APIVersion: execV1, Command: "/" + name}})
	}
	bad := configured
	bad.Err = fmt.Errorf("cannot use file x")
	cases := map[string]struct {
		state              FileState
		access, deprecated []clusterinventoryv1alpha1.AccessProvider
		// want is the provider with the server, or the reason with what the message tells.
		want, tells string
	}{
		"the first of the file that the profile offers": {
			state:  configured,
			access: []clusterinventoryv1alpha1.AccessProvider{offer("c", "c"), offer("b", "1"), offer("a", "2")}, want: "a 2",
		},
		"the only one of both": {state: configured, access: []clusterinventoryv1alpha1.AccessProvider{offer("b", "1")}, want: "b 1"},
		"the deprecated field": {state: configured, deprecated: []clusterinventoryv1alpha1.AccessProvider{offer("b", "1")}, want: "b 1"},
		"the new field before the deprecated one": {
			state: configured, access: []clusterinventoryv1alpha1.AccessProvider{offer("a", "new")},
			deprecated: []clusterinventoryv1alpha1.AccessProvider{offer("a", "old")}, want: "a new",
		},
		"the file's order before that of the fields": {
			state: configured, access: []clusterinventoryv1alpha1.AccessProvider{offer("b", "new")},
			deprecated: []clusterinventoryv1alpha1.AccessProvider{offer("a", "old")}, want: "a old",
		},
		"a bad file with a good one before": {state: bad, access: []clusterinventoryv1alpha1.AccessProvider{offer("b", "1")}, want: "b 1"},
		"no file": {
			access: []clusterinventoryv1alpha1.AccessProvider{offer("a", "1")},
			want:   api.ReasonMulticlusterDisabled, tells: "--clusterprofile-provider-file",
		},
		"a profile that offers nothing": {state: configured, want: api.ReasonAccessProviderNotConfigured, tells: `cluster manager "by-hand" has to publish one`},
		"a profile that offers others": {
			state: configured, access: []clusterinventoryv1alpha1.AccessProvider{offer("z", "1"), offer("y", "2")},
			deprecated: []clusterinventoryv1alpha1.AccessProvider{offer("z", "1")},
			want:       api.ReasonAccessProviderNotConfigured, tells: `: "y", "z"; add one of them`,
		},
		"a file that never was good": {
			state:  FileState{Configured: true, Err: fmt.Errorf("cannot use file x")},
			access: []clusterinventoryv1alpha1.AccessProvider{offer("a", "1")}, want: api.ReasonAccessProviderNotConfigured, tells: "cannot use file x",
		},
		"a bad file, and a provider that was not in the good one": {
			state: bad, access: []clusterinventoryv1alpha1.AccessProvider{offer("c", "1")}, want: api.ReasonAccessProviderNotConfigured, tells: "cannot use file x",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			p := profile("p", clientcmdv1.Cluster{})
			p.Status.AccessProviders, p.Status.CredentialProviders = tc.access, tc.deprecated
			r, wrong := newConnectionSpec(tc.state, permitting(), p)
			if wrong == nil {
				if got := r.Provider + " " + r.Server; got != tc.want {
					t.Errorf("got %s, want %s", got, tc.want)
				}
				return
			}
			if wrong.reason != tc.want || !strings.Contains(wrong.Error(), tc.tells) {
				t.Errorf("got %s: %s; want %s with %q", wrong.reason, wrong, tc.want, tc.tells)
			}
		})
	}
}

func TestPolicies(t *testing.T) {
	base := []clientcmdapi.ExecEnvVar{{Name: "A", Value: "ours"}, {Name: "B", Value: "ours"}}
	args, envs := extension(extensionArgs, `["--x","--y"]`), extension(extensionEnvs, `{"C":"theirs","B":"theirs"}`)
	cases := map[string]struct {
		argsPolicy inventoryaccess.ProfileSourcedCLIArgsPolicy
		envPolicy  inventoryaccess.ProfileSourcedEnvVarsPolicy
		extensions []clientcmdv1.NamedExtension
		wantArgs   []string
		wantEnv    string
		wantErr    string
	}{
		"none ignores":                    {extensions: []clientcmdv1.NamedExtension{args, envs}, wantArgs: []string{"base"}, wantEnv: "A=ours B=ours"},
		"Ignore ignores":                  {argsPolicy: "Ignore", envPolicy: "Ignore", extensions: []clientcmdv1.NamedExtension{args, envs}, wantArgs: []string{"base"}, wantEnv: "A=ours B=ours"},
		"Append appends":                  {argsPolicy: "Append", extensions: []clientcmdv1.NamedExtension{args, envs}, wantArgs: []string{"base", "--x", "--y"}, wantEnv: "A=ours B=ours"},
		"AppendIfNotExists keeps ours":    {envPolicy: "AppendIfNotExists", extensions: []clientcmdv1.NamedExtension{args, envs}, wantArgs: []string{"base"}, wantEnv: "A=ours B=ours C=theirs"},
		"Replace takes theirs":            {envPolicy: "Replace", extensions: []clientcmdv1.NamedExtension{envs}, wantArgs: []string{"base"}, wantEnv: "A=ours B=theirs C=theirs"},
		"nothing offered changes nothing": {argsPolicy: "Append", envPolicy: "Replace", wantArgs: []string{"base"}, wantEnv: "A=ours B=ours"},
		"null is nothing": {
			argsPolicy: "Append", envPolicy: "Replace", wantArgs: []string{"base"}, wantEnv: "A=ours B=ours",
			extensions: []clientcmdv1.NamedExtension{extension(extensionArgs, `null`), extension(extensionEnvs, ` null `)},
		},
		"arguments that are no list":         {argsPolicy: "Append", extensions: []clientcmdv1.NamedExtension{extension(extensionArgs, `"--s3cr3t"`)}, wantErr: "not a list of strings"},
		"arguments that are no strings":      {argsPolicy: "Append", extensions: []clientcmdv1.NamedExtension{extension(extensionArgs, `[1]`)}, wantErr: "not a list of strings"},
		"arguments with a NUL":               {argsPolicy: "Append", extensions: []clientcmdv1.NamedExtension{extension(extensionArgs, `["s3cr3t\u0000"]`)}, wantErr: "not a list of strings"},
		"variables that are no object":       {envPolicy: "Replace", extensions: []clientcmdv1.NamedExtension{extension(extensionEnvs, `["s3cr3t"]`)}, wantErr: "not an object"},
		"variables that are no strings":      {envPolicy: "Replace", extensions: []clientcmdv1.NamedExtension{extension(extensionEnvs, `{"A":1}`)}, wantErr: "not an object"},
		"a variable with = in its name":      {envPolicy: "Replace", extensions: []clientcmdv1.NamedExtension{extension(extensionEnvs, `{"A=s3cr3t":""}`)}, wantErr: "no variable can have"},
		"a variable without name":            {envPolicy: "Replace", extensions: []clientcmdv1.NamedExtension{extension(extensionEnvs, `{"":"s3cr3t"}`)}, wantErr: "no variable can have"},
		"a variable with a NUL":              {envPolicy: "Replace", extensions: []clientcmdv1.NamedExtension{extension(extensionEnvs, `{"A":"s3cr3t\u0000"}`)}, wantErr: "no variable can have"},
		"variables of the plugin's process":  {envPolicy: "AppendIfNotExists", extensions: []clientcmdv1.NamedExtension{extension(extensionEnvs, `{"LD_PRELOAD":"s3cr3t","https_proxy":"s3cr3t","OK":""}`)}, wantErr: `may not set: "LD_PRELOAD", "https_proxy"`},
		"an extension that is there twice":   {extensions: []clientcmdv1.NamedExtension{args, args}, wantErr: "twice"},
		"an extension that is not JSON":      {extensions: []clientcmdv1.NamedExtension{extension(extensionConfig, `{s3cr3t`)}, wantErr: "not JSON"},
		"an extension that is too long":      {extensions: []clientcmdv1.NamedExtension{extension(extensionConfig, `"`+strings.Repeat("x", maxExtension)+`"`)}, wantErr: "more than"},
		"an extension of others is no error": {extensions: []clientcmdv1.NamedExtension{extension("other", `{`), extension("other", `{`)}, wantArgs: []string{"base"}, wantEnv: "A=ours B=ours"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			source := providers("/p", func(p *Provider) {
				p.ExecConfig.Args, p.ExecConfig.Env = []string{"base"}, base
				p.ProfileSourcedCLIArgsPolicy, p.ProfileSourcedEnvVarsPolicy = tc.argsPolicy, tc.envPolicy
			})
			r, wrong := newConnectionSpec(source.State(), permitting(), profile("p", clientcmdv1.Cluster{Extensions: tc.extensions}))
			if tc.wantErr != "" {
				failsWith(t, wrong, tc.wantErr)
				return
			}
			if wrong != nil {
				t.Fatal(wrong)
			}
			if diff := cmp.Diff(tc.wantArgs, r.Args); diff != "" {
				t.Errorf("arguments: -want, +got:\n%s", diff)
			}
			if got := assignments(r.Env); got != tc.wantEnv {
				t.Errorf("variables: got %s, want %s", got, tc.wantEnv)
			}
		})
	}
}

// failsWith wants a fault of the access provider.
func failsWith(t *testing.T, wrong *fault, want string) {
	t.Helper()
	if wrong == nil || wrong.reason != api.ReasonAccessProviderFailed || !strings.Contains(wrong.Error(), want) {
		t.Fatalf("got %v, want %s with %q", wrong, api.ReasonAccessProviderFailed, want)
	}
	if !strings.Contains(wrong.Error(), `access provider "exec"`) || strings.Contains(wrong.Error(), "s3cr3t") {
		t.Errorf("%q does not name the provider, or names a secret", wrong)
	}
}

func assignments(variables []clientcmdapi.ExecEnvVar) string {
	var out []string
	for _, v := range variables {
		out = append(out, v.Name+"="+v.Value)
	}
	return strings.Join(out, " ")
}

func TestGuardedVariables(t *testing.T) {
	for _, name := range []string{
		"PATH", "HOME", "LD_PRELOAD", "LD_LIBRARY_PATH", "KUBECONFIG", "KUBERNETES_SERVICE_HOST", execInfo, "https_proxy", "NO_PROXY",
		"SSL_CERT_FILE", "BASH_ENV", "PYTHONPATH", "NODE_OPTIONS", "AWS_CONFIG_FILE", "AZURE_AUTHORITY_HOST", "NAMESPACE",
		"GOOGLE_APPLICATION_CREDENTIALS", "AWS_ENDPOINT_URL_STS",
	} {
		if !isGuardedVariable(name) {
			t.Errorf("a profile may set %s", name)
		}
	}
	for _, name := range []string{"AZURE_CLIENT_ID", "AWS_REGION", "AWS_ROLE_ARN", "CLUSTER", "AAD_LOGIN_METHOD"} {
		if isGuardedVariable(name) {
			t.Errorf("a profile may not set %s", name)
		}
	}
}

// TestNothingLeaksBetweenProfiles holds what upstream does not: with every policy on, each of many profiles that are read
// at once gets its own arguments and variables, whatever came before.
func TestNothingLeaksBetweenProfiles(t *testing.T) {
	for _, policy := range []inventoryaccess.ProfileSourcedEnvVarsPolicy{inventoryaccess.ProfileSourcedEnvVarsPolicyAppendIfNotExists, inventoryaccess.ProfileSourcedEnvVarsPolicyReplace} {
		t.Run(string(policy), func(t *testing.T) {
			// Spare capacity is where an append would write for all.
			args := append(make([]string, 0, 64), "base")
			source := providers("/p", func(p *Provider) {
				p.ExecConfig.Args, p.ExecConfig.Env = args, append(make([]clientcmdapi.ExecEnvVar, 0, 64), clientcmdapi.ExecEnvVar{Name: "BASE", Value: "ours"})
				p.ExecConfig.ProvideClusterInfo = true
				p.ProfileSourcedCLIArgsPolicy, p.ProfileSourcedEnvVarsPolicy = inventoryaccess.ProfileSourcedCLIArgsPolicyAppend, policy
			})
			before := asJSON(t, source.State().Providers)
			var all sync.WaitGroup
			for i := range 100 {
				all.Go(func() { getsItsOwn(t, source.State(), fmt.Sprintf("profile-%d", i)) })
			}
			all.Wait()
			if got := asJSON(t, source.State().Providers); got != before {
				t.Errorf("the file's providers were changed to %s", got)
			}
			if got := args[:2][1]; got != "" {
				t.Errorf("%q was written behind the file's arguments", got)
			}
		})
	}
}

// getsItsOwn reads a profile again and again.
func getsItsOwn(t *testing.T, state FileState, id string) {
	t.Helper()
	p := profile(id, clientcmdv1.Cluster{
		Server: "https://" + id, Extensions: []clientcmdv1.NamedExtension{
			extension(extensionArgs, `["`+id+`"]`), extension(extensionEnvs, `{"ID":"`+id+`"}`),
			extension(extensionConfig, `{"clusterName":"`+id+`"}`),
		},
	})
	unchanged := asJSON(t, p)
	for range 20 {
		r, wrong := newConnectionSpec(state, permitting(), p)
		if wrong != nil {
			t.Error(wrong)
			return
		}
		if !slices.Equal(r.Args, []string{"base", id}) || assignments(r.Env) != "BASE=ours ID="+id {
			t.Errorf("%s got arguments %v and variables %v", id, r.Args, r.Env)
		}
		info, wrong := r.encodeExecInfo()
		if wrong != nil || !strings.Contains(info, `"config":{"clusterName":"`+id+`"}`) || strings.Count(info, "profile-") != 2 {
			t.Errorf("%s is asked for as %s, %v", id, info, wrong)
		}
		// What a caller does to its own may not come back to another.
		r.Args[0], r.Env[0].Value = id, id
	}
	if got := asJSON(t, p); got != unchanged {
		t.Errorf("the profile was changed to %s", got)
	}
}

// TestKeyHasEveryField holds that sessions are replaced when anything changes that they are made from.
func TestKeyHasEveryField(t *testing.T) {
	base := connectionSpec{}
	seen := map[string]string{base.connectionKey(): "nothing"}
	for i := range reflect.TypeFor[connectionSpec]().NumField() {
		changed := connectionSpec{}
		field := reflect.ValueOf(&changed).Elem().Field(i)
		name := reflect.TypeFor[connectionSpec]().Field(i).Name
		switch field.Interface().(type) {
		case string:
			field.SetString("x")
		case bool:
			field.SetBool(true)
		case []byte:
			field.SetBytes([]byte("x"))
		case json.RawMessage:
			field.Set(reflect.ValueOf(json.RawMessage(`"x"`)))
		case []string:
			field.Set(reflect.ValueOf([]string{"x"}))
		case trust.Networks:
			field.Set(reflect.ValueOf(trust.Networks{netip.MustParsePrefix("10.0.0.0/8")}))
		case []clientcmdapi.ExecEnvVar:
			field.Set(reflect.ValueOf([]clientcmdapi.ExecEnvVar{{Name: "x"}}))
		default:
			t.Fatalf("the test does not know how to change %s", name)
		}
		if other, equal := seen[changed.connectionKey()]; equal {
			t.Errorf("a change of %s is as good as one of %s", name, other)
		}
		seen[changed.connectionKey()] = name
	}
}

func TestKeyIsThatOfTheMeaning(t *testing.T) {
	key := func(raw string, change ...func(*Provider)) string {
		t.Helper()
		r, wrong := newConnectionSpec(providers("/p", change...).State(), permitting(), profile("p", clientcmdv1.Cluster{
			Server: "https://a", Extensions: []clientcmdv1.NamedExtension{extension(extensionConfig, raw)},
		}))
		if wrong != nil {
			t.Fatal(wrong)
		}
		return r.connectionKey()
	}
	if key(`{"a":1,"b":{"c":12345678901234567890}}`) != key(` { "b" : {"c":12345678901234567890}, "a":1}`) {
		t.Error("the order of keys makes another session")
	}
	if key(`{"a":12345678901234567890}`) == key(`{"a":12345678901234567891}`) {
		t.Error("long numbers are cut")
	}
	env := func(names ...string) func(*Provider) {
		return func(p *Provider) {
			for _, name := range names {
				p.ExecConfig.Env = append(p.ExecConfig.Env, clientcmdapi.ExecEnvVar{Name: name})
			}
		}
	}
	if key(`1`, env("A", "B", "C")) != key(`1`, env("C", "B", "A")) {
		t.Error("the order of variables makes another session")
	}
	if key(`null`) == key(`{}`) {
		t.Error("no configuration is as good as an empty one")
	}
}

func TestKeyFollowsThePluginsFile(t *testing.T) {
	path := plugin(t, "true")
	seen := map[string]bool{fingerprintPlugin(path): true}
	changed := func(how string) {
		t.Helper()
		if f := fingerprintPlugin(path); seen[f] {
			t.Errorf("%s: the fingerprint is %s again", how, f)
		} else {
			seen[f] = true
		}
	}
	writePlugin(t, path, "echo longer")
	changed("another size")
	if err := os.Chtimes(path, time.Time{}, time.Unix(1000, 0)); err != nil {
		t.Fatal(err)
	}
	changed("another time")
	if err := os.Chmod(path, 0o600); err != nil {
		t.Fatal(err)
	}
	changed("another mode")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	changed("gone")
}

// TestEndpoints is about what profiles say of the server.
func TestEndpoints(t *testing.T) {
	ca := issue(t, nil, nil).pem
	const secret = "s3cr3t"
	cases := map[string]struct {
		cluster clientcmdv1.Cluster
		opts    Options
		// want is part of the error; empty means that there is none.
		want string
	}{
		"https with a CA":               {cluster: clientcmdv1.Cluster{Server: "https://a:6443", CertificateAuthorityData: ca}},
		"https with a path":             {cluster: clientcmdv1.Cluster{Server: "https://a/v1/projects/1"}},
		"a proxy":                       {cluster: clientcmdv1.Cluster{Server: "https://a", ProxyURL: "socks5://user:s3cr3t@proxy:1080"}},
		"a CA in a file beside the CA":  {cluster: clientcmdv1.Cluster{Server: "https://a", CertificateAuthorityData: ca, CertificateAuthority: "/etc/ca"}},
		"plain http where allowed":      {cluster: clientcmdv1.Cluster{Server: "http://a"}, opts: Options{AllowPlainHTTP: true}},
		"insecure where allowed":        {cluster: clientcmdv1.Cluster{Server: "https://a", InsecureSkipTLSVerify: true}, opts: Options{AllowInsecureTLS: true}},
		"plain http":                    {cluster: clientcmdv1.Cluster{Server: "http://a"}, opts: Options{AllowInsecureTLS: true}, want: "--allow-plain-http"},
		"insecure":                      {cluster: clientcmdv1.Cluster{Server: "https://a", InsecureSkipTLSVerify: true}, opts: Options{AllowPlainHTTP: true}, want: "--allow-insecure-tls"},
		"no server":                     {want: "has no server"},
		"a server without scheme":       {cluster: clientcmdv1.Cluster{Server: "a:6443"}, want: "https://"},
		"a server that is no URL":       {cluster: clientcmdv1.Cluster{Server: "https://user:s3cr3t@a:port"}, want: "https://"},
		"a server without host":         {cluster: clientcmdv1.Cluster{Server: "https://:6443"}, want: "https://"},
		"a server with user":            {cluster: clientcmdv1.Cluster{Server: "https://user:s3cr3t@a"}, want: "user, query or fragment"},
		"a server with query":           {cluster: clientcmdv1.Cluster{Server: "https://a?token=s3cr3t"}, want: "user, query or fragment"},
		"a CA that is not PEM":          {cluster: clientcmdv1.Cluster{Server: "https://a", CertificateAuthorityData: []byte("LS0t")}, want: "holds no certificate"},
		"a CA that is too long":         {cluster: clientcmdv1.Cluster{Server: "https://a", CertificateAuthorityData: slices.Concat(ca, make([]byte, maxCA))}, want: "holds no certificate"},
		"a CA in a file":                {cluster: clientcmdv1.Cluster{Server: "https://a", CertificateAuthority: "/var/run/s"}, want: "names a file"},
		"a proxy that is no URL":        {cluster: clientcmdv1.Cluster{Server: "https://a", ProxyURL: "http://user:s3cr3t@proxy:port"}, want: "proxy-url"},
		"a proxy of an unknown kind":    {cluster: clientcmdv1.Cluster{Server: "https://a", ProxyURL: "ftp://user:s3cr3t@proxy"}, want: "proxy-url"},
		"a proxy without scheme and so": {cluster: clientcmdv1.Cluster{Server: "https://a", ProxyURL: "proxy"}, want: "proxy-url"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			tc.opts.Inventories = inventories("fleet", "*")
			_, err := NewSessions(providers("/p"), tc.opts).For(profile("p", tc.cluster))
			if tc.want == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			got, ok := errors.AsType[*Error](err)
			if !ok || got.Reason != api.ReasonRemoteClientCreationFailed || !strings.Contains(got.Message, tc.want) {
				t.Fatalf("got %v, want %s with %q", err, api.ReasonRemoteClientCreationFailed, tc.want)
			}
			if !strings.HasPrefix(got.Message, "ClusterProfile fleet/p: ") || strings.Contains(got.Message, secret) {
				t.Errorf("message %q does not name the profile, or names a secret", got.Message)
			}
		})
	}
}

func TestExtensionsWithoutValueAreNothing(t *testing.T) {
	got, err := canonicalJSON(runtime.RawExtension{})
	if got != nil || err != nil {
		t.Errorf("got %s, %v", got, err)
	}
}
