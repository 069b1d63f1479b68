// Copyright Contributors to the Open Cluster Management project

package render

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"

	yamlv3 "go.yaml.in/yaml/v3"
	"knative.dev/operator/pkg/apis/operator/base"

	"open-cluster-management.io/knative-addon/pkg/api"
)

// checkSpecBounds refuses a spec that is too large, before any other function reads the spec.
func checkSpecBounds(spec map[string]any) *boundsFault {
	all := boundsCheck{text: api.MaxTextBytes}
	for _, field := range slices.Sorted(maps.Keys(spec)) {
		c := boundsCheck{text: api.MaxTextBytes}
		switch field {
		case "config":
			c.text = api.MaxSpecBytes
		case "patches":
			c.text = api.MaxPatchBytes
			if list, ok := spec[field].([]any); ok && len(list) > api.MaxPatches {
				return &boundsFault{"spec.patches", fmt.Sprintf("has %d entries, %d is the limit: merge patches of the same object", len(list), api.MaxPatches)}
			}
		}
		if fault := c.checkValue(spec[field]); fault != nil {
			return fault.withParent("spec." + field)
		}
		if all.size += len(field) + c.size; all.size > api.MaxSpecBytes {
			return &boundsFault{"the spec", fmt.Sprintf("has more than %d bytes: shorten spec.%s", api.MaxSpecBytes, field)}
		}
	}
	return nil
}

// boundsFault is a part of a spec that is too large, with the reason.
type boundsFault struct{ path, why string }

// Error implements error.
func (f *boundsFault) Error() string { return f.path + " " + f.why }

// withParent returns the fault with a path that starts at the enclosing value.
func (f *boundsFault) withParent(parent string) *boundsFault {
	return &boundsFault{parent + f.path, f.why}
}

// boundsCheck adds up the size of a value and finds the first part that is too large.
type boundsCheck struct {
	// text is the longest text that may be.
	text, size int
}

func (c *boundsCheck) checkValue(value any) *boundsFault {
	switch v := value.(type) {
	case string:
		c.size += len(v) + 2
		if len(v) > c.text {
			return &boundsFault{"", fmt.Sprintf("has %d bytes, %d is the limit: shorten the text", len(v), c.text)}
		}
	case []any:
		return c.checkList(v)
	case map[string]any:
		return c.checkMap(v)
	default:
		c.size += 4
	}
	return nil
}

func (c *boundsCheck) checkList(list []any) *boundsFault {
	if len(list) > api.MaxListItems {
		return &boundsFault{"", fmt.Sprintf("has %d entries, %d is the limit: shorten the list", len(list), api.MaxListItems)}
	}
	for n, item := range list {
		c.size++
		if fault := c.checkValue(item); fault != nil {
			return fault.withParent(fmt.Sprintf("[%d]", n))
		}
	}
	return nil
}

// checkMap checks all keys although their order varies, so that equal specs have equal faults.
func (c *boundsCheck) checkMap(m map[string]any) *boundsFault {
	if len(m) > api.MaxMapKeys {
		return &boundsFault{"", fmt.Sprintf("has %d keys, %d is the limit: take keys away", len(m), api.MaxMapKeys)}
	}
	var first *boundsFault
	for key, value := range m {
		if c.size += len(key) + 4; len(key) > api.MaxTextBytes {
			return &boundsFault{"", fmt.Sprintf("has a key of more than %d bytes: shorten the key", api.MaxTextBytes)}
		}
		if fault := c.checkValue(value); fault != nil {
			if fault = fault.withParent("." + key); first == nil || fault.path < first.path {
				first = fault
			}
		}
	}
	return first
}

// checkPatchesBytes bounds all patches together.
func checkPatchesBytes(patches []Patch) error {
	total := 0
	for n, p := range patches {
		if total += len(p.Patch.Content); total > maxPatchesBytes {
			return newError(api.ReasonTooLarge, "spec.patches[%d] brings the content of the patches to %d bytes, %d is the limit: "+
				"shorten or merge patches", n, total, maxPatchesBytes)
		}
	}
	return nil
}

// errAlias means that a text has an alias or anchor, which a YAML parser expands: a text of a hundred kilobytes becomes
// gigabytes.
var errAlias = errors.New("YAML anchors and aliases are not allowed: write the value where it is used")

// checkAliases refuses a text with an anchor or an alias. The parser makes a tree that keeps aliases unexpanded, so that a
// text with the plain characters & and * passes.
func checkAliases(text []byte) error {
	if !bytes.ContainsRune(text, '&') {
		return nil // without an anchor every parser refuses an alias
	}
	var root yamlv3.Node
	if err := yamlv3.Unmarshal(text, &root); err != nil {
		return fmt.Errorf("neither JSON nor YAML: %w", err)
	}
	if line := aliasLine(&root); line > 0 {
		return fmt.Errorf("line %d: %w", line, errAlias)
	}
	return nil
}

// aliasLine returns the line of the first anchor or alias; 0 when there is none.
func aliasLine(n *yamlv3.Node) int {
	if n.Anchor != "" || n.Kind == yamlv3.AliasNode {
		return max(1, n.Line)
	}
	for _, child := range n.Content {
		if line := aliasLine(child); line > 0 {
			return line
		}
	}
	return 0
}

// checkConfigYAML checks the values of spec.config that the Knative Operator's functions read as YAML.
func checkConfigYAML(spec base.KComponentSpec) error {
	for _, f := range []struct{ key, short string }{{"default-br-config", "br-defaults"}, {"local-gateways", "istio"}} {
		for _, name := range []string{f.short, "config-" + f.short} {
			if err := checkYAML(spec.GetConfig()[name][f.key]); err != nil {
				return newError(api.ReasonInvalidSpec, "spec.config.%s: key %q: %w", name, f.key, err)
			}
		}
	}
	return nil
}

// checkYAML refuses a text that is too large or too deep for a parser.
func checkYAML(text string) error {
	if len(text) > maxYAMLBytes {
		return fmt.Errorf("the text has %d bytes, %d is the limit: shorten the text", len(text), maxYAMLBytes)
	}
	return checkAliases([]byte(text))
}

// checkDocument refuses a YAML document that is a small text and a large tree.
func checkDocument(text []byte) error {
	values := 0
	for _, b := range text {
		switch b {
		case ',', '[', '{', ':', '\n', '-', '?':
			values++
		}
	}
	if values > maxDocumentValues {
		return fmt.Errorf("a document has more than %d values: split the document", maxDocumentValues)
	}
	return checkAliases(text)
}

// recordPatched adds the bytes that a patch has read and written, and refuses an object that a patch has made too large.
func (d *draft) recordPatched(before, after int) error {
	if after > maxObjectBytes {
		return newError(api.ReasonTooLarge, "the object has %d bytes after the patch, %d is the limit: have the patch write less", after, maxObjectBytes)
	}
	if d.patched += before + after; d.patched > maxPatchedBytes {
		return newError(api.ReasonTooLarge, "the patches up to here read and write %d bytes of objects, %d is the limit: "+
			"merge patches of the same object", d.patched, maxPatchedBytes)
	}
	return nil
}

// checkBounds refuses objects that are too large for any cluster.
func (d *draft) checkBounds(encoded [][]byte) error {
	if len(encoded) > maxObjects {
		return newError(api.ReasonTooLarge, "%s has %d objects, %d is the limit: take objects out of spec.manifests and spec.additionalManifests",
			d.component, len(encoded), maxObjects)
	}
	size, largest := 0, 0
	for n, data := range encoded {
		if size += len(data); len(data) > len(encoded[largest]) {
			largest = n
		}
	}
	if len(encoded) == 0 {
		return nil
	}
	name, most := describeObject(d.objects[largest]), len(encoded[largest])
	switch {
	case most > maxObjectBytes:
		return newError(api.ReasonTooLarge, "%s has %d bytes, %d is the limit: shorten what spec.config, spec.patches or the manifests put there",
			name, most, maxObjectBytes)
	case size > maxBundleBytes:
		return newError(api.ReasonTooLarge, "all objects of %s have %d bytes, %d is the limit; the largest is %s (%d): "+
			"shorten what spec.config, spec.patches and the manifests bring", d.component, size, maxBundleBytes, name, most)
	}
	return nil
}
