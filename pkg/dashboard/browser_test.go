// Copyright Contributors to the Open Cluster Management project

package dashboard

import (
	"flag"
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

var (
	// browser makes TestBrowser run: a test of the browser needs a program that a machine with Go alone lacks.
	browser = flag.Bool("browser", false, "show the pages in headless Chromium")
	// pictures makes TestBrowser write the pictures of docs/images.
	pictures = flag.Bool("pictures", false, "with -browser, write the pictures of docs/images")
)

// TestBrowser holds that a browser shows the pages of a small and of a large fleet with their style, which the policy of the pages
// permits, and without an error of the policy.
func TestBrowser(t *testing.T) {
	if !*browser {
		t.Skip("the flag -browser is not set: make test-browser runs this test")
	}
	chromium, err := exec.LookPath("chromium")
	if err != nil {
		t.Fatal("the program chromium is not installed: install the package chromium of Debian")
	}
	for _, tc := range []struct {
		name, path string
		clusters   int
		size, want string
	}{
		{"dashboard-5.png", "/", 5, "1220,900", "cluster-0004"},
		{"dashboard-1000.png", "/", 1000, "1220,1060", "WorkloadsNotReady"},
		{"dashboard-cluster.png", "/cluster?name=cluster-0003", 5, "1220,520", "ImagePullBackOff"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			d, _ := newDashboard(t, newObjects(tc.clusters))
			var config net.ListenConfig
			listener, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			go func() { _ = d.Serve(t.Context(), listener) }()
			file := filepath.Join(t.TempDir(), tc.name)
			if *pictures {
				file = filepath.Join("..", "..", "docs", "images", tc.name)
			}
			address := "http://" + listener.Addr().String() + tc.path
			run := func(mode string) string {
				//nolint:gosec // the arguments are those of the test
				cmd := exec.CommandContext(t.Context(), chromium, "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking",
					"--enable-logging=stderr", "--user-data-dir="+t.TempDir(), "--window-size="+tc.size, mode, address)
				out, err := cmd.CombinedOutput()
				if err != nil {
					t.Fatalf("chromium has failed: %v: %s", err, out)
				}
				return string(out)
			}
			out := run("--dump-dom")
			if !strings.Contains(out, tc.want) || strings.Contains(out, "Content Security Policy") {
				t.Errorf("the browser lacks %q, or the policy was violated: %.3000s", tc.want, out)
			}
			run("--screenshot=" + file)
		})
	}
}
