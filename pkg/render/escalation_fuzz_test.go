// Copyright Contributors to the Open Cluster Management project

package render

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"knative.dev/operator/pkg/apis/operator/base"
	"knative.dev/operator/pkg/apis/operator/v1beta1"

	"open-cluster-management.io/knative-addon/pkg/api"
)

// podChecker applies patches to one Deployment of a release and compares what the check lets pass with the release by
// Kubernetes' own types, which the check does not use.
type podChecker struct {
	release Object
	scan    *contentScan
}

func newPodChecker(tb testing.TB) *podChecker {
	tb.Helper()
	r := restrictedRenderer(tb)
	b, err := r.Render(context.Background(), install(tb, api.Serving, kourier), DefaultOptions(api.ModeManifestWork))
	if err != nil {
		tb.Fatal(err)
	}
	return &podChecker{
		release: *object(tb, b, "Deployment", "controller"),
		scan:    &contentScan{install: install(tb, api.Serving, kourier), images: r.allowedImages(), baseline: b, bundle: b},
	}
}

// check applies a patch and fails when the check lets a difference of a security field pass; the result says whether
// the patch applies and passes.
func (p *podChecker) check(tb testing.TB, kind PatchType, content string) bool {
	tb.Helper()
	d := &draft{component: api.Serving, objects: []*unstructured.Unstructured{p.release.DeepCopy()}, users: map[ObjectID]bool{}}
	d.patches = []Patch{{
		Target: PatchTarget{APIVersion: "apps/v1", Kind: "Deployment", Name: "controller"},
		Patch:  PatchSpec{Type: kind, Content: content},
	}}
	for _, step := range []func(*draft) error{applyPatches, dropServerFields, dropNulls} {
		if step(d) != nil {
			return false
		}
	}
	if len(d.objects) == 0 {
		return false
	}
	data, err := json.Marshal(d.objects[0].Object)
	if err != nil {
		return false
	}
	patched := Object{Unstructured: d.objects[0], JSON: data, Class: p.release.Class, Orphan: p.release.Orphan}
	if problem := p.scan.judgeObject(p.release, patched, true); problem != "" {
		return false
	}
	got := appsv1.Deployment{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(patched.Object, &got); err != nil {
		return false // no API server takes the object
	}
	want := appsv1.Deployment{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(p.release.Object, &want); err != nil {
		tb.Fatal(err)
	}
	if diff := cmp.Diff(securityFields(want), securityFields(got), cmpopts.EquateEmpty()); diff != "" {
		tb.Errorf("the check lets a %s patch pass that changes security fields (-release +patched):\n%s\npatch: %s", kind, diff, content)
	}
	return true
}

// securityFields is a Deployment without the fields that a tenant may choose.
func securityFields(d appsv1.Deployment) any {
	pod := d.Spec.Template.Spec
	pod.NodeSelector, pod.Tolerations, pod.Affinity, pod.TopologySpreadConstraints = nil, nil, nil, nil
	pod.TerminationGracePeriodSeconds, pod.ImagePullSecrets = nil, nil
	if !strings.HasPrefix(pod.PriorityClassName, "system-") {
		pod.PriorityClassName = ""
	}
	if reflect.DeepEqual(pod.SecurityContext, &corev1.PodSecurityContext{}) {
		pod.SecurityContext = nil // an API server writes the empty one
	}
	for _, list := range [][]corev1.Container{pod.Containers, pod.InitContainers} {
		for i := range list {
			plainContainer(&list[i])
		}
	}
	return struct {
		Pod      corev1.PodSpec
		Selector any
	}{pod, d.Spec.Selector}
}

func plainContainer(c *corev1.Container) {
	if strings.HasPrefix(c.Image, "gcr.io/knative-releases/") || strings.HasPrefix(c.Image, "mirror.example.com/knative") {
		c.Image = ""
	}
	c.ImagePullPolicy = ""
	if reflect.DeepEqual(c.SecurityContext, &corev1.SecurityContext{}) {
		c.SecurityContext = nil
	}
	for _, list := range []corev1.ResourceList{c.Resources.Limits, c.Resources.Requests} {
		for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage} {
			delete(list, name)
		}
	}
	if len(c.Resources.Limits) == 0 {
		c.Resources.Limits = nil
	}
	if len(c.Resources.Requests) == 0 {
		c.Resources.Requests = nil
	}
	var env []corev1.EnvVar
	for _, v := range c.Env {
		if v.ValueFrom != nil || (v.Name != "GOGC" && v.Name != "KUBE_API_QPS") {
			env = append(env, v)
		}
	}
	c.Env = env
	for _, probe := range []**corev1.Probe{&c.LivenessProbe, &c.ReadinessProbe, &c.StartupProbe} {
		if *probe != nil && (*probe).Exec == nil {
			*probe = nil
		}
	}
}

// randomPatch makes a patch of some fields of the pods, permitted ones and others. Most are small, so that many pass.
func randomPatch(r *rand.Rand) (PatchType, string) {
	pick := func(texts ...string) string { return texts[r.IntN(len(texts))] }
	container := func() string {
		return pick(
			`"image":"gcr.io/knative-releases/x"`, `"image":"mirror.example.com/knative/x"`, `"image":"evil.example.com/x"`, `"imagePullPolicy":"Always"`,
			`"command":["sh"]`, `"args":["x"]`, `"env":[{"name":"GOGC","value":"1"}]`, `"env":[{"name":"GOGC","value":"$(X)"}]`, `"env":[{"name":"`+pick("A", "POD_NAME", "KUBE_API_QPS")+`","value":"2"}]`,
			`"env":[{"$patch":"delete","name":"SYSTEM_NAMESPACE"}]`, `"resources":{"limits":{"cpu":"1"}}`, `"resources":{"limits":{"example.com/x":"1"}}`, `"resources":null`,
			`"securityContext":`+pick("null", "{}", `{"privileged":true}`, `{"runAsUser":0}`, `{"$patch":"replace"}`, `{"capabilities":{"add":["ALL"]}}`, `{"runAsNonRoot":null}`),
			`"livenessProbe":`+pick("null", `{"periodSeconds":3}`, `{"exec":{"command":["x"]}}`, `{"$patch":"replace","exec":{"command":["x"]}}`),
			`"volumeMounts":[{"name":"x","mountPath":"/x"}]`, `"ports":[{"containerPort":9090,"hostPort":1}]`, `"lifecycle":{"preStop":{"exec":{"command":["x"]}}}`,
			`"name":"`+pick("controller", "other")+`"`, `"tty":true`,
		)
	}
	pod := func() string {
		return pick(
			`"hostNetwork":`+pick("true", "false"), `"hostPID":true`, `"serviceAccountName":"x"`, `"automountServiceAccountToken":true`, `"nodeSelector":{"a":"b"}`,
			`"tolerations":[{"operator":"Exists"}]`, `"priorityClassName":"`+pick("x", "system-node-critical")+`"`, `"volumes":[{"name":"x","hostPath":{"path":"/"}}]`,
			`"securityContext":`+pick("{}", `{"runAsUser":0}`, `{"runAsNonRoot":false}`), `"dnsPolicy":"None"`, `"terminationGracePeriodSeconds":5`, `"imagePullSecrets":[{"name":"x"}]`,
			`"initContainers":[{"name":"x","image":"gcr.io/knative-releases/x"}]`, `"containers":[{"$patch":"delete","name":"controller"}]`, `"$patch":"replace"`,
			`"containers":[{"name":"`+pick("controller", "controller", "controller", "x")+`",`+container()+`,`+container()+`}]`, `"containers":[{"name":"controller",`+container()+`}]`,
		)
	}
	switch r.IntN(4) {
	case 0:
		return JSONPatch, fmt.Sprintf(`[{"op":"%s","path":"/spec/template/spec/%s","value":%s}]`, pick("add", "replace", "remove"),
			pick("hostNetwork", "containers/0/image", "containers/0/securityContext", "containers/0/env/0", "containers/0/command", "nodeSelector", "serviceAccountName", "containers/-"),
			pick("true", `"x"`, `["x"]`, `{}`, `{"a":"b"}`, `"gcr.io/knative-releases/y"`, `{"name":"x","image":"gcr.io/knative-releases/x"}`))
	case 1:
		return MergePatch, `{"spec":{"template":{"spec":{` + pod() + `}}}}`
	case 2:
		return StrategicPatch, `{"spec":{"template":{"spec":{` + pod() + `,` + pod() + `}}}}`
	default:
		return StrategicPatch, `{"spec":{"template":{"spec":{` + pod() + `}}}}`
	}
}

// TestRandomPatchesKeepSecurityFields holds that no patch which the check lets pass changes a security field of a pod.
func TestRandomPatchesKeepSecurityFields(t *testing.T) {
	skipLongTest(t)
	p, r := newPodChecker(t), rand.New(rand.NewPCG(13, 2)) //nolint:gosec // a test that repeats
	passed := 0
	const patches = 4000
	for range patches {
		kind, content := randomPatch(r)
		if p.check(t, kind, content) {
			passed++
		}
		if t.Failed() {
			return
		}
	}
	if passed < patches/20 || passed > patches*19/20 {
		t.Errorf("%d of %d patches pass: the generator tries one side only", passed, patches)
	}
}

// FuzzRestrictedPatch is the same for any patch.
func FuzzRestrictedPatch(f *testing.F) {
	r := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // seeds that repeat
	for range 50 {
		kind, content := randomPatch(r)
		f.Add(string(kind), content)
	}
	f.Add(string(MergePatch), `{"spec":{"template":{"spec":{"initContainers":[]}}}}`) // an empty list says the same as none
	p := newPodChecker(f)
	f.Fuzz(func(t *testing.T, kind, content string) {
		if !strings.Contains(content, "&") { // anchors are another matter
			p.check(t, PatchType(kind), content)
		}
	})
}

// TestFieldsAreDecided holds that docs/rendering.md says of every field of the API whether the field needs trust: a new
// version of the Knative Operator with another field needs a decision first.
func TestFieldsAreDecided(t *testing.T) {
	data, err := os.ReadFile("../../docs/rendering.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(data), "<!-- fields -->")
	table, _, found := strings.Cut(table, "<!-- /fields -->")
	if !found {
		t.Fatal("docs/rendering.md has no table of fields")
	}
	decided := map[string]bool{"name": true, "container": true, "envVars": true}
	for _, word := range strings.FieldsFunc(table, func(r rune) bool { return strings.ContainsRune("`,|: []().*", r) }) {
		decided[word] = true
	}
	decided["readinessProbes"], decided["livenessProbes"] = decided["probes"], decided["probes"]
	for _, example := range []any{
		v1beta1.KnativeServingSpec{},
		v1beta1.KnativeEventingSpec{},
		v1beta1.IngressConfigs{},
		base.CommonSpec{},
		base.WorkloadOverride{},
		base.ServiceOverride{},
		base.Registry{},
		base.NamespaceConfiguration{},
		base.KourierIngressConfiguration{},
		base.IstioIngressConfiguration{},
	} {
		typ := reflect.TypeOf(example)
		for field := range typ.Fields() {
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			if name != "" && !decided[name] && typ.Name() != "IngressConfigs" {
				t.Errorf("the table of docs/rendering.md does not say whether field %q of %s needs trust", name, typ.Name())
			}
		}
	}
}

// TestReleaseImagesAreAllowed holds that every image of every bundled release has one of the prefixes of the releases.
func TestReleaseImagesAreAllowed(t *testing.T) {
	skipLongTest(t)
	images := restrictedRenderer(t).allowedImages()
	for component, spec := range map[api.Component]string{
		api.Serving:  "ingress: {kourier: {enabled: true}, istio: {enabled: true}, contour: {enabled: true}, gateway-api: {enabled: true}}\nsecurity: {securityGuard: {enabled: true}}",
		api.Eventing: "source: {ceph: {enabled: true}, github: {enabled: true}, gitlab: {enabled: true}, kafka: {enabled: true}, rabbitmq: {enabled: true}, redis: {enabled: true}}",
	} {
		for _, minor := range []string{"1.20", "1.21", "1.22", "1.23"} {
			b := bundle(t, component, fmt.Sprintf("version: %q\n%s", minor, spec))
			for _, image := range Images(b) {
				if strings.Contains(image.Reference, "/") && !images.allowsImage(image.Reference) {
					t.Errorf("%s %s: image %q is not allowed", component, minor, image.Reference)
				}
			}
			for _, name := range undecidedConfigMaps(b) {
				t.Errorf("%s %s: decide about ConfigMap %q", component, minor, name)
			}
		}
	}
}

// undecidedConfigMaps lists the ConfigMaps that hold no configuration and that no rule names.
func undecidedConfigMaps(b *Bundle) []string {
	known := []string{"config-namespaced-broker-resources", "kafka-config-logging", "kourier-bootstrap"}
	var out []string
	for _, o := range b.Payload {
		if name := o.GetName(); isKind(o.Unstructured, "", "ConfigMap") && !isConfiguration(name) && !slices.Contains(known, name) {
			out = append(out, name)
		}
	}
	return out
}
