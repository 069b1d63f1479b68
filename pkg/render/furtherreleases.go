// Copyright Contributors to the Open Cluster Management project

package render

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"golang.org/x/mod/semver"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"open-cluster-management.io/knative-addon/pkg/api"
)

// versionLabel is the label with the version of the release of an object.
const versionLabel = "app.kubernetes.io/version"

// addFurtherReleases adds the releases of the administrator's directory to the unpacked releases.
func (r *Renderer) addFurtherReleases(dir string) error {
	added := r.config.FurtherReleases
	if added.Path == "" {
		if added.SHA256 != "" {
			return newError(api.ReasonReleasesMissing, "a sum of further releases is set without their directory: set the directory, or no sum")
		}
		return nil
	}
	sum, err := added.AddTo(dir, checkManifest)
	if err != nil {
		return newError(api.ReasonReleasesMissing, "%w", err)
	}
	r.source += fmt.Sprintf("; directory %s, sha256:%s", added.Path, sum)
	if added.SHA256 == "" {
		r.source += ", unverified"
	}
	return nil
}

// checkManifest returns an error for a file that no resource could use, and for a Secret that this program would deliver wrongly.
func checkManifest(name string, data []byte) error {
	objects, err := decodeDocuments(data)
	if err != nil {
		return fmt.Errorf("%w: copy the file of the release again", err)
	}
	version := versionOfFile(name)
	for _, u := range objects {
		if err := checkSecretName(u); err != nil {
			return err
		}
		if label := u.GetLabels()[versionLabel]; version != "" && label != "" && minorOf(label) != minorOf(version) {
			return fmt.Errorf("%s has version %q in label %s: copy the file of the release again", describeObject(u), label, versionLabel)
		}
	}
	return nil
}

// versionOfFile returns the version in the name of a file of Serving or Eventing; empty for files of ingresses and sources, whose objects
// have other versions.
func versionOfFile(name string) string {
	release := path.Dir(name)
	if !slices.Contains(api.Components(), api.Component(path.Dir(release))) {
		return ""
	}
	return path.Base(release)
}

func minorOf(version string) string { return semver.MajorMinor("v" + strings.TrimPrefix(version, "v")) }

// checkSecretName refuses a Secret with a new name. The work agent would apply such a Secret again and again, over the values that Knative
// writes.
func checkSecretName(u *unstructured.Unstructured) error {
	if !isKind(u, "", "Secret") || slices.ContainsFunc(ReleaseSecrets(), func(pattern string) bool {
		matches, err := path.Match(pattern, u.GetName())
		return matches && err == nil
	}) {
		return nil
	}
	return fmt.Errorf("%s is new, and this program does not know who fills the Secret: leave the file out, or use a version of this program "+
		"that has the release", describeObject(u))
}
