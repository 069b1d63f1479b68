// Copyright Contributors to the Open Cluster Management project

package dashboard

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/utils/clock"
	g "maragu.dev/gomponents"

	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/explanation"
	"open-cluster-management.io/knative-addon/pkg/installations"
)

// snapshot is the last state of the hub.
type snapshot struct {
	hub      string
	at       time.Time
	all      []installations.Installation
	objects  installations.Objects
	failures []string
}

// Dashboard holds the last state of a hub, and serves the state as pages. A Dashboard is safe for concurrent use.
type Dashboard struct {
	hub    *installations.Hub
	book   *explanation.Book
	clock  clock.PassiveClock
	policy string

	mu sync.Mutex
	// last is nil until the state is complete.
	last *snapshot
	// failedWatches returns the errors of watches that have not recovered.
	failedWatches func() []error
}

// New returns the dashboard of a hub. book explains reasons.
func New(hub *installations.Hub, book *explanation.Book, c clock.PassiveClock) *Dashboard {
	sum := sha256.Sum256([]byte(style))
	return &Dashboard{
		hub: hub, book: book, clock: c, failedWatches: func() []error { return nil },
		policy: "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
	}
}

// Watch keeps the state until the context ends. failed are shown on every page: the lists that the state lacks.
func (d *Dashboard) Watch(ctx context.Context, watcher *installations.Watcher, failed []*installations.ListError) error {
	var texts []string
	for _, e := range failed {
		texts = append(texts, e.Error())
	}
	d.mu.Lock()
	d.failedWatches = watcher.Failures
	d.mu.Unlock()
	return watcher.Run(ctx, func(objects installations.Objects) (bool, error) {
		d.setState(objects, texts)
		return false, nil
	})
}

func (d *Dashboard) setState(objects installations.Objects, failures []string) {
	next := &snapshot{hub: d.hub.Name, at: d.clock.Now(), all: installations.Compose(objects), objects: objects, failures: failures}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.last = next
}

// state returns the state with the failures of watches; nil before the state is complete.
func (d *Dashboard) state() *snapshot {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.last == nil {
		return nil
	}
	out := *d.last
	out.failures = slices.Clone(out.failures)
	for _, err := range d.failedWatches() {
		out.failures = append(out.failures, "this state may be old: "+err.Error())
	}
	return &out
}

// Handler returns the pages: / shows all clusters, /cluster and /reason show one, and /status.json is the output of command status.
func (d *Dashboard) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", d.serveFleet)
	mux.HandleFunc("GET /cluster", d.serveCluster)
	mux.HandleFunc("GET /reason", d.serveReason)
	mux.HandleFunc("GET /status.json", d.serveStatus)
	return d.protect(mux)
}

// protect refuses requests of other sites, and forbids the pages every script and every connection.
func (d *Dashboard) protect(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		for key, value := range map[string]string{
			"Content-Security-Policy": d.policy, "X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY", "Referrer-Policy": "no-referrer",
			"Cross-Origin-Resource-Policy": "same-origin", "Cross-Origin-Opener-Policy": "same-origin", "Cache-Control": "no-store",
		} {
			header.Set(key, value)
		}
		switch {
		case !isLoopback(r.Host):
			http.Error(w, "the dashboard answers requests for 127.0.0.1 and localhost alone", http.StatusForbidden)
		case r.Method != http.MethodGet && r.Method != http.MethodHead:
			http.Error(w, "the dashboard only reads", http.StatusMethodNotAllowed)
		case d.state() == nil:
			header.Set("Retry-After", "1")
			header.Set("Refresh", "1") // for browsers
			http.Error(w, "the dashboard has not read all objects of the hub yet", http.StatusServiceUnavailable)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// isLoopback reports whether the host of a request names the loopback interface. Any other name may belong to a site whose address
// was changed to the address of this machine.
func isLoopback(host string) bool {
	name := host
	if split, _, err := net.SplitHostPort(host); err == nil {
		name = split
	}
	address := net.ParseIP(strings.Trim(name, "[]"))
	return strings.EqualFold(name, "localhost") || address != nil && address.IsLoopback()
}

func (d *Dashboard) serveFleet(w http.ResponseWriter, _ *http.Request) {
	view := newFleetView(d.state(), d.clock.Now())
	writePage(w, renderFleetPage(&view))
}

// serveCluster shows the objects of one cluster. Only a managed cluster needs a request to the hub.
func (d *Dashboard) serveCluster(w http.ResponseWriter, r *http.Request) {
	s, name := d.state(), r.URL.Query().Get("name")
	selected := slices.Clone(s.all) // a name of a ClusterProfile or resource may be the name of another cluster
	selected = slices.DeleteFunc(selected, func(i installations.Installation) bool { return i.Cluster != name })
	if len(selected) == 0 {
		http.Error(w, "the hub has no installation on a cluster of this name", http.StatusNotFound)
		return
	}
	view := clusterView{Cluster: name, Updated: s.at.Format(time.TimeOnly), Failures: s.failures}
	var works []workv1.ManifestWork
	isListed := false
	var tree bytes.Buffer
	for n := range selected {
		i := &selected[n]
		if !isListed && i.Mode == api.ModeManifestWork {
			var err error
			isListed = true
			if works, err = d.hub.ListWorks(r.Context(), i.Cluster); err != nil {
				view.Failures = append(view.Failures, err.Error())
			}
		}
		view.Cells = append(view.Cells, newCell(i, d.clock.Now()))
		node := installations.Tree(i, s.objects, works)
		_ = node.Write(&tree) // a buffer takes every write
	}
	view.Tree = tree.String()
	writePage(w, renderClusterPage(&view))
}

// serveReason shows the documentation of a reason, and the clusters with the reason.
func (d *Dashboard) serveReason(w http.ResponseWriter, r *http.Request) {
	s, name := d.state(), r.URL.Query().Get("name")
	view := reasonView{Reason: name, Updated: s.at.Format(time.TimeOnly), Failures: s.failures}
	rows, _ := d.book.Explain(name)
	for _, row := range rows {
		view.Rows = append(view.Rows, reasonRow{row.Condition, row.Status, row.Meaning, row.Remedy})
	}
	for n := range s.all {
		if s.all[n].Reason == name {
			view.Clusters = append(view.Clusters, newCell(&s.all[n], d.clock.Now()))
		}
	}
	writePage(w, renderReasonPage(&view))
}

func (d *Dashboard) serveStatus(w http.ResponseWriter, _ *http.Request) {
	s := d.state()
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{ // an error means that the reader is gone
		"items": append([]installations.Installation{}, s.all...), "summary": installations.Summarize(s.all),
	})
}

func writePage(w http.ResponseWriter, page g.Node) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_ = page.Render(w) // an error means that the reader is gone
}

const (
	// headerTimeout is the time for the header of a request.
	headerTimeout = 5 * time.Second
	// closeTimeout is the time for requests that run when the dashboard ends.
	closeTimeout = 2 * time.Second
)

// Serve serves the pages on a listener of the loopback interface until the context ends.
func (d *Dashboard) Serve(ctx context.Context, listener net.Listener) error {
	server := &http.Server{Handler: d.Handler(), ReadHeaderTimeout: headerTimeout}
	stop := context.AfterFunc(ctx, func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
		defer cancel()
		if server.Shutdown(closing) != nil {
			_ = server.Close()
		}
	})
	defer stop()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("cannot serve the dashboard: %w", err)
	}
	return nil
}
