// Copyright Contributors to the Open Cluster Management project

package access

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	clientauthv1 "k8s.io/client-go/pkg/apis/clientauthentication/v1"
	clientauthv1beta1 "k8s.io/client-go/pkg/apis/clientauthentication/v1beta1"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// TestEnvironment holds what a plugin finds around it, and what it does not.
func TestEnvironment(t *testing.T) {
	ours := map[string]string{
		"PATH": "/usr/bin:/bin", "HOME": "/home/ours", "HTTPS_PROXY": "http://proxy", "no_proxy": "here", "SSL_CERT_FILE": "/ca",
		"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443", "AZURE_CLIENT_ID": "ours",
		"AWS_SECRET_ACCESS_KEY": "s3cr3t", "AWS_ACCESS_KEY_ID": "s3cr3t", "GITHUB_TOKEN": "s3cr3t", "KUBECONFIG": "/k", "LD_PRELOAD": "/x",
		execInfo: "s3cr3t",
	}
	r := specFor("")
	r.ProvideClusterInfo = true
	r.Env = []clientcmdapi.ExecEnvVar{{Name: "A", Value: "a b"}, {Name: "HOME", Value: "/home/theirs"}}
	r.Args = []string{"one", "two words"}
	file := filepath.Join(t.TempDir(), "found")
	r.Command = plugin(t, `(env | sort; echo "cwd=$(pwd)"; for a in "$@"; do echo "arg=$a"; done; echo "stdin=$(cat)") >`+file+"\n"+tokenScript("x"))
	p := &pluginRunner{slots: make(chan struct{}, 1), timeout: long, lookup: func(name string) (string, bool) {
		value, ok := ours[name]
		return value, ok
	}}
	if _, wrong := p.run(t.Context(), r, func() {}); wrong != nil {
		t.Fatal(wrong)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSuffix(line, "\n")
		// What the shell sets by itself.
		if !strings.HasPrefix(line, "PWD=") && !strings.HasPrefix(line, "OLDPWD=") && !strings.HasPrefix(line, "SHLVL=") &&
			!strings.HasPrefix(line, "_=") && !strings.HasPrefix(line, execInfo) {
			got = append(got, line)
		}
	}
	want := []string{
		"A=a b", "AZURE_CLIENT_ID=ours", "HOME=/home/theirs", "HTTPS_PROXY=http://proxy", "KUBERNETES_SERVICE_HOST=10.0.0.1",
		"KUBERNETES_SERVICE_PORT=443", "PATH=/usr/bin:/bin", "SSL_CERT_FILE=/ca", "no_proxy=here",
		"cwd=/", "arg=one", "arg=two words", "stdin=",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
}

// TestExecInfo holds that plugins are asked as client-go asks them, in both versions.
func TestExecInfo(t *testing.T) {
	r := &connectionSpec{
		Server: "https://a", TLSServerName: "name", CAData: []byte("ca"), ProxyURL: "http://proxy", DisableCompression: true,
		Insecure: true, Config: json.RawMessage(`{"clusterName":"a"}`), ProvideClusterInfo: true, APIVersion: execV1,
	}
	read := func(into any) {
		t.Helper()
		info, wrong := r.encodeExecInfo()
		if wrong != nil {
			t.Fatal(wrong)
		}
		decoder := json.NewDecoder(strings.NewReader(info))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(into); err != nil {
			t.Fatal(err)
		}
	}
	var v1 clientauthv1.ExecCredential
	read(&v1)
	want := &clientauthv1.Cluster{
		Server: "https://a", TLSServerName: "name", CertificateAuthorityData: []byte("ca"), ProxyURL: "http://proxy",
		DisableCompression: true, InsecureSkipTLSVerify: true,
	}
	want.Config.Raw = []byte(`{"clusterName":"a"}`)
	if diff := cmp.Diff(want, v1.Spec.Cluster); diff != "" || v1.APIVersion != execV1 || v1.Kind != "ExecCredential" || v1.Spec.Interactive {
		t.Errorf("%+v, -want, +got:\n%s", v1, diff)
	}
	r.APIVersion = execV1beta1
	var v1beta1 clientauthv1beta1.ExecCredential
	read(&v1beta1)
	if v1beta1.APIVersion != execV1beta1 || v1beta1.Spec.Cluster == nil || v1beta1.Spec.Cluster.Server != "https://a" {
		t.Errorf("got %+v", v1beta1)
	}
	r.ProvideClusterInfo = false
	v1beta1 = clientauthv1beta1.ExecCredential{}
	read(&v1beta1)
	if v1beta1.Spec.Cluster != nil {
		t.Errorf("told without being asked: %+v", v1beta1.Spec.Cluster)
	}
	r.ProvideClusterInfo, r.Config = true, nil
	v1 = clientauthv1.ExecCredential{}
	read(&v1)
	if got := string(v1.Spec.Cluster.Config.Raw); got != "null" && got != "" {
		t.Errorf("configuration is %s without one", got)
	}
}
