// Copyright Contributors to the Open Cluster Management project

package render

import (
	"fmt"
	"path"
	"strings"

	"golang.org/x/mod/semver"

	"open-cluster-management.io/knative-addon/pkg/api"
)

// versionLabel is the label with which the objects of a release name its version.
const versionLabel = "app.kubernetes.io/version"

// addFurtherReleases adds the releases of the administrator's directory to the unpacked releases.
func (r *Renderer) addFurtherReleases(dir string) error {
	added := r.config.FurtherReleases
	if added.Path == "" {
		if added.SHA256 != "" {
			return newError(ReasonReleasesMissing, "a sum of further releases is set without their directory: set the directory, or no sum")
		}
		return nil
	}
	sum, err := added.AddTo(dir, checkManifest)
	if err != nil {
		return newError(ReasonReleasesMissing, "%w", err)
	}
	r.source += fmt.Sprintf("; directory %s, sha256:%s", added.Path, sum)
	if added.SHA256 == "" {
		r.source += ", unverified"
	}
	return nil
}

// checkManifest returns an error for a file of a release on which the Knative Operator's functions would fail in every rendering.
func checkManifest(name string, data []byte) error {
	objects, err := decodeDocuments(data)
	if err != nil {
		return err
	}
	release := path.Dir(name)
	if component := api.Component(path.Dir(release)); component != api.Serving && component != api.Eventing {
		return nil // ingresses and sources have versions of their own
	}
	minor := semver.MajorMinor("v" + path.Base(release))
	for _, u := range objects {
		version := u.GetLabels()[versionLabel]
		if version != "" && semver.MajorMinor("v"+strings.TrimPrefix(version, "v")) != minor {
			return fmt.Errorf("%s has version %q in label %s", describeObject(u), version, versionLabel)
		}
	}
	return nil
}
