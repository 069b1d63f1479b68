// Copyright Contributors to the Open Cluster Management project

package render

import (
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"open-cluster-management.io/knative-addon/pkg/api"
)

// Image is a container image that an installation uses now or when Knative starts further pods.
type Image struct {
	// Reference is the image as a container runtime pulls the image.
	Reference string
	// UsedBy names the objects that refer to the image, sorted.
	UsedBy []string
}

// pinnedImage matches an image reference with a digest anywhere in a text.
var pinnedImage = regexp.MustCompile(`[a-zA-Z0-9][a-zA-Z0-9._/:-]*@sha256:[0-9a-f]{64}`)

// Images lists every image of the bundle, sorted and unique: images of pods, images in the environment of Knative's
// controllers, images that Knative's ConfigMaps name for pods which Knative starts, and the image of a requested verification.
func Images(b *Bundle) []Image {
	c := imageCollector{users: map[string]map[string]bool{}}
	for _, o := range b.Objects() {
		if isFoundation(o.Unstructured) {
			continue
		}
		c.user = describeObject(o.Unstructured)
		if isKind(o.Unstructured, "", "ConfigMap") {
			c.addFromConfigMap(o.Unstructured)
		} else {
			c.addFromValue(o.Object)
		}
	}
	if b.Verification != nil {
		c.user = "Service " + api.VerificationServiceName
		c.addReference(b.Verification.Image)
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

func (c imageCollector) addReference(reference string) {
	reference = strings.TrimSpace(reference)
	if reference == "" || strings.ContainsAny(reference, " \n\t{}") {
		return
	}
	if c.users[reference] == nil {
		c.users[reference] = map[string]bool{}
	}
	c.users[reference][c.user] = true
}

// addFromConfigMap reads the data of a ConfigMap: keys and ConfigMaps that are named for images, and every image with a
// digest.
func (c imageCollector) addFromConfigMap(u *unstructured.Unstructured) {
	data, _, _ := unstructured.NestedStringMap(u.Object, "data")
	for key, value := range data {
		switch {
		case strings.HasPrefix(key, "_"):
		case namesImage(u.GetName(), key):
			c.addReference(value)
		default:
			for _, reference := range pinnedImage.FindAllString(value, -1) {
				c.addReference(reference)
			}
		}
	}
}

// addFromValue reads the fields named "image", the environment variables named for an image, and every image with a digest.
func (c imageCollector) addFromValue(value any) {
	switch v := value.(type) {
	case map[string]any:
		if text, ok := v["value"].(string); ok && strings.Contains(strings.ToUpper(stringOf(v["name"])), "IMAGE") {
			c.addReference(text)
		}
		for key, nested := range v {
			if text, ok := nested.(string); ok && key == "image" {
				c.addReference(text)
				continue
			}
			c.addFromValue(nested)
		}
	case []any:
		for _, nested := range v {
			c.addFromValue(nested)
		}
	case string:
		for _, reference := range pinnedImage.FindAllString(v, -1) {
			c.addReference(reference)
		}
	}
}
