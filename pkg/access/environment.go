// Copyright Contributors to the Open Cluster Management project

package access

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientauthv1 "k8s.io/client-go/pkg/apis/clientauthentication/v1"
)

// execInfo is the environment variable that holds the request for a credential.
const execInfo = "KUBERNETES_EXEC_INFO"

// maxVariable is the length that Linux permits for one variable (MAX_ARG_STRLEN), including the name and the final NUL.
const maxVariable = 128 << 10

// inheritedVariables lists the variables of the manager that a plugin receives: how to run, how to reach the hub and the
// world, and the workload identities of clouds. Every value is a name, an address or the path of a file. Static secrets of the
// manager, such as AWS_SECRET_ACCESS_KEY, are not inherited: an administrator who wants a plugin to have a secret sets the
// variable in execConfig.env.
func inheritedVariables() []string {
	return []string{
		"PATH", "HOME", "TMPDIR", "LANG", "TZ",
		"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "no_proxy", "all_proxy",
		"SSL_CERT_FILE", "SSL_CERT_DIR",
		"KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT", "KUBERNETES_SERVICE_PORT_HTTPS",
		// cp-creds of OCM's managed-serviceaccount reads the namespace of the Secrets from these variables.
		"NAMESPACE", "POD_NAMESPACE",
		"AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ROLE_ARN", "AWS_ROLE_SESSION_NAME", "AWS_WEB_IDENTITY_TOKEN_FILE",
		"AWS_STS_REGIONAL_ENDPOINTS", "AWS_CONTAINER_CREDENTIALS_FULL_URI", "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE",
		"AZURE_CLIENT_ID", "AZURE_TENANT_ID", "AZURE_AUTHORITY_HOST", "AZURE_FEDERATED_TOKEN_FILE",
		"GOOGLE_APPLICATION_CREDENTIALS", "GOOGLE_CLOUD_PROJECT", "GCE_METADATA_HOST", "CLOUDSDK_CONFIG",
	}
}

// isGuardedVariable reports whether a profile may not set a variable, whatever the policy: guarded variables decide which
// code the plugin's process loads, which certificates the process trusts, which files the process reads, and to which
// servers the process sends the manager's identity.
func isGuardedVariable(name string) bool {
	upper := strings.ToUpper(name)
	hasPrefix := func(prefix string) bool { return strings.HasPrefix(upper, prefix) }
	hasPart := func(part string) bool { return strings.Contains(upper, part) }
	return slices.Contains(guardedNames(), upper) || slices.ContainsFunc(guardedPrefixes(), hasPrefix) ||
		slices.ContainsFunc(guardedParts(), hasPart) || strings.HasSuffix(upper, "_FILE") || strings.HasSuffix(upper, "_DIR")
}

// guardedNames lists, in upper case, the variables that loaders, libc, shells, interpreters and clouds' libraries obey,
// including the variables that glibc drops for programs that gain rights, and that sudo drops.
func guardedNames() []string {
	return []string{
		"PATH", "HOME", "TMPDIR", "TMP", "TEMP", "NAMESPACE", "POD_NAMESPACE", "USER", "LOGNAME", "SHELL",
		"GCONV_PATH", "LOCPATH", "NLSPATH", "NIS_PATH", "TZDIR", "HOSTALIASES", "LOCALDOMAIN", "RES_OPTIONS", "RESOLV_HOST_CONF",
		"LIBPATH", "SHLIB_PATH", "PATH_LOCALE", "TERMINFO", "TERMINFO_DIRS", "TERMCAP", "TERMPATH",
		"ENV", "BASHOPTS", "SHELLOPTS", "IFS", "CDPATH", "GLOBIGNORE", "PS4", "PROMPT_COMMAND", "FPATH", "NULLCMD", "READNULLCMD", "ZDOTDIR",
		"EDITOR", "VISUAL", "PAGER", "BROWSER", "GODEBUG", "GOTRACEBACK", "GOCOVERDIR", "GORACE", "GOGC", "GOMEMLIMIT", "GOMAXPROCS",
		"SSLKEYLOGFILE", "_JAVA_OPTIONS", "CLASSPATH", "PHPRC",
		"GOOGLE_APPLICATION_CREDENTIALS", "GOOGLE_EXTERNAL_ACCOUNT_ALLOW_EXECUTABLES", "AZURE_AUTHORITY_HOST",
	}
}

// guardedPrefixes returns prefixes, in upper case, of guarded variables.
func guardedPrefixes() []string {
	return []string{
		"LD_", "DYLD_", "_RLD", "GLIBC_", "MALLOC_", "BASH_", "OPENSSL_", "SSL_", "KRB5", "KUBE", "PYTHON", "PERL", "RUBY", "GEM_", "BUNDLE_",
		"NODE_", "NPM_", "JAVA_", "JDK_", "DOTNET_", "CORECLR_", "COMPLUS_", "LUA_", "ERL_", "GIT_", "SSH_", "XDG_", "GRPC_", "OTEL_",
		"AWS_CONTAINER_", "CLOUDSDK_",
	}
}

// guardedParts returns parts, in upper case, of variables that name the peers, certificates and configurations of programs.
func guardedParts() []string {
	return []string{"PROXY", "ENDPOINT", "METADATA_", "CA_BUNDLE", "CA_CERT", "CONFIG"}
}

// variableName matches the names that a profile's variables may have. Shells take other names for functions.
var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// findInheritedVariables returns which of the variables a plugin has from the manager.
func findInheritedVariables(variables map[string]string, lookup func(string) (string, bool)) []string {
	var out []string
	for _, name := range inheritedVariables() {
		_, sets := variables[name]
		if _, has := lookup(name); sets && has {
			out = append(out, name)
		}
	}
	return out
}

// buildEnvironment returns the environment of the plugin, sorted. Each variable is set once: programs differ in which of
// two values counts.
func (spec *connectionSpec) buildEnvironment(lookup func(string) (string, bool)) ([]string, *fault) {
	info, failure := spec.encodeExecInfo()
	if failure != nil {
		return nil, failure
	}
	values := map[string]string{}
	for _, name := range inheritedVariables() {
		if value, ok := lookup(name); ok {
			values[name] = value
		}
	}
	if spec.SecretNamespace != "" {
		// Where plugins of cluster-inventory-api and of Open Cluster Management look for Secrets.
		values["NAMESPACE"], values["POD_NAMESPACE"] = spec.SecretNamespace, spec.SecretNamespace
	}
	for _, v := range spec.Env {
		values[v.Name] = v.Value
	}
	values[execInfo] = info
	var out []string
	for name, value := range values {
		out = append(out, name+"="+value)
	}
	slices.Sort(out)
	return out, nil
}

// encodeExecInfo returns the request for a credential, as client-go writes the request. The versions of the request differ
// only in their names.
func (spec *connectionSpec) encodeExecInfo() (string, *fault) {
	request := clientauthv1.ExecCredential{TypeMeta: metav1.TypeMeta{APIVersion: spec.APIVersion, Kind: "ExecCredential"}}
	if spec.ProvideClusterInfo {
		request.Spec.Cluster = &clientauthv1.Cluster{
			Server: spec.Server, TLSServerName: spec.TLSServerName, InsecureSkipTLSVerify: spec.Insecure,
			CertificateAuthorityData: spec.CAData, ProxyURL: spec.ProxyURL, DisableCompression: spec.DisableCompression,
			Config: runtime.RawExtension{Raw: spec.Config},
		}
	}
	data, err := json.Marshal(request)
	if err != nil {
		return "", providerFailed("correct the extensions in the ClusterProfile's status.accessProviders",
			"the cluster info for access provider %q cannot be encoded as JSON", spec.Provider)
	}
	if len(execInfo)+len("=")+len(data) >= maxVariable {
		return "", providerFailed("publish only the certificates that are needed in certificate-authority-data",
			"the cluster info for access provider %q is longer than an environment variable may be (%d bytes)", spec.Provider, maxVariable)
	}
	return string(data), nil
}
