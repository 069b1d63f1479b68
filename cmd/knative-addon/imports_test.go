// Copyright Contributors to the Open Cluster Management project

package main

import (
	"maps"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// maxImportChain is the number of packages in the longest chain of imports within this module, from the command to a package
// without such imports.
const maxImportChain = 7

// TestImportChainsAreShort holds that a reader of a package, and a change of a package, meet few other packages.
func TestImportChainsAreShort(t *testing.T) {
	imports := listOwnImports(t)
	if len(imports["cmd/knative-addon"]) == 0 {
		t.Fatal("the list has no imports of the command")
	}
	var longest []string
	chains := map[string][]string{}
	for _, path := range slices.Sorted(maps.Keys(imports)) {
		if chain := findLongestChain(imports, chains, path); len(chain) > len(longest) {
			longest = chain
		}
	}
	if len(longest) > maxImportChain {
		t.Errorf("a chain of imports has %d packages, %d is the limit: %s; let a package take an interface or a value instead of an import",
			len(longest), maxImportChain, strings.Join(longest, " > "))
	}
}

// listOwnImports returns the imports within this module of each package, without tests.
func listOwnImports(t *testing.T) map[string][]string {
	t.Helper()
	const module = "open-cluster-management.io/knative-addon/"
	list := exec.CommandContext(t.Context(), "go", "list", "-f", `{{.ImportPath}} {{join .Imports " "}}`, module+"...")
	list.Dir = "../.."
	text, err := list.Output()
	if err != nil {
		t.Fatalf("cannot list the packages: %v", err)
	}
	imports := map[string][]string{}
	for line := range strings.Lines(string(text)) {
		paths := strings.Fields(line)
		own := []string{}
		for _, path := range paths[1:] {
			if path, isOwn := strings.CutPrefix(path, module); isOwn {
				own = append(own, path)
			}
		}
		imports[strings.TrimPrefix(paths[0], module)] = own
	}
	return imports
}

// findLongestChain returns the longest chain of imports that starts at a package, and keeps the chain in chains.
func findLongestChain(imports, chains map[string][]string, path string) []string {
	if chain, known := chains[path]; known {
		return chain
	}
	var longest []string
	for _, imported := range imports[path] {
		if chain := findLongestChain(imports, chains, imported); len(chain) > len(longest) {
			longest = chain
		}
	}
	chains[path] = append([]string{path}, longest...)
	return chains[path]
}
