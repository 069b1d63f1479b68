// Copyright Contributors to the Open Cluster Management project

package harness

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/test/lab"
	"open-cluster-management.io/knative-addon/test/lab/realnode"
)

// HelloText begins the answer of Service hello.
const HelloText = "hello world from "

// HelloManifest is a Service of a user on a cluster with a real node.
const HelloManifest = `
apiVersion: serving.knative.dev/v1
kind: Service
metadata: {name: hello, namespace: default}
spec:
  template:
    spec:
      containers:
      - image: ` + realnode.HelloImage + `
        env: [{name: TARGET, value: world}]
`

// Hello reads Service hello of a cluster.
func Hello(ctx context.Context, c *lab.Cluster) (*unstructured.Unstructured, error) {
	client, err := dynamic.NewForConfig(c.Config)
	if err != nil {
		return nil, fmt.Errorf("cannot create a client for %s: %w", c.Name, err)
	}
	services := schema.GroupVersionResource{Group: "serving.knative.dev", Version: "v1", Resource: "services"}
	return client.Resource(services).Namespace("default").Get(ctx, "hello", metav1.GetOptions{})
}

// HelloRequest returns a request to the URL of Service hello, as DNS would lead the request to the gateway of the cluster.
func HelloRequest(ctx context.Context, c *lab.Cluster) (*http.Request, error) {
	service, err := Hello(ctx, c)
	if err != nil {
		return nil, err
	}
	client, err := dynamic.NewForConfig(c.Config)
	if err != nil {
		return nil, fmt.Errorf("cannot create a client for %s: %w", c.Name, err)
	}
	gateway, err := client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "services"}).
		Namespace(api.Serving.InstallNamespace()).Get(ctx, "kourier", metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	address, _, _ := unstructured.NestedString(gateway.Object, "spec", "clusterIP")
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/", http.NoBody)
	if err != nil {
		return nil, err
	}
	url, _, _ := unstructured.NestedString(service.Object, "status", "url")
	if request.Host = strings.TrimPrefix(url, "http://"); request.Host == "" {
		return nil, errors.New("no URL of Service hello yet")
	}
	return request, nil
}
