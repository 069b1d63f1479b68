// Copyright Contributors to the Open Cluster Management project

package direct

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/boundedhttp/boundedhttptest"
	"open-cluster-management.io/knative-addon/pkg/clustercache"
)

// FuzzInstallationAnswers decodes what a cluster answers to the requests of an installation. Nothing may panic, take more than
// the limits say, or have a cause that is no text for a condition.
func FuzzInstallationAnswers(f *testing.F) {
	f.Add(200, []byte(`{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","metadata":{"resourceVersion":"9"},"items":[{"metadata":{"name":"a"}},{},null]}`))
	f.Add(200, []byte(`{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"continue":"x"},"items":[{"metadata":{"annotations":{"operator.knative.dev/anchor":"true"}}}]}`))
	f.Add(200, []byte(`{"kind":"APIResourceList","groupVersion":"v1","resources":[{"name":"a","kind":"B"}]}`))
	f.Add(403, []byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,"message":"\u0007\u001b[2J","details":{"causes":[{}]}}`))
	f.Add(200, []byte(`{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a","uid":"b"},"data":{"inventory":"{\"version\":\"v1\",\"resource\":\"a\",\"kind\":\"b\",\"name\":\"c\"}"}}`))
	f.Add(200, []byte(strings.Repeat(`{"items":[`, 20)))
	f.Add(200, []byte(`{"items":[`+strings.Repeat("{},", 100)))
	f.Fuzz(func(t *testing.T, status int, body []byte) {
		if status < 200 || status > 599 {
			return
		}
		c, err := clustercache.Connect(&rest.Config{Host: "http://spoke", QPS: -1}, &http.Client{Transport: boundedhttptest.NewServer(status, body)},
			clustercache.Options{Changed: func(api.Component) {}})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		i := NewInstallation(c, ownerNamed("fuzz"), clocktesting.NewFakePassiveClock(time.Unix(1000, 0)))
		_, err = i.store.Find(ctx)
		boundedhttptest.CheckError(t, err)
		if a, err := i.store.Read(ctx, installed); err == nil && a != nil && (a.Size() > 512<<10 || len(a.Items) > clustercache.MaxObjects) {
			t.Errorf("an anchor of %d bytes and %d entries", a.Size(), len(a.Items))
		}
		_, err = i.servesKinds(ctx, schema.GroupVersion{Group: "a", Version: "v1"}, map[string]bool{"B": true})
		boundedhttptest.CheckError(t, err)
		_, _, err = i.countUserResources(ctx, configMapResource(), true)
		boundedhttptest.CheckError(t, err)
	})
}
