// Copyright Contributors to the Open Cluster Management project

package access

import (
	"strings"
	"testing"
	"unicode/utf8"
)

const jwt = "eyJhbGciOiJSUzI1NiIsImtpZCI6IngifQ.eyJzdWIiOiJzeXN0ZW06c2VydmljZWFjY291bnQifQ.c2lnbmF0dXJl"

func TestScrubShowsWhatHelps(t *testing.T) {
	for text, want := range map[string]string{
		"": "",
		"failed to get secret fleet-system/spoke-1: secrets \"spoke-1\" not found\n": `failed to get secret fleet-system/spoke-1: secrets "spoke-1" not found`,
		"missing ExecCredential.Spec.Cluster.Config":                                 "missing ExecCredential.Spec.Cluster.Config",
		"2026/11/21 07:22:26 cannot reach https://10.96.0.1:443/api":                 "cannot reach https://10.96.0.1:443/api",
		"E1121 07:22:26.123456   12345 main.go:22] no key \"token\" in the Secret":   `no key "token" in the Secret`,
		"time 2026-11-21T07:22:26.123Z is not now":                                   "time is not now",
		"read tcp 10.1.2.3:45678->10.96.0.1:443: i/o timeout":                        "read tcp 10.96.0.1:443: i/o timeout",
		"dial [::1]:45678->[fd00::1]:443":                                            "dial [fd00::1]:443",
		"first\r\n\tsecond\x1b[31m\x00line":                                          "first second [31m line",
		"cannot use spoke-cluster-number-one-credentials":                            "cannot use spoke-cluster-number-one-credentials",
		"bad token: " + jwt:                             "bad token: [withheld]",
		"password=hunt is wrong":                        "password= [withheld]",
		`{"kind":"ExecCredential","token":"short"}`:     `{"kind":"ExecCredential","token": [withheld]`,
		`{\"token\":\"short\"}`:                         `{\"token\": [withheld]`,
		"Authorization: Bearer abc":                     "Authorization: [withheld]",
		"sent Bearer abc":                               "sent [withheld]",
		"run with --client-secret abc":                  "run with [withheld]",
		"got " + jwt:                                    "got [withheld]",
		"using token hunter2":                           "using [withheld]",
		"-----BEGIN EC PRIVATE KEY-----\nMHc":           "[withheld]",
		"cannot get https://user:pw@host/path":          "cannot get https [withheld]",
		"got 0123456789abcdef0123456789abcdef twice":    "got [withheld]",
		"got " + strings.Repeat("a", 24):                "got [withheld]",
		"client-key-data: abc":                          "client-key-data: [withheld]",
		"aws_secret_access_key = abc":                   "aws_secret_access_key = [withheld]",
		"the known-value is here":                       "the [withheld]",
		"the known\nline is here":                       "the [withheld]",
		strings.Repeat("word ", 100):                    strings.Repeat("word ", 32) + "...",
		strings.Repeat("é", 100):                        strings.Repeat("é", 80) + "...",
		"\xff\xfe invalid":                              "invalid",
		strings.Repeat("word ", 100) + " token: " + jwt: strings.Repeat("word ", 32) + "... [withheld]",
	} {
		if got := scrubText(text, []string{"known-value", "known\nline", "is", ""}); got != want {
			t.Errorf("%q:\n got %q\nwant %q", text, got, want)
		}
	}
}

func TestWordsOfAnAnswer(t *testing.T) {
	got := strings.Join(findPossibleSecrets([]byte(`{"apiVersion":"`+execV1+`","kind":"ExecCredential","status":{"token":"my-token","clientKeyData":"a-line\nanother"}}`)), " ")
	if want := "my-token a-line nanother"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// FuzzScrub holds that no known value is shown, and that what is shown is short and on one line.
func FuzzScrub(f *testing.F) {
	f.Add("before ", "s3cr3t-value", " after")
	f.Add("x", "\nsecret\n", "2026/11/21 07:22:26")
	f.Fuzz(func(t *testing.T, before, secret, after string) {
		if len(oneLine(secret, len(secret))) < minSecret {
			return
		}
		got := scrubText(before+" "+secret+" "+after, []string{secret})
		if strings.Contains(got, oneLine(secret, len(secret))) && !strings.Contains(oneLine(before, len(before)), oneLine(secret, len(secret))) && !strings.Contains(withheld, secret) {
			t.Errorf("%q is in %q", secret, got)
		}
		if len(got) > maxShown+len("... "+withheld) || strings.ContainsAny(got, "\n\r\x1b") || !utf8.ValidString(got) {
			t.Errorf("%q is not one short line", got)
		}
	})
}
