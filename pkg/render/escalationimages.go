// Copyright Contributors to the Open Cluster Management project

package render

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"open-cluster-management.io/knative-addon/pkg/message"
)

// releaseRegistries returns the prefixes of every image that Knative's bundled releases name.
func releaseRegistries() []string {
	return []string{"docker.io/envoyproxy/envoy", "gcr.io/knative-releases"}
}

// imagePolicy holds the images that a namespace without trust may use: Knative's controllers have nearly every permission
// on a cluster, so that the author of an image has these permissions, too.
type imagePolicy struct{ prefixes []string }

// allowedImages returns the administrator's policy. The policy needs no mirrors of an AddOnDeploymentConfig, since the
// baseline has the mirrored images.
func (r *Renderer) allowedImages() imagePolicy {
	prefixes := slices.Concat(releaseRegistries(), r.config.Trust.ImageRegistries)
	for n := range prefixes {
		prefixes[n] = strings.TrimSuffix(prefixes[n], "/")
	}
	slices.Sort(prefixes)
	return imagePolicy{slices.DeleteFunc(slices.Compact(prefixes), func(p string) bool { return p == "" })}
}

// imageReference matches every text that a runtime may read as an image; a template of spec.registry does not match.
var imageReference = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9._:@/-]*$`)

// allowsImage reports whether an image has one of the prefixes. A prefix matches whole parts of the image only.
func (p imagePolicy) allowsImage(image string) bool {
	if !imageReference.MatchString(image) || strings.Contains(image, "..") || strings.Contains(image, "//") {
		return false
	}
	image = qualifyImage(image)
	return slices.ContainsFunc(p.prefixes, func(prefix string) bool {
		rest, found := strings.CutPrefix(image, qualifyPrefix(prefix))
		if !found || rest == "" {
			return found
		}
		// Behind a host without path, a colon begins a port and thus another registry.
		return rest[0] == '/' || strings.ContainsAny(rest[:1], ":@") && strings.Contains(prefix, "/")
	})
}

// qualifyImage returns an image with the registry and the path that runtimes add to a short name.
func qualifyImage(image string) string {
	host, _, found := strings.Cut(image, "/")
	switch {
	case !found:
		return "docker.io/library/" + image
	case strings.ContainsAny(host, ".:") || host == "localhost":
		return image
	default:
		return "docker.io/" + image
	}
}

// qualifyPrefix completes a prefix with a path. A prefix without a path is a host.
func qualifyPrefix(prefix string) string {
	if !strings.Contains(prefix, "/") {
		return prefix
	}
	return qualifyImage(prefix)
}

// hostFeatures returns the feature flags of Knative Serving that let the author of a Service reach the node.
func hostFeatures() []string {
	return []string{
		"kubernetes.containerspec-addcapabilities", "kubernetes.podspec-hostipc", "kubernetes.podspec-hostnetwork",
		"kubernetes.podspec-hostpid", "kubernetes.podspec-volumes-hostpath", "kubernetes.podspec-volumes-mount-propagation",
	}
}

// isConfiguration reports whether a ConfigMap of a release holds settings of Knative. The other ConfigMaps are files that a
// process of the data plane loads, such as Envoy's bootstrap and the configuration of logback, and objects that a
// controller of Eventing creates for every namespaced broker.
func isConfiguration(name string) bool {
	return strings.HasPrefix(name, "config-") && name != "config-namespaced-broker-resources" || slices.Contains([]string{
		"default-ch-webhook", "eventing-integrations-images", "eventing-transformations-images", "kafka-broker-config", "kafka-channel-config",
	}, name)
}

// isLoadedFile reports whether the key of a ConfigMap is a file for libraries of a process: libraries of Java load the
// classes and read the files that such a file names.
func isLoadedFile(key string) bool {
	return strings.HasSuffix(key, ".properties") || strings.HasSuffix(key, ".xml")
}

// checkEntry finds an entry of a ConfigMap of a release that needs trust; the caller sets its field.
func (p imagePolicy) checkEntry(configMap, key, value string) *finding {
	switch {
	case !isConfiguration(configMap):
		return &finding{problem: fmt.Sprintf("writes ConfigMap %q, which is no configuration of Knative", configMap)}
	case isLoadedFile(key):
		return &finding{problem: fmt.Sprintf("writes a file that processes of Knative load, key %q of ConfigMap %q", message.Shorten(key, maxQuotedBytes), configMap)}
	case configMap == "config-features" && slices.Contains(hostFeatures(), key) && !strings.EqualFold(value, "disabled"):
		return &finding{problem: fmt.Sprintf("lets users' pods reach the node by feature %q", key)}
	}
	if image := p.foreignImage(configMap, key, value); image != "" {
		return &finding{image: image}
	}
	return nil
}

// namesImage reports whether the value of a key of a ConfigMap is an image. Knative Serving also reads former names of keys, such as
// queueSidecarImage.
func namesImage(configMap, key string) bool {
	return strings.Contains(configMap, "image") || strings.HasSuffix(strings.ToLower(key), "image") && !strings.HasPrefix(key, "kubernetes.")
}

// foreignImage returns an image in an entry of a ConfigMap that is not allowed, or empty.
func (p imagePolicy) foreignImage(configMap, key, value string) string {
	switch {
	case strings.HasPrefix(key, "_"):
		return ""
	case namesImage(configMap, key) && value != "" && !p.allowsImage(value):
		return value
	}
	for _, image := range pinnedImage.FindAllString(value, -1) {
		if !p.allowsImage(image) {
			return image
		}
	}
	return ""
}
