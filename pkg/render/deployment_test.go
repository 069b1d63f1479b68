// Copyright Contributors to the Open Cluster Management project

package render

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"open-cluster-management.io/knative-addon/pkg/api"
)

func TestDeployment(t *testing.T) {
	d := NewDeployment(DeploymentSpec{
		NodeSelector: map[string]string{"node-role": "infra"},
		Tolerations:  []corev1.Toleration{{Key: "infra", Operator: corev1.TolerationOpExists, TolerationSeconds: new(int64(5))}},
		Mirrors:      []Mirror{{"gcr.io/knative-releases", "mirror.example/knative"}, {"docker.io/", "mirror.example/hub/"}, {"unused", ""}},
		HTTPProxy:    "http://proxy:1", HTTPSProxy: "http://proxy:2", NoProxy: ".svc",
	})
	b := on(t, install(t, api.Serving, kourier), nil, d)
	if len(b.Workloads) == 0 || len(b.Jobs) == 0 {
		t.Fatal("there is nothing to look at")
	}
	for _, o := range b.Payload {
		if !kindOf(o.Unstructured).hasPods {
			continue
		}
		json := string(o.JSON)
		for _, want := range []string{
			`"nodeSelector":{"node-role":"infra"}`, `{"key":"infra","operator":"Exists","tolerationSeconds":5}`,
			`{"name":"HTTP_PROXY","value":"http://proxy:1"}`, `{"name":"HTTPS_PROXY","value":"http://proxy:2"}`, `{"name":"NO_PROXY","value":".svc"}`,
		} {
			if !strings.Contains(json, want) {
				t.Errorf("%s has no %s", describeObject(o.Unstructured), want)
			}
		}
	}
	for _, image := range Images(b) {
		if strings.HasPrefix(image.Reference, "gcr.io/knative-releases") || strings.HasPrefix(image.Reference, "docker.io") {
			t.Errorf("%s is not mirrored in %v", image.Reference, image.UsedBy)
		}
	}
	if json := jsonOf(t, b, "ConfigMap/config-deployment"); !strings.Contains(json, `"queue-sidecar-image":"mirror.example/knative`) {
		t.Errorf("the sidecar of user pods is not mirrored: %s", json)
	}
	if on(t, install(t, api.Serving, kourier), nil, NewDeployment(d.spec)) != b {
		t.Error("an equal deployment has another bundle")
	}
}

// TestResourceWinsOverDeployment holds that what the CR says replaces what the AddOnDeploymentConfig says.
func TestResourceWinsOverDeployment(t *testing.T) {
	d := NewDeployment(DeploymentSpec{
		NodeSelector: map[string]string{"from": "config"}, Tolerations: []corev1.Toleration{{Key: "config"}},
		Mirrors: []Mirror{{Mirror: "everything.example"}}, HTTPProxy: "http://config", NoProxy: ".config",
	})
	b := on(t, install(t, api.Serving, kourier+`
registry: {override: {activator: mine.example/activator, controller/controller: mine.example/controller}}
config: {deployment: {queue-sidecar-image: mine.example/queue}}
workloads:
- name: activator
  nodeSelector: {from: resource}
  tolerations: [{key: resource}]
  env: [{container: activator, envVars: [{name: HTTP_PROXY, value: "http://resource"}]}]
`), nil, d)
	activator := jsonOf(t, b, "Deployment/activator")
	for _, want := range []string{
		`"nodeSelector":{"from":"resource"}`, `"tolerations":[{"key":"resource"}]`, `"image":"mine.example/activator"`,
		`{"name":"HTTP_PROXY","value":"http://resource"}`, `{"name":"NO_PROXY","value":".config"}`,
	} {
		if !strings.Contains(activator, want) {
			t.Errorf("the activator has no %s: %s", want, activator)
		}
	}
	if strings.Contains(activator, "http://config") {
		t.Errorf("the activator has both proxies: %s", activator)
	}
	if json := jsonOf(t, b, "ConfigMap/config-deployment"); !strings.Contains(json, `"queue-sidecar-image":"mine.example/queue"`) {
		t.Errorf("the image of spec.config is replaced: %s", json)
	}
	if json := jsonOf(t, b, "Deployment/webhook"); !strings.Contains(json, `"image":"everything.example/webhook@sha256:`) ||
		!strings.Contains(json, `"nodeSelector":{"from":"config"}`) {
		t.Errorf("a workload of which the resource says nothing does not follow the deployment: %s", json)
	}
}

// TestAdapterKeepsItsEnvironment holds that nothing is added to what the eventing controller compares.
func TestAdapterKeepsItsEnvironment(t *testing.T) {
	b := on(t, install(t, api.Eventing, "{}"), nil, NewDeployment(DeploymentSpec{HTTPProxy: "http://proxy", CABundle: true}))
	if json := jsonOf(t, b, "Deployment/"+pingAdapter); strings.Contains(json, "HTTP_PROXY") {
		t.Errorf("the adapter has a proxy: %s", json)
	}
	if !slices.ContainsFunc(b.Warnings, func(w string) bool { return strings.Contains(w, "caBundle") }) {
		t.Errorf("nobody is told of the CA: %v", b.Warnings)
	}
}

func TestMirrored(t *testing.T) {
	mirrors := []Mirror{{"a.example/x", "one"}, {"a.example/x/y", "two/"}, {"b.example:5000/z:v1", "three:v2"}}
	for image, want := range map[string]string{
		"a.example/x/img:v1":      "one/img:v1",
		"a.example/x/y/img@sha":   "two/img@sha",
		"a.example/xy/img":        "a.example/xy/img",
		"b.example:5000/z:v1":     "three:v2",
		"b.example:5000/z:v11":    "b.example:5000/z:v11",
		"":                        "",
		"no image: a.example/x/y": "no image: a.example/x/y",
	} {
		if got := (&Deployment{spec: DeploymentSpec{Mirrors: mirrors}}).mirrorImage(image); got != want {
			t.Errorf("%q comes from %q, want %q", image, got, want)
		}
	}
	everything := &Deployment{spec: DeploymentSpec{Mirrors: []Mirror{{Mirror: "m.example/all/"}}}}
	if got := everything.mirrorImage("a.example/x/y/img:v1"); got != "m.example/all/img:v1" {
		t.Errorf("it comes from %q", got)
	}
}

func TestEmptyDeployment(t *testing.T) {
	if d := NewDeployment(DeploymentSpec{NodeSelector: map[string]string{}, Mirrors: []Mirror{{Source: "a"}}}); d != nil {
		t.Errorf("it says %+v", d.spec)
	}
	if err := (*Deployment)(nil).applyTo(&unstructured.Unstructured{}); err != nil {
		t.Error(err)
	}
}
