// Copyright Contributors to the Open Cluster Management project

package render

import (
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Image is a container image that an installation uses, now or when Knative starts pods of its own.
type Image struct {
	// Reference is the image as it is pulled.
	Reference string
	// UsedBy names the objects that have it, sorted.
	UsedBy []string
}

// pinned is an image reference with a digest, wherever it stands in a text.
var pinned = regexp.MustCompile(`[a-zA-Z0-9][a-zA-Z0-9._/:-]*@sha256:[0-9a-f]{64}`)

// Images lists every image of the bundle: those of pods, those in the environment of Knative's controllers, and those
// that Knative's ConfigMaps name for pods which Knative starts. It is sorted and has each once.
func Images(b *Bundle) []Image {
	c := imageCollector{users: map[string]map[string]bool{}}
	for _, o := range b.Objects() {
		if isFoundation(o.Unstructured) {
			continue
		}
		c.user = describe(o.Unstructured)
		if is(o.Unstructured, "", "ConfigMap") {
			c.configMap(o.Unstructured)
		} else {
			c.walk(o.Object)
		}
	}
	out := make([]Image, 0, len(c.users))
	for reference, users := range c.users {
		image := Image{Reference: reference}
		for u := range users {
			image.UsedBy = append(image.UsedBy, u)
		}
		slices.Sort(image.UsedBy)
		out = append(out, image)
	}
	slices.SortFunc(out, func(a, b Image) int { return strings.Compare(a.Reference, b.Reference) })
	return out
}

type imageCollector struct {
	user  string
	users map[string]map[string]bool
}

func (c imageCollector) add(reference string) {
	reference = strings.TrimSpace(reference)
	if reference == "" || strings.ContainsAny(reference, " \n\t{}") {
		return
	}
	if c.users[reference] == nil {
		c.users[reference] = map[string]bool{}
	}
	c.users[reference][c.user] = true
}

// configMap reads the data of a ConfigMap: keys and ConfigMaps that are named for images, and whatever has a digest.
func (c imageCollector) configMap(u *unstructured.Unstructured) {
	data, _, _ := unstructured.NestedStringMap(u.Object, "data")
	for key, value := range data {
		switch {
		case strings.HasPrefix(key, "_"):
		case strings.Contains(key, "image") || strings.Contains(u.GetName(), "image"):
			c.add(value)
		default:
			for _, reference := range pinned.FindAllString(value, -1) {
				c.add(reference)
			}
		}
	}
}

// walk reads the fields named "image", the environment variables named for one, and whatever has a digest.
func (c imageCollector) walk(value any) {
	switch v := value.(type) {
	case map[string]any:
		if text, ok := v["value"].(string); ok && strings.Contains(strings.ToUpper(stringOf(v["name"])), "IMAGE") {
			c.add(text)
		}
		for key, nested := range v {
			if text, ok := nested.(string); ok && key == "image" {
				c.add(text)
				continue
			}
			c.walk(nested)
		}
	case []any:
		for _, nested := range v {
			c.walk(nested)
		}
	case string:
		for _, reference := range pinned.FindAllString(v, -1) {
			c.add(reference)
		}
	}
}
