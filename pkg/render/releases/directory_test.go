// Copyright Contributors to the Open Cluster Management project

package releases

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const added = "knative-serving/1.2.0/core.yaml"

// writeFiles writes files by name below a new directory.
func writeFiles(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		must(t, os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600))
	}
	return dir
}

// writeDirectory is writeFiles with SHA256SUMS, and returns the Directory with the sum of SHA256SUMS.
func writeDirectory(t *testing.T, files map[string]string) Directory {
	t.Helper()
	dir := writeFiles(t, files)
	return Directory{Path: dir, SHA256: writeSums(t, dir, formatSums(files))}
}

func formatSums(files map[string]string) string {
	var sums strings.Builder
	for _, name := range slices.Sorted(maps.Keys(files)) {
		fmt.Fprintf(&sums, "%s  %s\n", sumOf([]byte(files[name])), name)
	}
	return sums.String()
}

func writeSums(t *testing.T, dir, text string) string {
	t.Helper()
	must(t, os.WriteFile(filepath.Join(dir, SumsName), []byte(text), 0o600))
	return sumOf([]byte(text))
}

func acceptManifest(string, []byte) error { return nil }

// bundledFiles are the files of a program in the tests.
func bundledFiles() map[string]string {
	return map[string]string{
		"knative-serving/1.1.0/core.yaml": "a: 1\n", "knative-serving/1.1.0/hpa.yaml": "b: 1\n", "ingress/1.1/kourier/kourier.yaml": "c: 1\n",
	}
}

func TestDirectoryAdds(t *testing.T) {
	further := map[string]string{
		added: "a: 2\n",
		"knative-eventing/1.2.10/eventing-core.yaml": "b: 2\n",
		"ingress/1.2/kourier/kourier.yaml":           "c: 2\n",
		"ingress/1.1/gateway-api/net.yaml":           "d: 2\n",
		"eventing-source/1.2/kafka/kafka.yaml":       "e: 2\n",
		// The program has these, too.
		"knative-serving/1.1.0/core.yaml": "a: 1\n", "knative-serving/1.1.0/hpa.yaml": "b: 1\n",
	}
	want := bundledFiles()
	maps.Copy(want, further)
	d := writeDirectory(t, further)
	target := writeFiles(t, bundledFiles())
	sum, err := d.AddTo(target, acceptManifest)
	if err != nil || sum != d.SHA256 {
		t.Fatalf("AddTo = %q, %v; want sum %q", sum, err, d.SHA256)
	}
	if diff := cmp.Diff(want, files(t, target)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}

// The kubelet keeps the files of a ConfigMap below a name with two dots, and links to these files; a file system has lost+found.
func TestDirectoryOfVolume(t *testing.T) {
	dir := writeFiles(t, map[string]string{
		"..2026_11_23/" + added: "a: 2\n", "..2026_11_23/" + SumsName: formatSums(map[string]string{added: "a: 2\n"}), "lost+found/#12": "",
	})
	must(t, os.Symlink("..2026_11_23", dir+"/..data"), os.Symlink("..data/knative-serving", dir+"/knative-serving"),
		os.Symlink("..data/"+SumsName, dir+"/"+SumsName))
	target := t.TempDir()
	if _, err := (Directory{Path: dir}).AddTo(target, acceptManifest); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{added: "a: 2\n"}, files(t, target)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}

// The forms in which sha256sum writes names mean the same files.
func TestDirectoryReadsSums(t *testing.T) {
	for name, form := range map[string]string{"text": "%s  %s\n", "binary": "%s *%s\n", "as of find": "%s  ./%s\n", "without a last newline": "%s  %s"} {
		t.Run(name, func(t *testing.T) {
			dir := writeFiles(t, map[string]string{added: "a: 2\n"})
			sum := writeSums(t, dir, fmt.Sprintf(form, sumOf([]byte("a: 2\n")), added))
			if _, err := (Directory{Path: dir, SHA256: sum}).AddTo(t.TempDir(), acceptManifest); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestDirectoryRefuses(t *testing.T) {
	one := map[string]string{added: "a: 2\n"}
	with := func(name, text string) map[string]string {
		out := maps.Clone(one)
		out[name] = text
		return out
	}
	type change = func(t *testing.T, d *Directory)
	write := func(name, text string) change {
		return func(t *testing.T, d *Directory) {
			t.Helper()
			must(t, os.WriteFile(filepath.Join(d.Path, filepath.FromSlash(name)), []byte(text), 0o600))
		}
	}
	sums := func(text string) change {
		return func(t *testing.T, d *Directory) { t.Helper(); d.SHA256 = writeSums(t, d.Path, text) }
	}
	link := func(to string) change {
		return func(t *testing.T, d *Directory) {
			t.Helper()
			path := filepath.Join(d.Path, filepath.FromSlash(added))
			must(t, os.Remove(path), os.Symlink(to, path))
		}
	}
	outside := filepath.Join(writeFiles(t, map[string]string{"core.yaml": "a: 2\n"}), "core.yaml")
	line := sumOf([]byte("a: 2\n")) + "  "
	for name, tc := range map[string]struct {
		files  map[string]string
		change change
		want   []string
	}{
		"a list of another sum":          {one, func(_ *testing.T, d *Directory) { d.SHA256 = strings.Repeat("0", 64) }, []string{SumsName, "expected sum is 000", "review"}},
		"an expectation that is no sum":  {one, func(_ *testing.T, d *Directory) { d.SHA256 = "latest" }, []string{`"latest"`, "64 hexadecimal digits"}},
		"a directory that is missing":    {one, func(_ *testing.T, d *Directory) { d.Path += "/none" }, []string{"/none", "mount the directory"}},
		"a directory without a list":     {one, func(t *testing.T, d *Directory) { t.Helper(); must(t, os.Remove(d.Path+"/"+SumsName)) }, []string{SumsName, "sha256sum"}},
		"a list of nothing":              {nil, sums(""), []string{"names no file"}},
		"a list that is no list":         {one, sums("all is well\n"), []string{`"all is well"`, "sha256sum"}},
		"a list with upper-case digits":  {one, sums(strings.ToUpper(line) + added + "\n"), []string{"not of sha256sum"}},
		"a list that names a file twice": {one, sums(line + added + "\n" + line + "./" + added + "\n"), []string{added, "twice"}},
		"a list that is too large":       {one, sums(strings.Repeat("#", maxSumsBytes+1)), []string{SumsName, "more than 1048576 bytes"}},
		"a file that was changed":        {one, write(added, "a: 3\n"), []string{added, sumOf([]byte("a: 3\n")), sumOf([]byte("a: 2\n")), "copy the file again"}},
		"a file that is not listed":      {one, write("knative-serving/1.2.0/more.yaml", "a: 3\n"), []string{"knative-serving/1.2.0/more.yaml", "not in " + SumsName}},
		"a file of another kind":         {one, write("knative-serving/1.2.0/.hidden", ""), []string{".hidden", "not in " + SumsName}},
		"a file that is missing":         {one, func(t *testing.T, d *Directory) { t.Helper(); must(t, os.Remove(filepath.Join(d.Path, added))) }, []string{added, "is missing"}},
		"a link to a file outside":       {one, link(outside), []string{added, "escapes", "lead out of the directory"}},
		"a link to a file above":         {one, link("../../../../core.yaml"), []string{added, "escapes"}},
		"a link to nothing":              {one, link("nothing.yaml"), []string{added, "no such file"}},
		"a link to the directory itself": {one, link("../../knative-serving"), []string{"core.yaml", "no file of a release"}},
		"a pipe": {one, func(t *testing.T, d *Directory) {
			t.Helper()
			must(t, os.Remove(filepath.Join(d.Path, added)), syscall.Mkfifo(filepath.Join(d.Path, added), 0o600))
		}, []string{added, "no file of a release"}},
		"a list that is a pipe": {one, func(t *testing.T, d *Directory) {
			t.Helper()
			must(t, os.Remove(d.Path+"/"+SumsName), syscall.Mkfifo(d.Path+"/"+SumsName, 0o600))
		}, []string{SumsName, "no regular file"}},
		"a file that is too large":        {with(added, strings.Repeat("#", maxFileBytes+1)), nil, []string{added, "more than 4194304 bytes"}},
		"directories that are too deep":   {with("ingress/1.2/kourier/a/b.yaml", "a: 1\n"), sums(line + added + "\n"), []string{`"ingress/1.2/kourier/a"`, "no file of a release"}},
		"a name above the directory":      {one, sums(line + "../core.yaml\n"), []string{`"../core.yaml"`, "not part of a release"}},
		"a name from the root":            {one, sums(line + "/etc/passwd\n"), []string{`"/etc/passwd"`}},
		"a name that is no version":       {with("knative-serving/latest/a.yaml", ""), nil, []string{`"knative-serving/latest/a.yaml"`, "knative-serving/1.2.3/FILE.yaml"}},
		"a name with a pre-release":       {with("knative-serving/1.3.0-rc1/a.yaml", ""), nil, []string{`"knative-serving/1.3.0-rc1/a.yaml"`}},
		"a name with a leading zero":      {with("knative-serving/1.03.0/a.yaml", ""), nil, []string{`"knative-serving/1.03.0/a.yaml"`}},
		"a name with a comma":             {with("ingress/1.2/kourier,istio/a.yaml", ""), nil, []string{`"ingress/1.2/kourier,istio/a.yaml"`}},
		"an ingress with a patch version": {with("ingress/1.2.0/kourier/a.yaml", ""), nil, []string{`"ingress/1.2.0/kourier/a.yaml"`}},
		"a security guard":                {with("security-guard/0.7/a.yaml", ""), nil, []string{`"security-guard/0.7/a.yaml"`}},
		"a file that is no manifest":      {with("knative-serving/1.2.0/README.md", ""), nil, []string{"README.md"}},
		"a release with another file":     {map[string]string{"knative-serving/1.1.0/core.yaml": "a: 9\n", "knative-serving/1.1.0/hpa.yaml": "b: 1\n"}, nil, []string{`"knative-serving/1.1.0"`, `"core.yaml"`, "remove the release"}},
		"a release with a further file":   {map[string]string{"knative-serving/1.1.0/core.yaml": "a: 1\n", "knative-serving/1.1.0/hpa.yaml": "b: 1\n", "knative-serving/1.1.0/more.yaml": "b: 1\n"}, nil, []string{`"knative-serving/1.1.0"`, `"more.yaml"`}},
		"a part of a release":             {map[string]string{"knative-serving/1.1.0/core.yaml": "a: 1\n"}, nil, []string{`"knative-serving/1.1.0"`, `"hpa.yaml"`}},
		"another ingress of the program":  {map[string]string{"ingress/1.1/kourier/kourier.yaml": "c: 9\n"}, nil, []string{`"ingress/1.1/kourier"`}},
	} {
		t.Run(name, func(t *testing.T) {
			d := writeDirectory(t, tc.files)
			if tc.change != nil {
				tc.change(t, &d)
			}
			target := writeFiles(t, bundledFiles())
			sum, err := d.AddTo(target, acceptManifest)
			if err == nil || sum != "" {
				t.Fatalf("AddTo = %q, %v, want an error", sum, err)
			}
			for _, want := range append(tc.want, d.Path) {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("the error lacks %q: %v", want, err)
				}
			}
		})
	}
}

func TestDirectoryIsBounded(t *testing.T) {
	many, large := map[string]string{}, map[string]string{}
	for n := range maxDirectoryFiles + 1 {
		many[fmt.Sprintf("knative-serving/1.2.0/%d.yaml", n)] = ""
	}
	for n := range maxAddedBytes/maxFileBytes + 1 {
		large[fmt.Sprintf("knative-serving/1.2.0/%d.yaml", n)] = strings.Repeat("#", maxFileBytes)
	}
	for want, files := range map[string]map[string]string{"more than 1000 files": many, "more than 67108864 bytes": large} {
		if _, err := writeDirectory(t, files).AddTo(t.TempDir(), acceptManifest); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("AddTo: %v, want %q", err, want)
		}
	}
}

func TestDirectoryReportsManifest(t *testing.T) {
	fault := errors.New("no YAML")
	_, err := writeDirectory(t, map[string]string{added: "a: 2\n"}).AddTo(t.TempDir(), func(name string, data []byte) error {
		if name == added && string(data) == "a: 2\n" {
			return fault
		}
		return nil
	})
	if !errors.Is(err, fault) || !strings.Contains(err.Error(), added) {
		t.Errorf("AddTo: %v, want %v of %s", err, fault, added)
	}
}

func must(t *testing.T, faults ...error) {
	t.Helper()
	if err := errors.Join(faults...); err != nil {
		t.Fatal(err)
	}
}
