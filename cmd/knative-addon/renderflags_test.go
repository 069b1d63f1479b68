// Copyright Contributors to the Open Cluster Management project

package main

import (
	"testing"

	"github.com/spf13/pflag"

	"open-cluster-management.io/knative-addon/pkg/api"
)

// TestVerificationFlag holds that the default of a verification reaches both deliveries, and that another value is refused at the start.
func TestVerificationFlag(t *testing.T) {
	for value, isValid := range map[string]bool{"": true, "None": true, "Service": true, "KeptService": true, "service": false} {
		var f renderFlags
		flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
		f.add(flags)
		if err := flags.Parse([]string{"--verification=" + value}); (err == nil) != isValid {
			t.Errorf("value %q has error %v", value, err)
		}
		for _, mode := range []api.DeliveryMode{api.ModeManifestWork, api.ModeDirect} {
			if got := f.buildOptions(mode).Verification; isValid && got != value {
				t.Errorf("mode %s has verification %q, want %q", mode, got, value)
			}
		}
	}
}
