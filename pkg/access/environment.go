// Copyright Contributors to the Open Cluster Management project

package access

import (
	"encoding/json"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientauthv1 "k8s.io/client-go/pkg/apis/clientauthentication/v1"
)

// execInfo is the variable in which a plugin finds what it is asked for.
const execInfo = "KUBERNETES_EXEC_INFO"

// maxVariable is how long Linux lets one variable be (MAX_ARG_STRLEN), with its name and the NUL at its end.
const maxVariable = 128 << 10

// inheritedVariables are what a plugin has of the manager's environment: how to run, how to reach the hub and the
// world, and who the clouds' workload identities say it is. All of them are names, addresses and paths of files.
func inheritedVariables() []string {
	return []string{
		"PATH", "HOME", "TMPDIR", "LANG", "TZ",
		"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "no_proxy", "all_proxy",
		"SSL_CERT_FILE", "SSL_CERT_DIR",
		"KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT", "KUBERNETES_SERVICE_PORT_HTTPS",
		// cp-creds of OCM's managed-serviceaccount looks for its own namespace here.
		"NAMESPACE", "POD_NAMESPACE",
		"AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ROLE_ARN", "AWS_ROLE_SESSION_NAME", "AWS_WEB_IDENTITY_TOKEN_FILE",
		"AWS_STS_REGIONAL_ENDPOINTS", "AWS_CONTAINER_CREDENTIALS_FULL_URI", "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE",
		"AZURE_CLIENT_ID", "AZURE_TENANT_ID", "AZURE_AUTHORITY_HOST", "AZURE_FEDERATED_TOKEN_FILE",
		"GOOGLE_APPLICATION_CREDENTIALS", "GOOGLE_CLOUD_PROJECT", "GCE_METADATA_HOST", "CLOUDSDK_CONFIG",
	}
}

// guardedVariable tells whether a profile may not set a variable, whatever the policy: those decide what the process of
// the plugin loads, whose certificates it trusts, which files it reads and whom it sends its own identity to.
func guardedVariable(name string) bool {
	upper := strings.ToUpper(name)
	exact := []string{
		"PATH", "HOME", "TMPDIR", "ENV", "BASH_ENV", "SHELLOPTS", "IFS", "GODEBUG", "NAMESPACE", "POD_NAMESPACE",
		"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE",
		"GOOGLE_APPLICATION_CREDENTIALS", "GCE_METADATA_HOST", "CLOUDSDK_CONFIG", "AZURE_AUTHORITY_HOST", "AZURE_CONFIG_DIR",
	}
	prefixes := []string{"LD_", "DYLD_", "KUBE", "SSL_CERT_", "PYTHON", "PERL", "RUBY", "NODE_", "JAVA_", "JDK_", "AWS_ENDPOINT_URL", "AWS_CONTAINER_"}
	has := func(prefix string) bool { return strings.HasPrefix(upper, prefix) }
	return slices.Contains(exact, upper) || slices.ContainsFunc(prefixes, has) || strings.HasSuffix(upper, "_FILE")
}

// environment is what the plugin of a recipe runs with. Each variable is there once: of two, programs differ in which
// they take.
func (r *recipe) environment(lookup func(string) (string, bool)) ([]string, *fault) {
	info, wrong := r.execInfo()
	if wrong != nil {
		return nil, wrong
	}
	values := map[string]string{}
	for _, name := range inheritedVariables() {
		if value, ok := lookup(name); ok {
			values[name] = value
		}
	}
	for _, v := range r.Env {
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

// execInfo asks for a credential, as client-go does. The versions of the request differ only in their name.
func (r *recipe) execInfo() (string, *fault) {
	request := clientauthv1.ExecCredential{TypeMeta: metav1.TypeMeta{APIVersion: r.APIVersion, Kind: "ExecCredential"}}
	if r.ProvideClusterInfo {
		request.Spec.Cluster = &clientauthv1.Cluster{
			Server: r.Server, TLSServerName: r.TLSServerName, InsecureSkipTLSVerify: r.Insecure,
			CertificateAuthorityData: r.CAData, ProxyURL: r.ProxyURL, DisableCompression: r.DisableCompression,
			Config: runtime.RawExtension{Raw: r.Config},
		}
	}
	data, err := json.Marshal(request)
	if err != nil {
		return "", providerFailed("correct the extensions in the ClusterProfile's status.accessProviders",
			"what access provider %q is to be told cannot be written as JSON", r.Provider)
	}
	if len(execInfo)+len("=")+len(data) >= maxVariable {
		return "", providerFailed("publish only the certificates that are needed in certificate-authority-data",
			"the cluster info for access provider %q is longer than an environment variable may be (%d bytes)", r.Provider, maxVariable)
	}
	return string(data), nil
}
