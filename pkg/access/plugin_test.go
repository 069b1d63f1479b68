// Copyright Contributors to the Open Cluster Management project

package access

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	clientcmdv1 "k8s.io/client-go/tools/clientcmd/api/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
)

// runPlugin runs the plugin of a connection spec, with a short deadline when wanted.
func runPlugin(t *testing.T, spec *connectionSpec, timeout time.Duration) (*credential, *fault) {
	t.Helper()
	p := &pluginRunner{slots: make(chan struct{}, 1), timeout: timeout, lookup: os.LookupEnv}
	defer func() {
		if len(p.slots) != 0 {
			t.Error("the turn was not given back")
		}
	}()
	started := 0
	defer func() {
		if started > 1 {
			t.Errorf("started %d times", started)
		}
	}()
	return p.run(t.Context(), spec, func() { started++ })
}

func specFor(command string) *connectionSpec {
	return &connectionSpec{Provider: "exec", Command: command, APIVersion: execV1, Server: "https://a"}
}

const long = time.Minute

func TestPluginGivesCredentials(t *testing.T) {
	client := issue(t, nil, nil)
	pair := `"clientCertificateData":` + asJSON(t, string(client.pem)) + `,"clientKeyData":` + asJSON(t, string(client.keyPEM))
	cases := map[string]struct {
		version, status string
		token, expires  string
		certificate     bool
		afterwards      string
	}{
		"a token":                  {version: execV1, status: `"token":"abc"`, token: "abc"},
		"a token of v1beta1":       {version: execV1beta1, status: `"token":"abc"`, token: "abc"},
		"a token with a line feed": {version: execV1, status: `"token":"abc\n"`, token: "abc"},
		"a certificate":            {version: execV1, status: pair, certificate: true},
		"both":                     {version: execV1, status: `"token":"abc",` + pair, token: "abc", certificate: true},
		"an expiration":            {version: execV1, status: `"token":"abc","expirationTimestamp":"2030-01-02T03:04:05Z"`, token: "abc", expires: "2030-01-02T03:04:05Z"},
		"no expiration":            {version: execV1, status: `"token":"abc","expirationTimestamp":null`, token: "abc"},
		"fields of the future":     {version: execV1, status: `"token":"abc","new":{}`, token: "abc"},
		"much on stderr":           {version: execV1, status: `"token":"abc"`, token: "abc", afterwards: "head -c 3000000 /dev/zero >&2"},
		"a child that keeps the pipes open": {
			version: execV1, status: `"token":"abc"`, token: "abc", afterwards: "sleep 600 &",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			answer := `{"apiVersion":"` + tc.version + `","kind":"ExecCredential","status":{` + tc.status + `}}`
			r := specFor(plugin(t, "cat <<'END'\n"+answer+"\nEND\n"+tc.afterwards))
			r.APIVersion = tc.version
			got, wrong := runPlugin(t, r, long)
			if wrong != nil {
				t.Fatal(wrong)
			}
			var expires string
			if !got.expires.IsZero() {
				expires = got.expires.UTC().Format(time.RFC3339)
			}
			if got.token != tc.token || (got.certificate != nil) != tc.certificate || expires != tc.expires {
				t.Errorf("got token %q, certificate %t, expires %q", got.token, got.certificate != nil, expires)
			}
			if tc.certificate == (got.certificateID == "") {
				t.Errorf("certificate's ID is %q", got.certificateID)
			}
		})
	}
}

// pluginFailure is a way for a plugin to fail.
type pluginFailure struct {
	// script makes the plugin's file; command is it otherwise.
	script  string
	command func(*testing.T) string
	change  func(*connectionSpec)
	timeout time.Duration
	// want is part of the message that no other failure has.
	want string
	is   error
}

func pluginFailures() map[string]pluginFailure {
	status := func(s string) string { return "cat <<'END'\n" + s + "\nEND\n" }
	credentialOf := func(s string) string {
		return status(`{"apiVersion":"` + execV1 + `","kind":"ExecCredential","status":{` + s + `}}`)
	}
	return map[string]pluginFailure{
		"missing": {
			command: func(t *testing.T) string { t.Helper(); return filepath.Join(t.TempDir(), "absent") },
			change:  func(r *connectionSpec) { r.InstallHint = "get it\nfrom the shelf" },
			want:    "does not exist; mount the plugin into the manager's Pod, or correct execConfig.command; get it from the shelf", is: fs.ErrNotExist,
		},
		"a directory":    {command: func(t *testing.T) string { t.Helper(); return t.TempDir() }, want: "is not a file"},
		"below a file":   {command: func(t *testing.T) string { t.Helper(); return plugin(t, "true") + "/x" }, want: "cannot be read"},
		"not executable": {command: fileOf("#!/bin/sh\n", 0o644), want: "is not executable", is: fs.ErrPermission},
		"of another architecture": {
			// The header of a program for a machine that nobody has.
			command: fileOf("\x7fELF\x02\x01\x01"+strings.Repeat("\x00", 9)+"\x02\x00\xfe\xfe\x01\x00\x00\x00"+strings.Repeat("\x00", 40), 0o755),
			want:    "exec format error", is: syscall.ENOEXEC,
		},
		"without its interpreter": {command: fileOf("#!/absent/interpreter\n", 0o755), want: "needs an interpreter", is: fs.ErrNotExist},
		"too many arguments": {
			script: "true", change: func(r *connectionSpec) { r.Args = []string{strings.Repeat("x", 200<<10)} },
			want: "arguments and environment are too long", is: syscall.E2BIG,
		},
		"a CA that does not fit": {
			script: "true", change: func(r *connectionSpec) { r.ProvideClusterInfo, r.CAData = true, make([]byte, 100<<10) },
			want: "longer than an environment variable may be",
		},
		"a failure":         {script: "exit 3", want: "failed with exit code 3; run the plugin by hand"},
		"a failure, told":   {script: "echo 'no such cluster: spoke-1' >&2; exit 4", want: "failed with exit code 4; run the plugin by hand"},
		"a failure, leaked": {script: "echo 'bad token: abc' >&2; exit 5", want: "failed with exit code 5; run the plugin by hand"},
		"a failure, leaked from stdout": {
			script: credentialOf(`"token":"ab-cd-ef-gh"`) + "echo 'this is ab-cd-ef-gh' >&2; exit 7", want: "failed with exit code 7; run the plugin by hand",
		},
		"a failure, leaked from the configuration": {
			script: `echo "that was $SETTING" >&2; exit 8`, change: func(r *connectionSpec) { r.Env = []clientcmdapi.ExecEnvVar{{Name: "SETTING", Value: "ab-cd-ef-gh"}} },
			want: "failed with exit code 8; run the plugin by hand",
		},
		"a signal": {script: "kill -9 $$", want: "ended by a signal (signal: killed)"},
		"a hang":   {script: "sleep 600", timeout: 200 * time.Millisecond, want: "gave no credential in time and was killed; see", is: context.DeadlineExceeded},
		"a hang that ignores signals": {
			script: "trap '' TERM INT HUP; echo waiting >&2; while true; do sleep 600; done", timeout: 500 * time.Millisecond,
			want: "in time and was killed; see what the plugin", is: context.DeadlineExceeded,
		},
		"a child that hangs":  {script: "sleep 600 & exit 6", want: "failed with exit code 6"},
		"nothing":             {script: "true", want: "printed nothing"},
		"too much":            {script: "head -c 2000000 /dev/zero; sleep 600", want: "printed more than 1048576 bytes"},
		"garbage":             {script: "echo Hello", want: "printed something else than an ExecCredential in JSON"},
		"half an answer":      {script: status(`{"apiVersion":`), want: "printed something else than an ExecCredential in JSON"},
		"two answers":         {script: status(`{}`) + status(`{}`), want: "printed something else than an ExecCredential in JSON"},
		"another kind":        {script: status(`{"apiVersion":"v1","kind":"Secret"}`), want: "an object of another kind"},
		"another version":     {script: status(`{"apiVersion":"` + execV1beta1 + `","kind":"ExecCredential","status":{"token":"x"}}`), want: "answered in " + execV1beta1 + ", not in " + execV1},
		"a strange version":   {script: status(`{"apiVersion":"s3cr3t-s3cr3t","kind":"ExecCredential","status":{"token":"x"}}`), want: "answered in another API version, not in " + execV1},
		"no status":           {script: status(`{"apiVersion":"` + execV1 + `","kind":"ExecCredential"}`), want: "gave neither token nor certificate"},
		"neither":             {script: credentialOf(`"expirationTimestamp":"2030-01-02T03:04:05Z"`), want: "gave neither token nor certificate"},
		"a token of spaces":   {script: credentialOf(`"token":" \n"`), want: "gave neither token nor certificate"},
		"a token of lines":    {script: credentialOf(`"token":"a\nb"`), want: "characters that no token has"},
		"a token of a number": {script: credentialOf(`"token":1234567890`), want: "printed something else than an ExecCredential in JSON"},
		"half a pair":         {script: credentialOf(`"clientKeyData":"s3cr3t"`), want: "only one of client certificate and key"},
		"a bad pair":          {script: credentialOf(`"clientCertificateData":"x","clientKeyData":"s3cr3t"`), want: "cannot be read or do not belong together"},
		"a bad expiration":    {script: credentialOf(`"token":"x","expirationTimestamp":"s3cr3t"`), want: "not a time of RFC 3339"},
	}
}

func fileOf(content string, mode os.FileMode) func(*testing.T) string {
	return func(t *testing.T) string {
		t.Helper()
		path := plugin(t, "")
		syscall.ForkLock.RLock()
		defer syscall.ForkLock.RUnlock()
		if err := os.WriteFile(path, []byte(content), mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
}

func TestPluginFailures(t *testing.T) {
	for name, tc := range pluginFailures() {
		t.Run(name, func(t *testing.T) {
			command := plugin(t, tc.script)
			if tc.command != nil {
				command = tc.command(t)
			}
			r := specFor(command)
			if tc.change != nil {
				tc.change(r)
			}
			got, wrong := runPlugin(t, r, cmp.Or(tc.timeout, long))
			if wrong == nil {
				t.Fatalf("got a credential (%v)", got)
			}
			failsWith(t, wrong, tc.want)
			if tc.is != nil && !errors.Is(wrong, tc.is) {
				t.Errorf("%v is not %v", wrong.err, tc.is)
			}
		})
	}
}

// TestFailuresAreTold holds that different failures are told in different words.
func TestFailuresAreTold(t *testing.T) {
	same := map[string]bool{
		"printed something else than an ExecCredential in JSON": true, "gave neither token nor certificate": true,
	}
	seen := map[string]string{}
	for name, tc := range pluginFailures() {
		if other, twice := seen[tc.want]; twice && !same[tc.want] {
			t.Errorf("%q and %q both are %q", name, other, tc.want)
		}
		seen[tc.want] = name
	}
}

// TestNothingOfAPluginIsLeft holds that what it started goes with it, also when it has ended well, and leaves no zombies to a
// manager that is the first process of its container.
func TestNothingOfAPluginIsLeft(t *testing.T) {
	const subreaper = 36 // PR_SET_CHILD_SUBREAPER: orphans fall to this process, as if it were the first
	if _, _, errno := syscall.RawSyscall(syscall.SYS_PRCTL, subreaper, 1, 0); errno != 0 {
		t.Fatal(errno)
	}
	for name, end := range map[string]string{
		"a plugin that hangs":              "sleep 600",
		"a plugin that ended well":         tokenScript("x"),
		"a plugin that prints too much":    "head -c 2000000 /dev/zero; sleep 600",
		"a plugin that closed its pipes":   "exec >&- 2>&-; sleep 600",
		"a plugin whose child is detached": "(sleep 600 >/dev/null 2>&1 </dev/null &); " + tokenScript("x"),
	} {
		t.Run(name, func(t *testing.T) {
			pids := filepath.Join(t.TempDir(), "pids")
			script := "echo $$ >>" + pids + "; sleep 601 >/dev/null 2>&1 & echo $! >>" + pids + "\n" + end
			_, _ = runPlugin(t, specFor(plugin(t, script)), 6*time.Second) // a busy machine starts the script later
			data, err := os.ReadFile(pids)
			if err != nil || strings.Count(string(data), "\n") != 2 {
				t.Fatalf("processes: %q, %v", data, err)
			}
			for pid := range strings.FieldsSeq(string(data)) {
				waitUntil(t, func() bool {
					_, err := os.Stat("/proc/" + pid)
					return errors.Is(err, fs.ErrNotExist)
				})
			}
		})
	}
}

// waitUntil waits for what happens soon, and fails the test when it never does.
func waitUntil(t testing.TB, done func() bool) {
	t.Helper()
	for range 3000 {
		if done() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatal("what has to happen did not")
}

// TestPluginsTakeTurns holds that no more run at once than allowed, and that waiting can end.
func TestPluginsTakeTurns(t *testing.T) {
	p := &pluginRunner{slots: make(chan struct{}, 1), timeout: long, lookup: os.LookupEnv}
	p.slots <- struct{}{}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, wrong := p.run(ctx, specFor(plugin(t, "true")), func() { t.Error("started without its turn") })
	if wrong == nil || wrong.reason != api.ReasonRemoteClusterStale || !errors.Is(wrong, context.Canceled) {
		t.Errorf("got %v", wrong)
	}
}

// TestFailedPluginsLeaveRoom holds that plugins which failed have not all the turns.
func TestFailedPluginsLeaveRoom(t *testing.T) {
	opts := Options{}.withDefaults()
	opts.Plugin = PluginLimits{Parallel: 2, Timeout: long}
	p := newPluginRunner(&opts)
	bad, good := specFor(plugin(t, "exit 1")), specFor(plugin(t, tokenScript("x")))
	failing := newConnection(bad, &endpoint{}, &opts, p)
	defer failing.credentials.close()
	if _, err := failing.credentials.get(t.Context(), bad); err == nil {
		t.Fatal("it did not fail")
	}
	p.retrySlots <- struct{}{} // another one that failed, and hangs
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := failing.credentials.get(ctx, bad); !errors.Is(err, context.Canceled) {
		t.Errorf("it has run out of turn: %v", err)
	}
	if _, err := newConnection(good, &endpoint{}, &opts, p).credentials.get(t.Context(), good); err != nil {
		t.Errorf("a good plugin has no turn: %v", err)
	}
}

// TestAStoppedPluginIsNotAFailure holds that the end of a session is told as such.
func TestAStoppedPluginIsNotAFailure(t *testing.T) {
	p := &pluginRunner{slots: make(chan struct{}, 1), timeout: long, lookup: os.LookupEnv}
	ctx, cancel := context.WithCancel(t.Context())
	_, wrong := p.run(ctx, specFor(plugin(t, "sleep 600")), cancel)
	if wrong == nil || wrong.reason != api.ReasonRemoteClusterStale {
		t.Errorf("got %v", wrong)
	}
}

func TestPluginConfigurationIsGivenExactly(t *testing.T) {
	command := plugin(t, "true")
	source := providers(command, func(p *Provider) { p.ExecConfig.APIVersion = execV1beta1 })
	r, wrong := newConnectionSpec(source.State(), permitting(), profile("p", clientcmdv1.Cluster{Server: "https://a"}))
	if wrong != nil || r.Command != command || r.APIVersion != execV1beta1 {
		t.Errorf("got %+v, %v", r, wrong)
	}
}
