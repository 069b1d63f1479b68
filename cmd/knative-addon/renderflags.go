// Copyright Contributors to the Open Cluster Management project

package main

import (
	"fmt"

	"github.com/spf13/pflag"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/render"
	"open-cluster-management.io/knative-addon/pkg/trust"
)

// renderFlags are the administrator's decisions about rendering. The manager and the offline commands share the flags, so
// that the offline commands print the objects that the manager delivers.
type renderFlags struct {
	allowedHosts, allowedKinds     []string
	allowedNetworks                []string
	keepDescriptions, keepExamples bool
	verification                   verificationMode
	releasesFlags
}

func (f *renderFlags) add(flags *pflag.FlagSet) {
	flags.StringSliceVar(&f.allowedHosts, "remote-manifests-allowed-hosts", nil,
		"hosts that spec.manifests and spec.additionalManifests may name, by https; none by default")
	flags.StringSliceVar(&f.allowedNetworks, "remote-manifests-allowed-networks", nil,
		"private networks, as CIDRs, in which these hosts may be; without one their addresses must be public")
	flags.StringSliceVar(&f.allowedKinds, "allowed-kinds", nil,
		`kinds, as Kind.group, that additional manifests and patches of trusted namespaces may deliver besides those of Knative's releases; "*" is every kind`)
	flags.BoolVar(&f.keepDescriptions, "keep-crd-descriptions", false, "deliver the descriptions in CRD schemas")
	flags.BoolVar(&f.keepExamples, "keep-config-examples", false, "deliver the _example keys of Knative's ConfigMaps")
	flags.Var(&f.verification, "verification",
		"the verification of installations without annotation "+api.VerificationAnnotation+": None, Service or KeptService; empty means None")
	f.addReleases(flags)
}

// verificationMode is the value of flag --verification.
type verificationMode string

// String implements pflag.Value.
func (m *verificationMode) String() string { return string(*m) }

// Set implements pflag.Value.
func (m *verificationMode) Set(text string) error {
	*m = verificationMode(text)
	return render.CheckVerificationMode("the flag", text)
}

// Type implements pflag.Value.
func (m *verificationMode) Type() string { return "string" }

func (f *renderFlags) buildConfig(policy trust.Policy) render.Config {
	return render.Config{
		RemoteManifests: render.RemotePolicy{AllowedHosts: f.allowedHosts, AllowedNetworks: f.allowedNetworks},
		AllowedKinds:    f.allowedKinds,
		Trust:           policy,
		FurtherReleases: render.ReleasesDirectory{Path: f.directory, SHA256: f.sum},
	}
}

func (f *renderFlags) buildOptions(mode api.DeliveryMode) render.Options {
	o := render.DefaultOptions(mode)
	o.KeepDescriptions = o.KeepDescriptions || f.keepDescriptions
	o.KeepExamples = o.KeepExamples || f.keepExamples
	o.Verification = string(f.verification)
	return o
}

// releasesFlags are the releases of Knative that an administrator adds to the releases of the program.
type releasesFlags struct {
	directory, sum string
}

func (f *releasesFlags) addReleases(flags *pflag.FlagSet) {
	flags.StringVar(&f.directory, "releases-dir", "",
		"directory with further releases of Knative, such as knative-serving/1.2.3/FILE.yaml, and a file SHA256SUMS; empty means the releases of this program")
	flags.StringVar(&f.sum, "releases-sha256", "",
		"SHA-256 that file SHA256SUMS of --releases-dir must have; the programs on a hub require the sum")
}

// requireSum returns an error for a directory without a sum: a program on a hub delivers the content of the directory to every cluster.
func (f *releasesFlags) requireSum() error {
	if f.directory != "" && f.sum == "" {
		return fmt.Errorf("cannot use --releases-dir=%q without a sum: review the directory, and set --releases-sha256 to the output of "+
			"\"sha256sum SHA256SUMS\"", f.directory)
	}
	return nil
}
