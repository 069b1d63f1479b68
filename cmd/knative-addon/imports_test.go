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

// TestLinkerDropsMethods holds that no package of the program executes templates or brings a server of gRPC: a call of methods by computed
// names makes the linker keep every exported method, which costs each manager 16 MB of memory (docs/design/0014-libraries.md).
func TestLinkerDropsMethods(t *testing.T) {
	list := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", `{{.ImportPath}} {{join .Imports " "}}`, ".")
	text, err := list.Output()
	if err != nil {
		t.Fatalf("cannot list the packages: %v", err)
	}
	unwanted := []string{"github.com/google/cel-go/cel", "google.golang.org/grpc", "k8s.io/apiserver/pkg/server/egressselector"}
	templates := []string{"html/template", "text/template"}
	own := 0
	for line := range strings.Lines(string(text)) {
		paths := strings.Fields(line)
		if slices.Contains(unwanted, paths[0]) {
			t.Errorf("the program has package %s, which executes templates or is large", paths[0])
		}
		if !strings.HasPrefix(paths[0], "open-cluster-management.io/knative-addon/") {
			continue
		}
		own++
		for _, path := range templates {
			if slices.Contains(paths[1:], path) {
				t.Errorf("package %s imports %s", paths[0], path)
			}
		}
	}
	if own == 0 {
		t.Error("the list has no package of this module")
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
