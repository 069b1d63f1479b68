// Copyright Contributors to the Open Cluster Management project

package render

import (
	"slices"
	"strconv"
	"strings"

	"golang.org/x/mod/semver"

	"open-cluster-management.io/knative-addon/pkg/api"
)

// Versions are the bundled versions of a component, newest first.
func (r *Renderer) Versions(component api.Component) []string {
	return slices.Clone(r.catalog.versions[component])
}

// ResolveVersion is the exact version that a spec.version means: "" and "latest" are the newest bundled version, "X.Y"
// the newest of that minor. What it returns is what a caller pins an empty version to.
func (r *Renderer) ResolveVersion(component api.Component, specVersion string) (string, error) {
	return r.catalog.resolve(component, specVersion, false)
}

// VersionOf is the exact version that the Install means; see ResolveVersion. With spec.manifests it is spec.version.
func (r *Renderer) VersionOf(in *Install) (string, error) {
	return r.catalog.resolve(in.component, in.SpecVersion(), len(in.spec().GetManifests()) > 0)
}

// CheckMigration tells whether a cluster with version from may go to version to: within one major version by one minor
// at most, up or down. Both are exact versions; an empty from is a first installation. The error lists what can be
// reached.
func (r *Renderer) CheckMigration(component api.Component, from, to string) error {
	if from == "" || from == latest || to == latest {
		return nil
	}
	f, okFrom := parseMinor(from)
	t, okTo := parseMinor(to)
	if !okTo {
		return refuse(ReasonVersionMigrationNotEligible, "version %q of %s is no version: set spec.version to one of %s",
			to, component, strings.Join(r.catalog.versions[component], ", "))
	}
	if !okFrom {
		return refuse(ReasonVersionMigrationNotEligible, "the installed version %q of %s is no version, so no step from "+
			"it can be judged", from, component)
	}
	if f.reaches(t) {
		return nil
	}
	var reachable []string
	for _, v := range r.catalog.versions[component] {
		if m, ok := parseMinor(v); ok && f.reaches(m) {
			reachable = append(reachable, v)
		}
	}
	next := "no bundled version can be reached"
	if len(reachable) > 0 {
		next = "it can go to " + strings.Join(reachable, ", ")
	}
	return refuse(ReasonVersionMigrationNotEligible, "%s cannot go from version %s to %s: a step is one minor version "+
		"at most; %s", component, from, to, next)
}

// minor is a version without its patch number.
type minor struct{ major, minor int }

func parseMinor(version string) (minor, bool) {
	v := "v" + strings.TrimPrefix(version, "v")
	parts := strings.Split(semver.MajorMinor(v), ".")
	if !semver.IsValid(v) || !strings.Contains(version, ".") || len(parts) != 2 {
		return minor{}, false
	}
	x, errX := strconv.Atoi(strings.TrimPrefix(parts[0], "v"))
	y, errY := strconv.Atoi(parts[1])
	return minor{x, y}, errX == nil && errY == nil
}

// reaches tells whether one step leads from m to other. Version 1.0 followed 0.26.
func (m minor) reaches(other minor) bool {
	lastZero, firstOne := minor{0, 26}, minor{1, 0}
	if m == lastZero && other == firstOne || m == firstOne && other == lastZero {
		return true
	}
	distance := m.minor - other.minor
	return m.major == other.major && -1 <= distance && distance <= 1
}
