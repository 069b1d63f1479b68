// Copyright Contributors to the Open Cluster Management project

package render

import (
	"bytes"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"open-cluster-management.io/knative-addon/pkg/message"
)

// contentScan finds the differences of a bundle from the baseline.
type contentScan struct {
	install          *Install
	sources          sources
	images           imagePolicy
	baseline, bundle *Bundle

	// image is the image that the last rule refused.
	image string
}

// findDifference returns the first difference that needs trust, in the order of the bundle.
func (c *contentScan) findDifference() *finding {
	released := make(map[ObjectID]Object, len(c.baseline.Foundation)+len(c.baseline.Payload))
	for _, o := range c.baseline.Objects() {
		released[o.ID()] = o
	}
	for _, o := range c.bundle.Objects() {
		id := o.ID()
		before, found := released[id]
		delete(released, id)
		if found && before.Class == o.Class && before.Orphan == o.Orphan && bytes.Equal(before.JSON, o.JSON) {
			continue
		}
		if problem := c.judgeObject(before, o, found); problem != "" {
			return c.blameInput(o.Unstructured, problem)
		}
	}
	return c.findRemoved(released)
}

// judgeObject returns why a changed or added object needs trust; empty when the object is permitted.
func (c *contentScan) judgeObject(before, after Object, released bool) string {
	if !released {
		return c.judgeAdded(after)
	}
	fields := kindOf(after.Unstructured).tenantFields
	if fields == nil {
		return "changes " + describeObject(after.Unstructured)
	}
	if before.Class != after.Class || before.Orphan != after.Orphan {
		return "changes how the cluster keeps " + describeObject(after.Unstructured)
	}
	old, oldErr := decodedJSON(before.JSON)
	now, nowErr := decodedJSON(after.JSON)
	if oldErr != nil || nowErr != nil {
		return "changes " + describeObject(after.Unstructured)
	}
	w := walker{contentScan: c, rules: fields(after.GetName())}
	if at, problem := w.walkFields("", "", old, now); at != "" {
		return fmt.Sprintf("changes %s of %s%s", at, describeObject(after.Unstructured), inParentheses(problem))
	}
	return ""
}

func inParentheses(problem string) string {
	if problem == "" {
		return ""
	}
	return " (" + problem + ")"
}

// judgeAdded judges an object that the release lacks.
func (c *contentScan) judgeAdded(o Object) string {
	u := o.Unstructured
	switch {
	case !kindOf(u).tenantMay.add:
		return "adds " + describeObject(u)
	case u.GetNamespace() != c.bundle.Namespace:
		return fmt.Sprintf("adds %s outside of namespace %q", describeObject(u), c.bundle.Namespace)
	}
	for _, field := range slices.Sorted(maps.Keys(fieldsOf(o.Object["metadata"]))) {
		if !slices.Contains([]string{"name", "namespace", "labels", "annotations"}, field) { // a finalizer would hold every removal
			return fmt.Sprintf("adds %s with metadata.%s", describeObject(u), field)
		}
	}
	if problem := labelRule(c, nil, fieldsOf(o.Object["metadata"])["labels"]); problem != "" {
		return fmt.Sprintf("adds %s: %s", describeObject(u), problem)
	}
	if problem := annotationRule(isPodAnnotation)(c, nil, fieldsOf(o.Object["metadata"])["annotations"]); problem != "" {
		return fmt.Sprintf("adds %s: %s", describeObject(u), problem)
	}
	if isKind(u, "", "ConfigMap") {
		return c.judgeAddedConfigMap(u)
	}
	return ""
}

// judgeAddedConfigMap judges an added ConfigMap by its name: under three names clusters publish CAs to pods, and under others
// processes of Knative expect configuration. Knative mounts a ConfigMap into a pod of eventing-kafka that has the name of the pod.
func (c *contentScan) judgeAddedConfigMap(u *unstructured.Unstructured) string {
	name := u.GetName()
	if slices.Contains([]string{
		"config-namespaced-broker-resources", "istio-ca-root-cert", "kafka-config-logging", "kourier-bootstrap", "kube-root-ca.crt", "openshift-service-ca.crt",
	}, name) {
		return "adds " + describeObject(u)
	}
	if len(fieldsOf(u.Object["binaryData"])) > 0 {
		return "adds binaryData of " + describeObject(u)
	}
	if c.isReadByPods(name) {
		return "adds " + describeObject(u) + ", whose name pods of Knative read"
	}
	if !isConfiguration(name) {
		return c.judgeEntries(name, fieldsOf(u.Object["data"]))
	}
	return c.judgeData(name, nil, u.Object["data"])
}

// isReadByPods reports whether a text of a workload of the bundle is the name, such as the name of a ConfigMap in an environment variable, or
// whether a pod of a StatefulSet may have the name. The names of other pods have random parts.
func (c *contentScan) isReadByPods(name string) bool {
	ofPod := ""
	if at := strings.LastIndexByte(name, '-'); at > 0 && isNumber(name[at+1:]) {
		ofPod = name[:at]
	}
	for _, o := range c.bundle.Objects() {
		if kindOf(o.Unstructured).hasPods && (o.GetName() == name || o.GetName() == ofPod || hasText(o.Object["spec"], name)) {
			return true
		}
	}
	return false
}

// isNumber reports whether a text has digits only, and at least one.
func isNumber(text string) bool {
	return text != "" && strings.Trim(text, "0123456789") == ""
}

// hasText reports whether a decoded JSON value has the text as a value.
func hasText(value any, text string) bool {
	switch v := value.(type) {
	case string:
		return v == text
	case []any:
		return slices.ContainsFunc(v, func(item any) bool { return hasText(item, text) })
	case map[string]any:
		for _, field := range v {
			if hasText(field, text) {
				return true
			}
		}
	}
	return false
}

// judgeData judges the entries of a ConfigMap that differ.
func (c *contentScan) judgeData(name string, base, got any) string {
	before, after := fieldsOf(base), fieldsOf(got)
	for _, key := range slices.Sorted(maps.Keys(before)) {
		if _, remains := after[key]; !remains && namesImage(name, key) { // Knative would read the former name of the key
			return fmt.Sprintf("removes key %q of ConfigMap %q, which names an image", message.Shorten(key, maxQuotedBytes), name)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(after)) {
		if reflect.DeepEqual(before[key], after[key]) {
			continue
		}
		if problem := entryProblem(c.bundle.Namespace, name, key, stringOf(after[key])); problem != "" {
			return describeKey(name, key) + inParentheses(problem)
		}
		if f := c.images.checkEntry(name, key, stringOf(after[key])); f != nil {
			c.image = f.image
			return describeKey(name, key) + inParentheses(f.problem)
		}
	}
	return ""
}

// judgeEntries judges the entries of an added ConfigMap that Brokers and channels may use.
func (c *contentScan) judgeEntries(name string, data map[string]any) string {
	for _, key := range slices.Sorted(maps.Keys(data)) {
		if problem := entryProblem(c.bundle.Namespace, name, key, stringOf(data[key])); problem != "" {
			return describeKey(name, key) + inParentheses(problem)
		}
	}
	return ""
}

func describeKey(configMap, key string) string {
	return fmt.Sprintf("changes key %q of ConfigMap %q", message.Shorten(key, maxQuotedBytes), configMap)
}

// findRemoved judges the objects of the release that the bundle lacks.
func (c *contentScan) findRemoved(removed map[ObjectID]Object) *finding {
	webhooks := map[workloadKey]bool{}
	for _, w := range c.baseline.Workloads {
		webhooks[workloadKey{w.Kind, w.Namespace, w.Name}] = w.Webhook
	}
	for _, o := range c.baseline.Objects() {
		if _, found := removed[o.ID()]; !found {
			continue
		}
		switch {
		case kindOf(o.Unstructured).tenantMay.remove:
		case isWorkload(o.Unstructured) && !webhooks[workloadKeyOf(o.Unstructured)]:
		default:
			return c.blameInput(o.Unstructured, "removes "+describeObject(o.Unstructured))
		}
	}
	return nil
}

// blameInput names the input that causes an object.
func (c *contentScan) blameInput(u *unstructured.Unstructured, problem string) *finding {
	f := &finding{field: "spec", problem: problem, image: c.image}
	var fields []string
	for n, p := range c.install.patches {
		t := p.Target
		if t.APIVersion == u.GetAPIVersion() && t.Kind == u.GetKind() && t.Name == u.GetName() && (t.Namespace == "" || t.Namespace == u.GetNamespace()) {
			fields = append(fields, fmt.Sprintf("spec.patches[%d]", n))
		}
	}
	for n, doc := range c.sources.additional {
		objects, err := parseSource(doc.Data)
		if err == nil && slices.ContainsFunc(objects, func(o *unstructured.Unstructured) bool {
			// The operator adds the version to the name of a Job, and gives every Namespace the name of the install namespace.
			return o.GroupVersionKind().GroupKind() == u.GroupVersionKind().GroupKind() &&
				(strings.HasPrefix(u.GetName(), o.GetName()) || isKind(u, "", "Namespace"))
		}) {
			fields = append(fields, fmt.Sprintf("spec.additionalManifests[%d]", n))
		}
	}
	for _, o := range c.install.componentSpec().GetWorkloadOverrides() {
		if o.Name == u.GetName() {
			fields = append(fields, fmt.Sprintf("spec.workloads[%s]", o.Name))
		}
	}
	if registry := c.install.componentSpec().GetRegistry(); len(fields) == 0 && (registry.Default != "" || len(registry.Override) > 0) {
		fields = append(fields, "spec.registry")
	}
	if len(fields) > 0 {
		f.field = strings.Join(slices.Compact(fields), ", ")
	}
	if f.image != "" {
		f.field += " of " + describeObject(u)
	}
	return f
}

// walker compares two objects field by field.
type walker struct {
	*contentScan
	rules map[string]fieldRule
}

// walkFields returns the path of the first difference that no rule permits, with the reason. A pattern is the path with
// "[]" for every container. An absent field equals an empty object.
func (w walker) walkFields(pattern, path string, base, got any) (at, problem string) {
	if reflect.DeepEqual(base, got) {
		return "", ""
	}
	if judge, found := w.rules[pattern]; found {
		if problem := judge(w.contentScan, base, got); problem != "" {
			return path, problem
		}
		return "", ""
	}
	if strings.HasSuffix(pattern, ".containers") || strings.HasSuffix(pattern, ".initContainers") {
		return w.walkContainers(pattern, path, base, got)
	}
	before, isObject := base.(map[string]any)
	after, areObjects := got.(map[string]any)
	if !(isObject && areObjects || isObject && got == nil || base == nil && areObjects) {
		return path, ""
	}
	for _, key := range keysOf(before, after) {
		if at, problem := w.walkFields(joinPath(pattern, key), joinPath(path, key), before[key], after[key]); at != "" {
			return at, problem
		}
	}
	return "", ""
}

func (w walker) walkContainers(pattern, path string, base, got any) (at, problem string) {
	before, after := containersOf(base), containersOf(got)
	if before == nil || after == nil || !slices.Equal(keysOf(before), keysOf(after)) {
		return path, "the containers are the release's"
	}
	for _, name := range keysOf(before) {
		at, problem := w.walkFields(pattern+"[]", fmt.Sprintf("%s[%s]", path, name), before[name], after[name])
		if at != "" {
			return at, problem
		}
	}
	return "", ""
}

// containersOf returns containers by their names; nil when two containers share a name.
func containersOf(value any) map[string]any {
	list, _ := value.([]any)
	out := make(map[string]any, len(list))
	for _, entry := range list {
		name := variableName(entry)
		if hasKey(out, name) || name == "" {
			return nil
		}
		out[name] = entry
	}
	return out
}

func joinPath(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}
