// Copyright Contributors to the Open Cluster Management project

package releases

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"
)

func tree() fstest.MapFS {
	return fstest.MapFS{
		"b/1.0/x.yaml": {Data: []byte("b: 1\n")},
		"a/1.0/y.yaml": {Data: []byte("a: 1\n")},
		"a/README.md":  {Data: []byte("left out")},
		"a/LICENSE":    {Data: []byte("left out")},
	}
}

// packed is an archive of root where the package has its own, and the archive's sum.
func packed(t *testing.T, root fs.FS) (fstest.MapFS, Sum) {
	t.Helper()
	var buf bytes.Buffer
	sum, err := Pack(&buf, root)
	if err != nil {
		t.Fatal(err)
	}
	return fstest.MapFS{ArchivePath: {Data: buf.Bytes()}}, Sum{Version: "v0.0.1", SHA256: sum}
}

func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		name, _ := filepath.Rel(dir, path)
		out[filepath.ToSlash(name)] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestPackAndUnpack(t *testing.T) {
	archive, sum := packed(t, tree())
	dir := t.TempDir()
	if err := unpackVerified(archive, sum, dir); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"a/1.0/y.yaml": "a: 1\n", "b/1.0/x.yaml": "b: 1\n"}, files(t, dir)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	read, err := ReadSum(bytes.NewReader(archive[ArchivePath].Data))
	if err != nil || read != sum.SHA256 {
		t.Errorf("ReadSum = %q, %v; want %q", read, err, sum.SHA256)
	}
}

// When a file was written and by whom is no part of an archive.
func TestPackIsDeterministic(t *testing.T) {
	first, sum := packed(t, tree())
	later := tree()
	for _, f := range later {
		f.ModTime, f.Mode = time.Unix(1_700_000_000, 0), 0o755
	}
	second, again := packed(t, later)
	if sum != again || !bytes.Equal(first[ArchivePath].Data, second[ArchivePath].Data) {
		t.Error("the same manifests make another archive")
	}
	changed := tree()
	changed["a/1.0/y.yaml"].Data = []byte("a: 2\n")
	if _, other := packed(t, changed); other == sum {
		t.Error("other manifests have the same sum")
	}
}

func TestPackRefusesNothing(t *testing.T) {
	if _, err := Pack(&bytes.Buffer{}, fstest.MapFS{"README.md": {}}); err == nil || !strings.Contains(err.Error(), "no *.yaml file") {
		t.Errorf("Pack: %v", err)
	}
}

func TestUnpackRefuses(t *testing.T) {
	archive, sum := packed(t, tree())
	good := archive[ArchivePath].Data
	entry := func(h tar.Header) []byte {
		var buf bytes.Buffer
		gz := gzip.NewWriter(&buf)
		tw := tar.NewWriter(gz)
		if err := errors.Join(tw.WriteHeader(&h), tw.Close(), gz.Close()); err != nil {
			t.Fatal(err)
		}
		return buf.Bytes()
	}
	cases := map[string]struct {
		data []byte
		want string
	}{
		"an archive with another sum":    {entry(tar.Header{Typeflag: tar.TypeReg, Name: "a.yaml"}), "releases.sum has " + sum.SHA256},
		"an archive that was cut off":    {good[:len(good)/2], "cannot unpack"},
		"what is no archive":             {[]byte("not gzip"), "cannot unpack"},
		"a file outside":                 {entry(tar.Header{Typeflag: tar.TypeReg, Name: "../a.yaml"}), "not a plain file below"},
		"a file at the root of the disk": {entry(tar.Header{Typeflag: tar.TypeReg, Name: "/a.yaml"}), "not a plain file below"},
		"a link":                         {entry(tar.Header{Typeflag: tar.TypeSymlink, Name: "a.yaml", Linkname: "/etc/passwd"}), "not a plain file below"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			err := unpackVerified(fstest.MapFS{ArchivePath: {Data: tc.data}}, sum, t.TempDir())
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("unpack: %v, want %q", err, tc.want)
			}
		})
	}
	t.Run("a directory that is not empty", func(t *testing.T) {
		dir := t.TempDir()
		if err := errors.Join(unpackVerified(archive, sum, dir)); err != nil {
			t.Fatal(err)
		}
		if err := unpackVerified(archive, sum, dir); !errors.Is(err, fs.ErrExist) {
			t.Errorf("unpack: %v, want the file that is there to be named", err)
		}
	})
	t.Run("no archive", func(t *testing.T) {
		err := unpackVerified(fstest.MapFS{"archive/README.md": {}}, sum, t.TempDir())
		if !errors.Is(err, ErrMissing) || !strings.Contains(err.Error(), `"make releases"`) {
			t.Errorf("unpack: %v, want %v", err, ErrMissing)
		}
	})
}

func TestParseSum(t *testing.T) {
	want := Sum{Version: "v0.50.0", SHA256: "abcd"}
	got, err := ParseSum(want.String())
	if err != nil || got != want {
		t.Errorf("ParseSum(%q) = %v, %v; want %v", want.String(), got, err, want)
	}
	for _, line := range []string{"", "knative.dev/operator v0.50.0", "example.com/other v1 sha256:ab", "knative.dev/operator v0.50.0 md5:ab"} {
		if _, err := ParseSum(line); err == nil {
			t.Errorf("ParseSum(%q) succeeds", line)
		}
	}
}

// What is built in is what releases.sum says, and that is what go.mod pins.
func TestEmbedded(t *testing.T) {
	if _, err := fs.Stat(embedded, ArchivePath); err != nil {
		t.Fatal(ErrMissing)
	}
	dir := t.TempDir()
	sum, err := Unpack(dir)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(files(t, dir)); n != 190 {
		t.Errorf("the archive has %d files, want the 190 of %s %s", n, Module, sum.Version)
	}
	mod, err := os.ReadFile("../../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	if pin := Module + " " + sum.Version + "\n"; !strings.Contains(string(mod), pin) {
		t.Errorf("go.mod does not pin %q: run the generator with -update and review what changed", strings.TrimSpace(pin))
	}
}
