// Copyright Contributors to the Open Cluster Management project

package access

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	inventoryaccess "sigs.k8s.io/cluster-inventory-api/pkg/access"
)

const goodFile = `{
  "providers": [
    {
      "name": "secretreader",
      "execConfig": {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": "/plugins/secretreader",
        "args": ["--verbose"],
        "env": [{"name": "A", "value": "b"}],
        "installHint": "mount it",
        "provideClusterInfo": true,
        "interactiveMode": "Never"
      },
      "profileSourcedCLIArgsPolicy": "Append",
      "profileSourcedEnvVarsPolicy": "AppendIfNotExists"
    },
    {"name": "google", "execConfig": {"apiVersion": "client.authentication.k8s.io/v1beta1", "command": "/plugins/gcp"}}
  ]
}`

func TestParseProviders(t *testing.T) {
	got, err := ParseProviders([]byte(goodFile))
	if err != nil {
		t.Fatal(err)
	}
	want := []Provider{
		{
			Name: "secretreader",
			ExecConfig: &clientcmdapi.ExecConfig{
				APIVersion: execV1, Command: "/plugins/secretreader", Args: []string{"--verbose"},
				Env: []clientcmdapi.ExecEnvVar{{Name: "A", Value: "b"}}, InstallHint: "mount it", ProvideClusterInfo: true, InteractiveMode: "Never",
			},
			ProfileSourcedCLIArgsPolicy: "Append", ProfileSourcedEnvVarsPolicy: "AppendIfNotExists",
		},
		{Name: "google", ExecConfig: &clientcmdapi.ExecConfig{APIVersion: execV1beta1, Command: "/plugins/gcp"}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
	for _, none := range []string{`{}`, `{"providers":[]}`, `{"providers":null}`} {
		if got, err := ParseProviders([]byte(none)); err != nil || len(got) != 0 {
			t.Errorf("%s: got %v, %v; want no providers", none, got, err)
		}
	}
}

// one is a file with one provider, changed.
func one(old, new string) string {
	return strings.Replace(`{"providers":[{"name":"p","execConfig":{"apiVersion":"client.authentication.k8s.io/v1","command":"/p"}}]}`, old, new, 1)
}

func TestBadProviderFilesAreRefused(t *testing.T) {
	cases := map[string]struct {
		file string
		// want is what the error has to hold: where, and what to do.
		want []string
	}{
		"a file that is empty":            {file: " \n", want: []string{"empty", "providers"}},
		"a file that is not JSON":         {file: "{\n \"providers\": [,]}", want: []string{"line 2, column 16", "JSON"}},
		"a file that ends too early":      {file: `{"providers": [`, want: []string{"line 1", "JSON"}},
		"a file that goes on":             {file: `{"providers":[]} {}`, want: []string{"line 1, column 18", "JSON"}},
		"a list at the top":               {file: `[]`, want: []string{"the file", "array"}},
		"a field that does not exist":     {file: one(`"name"`, `"allowed":true,"name"`), want: []string{`unknown field "providers[0].allowed"`}},
		"a field in capitals":             {file: one(`"command"`, `"Command"`), want: []string{`unknown field "providers[0].execConfig.Command"`}},
		"a field that is there twice":     {file: one(`"name":"p"`, `"name":"p","name":"q"`), want: []string{`duplicate field "providers[0].name"`}},
		"a value of another type":         {file: one(`"/p"`, `["/p"]`), want: []string{"command", "array", "string"}},
		"a provider without name":         {file: one(`"name":"p",`, ``), want: []string{"providers[0].name", "missing"}},
		"a provider without plugin":       {file: `{"providers":[{"name":"p"}]}`, want: []string{"providers[0].execConfig", "missing"}},
		"a plugin without command":        {file: one(`,"command":"/p"`, ``), want: []string{"providers[0].execConfig.command", "missing"}},
		"a command that is looked up":     {file: one(`/p`, `p`), want: []string{"providers[0].execConfig.command", `"p"`, "full path"}},
		"a command below the directory":   {file: one(`/p`, `./p`), want: []string{"providers[0].execConfig.command", "full path"}},
		"a plugin without version":        {file: one(`client.authentication.k8s.io/v1`, ``), want: []string{"providers[0].execConfig.apiVersion", execV1beta1}},
		"a version that is gone":          {file: one(`k8s.io/v1`, `k8s.io/v1alpha1`), want: []string{"providers[0].execConfig.apiVersion", "v1alpha1", execV1}},
		"a plugin that wants a terminal":  {file: one(`"command"`, `"interactiveMode":"Always","command"`), want: []string{"interactiveMode", "Always", "Never"}},
		"a policy for arguments":          {file: one(`"name"`, `"profileSourcedCLIArgsPolicy":"Replace","name"`), want: []string{"profileSourcedCLIArgsPolicy", "Replace", "Append"}},
		"a policy for variables":          {file: one(`"name"`, `"profileSourcedEnvVarsPolicy":"Append","name"`), want: []string{"profileSourcedEnvVarsPolicy", "AppendIfNotExists", "Replace"}},
		"a variable without name":         {file: one(`"command"`, `"env":[{"value":"s3cr3t-value"}],"command"`), want: []string{"execConfig.env[0].name"}},
		"a variable with = in its name":   {file: one(`"command"`, `"env":[{"name":"A=B","value":""}],"command"`), want: []string{"execConfig.env[0].name", "A=B"}},
		"a variable that is there twice":  {file: one(`"command"`, `"env":[{"name":"A","value":"x"},{"name":"A","value":"y"}],"command"`), want: []string{"execConfig.env[1].name", "twice"}},
		"a variable of the protocol":      {file: one(`"command"`, `"env":[{"name":"KUBERNETES_EXEC_INFO","value":"x"}],"command"`), want: []string{"execConfig.env[0].name", execInfo}},
		"a variable with a NUL":           {file: one(`"command"`, `"env":[{"name":"A","value":"s3cr3t-value\u0000"}],"command"`), want: []string{"execConfig.env[0].value", "NUL"}},
		"an argument with a NUL":          {file: one(`"command"`, `"args":["s3cr3t-value\u0000"],"command"`), want: []string{"execConfig.args[0]", "NUL"}},
		"a command with a NUL":            {file: one(`"/p"`, `"/p\u0000"`), want: []string{"execConfig.command"}},
		"an argument that is a number":    {file: one(`"command"`, `"args":[77778888],"command"`), want: []string{"args", "number", "string"}},
		"two providers of one name":       {file: `{"providers":[` + strings.Repeat(`{"name":"p","execConfig":{"apiVersion":"client.authentication.k8s.io/v1","command":"/p"}},`, 2) + `{"name":"q"}]}`, want: []string{"providers[1].name", "providers[0]", "unique", "providers[2].execConfig"}},
		"what the plugin is told itself":  {file: one(`"command"`, `"config":{},"command"`), want: []string{`unknown field "providers[0].execConfig.config"`}},
		"a provider that is nothing":      {file: `{"providers":[null]}`, want: []string{"providers[0].name", "providers[0].execConfig"}},
		"a file with the profile's parts": {file: `{"accessProviders":[]}`, want: []string{`unknown field "accessProviders"`}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := ParseProviders([]byte(tc.file))
			if err == nil {
				t.Fatalf("got %v, want an error", got)
			}
			holds := func(text string) bool { return strings.Contains(err.Error(), text) }
			for _, want := range tc.want {
				if !holds(want) {
					t.Errorf("%q does not tell %q", err, want)
				}
			}
			if holds("s3cr3t-value") || holds("77778888") {
				t.Errorf("%q repeats a value", err)
			}
			if strings.ContainsAny(err.Error(), "\n\r") {
				t.Errorf("%q is more than one line", err)
			}
		})
	}
}

// FuzzParseProviders holds that an accepted file means the same to cluster-inventory-api.
func FuzzParseProviders(f *testing.F) {
	f.Add(goodFile)
	f.Add(one("", ""))
	f.Add(`{"providers":[]}`)
	f.Fuzz(func(t *testing.T, file string) {
		ours, err := ParseProviders([]byte(file))
		if err != nil {
			return
		}
		path := filepath.Join(t.TempDir(), "providers.json")
		if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
			t.Fatal(err)
		}
		theirs, err := inventoryaccess.NewFromFile(path)
		if err != nil {
			t.Fatalf("taken here and not upstream: %v", err)
		}
		if diff := cmp.Diff(plain(t, theirs.Providers), plain(t, ours)); diff != "" {
			t.Errorf("-upstream, +ours:\n%s", diff)
		}
	})
}

// plain is what JSON knows of a list of providers, without what is empty. Upstream has no JSON name for what plugins are
// told.
func plain(t *testing.T, list any) []map[string]any {
	t.Helper()
	data, err := json.Marshal(list)
	if err != nil {
		t.Fatal(err)
	}
	var out []map[string]any
	if err := json.Unmarshal(data, &out); err != nil {
		t.Fatal(err)
	}
	for _, p := range out {
		prune(p)
	}
	return out
}

func prune(object map[string]any) {
	for key, value := range object {
		switch v := value.(type) {
		case map[string]any:
			prune(v)
		case []any:
			if len(v) == 0 {
				delete(object, key)
			}
		case nil:
			delete(object, key)
		case string:
			if v == "" {
				delete(object, key)
			}
		case bool:
			if !v {
				delete(object, key)
			}
		}
	}
}
