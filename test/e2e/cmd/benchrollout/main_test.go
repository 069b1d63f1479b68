// Copyright Contributors to the Open Cluster Management project

package main

import (
	"slices"
	"testing"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/test/lab"
)

func TestChoose(t *testing.T) {
	for name, c := range map[string]struct {
		parts, components, compare string
		invalid                    bool
	}{
		"all":                     {parts: "edit,rest,restart,partition", components: "knative-serving,knative-eventing", compare: "same,serving,whole"},
		"nothing":                 {components: "knative-eventing"},
		"an unknown part":         {parts: "edit,pause", components: "knative-serving", invalid: true},
		"an unknown component":    {components: "knative-functions", invalid: true},
		"an unknown comparison":   {components: "knative-serving", compare: "half", invalid: true},
		"an edit without Serving": {parts: "edit", components: "knative-eventing", invalid: true},
	} {
		t.Run(name, func(t *testing.T) {
			var o options
			if err := o.choose(c.parts, c.components, c.compare); (err != nil) != c.invalid {
				t.Errorf("error is %v", err)
			}
		})
	}
	var o options
	if err := o.choose("rest", "knative-serving", "same"); err != nil || !o.has(partRest) || o.has(partEdit) ||
		!slices.Equal(o.components, []api.Component{api.Serving}) {
		t.Errorf("the options are %v with error %v", o, err)
	}
}

func TestPerCluster(t *testing.T) {
	u := usage{writes: map[lab.Write]int{
		{Account: ourAccount + "manager", Verb: "patch", Resource: "manifestworks"}:  20,
		{Account: ourAccount + "local", Verb: "patch", Resource: "manifestworks"}:    5,
		{Account: ourAccount + "manager", Verb: "create", Resource: "events"}:        1,
		{Account: ourAccount + "manager", Verb: "update", Resource: "leases"}:        9,
		{Account: ourAccount + "manager", Verb: "delete", Resource: "manifestworks"}: 0,
		{Account: ocmAccount + "work", Verb: "patch", Resource: "manifestworks"}:     7,
	}}
	if got, want := u.perCluster(ourAccount, 10), "create events 0.10, patch manifestworks 2.50"; got != want {
		t.Errorf("the writes for each cluster are %q, want %q", got, want)
	}
}
