// Copyright Contributors to the Open Cluster Management project

package realnode

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestReleasedImages(t *testing.T) {
	digest := "@sha256:" + strings.Repeat("0a", 32)
	activator := "gcr.io/knative-releases/knative.dev/serving/cmd/activator" + digest
	envoy := "docker.io/envoyproxy/envoy:v1.37-latest"
	directory := t.TempDir()
	content := "        image: " + activator + "\n        image: " + envoy + "\n        image: " + activator + "\n    kubernetes.podspec-volumes-image: \"disabled\"\n"
	if err := os.WriteFile(filepath.Join(directory, "release.yaml"), []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := releasedImages(directory)
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 2 || !slices.Equal(got["serving/cmd/activator"], []string{activator}) || !slices.Equal(got[envoyImage], []string{envoy}) {
		t.Errorf("got %v", got)
	}
}
