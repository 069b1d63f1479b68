// Copyright Contributors to the Open Cluster Management project

package supportbundle

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// withheld replaces a value that may be a credential.
const withheld = "[withheld]"

var (
	// secretKey matches names of fields and settings whose values may be credentials.
	secretKey = regexp.MustCompile(`(?i)(token|passw|passphrase|secret|credential|api[-_.]?key|private[-_.]?key|access[-_.]?key|client[-_.]?key|authorization|cookie|cabundle|\bpass\b|\bpwd\b|\bauth\b|dsn|connection[-_.]?string|sasl|jaas)`)
	// secretText matches texts that contain a credential.
	secretText = regexp.MustCompile(`(?i)((token|passw(or)?d|passphrase|secret|credentials?|api[_-]?key|(private|access|client)[_-]?key([_-]?data)?|authorization|cookie)\\*["']?\s*[:=]|` +
		`(^|\s)--?[\w-]*(token|passw|passphrase|secret)[\w-]*\s+\S|\b(bearer|basic)\s+\S|-----BEGIN|\beyJ[\w-]{8,}|\bAKIA[0-9A-Z]{8,}|://[^/\s]*@|://[^\s?]*\?\S)`)
	// secretRun matches a long run of characters with a digit that is neither a hash of a spec nor the digest of an image.
	secretRun = regexp.MustCompile(`[A-Za-z0-9+/=_]{40,}`)
	hexDigits = regexp.MustCompile(`^[0-9a-f]+$`)
	// nameSegment matches a segment of a path: lower case and digits, or words such as ManagedClusterAddOn and HTTPRoute.
	nameSegment = regexp.MustCompile(`^([a-z0-9_]*|([A-Z]{0,5}[a-z]{2,})+)$`)
	// secretFlag matches an argument of a program whose next argument may be a credential.
	secretFlag = regexp.MustCompile(`^--?[^=\s]+$`)
)

// scrubText returns the text, or withheld when the text looks like a credential.
func scrubText(text string) string {
	if secretText.MatchString(text) {
		return withheld
	}
	for _, run := range secretRun.FindAllString(text, -1) {
		if !hexDigits.MatchString(run) && strings.ContainsAny(run, "0123456789") && !isPath(run) {
			return withheld
		}
	}
	return text
}

// isPath reports whether a run with a slash consists of names, such as a path of the API or the name of an image. Base64 has slashes, too.
func isPath(run string) bool {
	segments := strings.FieldsFunc(run, func(r rune) bool { return r == '/' || r == '=' })
	isNoName := func(segment string) bool { return !nameSegment.MatchString(segment) }
	return strings.Contains(run, "/") && !slices.ContainsFunc(segments, isNoName)
}

// scrubValue returns a copy of a decoded JSON value without credentials.
func scrubValue(value any) any {
	switch v := value.(type) {
	case string:
		return scrubText(v)
	case []any:
		return scrubList(v)
	case map[string]any:
		return scrubMap(v)
	default:
		return value
	}
}

// scrubList scrubs a list. The argument after a flag such as --password is withheld.
func scrubList(items []any) []any {
	out := make([]any, 0, len(items))
	afterFlag := false
	for _, item := range items {
		if afterFlag && mayBeSecret(item) {
			item = withheld
		}
		text, _ := item.(string)
		afterFlag = secretFlag.MatchString(text) && secretKey.MatchString(text)
		out = append(out, scrubValue(item))
	}
	return out
}

// scrubMap scrubs a map. A map with a name and a value is an environment variable or a customized variable, and a map with a path and a value an
// operation of a JSON patch: both values are withheld.
func scrubMap(fields map[string]any) map[string]any {
	out := make(map[string]any, len(fields))
	_, isVariable := fields["name"].(string)
	_, hasOp := fields["op"].(string)
	_, hasPath := fields["path"].(string)
	isOperation := hasOp && hasPath && isScalar(fields["value"])
	for key, value := range fields {
		switch {
		case mayBeSecret(value) && (secretKey.MatchString(key) || (isVariable || isOperation) && key == "value"):
			out[scrubText(key)] = withheld
		case key == "content":
			out[key] = scrubDocument(value)
		default:
			out[scrubText(key)] = scrubValue(value)
		}
	}
	return out
}

// isScalar reports whether a decoded JSON value is no map and no list.
func isScalar(value any) bool {
	switch value.(type) {
	case map[string]any, []any:
		return false
	default:
		return true
	}
}

// scrubDocument scrubs the content of a patch, which is JSON or YAML in a text. A text that cannot be read is withheld.
func scrubDocument(value any) any {
	text, isText := value.(string)
	if !isText {
		return scrubValue(value)
	}
	var content any
	if err := yaml.Unmarshal([]byte(text), &content); err != nil {
		return withheld
	}
	scrubbed, err := json.Marshal(scrubValue(content))
	if err != nil {
		return withheld
	}
	return string(scrubbed)
}

// maxForeignAnnotation is the number of bytes of an annotation of another program that the archive shows: longer annotations may be copies of
// the object.
const maxForeignAnnotation = 256

// isForeignCopy reports whether an annotation of another program may be a copy of the object.
func isForeignCopy(key, value string) bool {
	domain, _, _ := strings.Cut(key, "/")
	isKnown := slices.ContainsFunc([]string{"open-cluster-management.io", "knative.dev"}, func(known string) bool {
		return domain == known || strings.HasSuffix(domain, "."+known)
	})
	return !isKnown && len(value) > maxForeignAnnotation
}

// mayBeSecret reports whether a value under a telling name may be a credential: all values but an empty text, a bool and null.
func mayBeSecret(value any) bool {
	switch v := value.(type) {
	case string:
		return v != ""
	case bool, nil:
		return false
	default:
		return true
	}
}

// redactObject returns the fields of an object that a support case needs: names, labels, annotations, spec and status without
// credentials.
func redactObject(u *unstructured.Unstructured) map[string]any {
	out := redactMetadata(u)
	for _, field := range []string{"spec", "status"} {
		if value, found := u.Object[field]; found {
			out[field] = scrubValue(value)
		}
	}
	return out
}

// redactMetadata returns an object without spec and status.
func redactMetadata(u *unstructured.Unstructured) map[string]any {
	metadata := map[string]any{}
	given, _ := u.Object["metadata"].(map[string]any)
	for _, field := range []string{
		"name", "namespace", "uid", "generation", "resourceVersion", "creationTimestamp", "deletionTimestamp", "labels", "finalizers", "ownerReferences",
	} {
		if value, found := given[field]; found {
			metadata[field] = scrubValue(value)
		}
	}
	annotations := map[string]any{}
	for key, value := range u.GetAnnotations() {
		if key == "kubectl.kubernetes.io/last-applied-configuration" {
			continue // a copy of the object before the redaction
		}
		annotations[key] = scrubText(value)
		if secretKey.MatchString(key) || isForeignCopy(key, value) {
			annotations[key] = withheld
		}
	}
	if len(annotations) > 0 {
		metadata["annotations"] = annotations
	}
	return map[string]any{"apiVersion": u.GetAPIVersion(), "kind": u.GetKind(), "metadata": metadata}
}

// redactProfile returns a ClusterProfile without the access providers, whose configurations may be credentials.
func redactProfile(u *unstructured.Unstructured) map[string]any {
	out := redactMetadata(u)
	copyFields(out, u, []string{"spec", "displayName"}, []string{"spec", "clusterManager"}, []string{"status", "conditions"},
		[]string{"status", "version"})
	addValues(out, u, "properties")
	var names []any
	for _, field := range []string{"accessProviders", "credentialProviders"} {
		providers, _, _ := unstructured.NestedSlice(u.Object, "status", field)
		for _, p := range providers {
			if provider, isMap := p.(map[string]any); isMap {
				names = append(names, scrubValue(provider["name"]))
			}
		}
	}
	if len(names) > 0 {
		_ = unstructured.SetNestedSlice(out, names, "status", "accessProviderNames")
	}
	return out
}

// redactCluster returns a ManagedCluster without its address and certificate.
func redactCluster(u *unstructured.Unstructured) map[string]any {
	out := redactMetadata(u)
	copyFields(out, u, []string{"spec", "hubAcceptsClient"}, []string{"spec", "taints"}, []string{"status", "conditions"}, []string{"status", "version"})
	addValues(out, u, "clusterClaims")
	return out
}

// addValues adds the named values of a cluster in a field of the status, each as name=value.
func addValues(out map[string]any, u *unstructured.Unstructured, field string) {
	list, _, _ := unstructured.NestedSlice(u.Object, "status", field)
	var named []any
	for _, item := range list {
		fields, _ := item.(map[string]any)
		name, _ := fields["name"].(string)
		value, _ := fields["value"].(string)
		if !secretKey.MatchString(name) {
			named = append(named, scrubText(name)+"="+scrubText(value))
		}
	}
	if len(named) > 0 {
		_ = unstructured.SetNestedSlice(out, named, "status", field)
	}
}

// copyFields copies fields of an object without credentials.
func copyFields(out map[string]any, u *unstructured.Unstructured, paths ...[]string) {
	for _, path := range paths {
		if value, found, _ := unstructured.NestedFieldCopy(u.Object, path...); found {
			_ = unstructured.SetNestedField(out, scrubValue(value), path...)
		}
	}
}

// redactEvent returns the facts of an Event.
func redactEvent(u *unstructured.Unstructured) map[string]any {
	out := redactMetadata(u)
	for _, field := range []string{"involvedObject", "reason", "message", "type", "count", "firstTimestamp", "lastTimestamp", "eventTime", "reportingComponent", "source", "series"} {
		if value, found := u.Object[field]; found {
			out[field] = scrubValue(value)
		}
	}
	return out
}

// redactManager returns a Deployment of the manager: the images and the status.
func redactManager(u *unstructured.Unstructured) map[string]any {
	out := redactMetadata(u)
	var images []any
	containers, _, _ := unstructured.NestedSlice(u.Object, "spec", "template", "spec", "containers")
	for _, c := range containers {
		if container, isMap := c.(map[string]any); isMap {
			images = append(images, scrubValue(container["image"]))
		}
	}
	if len(images) > 0 {
		_ = unstructured.SetNestedSlice(out, images, "images")
	}
	copyFields(out, u, []string{"spec", "replicas"}, []string{"status"})
	return out
}
