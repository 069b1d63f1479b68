// Copyright Contributors to the Open Cluster Management project

package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"

	"open-cluster-management.io/knative-addon/pkg/resolve"
)

func TestReferenceFlags(t *testing.T) {
	for name, tc := range map[string]struct {
		args    []string
		want    resolve.ReferencePolicy
		wantErr string
	}{
		"none": {want: resolve.ReferencePolicy{Allowed: map[string][]string{}}},
		"several": {
			args: []string{"--addon-namespace=knative-addon", "--allowed-reference=a=b", "--allowed-reference=a=c", "--allowed-reference=*=d"},
			want: resolve.ReferencePolicy{Allowed: map[string][]string{"a": {"b", "c"}, "*": {"d"}}},
		},
		"everything":           {args: []string{"--allowed-reference=*=*"}, want: resolve.ReferencePolicy{Allowed: map[string][]string{"*": {"*"}}}},
		"no pair":              {args: []string{"--allowed-reference=a"}, wantErr: `--allowed-reference="a"`},
		"no namespace":         {args: []string{"--allowed-reference=a=B"}, wantErr: `--allowed-reference="a=B"`},
		"empty side":           {args: []string{"--allowed-reference==b"}, wantErr: `--allowed-reference="=b"`},
		"bad add-on namespace": {args: []string{"--addon-namespace=A/b"}, wantErr: `--addon-namespace="A/b"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("POD_NAMESPACE", "")
			var f referenceFlags
			flags := pflag.NewFlagSet("", pflag.ContinueOnError)
			f.add(flags)
			if err := flags.Parse(tc.args); err != nil {
				t.Fatal(err)
			}
			got, err := f.parsePolicy()
			if tc.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), tc.wantErr) {
					t.Errorf("error is %v, want one with %q", err, tc.wantErr)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("policy (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAddOnNamespaceIsThePods(t *testing.T) {
	t.Setenv("POD_NAMESPACE", "somewhere")
	var f referenceFlags
	f.add(pflag.NewFlagSet("", pflag.ContinueOnError))
	if policy, err := f.parsePolicy(); err != nil || policy.Permits("team", "somewhere") {
		t.Errorf("policy is %v, error %v: the add-on's namespace is no exception", policy, err)
	}
	var trusted trustFlags
	if policy, err := trusted.parsePolicy(f.addOnNamespace); err != nil || !policy.Trusts("somewhere") {
		t.Errorf("policy is %v, error %v: the add-on's namespace is trusted by default", policy, err)
	}
}
