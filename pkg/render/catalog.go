// Copyright Contributors to the Open Cluster Management project

package render

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/semver"

	"open-cluster-management.io/knative-addon/pkg/api"
)

const latest = "latest"

// catalog is what a directory of release manifests has. It is read once.
type catalog struct {
	dir      string
	versions map[api.Component][]string // newest first
}

func readCatalog(dir string) (*catalog, error) {
	c := &catalog{dir: dir, versions: map[api.Component][]string{}}
	if strings.Contains(dir, ",") {
		return nil, refuse(ReasonReleasesMissing, "cannot use release directory %q: its name has a comma", dir)
	}
	for _, component := range api.Components() {
		names, err := directories(filepath.Join(dir, string(component)))
		if err != nil || len(names) == 0 {
			return nil, refuse(ReasonReleasesMissing, "cannot read releases of %s in %q: %w", component, dir,
				errors.Join(err, errEmpty(names)))
		}
		slices.SortFunc(names, func(a, b string) int { return -semver.Compare("v"+a, "v"+b) })
		c.versions[component] = names
	}
	return c, nil
}

func errEmpty(names []string) error {
	if len(names) == 0 {
		return fs.ErrNotExist
	}
	return nil
}

func directories(path string) ([]string, error) {
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if e.IsDir() {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// has tells whether the catalog has a directory, given as elements below its root.
func (c *catalog) has(elements ...string) bool {
	info, err := os.Stat(filepath.Join(append([]string{c.dir}, elements...)...))
	return err == nil && info.IsDir()
}

// below are the names of the directories below a directory of the catalog.
func (c *catalog) below(elements ...string) ([]string, error) {
	return directories(filepath.Join(append([]string{c.dir}, elements...)...))
}

// resolve turns spec.version into the version that is rendered: "" and "latest" mean the newest bundled one, "X.Y" the
// newest of that minor, "X.Y.Z" itself. With spec.manifests the version only names what the user brings along.
func (c *catalog) resolve(component api.Component, version string, ownManifests bool) (string, error) {
	bundled := c.versions[component]
	switch {
	case strings.EqualFold(version, latest):
		if slices.Contains(bundled, latest) {
			return latest, nil
		}
		return bundled[0], nil
	case ownManifests:
		return ownVersion(version)
	case version == "":
		return bundled[0], nil
	case slices.Contains(bundled, version):
		return version, nil
	}
	if semver.MajorMinor("v"+version) == "v"+version {
		for _, v := range bundled {
			if semver.MajorMinor("v"+v) == "v"+version {
				return v, nil
			}
		}
	}
	return "", refuse(ReasonUnknownVersion, "version %q of %s is not bundled: set spec.version to one of %s, "+
		"to a minor of them, or leave it empty", version, component, strings.Join(bundled, ", "))
}

func ownVersion(version string) (string, error) {
	if version == "" {
		return "", refuse(ReasonInvalidSpec, "spec.manifests needs spec.version: set it to the version of the manifests")
	}
	v := "v" + strings.TrimPrefix(version, "v")
	if !semver.IsValid(v) || strings.Count(semver.Canonical(v), ".") < 2 || !strings.Contains(version, ".") {
		return "", refuse(ReasonInvalidSpec, "spec.version %q is no version: set it to the version of spec.manifests, "+
			"as in \"1.23.0\"", version)
	}
	return version, nil
}
