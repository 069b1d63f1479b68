// Copyright Contributors to the Open Cluster Management project

package render

import (
	"slices"
	"strconv"
	"strings"

	"golang.org/x/mod/semver"

	"open-cluster-management.io/knative-addon/pkg/api"
)

// Versions returns the bundled versions of a component, newest first.
func (r *Renderer) Versions(component api.Component) []string {
	return slices.Clone(r.catalog.versions[component])
}

// ResolveVersion returns the exact version that a spec.version means: "" and "latest" are the newest bundled version, "X.Y"
// the newest of that minor. Callers pin an empty version to the result.
func (r *Renderer) ResolveVersion(component api.Component, specVersion string) (string, error) {
	return r.catalog.resolveVersion(component, specVersion, false)
}

// VersionOf returns the exact version of an Install; see ResolveVersion. With spec.manifests the result is spec.version.
func (r *Renderer) VersionOf(in *Install) (string, error) {
	return r.catalog.resolveVersion(in.component, in.SpecVersion(), len(in.componentSpec().GetManifests()) > 0)
}

// Installed holds the exact versions of a component on a cluster, and what the last delivery was rendered from.
type Installed struct {
	// Delivered is the version whose objects were last delivered, completely or in part; empty without an installation.
	Delivered string
	// Running is the version that last ran completely: every workload was rolled out, and every Job complete. Running differs
	// from Delivered during a migration. Before a version was seen to run, Running is empty, and then the first delivered version.
	Running string
	// Revision is the hash of the spec that was last delivered; empty when no record holds the hash.
	Revision string
	// Rendering is the RenderingName of the bundle that was last delivered, completely or in part, and Inputs are the Inputs of that
	// bundle; both are empty when no record holds them.
	Rendering, Inputs string
	// Verified is the RenderingName of the bundle whose verification has succeeded; empty before.
	Verified string
}

// CheckMigration returns an error when a cluster must not go to version to. One migration stays within a major version and
// changes the minor by at most one, up or down, from the running version and from the delivered version: the controllers and
// the Jobs of every minor version in between have to run. The error lists the versions that can be reached.
func (r *Renderer) CheckMigration(component api.Component, installed Installed, to string) error {
	var from []minorVersion
	for _, version := range []string{installed.Delivered, installed.Running} {
		if version == "" || version == latest || to == latest {
			continue
		}
		minor, ok := parseMinor(version)
		if !ok {
			return newError(api.ReasonNotEligible, "the installed version %q of %s is no version, so no step from "+
				"it can be judged", version, component)
		}
		from = append(from, minor)
	}
	if len(from) == 0 {
		return nil
	}
	t, ok := parseMinor(to)
	if !ok {
		return newError(api.ReasonNotEligible, "version %q of %s is no version: set spec.version to one of %s",
			to, component, strings.Join(r.catalog.versions[component], ", "))
	}
	if t.isReachableFrom(from) {
		return nil
	}
	next := "no bundled version can be reached"
	if reachable := r.listReachable(component, from); len(reachable) > 0 {
		next = "it can go to " + strings.Join(reachable, ", ")
	}
	if installed.Running == "" || installed.Running == installed.Delivered {
		return newError(api.ReasonNotEligible, "%s cannot go from version %s to %s: a step is one minor version "+
			"at most; %s", component, installed.Delivered, to, next)
	}
	return newError(api.ReasonNotEligible, "%s cannot go from version %s to %s: a step is one minor version at most, "+
		"and version %s, which was delivered since, has not run yet; set spec.version to %s and wait until the cluster runs that "+
		"version; %s", component, installed.Running, to, installed.Delivered, installed.Delivered, next)
}

// listReachable lists the bundled versions that one migration leads to from all the minor versions, newest first.
func (r *Renderer) listReachable(component api.Component, from []minorVersion) []string {
	var out []string
	for _, v := range r.catalog.versions[component] {
		if m, ok := parseMinor(v); ok && m.isReachableFrom(from) {
			out = append(out, v)
		}
	}
	return out
}

// minorVersion is a version without the patch number.
type minorVersion struct{ major, minor int }

func parseMinor(version string) (minorVersion, bool) {
	v := "v" + strings.TrimPrefix(version, "v")
	parts := strings.Split(semver.MajorMinor(v), ".")
	if !semver.IsValid(v) || !strings.Contains(version, ".") || len(parts) != 2 {
		return minorVersion{}, false
	}
	x, errX := strconv.Atoi(strings.TrimPrefix(parts[0], "v"))
	y, errY := strconv.Atoi(parts[1])
	return minorVersion{x, y}, errX == nil && errY == nil
}

// canReach reports whether one migration leads from m to other. Version 1.0 followed 0.26.
func (m minorVersion) canReach(other minorVersion) bool {
	lastZero, firstOne := minorVersion{0, 26}, minorVersion{1, 0}
	if m == lastZero && other == firstOne || m == firstOne && other == lastZero {
		return true
	}
	distance := m.minor - other.minor
	return m.major == other.major && -1 <= distance && distance <= 1
}

// isReachableFrom reports whether one migration leads to m from each of the minor versions.
func (m minorVersion) isReachableFrom(from []minorVersion) bool {
	return !slices.ContainsFunc(from, func(f minorVersion) bool { return !f.canReach(m) })
}
