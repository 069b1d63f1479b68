// Copyright Contributors to the Open Cluster Management project

package releases

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// SumsName is the name of the file of a Directory with the SHA-256 of every other file, in the format of sha256sum.
const SumsName = "SHA256SUMS"

// Bounds of a Directory. The largest file of a release has half a megabyte, and all files of a minor version have two megabytes.
const (
	maxSumsBytes      = 1 << 20
	maxDirectoryFiles = 1000
	maxFileBytes      = 4 << 20
	maxAddedBytes     = 64 << 20
	// directoryDepth is the number of elements in the longest name of a file, such as ingress/1.23/kourier/kourier.yaml.
	directoryDepth = 4
)

// manifestName matches the names of the files that the Knative Operator's functions read; the directory of a file is the release. Other
// names could change the meaning of a path: these functions split paths at commas.
var manifestName = regexp.MustCompile(strings.ReplaceAll(
	`^(?:knative-(?:serving|eventing)/N\.N\.N|(?:ingress|eventing-source)/N\.N/[a-z0-9-]+)/[A-Za-z0-9][A-Za-z0-9._-]*\.yaml$`,
	"N", `(?:0|[1-9]\d{0,3})`))

// sumLine matches a line of SHA256SUMS. The name may begin with ./ as in the output of find.
var sumLine = regexp.MustCompile(`^([0-9a-f]{64}) [ *](?:\./)?(.+)$`)

var sha256Text = regexp.MustCompile(`^[0-9a-f]{64}$`)

// Directory names releases of Knative that an administrator adds to the embedded releases. The files are laid out as in Subdirectory
// of Module.
type Directory struct {
	Path string
	// SHA256 is the hex SHA-256 that file SHA256SUMS must have. With an empty text, the files match a list of unknown origin.
	SHA256 string
}

// CheckManifest returns an error, with the remedy, for a file that cannot be used.
type CheckManifest func(name string, data []byte) error

// AddTo verifies every file and writes the files below target, a directory with the embedded releases, and returns the SHA-256 of
// SHA256SUMS. A release that target has too must have equal files. Callers must not use target after an error. AddTo reads
// every file once: a later change of the Directory has no effect.
func (d Directory) AddTo(target string, check CheckManifest) (string, error) {
	sum, err := d.addFiles(target, check)
	if err != nil {
		return "", fmt.Errorf("cannot use the releases of directory %q: %w", d.Path, err)
	}
	return sum, nil
}

func (d Directory) addFiles(target string, check CheckManifest) (string, error) {
	root, err := os.OpenRoot(d.Path)
	if err != nil {
		return "", fmt.Errorf("%w: mount the directory, or remove the setting", err)
	}
	defer root.Close() //nolint:errcheck // only read
	sums, sum, err := d.readSums(root)
	if err != nil {
		return "", err
	}
	found, err := listFiles(root, ".", 1)
	if err != nil {
		return "", err
	}
	if err := compareNames(sums, found); err != nil {
		return "", err
	}
	a := addition{root: root, target: target, check: check, bundled: map[string][]string{}}
	for _, name := range found {
		if err := a.addFile(name, sums[name]); err != nil {
			return "", err
		}
	}
	return sum, a.checkBundled(found)
}

// readSums returns the sums by the names of the files, and the sum of SHA256SUMS itself.
func (d Directory) readSums(root *os.Root) (map[string]string, string, error) {
	data, err := readBounded(root, SumsName, maxSumsBytes)
	if err != nil {
		return nil, "", fmt.Errorf("%w: write the file with sha256sum, with a line for each file", err)
	}
	sum := sumOf(data)
	switch {
	case d.SHA256 == "" || d.SHA256 == sum:
	case !sha256Text.MatchString(d.SHA256):
		return nil, "", fmt.Errorf("the expected SHA-256 of %s is %q: set the 64 hexadecimal digits that \"sha256sum %s\" prints",
			SumsName, d.SHA256, SumsName)
	default:
		return nil, "", fmt.Errorf("%s has SHA-256 %s, and the expected sum is %s: mount the directory that was reviewed, or review the "+
			"directory and expect the new sum", SumsName, sum, d.SHA256)
	}
	sums := map[string]string{}
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSuffix(line, "\n")
		parts := sumLine.FindStringSubmatch(line)
		if parts == nil {
			return nil, "", fmt.Errorf("%s has the line %.120q, which is not of sha256sum: write the file with \"sha256sum FILE... > %s\"",
				SumsName, line, SumsName)
		}
		name := parts[2]
		if !manifestName.MatchString(name) {
			return nil, "", fmt.Errorf("%s names file %.200q, which is not part of a release: remove the file, or name the file like "+
				"knative-serving/1.2.3/FILE.yaml, knative-eventing/1.2.3/FILE.yaml, ingress/1.2/INGRESS/FILE.yaml or "+
				"eventing-source/1.2/SOURCE/FILE.yaml", SumsName, name)
		}
		if _, twice := sums[name]; twice {
			return nil, "", fmt.Errorf("%s names file %q twice: remove a line", SumsName, name)
		}
		sums[name] = parts[1]
	}
	if len(sums) == 0 {
		return nil, "", fmt.Errorf("%s names no file: add a release, or remove the setting", SumsName)
	}
	return sums, sum, nil
}

// listFiles returns the sorted names of all files below a directory, without SHA256SUMS. The root follows links, but no link that leads out.
func listFiles(root *os.Root, directory string, depth int) ([]string, error) {
	entries, err := fs.ReadDir(root.FS(), directory)
	if err != nil {
		return nil, fmt.Errorf("%w: make the directory readable for the user of the program", err)
	}
	var out []string
	for _, e := range entries {
		name := path.Join(directory, e.Name())
		if name == SumsName || depth == 1 && isOfVolume(name) {
			continue
		}
		info, err := root.Stat(name)
		switch {
		case err != nil:
			return nil, fmt.Errorf("%w: replace links that lead out of the directory by files, and make every file readable for the user of "+
				"the program", err)
		case info.Mode().IsRegular():
			out = append(out, name)
		case !info.IsDir() || depth == directoryDepth:
			return nil, fmt.Errorf("%q is no file of a release: remove it from the directory", name)
		default:
			below, err := listFiles(root, name, depth+1)
			if err != nil {
				return nil, err
			}
			out = append(out, below...)
		}
		if len(out) > maxDirectoryFiles {
			return nil, fmt.Errorf("%q has more than %d files: remove releases that no cluster needs", directory, maxDirectoryFiles)
		}
	}
	return out, nil
}

// isOfVolume reports whether the kubelet or a file system wrote an entry of the root: the kubelet keeps the files of a ConfigMap in
// directories with two dots, behind links; a new file system has directory lost+found.
func isOfVolume(name string) bool { return strings.HasPrefix(name, "..") || name == "lost+found" }

// compareNames returns an error for a file without a sum, and for a sum without a file.
func compareNames(sums map[string]string, found []string) error {
	for _, name := range found {
		if _, listed := sums[name]; !listed {
			return fmt.Errorf("file %q is not in %s: remove the file, or add the sum of the file after a review", name, SumsName)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(sums)) {
		if !slices.Contains(found, name) {
			return fmt.Errorf("file %q of %s is missing: copy the file again, or remove the line", name, SumsName)
		}
	}
	return nil
}

// addition adds files to a directory with the embedded releases.
type addition struct {
	root   *os.Root
	target string
	check  CheckManifest
	size   int
	// bundled holds the names of the files of each release of target as of the beginning; empty for a new release.
	bundled map[string][]string
}

// addFile verifies a file and writes the file, unless target has the release.
func (a *addition) addFile(name, want string) error {
	data, err := readBounded(a.root, name, maxFileBytes)
	if err != nil {
		return err
	}
	if got := sumOf(data); got != want {
		return fmt.Errorf("file %q has SHA-256 %s, and %s has %s: copy the file again, or replace the sum after a review",
			name, got, SumsName, want)
	}
	if a.size += len(data); a.size > maxAddedBytes {
		return fmt.Errorf("the files up to %q have more than %d bytes: remove releases that no cluster needs", name, maxAddedBytes)
	}
	if err := a.check(name, data); err != nil {
		return fmt.Errorf("file %q cannot be used: %w", name, err)
	}
	release := path.Dir(name)
	bundled, err := a.listBundled(release)
	if err != nil {
		return err
	}
	if len(bundled) > 0 {
		return a.compareFile(name, data)
	}
	directory := filepath.Join(a.target, filepath.FromSlash(release))
	if err := os.MkdirAll(directory, 0o700); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(directory, path.Base(name)), data, 0o600)
}

// listBundled returns the files that target had of a release at the beginning.
func (a *addition) listBundled(release string) ([]string, error) {
	if names, known := a.bundled[release]; known {
		return names, nil
	}
	entries, err := os.ReadDir(filepath.Join(a.target, filepath.FromSlash(release)))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	a.bundled[release] = []string{}
	for _, e := range entries {
		a.bundled[release] = append(a.bundled[release], path.Join(release, e.Name()))
	}
	return a.bundled[release], nil
}

// compareFile returns an error unless target has an equal file.
func (a *addition) compareFile(name string, data []byte) error {
	have, err := os.ReadFile(filepath.Join(a.target, filepath.FromSlash(name)))
	if errors.Is(err, fs.ErrNotExist) || err == nil && !bytes.Equal(have, data) {
		return newConflict(name)
	}
	return err
}

// checkBundled returns an error for a release of target that the Directory has in part.
func (a *addition) checkBundled(found []string) error {
	for _, release := range slices.Sorted(maps.Keys(a.bundled)) {
		for _, name := range a.bundled[release] {
			if !slices.Contains(found, name) {
				return newConflict(name)
			}
		}
	}
	return nil
}

// newConflict returns the error for a file in which the Directory differs from the embedded release.
func newConflict(name string) error {
	return fmt.Errorf("this program has release %q too, with another file %q: remove the release from the directory and from %s, because "+
		"a program never replaces a release that clusters may have", path.Dir(name), path.Base(name), SumsName)
}

func readBounded(root *os.Root, name string, limit int64) ([]byte, error) {
	info, err := root.Stat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%q is no regular file", name)
	}
	file, err := root.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close() //nolint:errcheck // only read
	data, err := io.ReadAll(io.LimitReader(file, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = fmt.Errorf("file %q has more than %d bytes, the limit: split the file, or remove it", name, limit)
	}
	return data, err
}

func sumOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
