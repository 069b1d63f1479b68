// Copyright Contributors to the Open Cluster Management project

package render

import (
	"bytes"
	"context"
	"testing"

	"open-cluster-management.io/knative-addon/pkg/api"
)

// A merge patch cannot store a null, so no object may have one. Kourier's probes and a role of Eventing are released so.
func TestNoNulls(t *testing.T) {
	for component, spec := range map[api.Component]string{api.Serving: kourier, api.Eventing: "{}"} {
		b, err := shared.Render(context.Background(), install(t, component, spec), DefaultOptions(api.ModeManifestWork))
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range b.Objects() {
			if bytes.Contains(o.JSON, []byte(":null")) {
				t.Errorf("%s has a null: %s", o.ID(), o.JSON)
			}
		}
	}
}
