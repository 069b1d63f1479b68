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

// catalog lists the content of a directory of release manifests, which is read once.
type catalog struct {
	dir      string
	versions map[api.Component][]string // newest first
}

func readCatalog(dir string) (*catalog, error) {
	c := &catalog{dir: dir, versions: map[api.Component][]string{}}
	if strings.Contains(dir, ",") {
		return nil, newError(api.ReasonReleasesMissing, "cannot use release directory %q: its name has a comma", dir)
	}
	for _, component := range api.Components() {
		names, err := listDirectories(filepath.Join(dir, string(component)))
		if err != nil || len(names) == 0 {
			return nil, newError(api.ReasonReleasesMissing, "cannot read releases of %s in %q: %w", component, dir,
				errors.Join(err, newEmptyError(names)))
		}
		slices.SortFunc(names, func(a, b string) int { return -semver.Compare("v"+a, "v"+b) })
		c.versions[component] = names
	}
	return c, nil
}

func newEmptyError(names []string) error {
	if len(names) == 0 {
		return fs.ErrNotExist
	}
	return nil
}

func listDirectories(path string) ([]string, error) {
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

// hasDirectory reports whether the catalog has a directory, given as elements below the root.
func (c *catalog) hasDirectory(elements ...string) bool {
	info, err := os.Stat(filepath.Join(append([]string{c.dir}, elements...)...))
	return err == nil && info.IsDir()
}

// listBelow returns the names of the directories below a directory of the catalog.
func (c *catalog) listBelow(elements ...string) ([]string, error) {
	return listDirectories(filepath.Join(append([]string{c.dir}, elements...)...))
}

// resolveVersion turns spec.version into the version to render: "" and "latest" mean the newest bundled version, "X.Y" the
// newest of that minor, "X.Y.Z" itself. With spec.manifests the version only names the user's manifests.
func (c *catalog) resolveVersion(component api.Component, version string, ownManifests bool) (string, error) {
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
	return "", newError(api.ReasonUnknownVersion, "version %q of %s is not bundled: set spec.version to one of %s, "+
		"to a minor of them, or leave it empty", version, component, strings.Join(bundled, ", "))
}

func ownVersion(version string) (string, error) {
	if version == "" {
		return "", newError(api.ReasonInvalidSpec, "spec.manifests needs spec.version: set it to the version of the manifests")
	}
	v := "v" + strings.TrimPrefix(version, "v")
	if !semver.IsValid(v) || strings.Count(semver.Canonical(v), ".") < 2 || !strings.Contains(version, ".") {
		return "", newError(api.ReasonInvalidSpec, "spec.version %q is no version: set it to the version of spec.manifests, "+
			"as in \"1.23.0\"", version)
	}
	return version, nil
}
