// Copyright Contributors to the Open Cluster Management project

package access

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	clientcmdv1 "k8s.io/client-go/tools/clientcmd/api/v1"
	clusterinventoryv1alpha1 "sigs.k8s.io/cluster-inventory-api/apis/v1alpha1"

	"open-cluster-management.io/knative-addon/pkg/api"
)

// Extensions of a profile's access provider.
const (
	// extensionConfig is for the plugin, in the cluster info.
	extensionConfig = "client.authentication.k8s.io/exec"
	// extensionArgs and extensionEnvs are arguments and variables, where the provider's policy allows them.
	extensionArgs = "clusterprofiles.multicluster.x-k8s.io/exec/additional-args"
	extensionEnvs = "clusterprofiles.multicluster.x-k8s.io/exec/additional-envs"
	// maxExtension is how many bytes one may have: they end up in the environment and arguments of a process.
	maxExtension = 16 << 10
)

// recipe is everything that a connection is made from. Nothing in it is shared with another recipe, the file of access
// providers or a profile. Its fields are exported only to be hashed.
type recipe struct {
	// Of the profile.
	Server             string
	CAData             []byte
	TLSServerName      string
	ProxyURL           string
	Insecure           bool
	DisableCompression bool
	// Config is the profile's configuration for the plugin, nil when there is none.
	Config json.RawMessage

	// Of the provider, with what the profile may add.
	Provider           string
	APIVersion         string
	Command            string
	Args               []string
	Env                []EnvVar
	ProvideClusterInfo bool
	InstallHint        string

	// Plugin tells one file of the command from another.
	Plugin string
}

// key is equal for equal recipes.
func (r *recipe) key() string {
	data, err := json.Marshal(r)
	if err != nil {
		// There is nothing in it that JSON does not know.
		panic(err)
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// recipeOf chooses the access provider and puts together what it says with what the profile says.
func recipeOf(state FileState, profile *clusterinventoryv1alpha1.ClusterProfile) (*recipe, *fault) {
	if !state.Configured {
		return nil, &fault{
			reason: api.ReasonMulticlusterDisabled, what: "it needs Direct delivery, and multi-cluster support is disabled",
			next: "set --clusterprofile-provider-file on the add-on's manager to enable it",
		}
	}
	provider, offered := choose(state, profile)
	if provider == nil {
		return nil, notConfigured(state, profile)
	}
	exec := provider.ExecConfig
	r := &recipe{
		Provider: provider.Name, APIVersion: exec.APIVersion, Command: exec.Command, Args: slices.Clone(exec.Args),
		ProvideClusterInfo: exec.ProvideClusterInfo, InstallHint: exec.InstallHint, Plugin: fingerprint(exec.Command),
	}
	if wrong := r.takeCluster(&offered.Cluster); wrong != nil {
		return nil, wrong
	}
	extensions, wrong := readExtensions(provider.Name, offered.Cluster.Extensions)
	if wrong != nil {
		return nil, wrong
	}
	r.Config = extensions[extensionConfig]
	if wrong := r.addArgs(provider.ProfileSourcedCLIArgsPolicy, extensions[extensionArgs]); wrong != nil {
		return nil, wrong
	}
	if wrong := r.addVariables(provider, extensions[extensionEnvs]); wrong != nil {
		return nil, wrong
	}
	return r, nil
}

// choose takes the first provider of the file that the profile offers: the administrator's order counts, as upstream.
func choose(state FileState, profile *clusterinventoryv1alpha1.ClusterProfile) (*Provider, *clusterinventoryv1alpha1.AccessProvider) {
	for i := range state.Providers {
		named := func(p clusterinventoryv1alpha1.AccessProvider) bool { return p.Name == state.Providers[i].Name }
		// What has the new name counts before what still has the deprecated one.
		for _, offered := range [][]clusterinventoryv1alpha1.AccessProvider{profile.Status.AccessProviders, profile.Status.CredentialProviders} {
			if j := slices.IndexFunc(offered, named); j >= 0 {
				return &state.Providers[i], &offered[j]
			}
		}
	}
	return nil, nil
}

func notConfigured(state FileState, profile *clusterinventoryv1alpha1.ClusterProfile) *fault {
	f := &fault{reason: api.ReasonAccessProviderNotConfigured, err: state.Err}
	var offered []string
	for _, p := range slices.Concat(profile.Status.AccessProviders, profile.Status.CredentialProviders) {
		offered = append(offered, p.Name)
	}
	switch {
	case len(offered) == 0:
		f.what, f.err = "it offers no access provider", nil
		f.next = fmt.Sprintf("cluster manager %q has to publish one in status.accessProviders", profile.Spec.ClusterManager.Name)
	case state.Err != nil:
		f.what = "the add-on's manager has no access provider for it: " + state.Err.Error()
		f.next = "correct the file"
	default:
		f.what = "the add-on's manager is configured for none of the access providers that it offers: " + list(offered)
		f.next = "add one of them to the file of --clusterprofile-provider-file"
	}
	return f
}

// takeCluster copies where the cluster is. A CA in a file would be one of ours: a profile does not name those.
func (r *recipe) takeCluster(c *clientcmdv1.Cluster) *fault {
	if c.CertificateAuthority != "" && len(c.CertificateAuthorityData) == 0 {
		return connectionFailed("publish the certificate itself in certificate-authority-data of status.accessProviders",
			"access provider %q names a file as certificate-authority, which is not read", r.Provider)
	}
	r.Server, r.TLSServerName, r.ProxyURL = c.Server, c.TLSServerName, c.ProxyURL
	r.CAData = bytes.Clone(c.CertificateAuthorityData)
	r.Insecure, r.DisableCompression = c.InsecureSkipTLSVerify, c.DisableCompression
	return nil
}

// readExtensions are those that mean something here, in one spelling: an API server may write the keys of an object in
// another order from one time to the next.
func readExtensions(provider string, extensions []clientcmdv1.NamedExtension) (map[string]json.RawMessage, *fault) {
	out := map[string]json.RawMessage{}
	for _, e := range extensions {
		if e.Name != extensionConfig && e.Name != extensionArgs && e.Name != extensionEnvs {
			continue
		}
		where := fmt.Sprintf("extension %s of access provider %q", e.Name, provider)
		next := "correct it in the ClusterProfile's status.accessProviders"
		if _, twice := out[e.Name]; twice {
			return nil, providerFailed(next, "%s stands there twice", where)
		}
		if len(e.Extension.Raw) > maxExtension {
			return nil, providerFailed(next, "%s has more than %d bytes", where, maxExtension)
		}
		value, err := canonical(e.Extension)
		if err != nil {
			return nil, providerFailed(next, "%s is not JSON", where)
		}
		out[e.Name] = value
	}
	return out, nil
}

// canonical is nil for null.
func canonical(e runtime.RawExtension) (json.RawMessage, error) {
	if len(e.Raw) == 0 {
		return nil, nil
	}
	decoder := json.NewDecoder(bytes.NewReader(e.Raw))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return nil, err
	}
	if value == nil {
		return nil, nil
	}
	return json.Marshal(value)
}

// addArgs appends the profile's arguments where the policy is so.
func (r *recipe) addArgs(policy string, extension json.RawMessage) *fault {
	if policy != policyAppend || extension == nil {
		return nil
	}
	var args []string
	if json.Unmarshal(extension, &args) != nil || slices.ContainsFunc(args, holdsNUL) {
		return providerFailed("correct it in the ClusterProfile's status.accessProviders",
			"extension %s of access provider %q is not a list of strings", extensionArgs, r.Provider)
	}
	r.Args = append(r.Args, args...)
	return nil
}

// addVariables sets Env, sorted, to the provider's variables with those that the profile may add.
func (r *recipe) addVariables(provider *Provider, extension json.RawMessage) *fault {
	values := map[string]string{}
	for _, v := range provider.ExecConfig.Env {
		values[v.Name] = v.Value
	}
	policy := provider.ProfileSourcedEnvVarsPolicy
	if extension != nil && (policy == policyAppendIfNotExists || policy == policyReplace) {
		added, wrong := r.profileVariables(extension)
		if wrong != nil {
			return wrong
		}
		for name, value := range added {
			if _, exists := values[name]; !exists || policy == policyReplace {
				values[name] = value
			}
		}
	}
	for name, value := range values {
		r.Env = append(r.Env, EnvVar{Name: name, Value: value})
	}
	slices.SortFunc(r.Env, func(a, b EnvVar) int { return strings.Compare(a.Name, b.Name) })
	return nil
}

func (r *recipe) profileVariables(extension json.RawMessage) (map[string]string, *fault) {
	var added map[string]string
	where := fmt.Sprintf("extension %s of access provider %q", extensionEnvs, r.Provider)
	if json.Unmarshal(extension, &added) != nil {
		return nil, providerFailed("correct it in the ClusterProfile's status.accessProviders",
			"%s is not an object whose values are strings", where)
	}
	var guarded []string
	for name, value := range added {
		if name == "" || strings.ContainsAny(name, "=\x00") || holdsNUL(value) {
			return nil, providerFailed("correct it in the ClusterProfile's status.accessProviders",
				"%s has a name or value that no variable can have", where)
		}
		if guardedVariable(name) {
			guarded = append(guarded, name)
		}
	}
	if len(guarded) > 0 {
		return nil, providerFailed("take them out, or let the administrator set them in execConfig.env of the access provider",
			"%s sets variables that a ClusterProfile may not set: %s", where, list(guarded))
	}
	return added, nil
}

func holdsNUL(s string) bool { return strings.ContainsRune(s, 0) }

// fingerprint tells one file from another without reading it: a plugin is megabytes, and this is asked each time.
func fingerprint(path string) string {
	info, err := os.Stat(path)
	if err != nil {
		return "absent"
	}
	return fmt.Sprintf("%d %s %d", info.Size(), info.Mode(), info.ModTime().UnixNano())
}

// maxListed is how many names a message lists.
const maxListed = 10

// list makes names readable: sorted, each once, quoted, not too many.
func list(names []string) string {
	names = slices.Compact(slices.Sorted(slices.Values(names)))
	var quoted []string
	for _, name := range names[:min(len(names), maxListed)] {
		quoted = append(quoted, strconv.Quote(shorten(name, maxName)))
	}
	out := strings.Join(quoted, ", ")
	if more := len(names) - len(quoted); more > 0 {
		out += fmt.Sprintf(" and %d more", more)
	}
	return out
}

// maxName is how many bytes of a name a message repeats: all of a name that Kubernetes allows.
const maxName = 253

func shorten(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit], "") + "..."
}
