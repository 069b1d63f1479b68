// Copyright Contributors to the Open Cluster Management project

package e2e

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// recordFlag names the file that carries the use of permissions from `make test` to `make test-rest`, so that the verdict on
// permissions that nothing uses counts the requests of both.
var recordFlag = flag.String("permission-record", "", "file that -stories=main writes the use of permissions to, and that -stories=rest reads")

// permissionRecord is the content of that file.
type permissionRecord struct {
	// Binary is a hash of the manager that made the requests.
	Binary string              `json:"binary"`
	Labs   int                 `json:"labs"`
	Used   []grantedPermission `json:"used"`
	Unused []grantedPermission `json:"unused"`
}

// startRecord prepares the record: main stories begin without one, and the rest needs the one of main stories that passed with
// the same manager.
func (u *permissionUsage) startRecord(stories, file, binary string) error {
	switch {
	case stories == mainStories && file != "":
		if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("cannot remove the record of permissions: %w", err)
		}
	case stories == restStories:
		if err := u.load(file, binary); err != nil {
			return fmt.Errorf("cannot read which permissions the main stories have used (`make test` writes that): %w", err)
		}
	}
	return nil
}

var errOtherManager = errors.New("another build of the manager has made the requests in the record")

func (u *permissionUsage) load(file, binary string) error {
	content, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var r permissionRecord
	if err := json.Unmarshal(content, &r); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	now, err := hashFile(binary)
	if err != nil {
		return err
	}
	if r.Binary != now {
		return fmt.Errorf("%s: %w", file, errOtherManager)
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.labs, u.granted = r.Labs, map[grantedPermission]bool{}
	for _, g := range r.Unused {
		u.granted[g] = false
	}
	for _, g := range r.Used {
		u.granted[g] = true
	}
	return nil
}

// save writes the record.
func (u *permissionUsage) save(file, binary string) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	hash, err := hashFile(binary)
	if err != nil {
		return err
	}
	r := permissionRecord{Binary: hash, Labs: u.labs}
	for g, used := range u.granted {
		if used {
			r.Used = append(r.Used, g)
		} else {
			r.Unused = append(r.Unused, g)
		}
	}
	content, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("cannot encode the record of permissions: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return fmt.Errorf("cannot make the directory of the record of permissions: %w", err)
	}
	if err := os.WriteFile(file, content, 0o600); err != nil {
		return fmt.Errorf("cannot write the record of permissions: %w", err)
	}
	return nil
}

func hashFile(file string) (string, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("cannot read the manager's binary: %w", err)
	}
	return fmt.Sprintf("%x", sha256.Sum256(content)), nil
}

// TestPermissionRecord holds that the rest continues with the use that the main stories have recorded, and only with a record of
// the same manager.
func TestPermissionRecord(t *testing.T) {
	dir := t.TempDir()
	file, binary := filepath.Join(dir, "record", "permissions.json"), filepath.Join(dir, "manager")
	write := func(content string) {
		t.Helper()
		if err := os.WriteFile(binary, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("one")
	first := permissionUsage{labs: 3, granted: map[grantedPermission]bool{
		{Role: "Role", Verb: "get", Resource: "secrets", Names: "a b"}:              true,
		{Role: "ClusterRole", Verb: "list", Group: "apps", Resource: "deployments"}: false,
	}}
	if err := first.save(file, binary); err != nil {
		t.Fatal(err)
	}
	var second permissionUsage
	if err := second.startRecord(restStories, file, binary); err != nil {
		t.Fatal(err)
	}
	if second.labs != first.labs || !maps.Equal(first.granted, second.granted) {
		t.Errorf("the record has changed: %s", cmp.Diff(fmt.Sprint(first.granted), fmt.Sprint(second.granted)))
	}
	write("two")
	if err := second.startRecord(restStories, file, binary); !errors.Is(err, errOtherManager) {
		t.Errorf("a record of another manager: the error is %v", err)
	}
	if err := first.startRecord(mainStories, file, binary); err != nil {
		t.Fatal(err)
	}
	if err := second.startRecord(restStories, file, binary); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without a record: the error is %v", err)
	}
}
