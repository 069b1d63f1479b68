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
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	clientcmdv1 "k8s.io/client-go/tools/clientcmd/api/v1"
	clusterinventoryv1alpha1 "sigs.k8s.io/cluster-inventory-api/apis/v1alpha1"
	inventoryaccess "sigs.k8s.io/cluster-inventory-api/pkg/access"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/message"
	"open-cluster-management.io/knative-addon/pkg/trust"
)

// Extensions of a profile's access provider.
const (
	// extensionConfig is for the plugin, in the cluster info.
	extensionConfig = "client.authentication.k8s.io/exec"
	// extensionArgs and extensionEnvs hold arguments and variables that the provider's policies may allow.
	extensionArgs = "clusterprofiles.multicluster.x-k8s.io/exec/additional-args"
	extensionEnvs = "clusterprofiles.multicluster.x-k8s.io/exec/additional-envs"
	// maxExtension is the number of bytes of one extension, which becomes part of the environment and arguments of a
	// process.
	maxExtension = 16 << 10
)

// connectionSpec holds everything that a connection is made from. No field shares memory with another spec, the file of
// access providers or a profile. The fields are exported only for the hash of connectionKey.
type connectionSpec struct {
	// Of the profile.
	Server             string
	CAData             []byte
	TLSServerName      string
	ProxyURL           string
	Insecure           bool
	DisableCompression bool
	// Config is the profile's configuration for the plugin; nil without a configuration.
	Config json.RawMessage

	// Of the provider, with the arguments and variables of the profile.
	Provider           string
	APIVersion         string
	Command            string
	Args               []string
	Env                []clientcmdapi.ExecEnvVar
	ProvideClusterInfo bool
	InstallHint        string

	// Of the inventory.
	SecretNamespace string
	Servers         trust.Networks
	Proxies         trust.Networks

	// Plugin is the fingerprint of the file of Command.
	Plugin string
}

// connectionKey returns a hash of the spec: equal specs have equal keys.
func (spec *connectionSpec) connectionKey() string {
	data, err := json.Marshal(spec)
	if err != nil {
		// Every field can be encoded as JSON.
		panic(err)
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// newConnectionSpec selects the access provider and merges the provider with the profile. The inventories decide before any
// other value of the profile is used.
func newConnectionSpec(state FileState, opts *Options, profile *clusterinventoryv1alpha1.ClusterProfile) (*connectionSpec, *fault) {
	if !state.Configured {
		return nil, &fault{
			reason: api.ReasonMulticlusterDisabled, problem: "it needs Direct delivery, and multi-cluster support is disabled",
			nextStep: "set chart value multicluster.enabled (flag --clusterprofile-provider-file of the add-on's manager)",
		}
	}
	if !opts.Inventories.Contains(profile.Namespace) {
		return nil, notPermitted(trust.NoInventory(profile.Namespace))
	}
	provider, offered := selectProvider(state, opts, profile)
	if provider == nil {
		return nil, newNotConfiguredFault(state, profile)
	}
	exec := provider.ExecConfig
	spec := &connectionSpec{
		Provider: provider.Name, APIVersion: exec.APIVersion, Command: exec.Command, Args: slices.Clone(exec.Args),
		ProvideClusterInfo: exec.ProvideClusterInfo, InstallHint: exec.InstallHint, Plugin: fingerprintPlugin(exec.Command),
	}
	if failure := spec.copyCluster(&offered.Cluster); failure != nil {
		return nil, failure
	}
	extensions, failure := readExtensions(provider.Name, offered.Cluster.Extensions)
	if failure != nil {
		return nil, failure
	}
	spec.Config = extensions[extensionConfig]
	if failure := spec.applyGrant(opts.Inventories, profile.Namespace); failure != nil {
		return nil, failure
	}
	if failure := spec.appendProfileArgs(provider.ProfileSourcedCLIArgsPolicy, extensions[extensionArgs]); failure != nil {
		return nil, failure
	}
	if failure := spec.mergeVariables(provider, extensions[extensionEnvs], opts.LookupEnv); failure != nil {
		return nil, failure
	}
	return spec, nil
}

// applyGrant asks the inventories for permission and keeps the grant.
func (spec *connectionSpec) applyGrant(inventories trust.Inventories, namespace string) *fault {
	grant, no := inventories.Permit(&trust.Connection{
		Namespace: namespace, Provider: spec.Provider, Server: spec.Server, Proxy: spec.ProxyURL, Config: spec.Config,
	})
	if no != nil {
		return notPermitted(no)
	}
	spec.SecretNamespace, spec.Servers, spec.Proxies = grant.SecretNamespace, grant.Servers, grant.Proxies
	return nil
}

// selectProvider returns the first provider of the file that the profile offers and the inventory permits: the
// administrator's order counts, as in cluster-inventory-api. When the inventory permits none, selectProvider returns the
// first provider that the profile offers, for the refusal.
func selectProvider(state FileState, opts *Options, profile *clusterinventoryv1alpha1.ClusterProfile) (*Provider, *clusterinventoryv1alpha1.AccessProvider) {
	provider, offered := selectPermittedProvider(state, profile, func(name string) bool { return opts.Inventories.PermitsProvider(profile.Namespace, name) })
	if provider != nil {
		return provider, offered
	}
	return selectPermittedProvider(state, profile, func(string) bool { return true })
}

func selectPermittedProvider(
	state FileState, profile *clusterinventoryv1alpha1.ClusterProfile, permits func(string) bool,
) (*Provider, *clusterinventoryv1alpha1.AccessProvider) {
	for i := range state.Providers {
		if !permits(state.Providers[i].Name) {
			continue
		}
		named := func(p clusterinventoryv1alpha1.AccessProvider) bool { return p.Name == state.Providers[i].Name }
		// An entry of the current field counts before an entry of the deprecated field.
		for _, offered := range [][]clusterinventoryv1alpha1.AccessProvider{profile.Status.AccessProviders, profile.Status.CredentialProviders} {
			if j := slices.IndexFunc(offered, named); j >= 0 {
				return &state.Providers[i], &offered[j]
			}
		}
	}
	return nil, nil
}

func newNotConfiguredFault(state FileState, profile *clusterinventoryv1alpha1.ClusterProfile) *fault {
	f := &fault{reason: api.ReasonAccessProviderNotConfigured, err: state.Err}
	var offered []string
	for _, p := range slices.Concat(profile.Status.AccessProviders, profile.Status.CredentialProviders) {
		offered = append(offered, p.Name)
	}
	switch {
	case len(offered) == 0:
		f.problem, f.err = "it offers no access provider", nil
		f.nextStep = fmt.Sprintf("cluster manager %q has to publish one in status.accessProviders", message.Shorten(profile.Spec.ClusterManager.Name, message.MaxName))
	case state.Err != nil:
		f.problem = "the add-on's manager has no access provider for it: " + state.Err.Error()
		f.nextStep = "correct the file"
	default:
		f.problem = "the add-on's manager is configured for none of the access providers that it offers: " + message.QuotedList(offered)
		f.nextStep = "add one of them to the file of --clusterprofile-provider-file"
	}
	return f
}

// copyCluster copies the address and the TLS settings of the cluster. A CA file would be a file of the manager: a profile
// may not name files of the manager.
func (spec *connectionSpec) copyCluster(c *clientcmdv1.Cluster) *fault {
	if c.CertificateAuthority != "" && len(c.CertificateAuthorityData) == 0 {
		return connectionFailed("publish the certificate itself in certificate-authority-data of status.accessProviders",
			"access provider %q names a file as certificate-authority, which is not read", spec.Provider)
	}
	spec.Server, spec.TLSServerName, spec.ProxyURL = c.Server, c.TLSServerName, c.ProxyURL
	spec.CAData = bytes.Clone(c.CertificateAuthorityData)
	spec.Insecure, spec.DisableCompression = c.InsecureSkipTLSVerify, c.DisableCompression
	return nil
}

// readExtensions returns the known extensions as canonical JSON: an API server may change the order of the keys of an
// object from one read to the next.
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
		value, err := canonicalJSON(e.Extension)
		if err != nil {
			return nil, providerFailed(next, "%s is not JSON", where)
		}
		out[e.Name] = value
	}
	return out, nil
}

// canonicalJSON returns the value with sorted keys, and nil for null.
func canonicalJSON(e runtime.RawExtension) (json.RawMessage, error) {
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

// appendProfileArgs appends the profile's arguments where the policy is so.
func (spec *connectionSpec) appendProfileArgs(policy inventoryaccess.ProfileSourcedCLIArgsPolicy, extension json.RawMessage) *fault {
	if policy != inventoryaccess.ProfileSourcedCLIArgsPolicyAppend || extension == nil {
		return nil
	}
	var args []string
	if json.Unmarshal(extension, &args) != nil || slices.ContainsFunc(args, containsNUL) {
		return providerFailed("correct it in the ClusterProfile's status.accessProviders",
			"extension %s of access provider %q is not a list of strings", extensionArgs, spec.Provider)
	}
	spec.Args = append(spec.Args, args...)
	return nil
}

// mergeVariables sets Env, sorted, to the provider's variables and the variables that the profile may add. A variable that
// the plugin inherits from the manager exists already, and no policy lets a profile replace the value.
func (spec *connectionSpec) mergeVariables(provider *Provider, extension json.RawMessage, lookup func(string) (string, bool)) *fault {
	values := map[string]string{}
	for _, v := range provider.ExecConfig.Env {
		values[v.Name] = v.Value
	}
	policy := provider.ProfileSourcedEnvVarsPolicy
	if extension != nil && (policy == inventoryaccess.ProfileSourcedEnvVarsPolicyAppendIfNotExists || policy == inventoryaccess.ProfileSourcedEnvVarsPolicyReplace) {
		added, failure := spec.parseProfileVariables(extension)
		if failure != nil {
			return failure
		}
		inherited := findInheritedVariables(added, lookup)
		if len(inherited) > 0 && policy == inventoryaccess.ProfileSourcedEnvVarsPolicyReplace {
			return providerFailed("take them out, or let the administrator set them in execConfig.env of the access provider",
				"extension %s of access provider %q sets variables that the plugin has from the manager: %s", extensionEnvs, spec.Provider, message.QuotedList(inherited))
		}
		for name, value := range added {
			_, exists := values[name]
			if policy == inventoryaccess.ProfileSourcedEnvVarsPolicyReplace || !exists && !slices.Contains(inherited, name) {
				values[name] = value
			}
		}
	}
	for name, value := range values {
		spec.Env = append(spec.Env, clientcmdapi.ExecEnvVar{Name: name, Value: value})
	}
	slices.SortFunc(spec.Env, func(a, b clientcmdapi.ExecEnvVar) int { return strings.Compare(a.Name, b.Name) })
	return nil
}

func (spec *connectionSpec) parseProfileVariables(extension json.RawMessage) (map[string]string, *fault) {
	var added map[string]string
	where := fmt.Sprintf("extension %s of access provider %q", extensionEnvs, spec.Provider)
	if json.Unmarshal(extension, &added) != nil {
		return nil, providerFailed("correct it in the ClusterProfile's status.accessProviders",
			"%s is not an object whose values are strings", where)
	}
	var guarded []string
	for name, value := range added {
		if !variableName.MatchString(name) || containsNUL(value) || strings.HasPrefix(value, "()") {
			return nil, providerFailed("correct it in the ClusterProfile's status.accessProviders",
				"%s has a name or value that no variable can have", where)
		}
		if isGuardedVariable(name) {
			guarded = append(guarded, name)
		}
	}
	if len(guarded) > 0 {
		return nil, providerFailed("take them out, or let the administrator set them in execConfig.env of the access provider",
			"%s sets variables that a ClusterProfile may not set: %s", where, message.QuotedList(guarded))
	}
	return added, nil
}

func containsNUL(s string) bool { return strings.ContainsRune(s, 0) }

// fingerprintPlugin identifies the file of a plugin without reading megabytes for each call: size, mode and modification
// time.
func fingerprintPlugin(path string) string {
	info, err := os.Stat(path)
	if err != nil {
		return "absent"
	}
	return fmt.Sprintf("%d %s %d", info.Size(), info.Mode(), info.ModTime().UnixNano())
}
