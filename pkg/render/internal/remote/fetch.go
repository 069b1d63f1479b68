// Copyright Contributors to the Open Cluster Management project

package remote

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"
)

const (
	defaultTimeout  = 10 * time.Second
	defaultMaxBytes = 8 << 20
	// retryAfter is how long a failure that may pass is kept.
	retryAfter = time.Minute
	// maxKept bounds what all documents together may hold.
	maxKept = 64 << 20
)

// Policy is what an administrator allows. The zero value allows nothing.
type Policy struct {
	// AllowedHosts are host names, or "*.name"; with a port when it is not 443.
	AllowedHosts []string
	// AllowedNetworks are networks in CIDR notation that may be connected to although they are not public.
	AllowedNetworks []string
	// RootCAs are who may have signed the hosts' certificates; nil means the system's.
	RootCAs *x509.CertPool
	// Timeout bounds a fetch, from the name look-up to the last byte; 0 means 10 s.
	Timeout time.Duration
	// MaxBytes bounds a document; 0 means 8 MiB.
	MaxBytes int64
	// Now is the clock; nil means the system's.
	Now func() time.Time
}

// Document is what a URL gave.
type Document struct {
	// URL is where it came from, without query and digest.
	URL string
	// SHA256 is the hex digest of Data.
	SHA256 string
	// Pinned says that the URL named the digest.
	Pinned bool
	// Data is the content; read only.
	Data []byte
}

// Fetcher fetches and keeps documents. It is safe for concurrent use.
type Fetcher struct {
	policy Policy
	client *http.Client

	mu   sync.Mutex
	kept map[string]*slot
	size int
}

// slot is a fetch: under way until done is closed.
type slot struct {
	done chan struct{}
	doc  *Document
	err  error
	at   time.Time
}

// New returns a Fetcher.
func New(p Policy) (*Fetcher, error) {
	g, err := newGuard(p.AllowedNetworks)
	if err != nil {
		return nil, err
	}
	if p.Timeout <= 0 {
		p.Timeout = defaultTimeout
	}
	if p.MaxBytes <= 0 {
		p.MaxBytes = defaultMaxBytes
	}
	if p.Now == nil {
		p.Now = time.Now //nolint:forbidigo // the default of a clock that is injected
	}
	dialer := &net.Dialer{Timeout: p.Timeout, Control: g.control}
	transport := &http.Transport{
		DialContext:         dialer.DialContext,
		TLSClientConfig:     &tls.Config{RootCAs: p.RootCAs, MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout: p.Timeout,
		DisableKeepAlives:   true,
		// What is counted against MaxBytes is what came over the network.
		DisableCompression:     true,
		MaxResponseHeaderBytes: 64 << 10,
	}
	f := &Fetcher{policy: p, kept: map[string]*slot{}}
	f.client = &http.Client{Transport: transport, CheckRedirect: checkRedirect}
	return f, nil
}

// checkRedirect lets a redirect stay on its host.
func checkRedirect(req *http.Request, via []*http.Request) error {
	if len(via) > 3 {
		return &redirectError{"it redirects more than three times"}
	}
	if from := via[0].URL; req.URL.Scheme != "https" || canonicalHost(req.URL) != canonicalHost(from) {
		return &redirectError{fmt.Sprintf("it redirects to %s://%s: use the final URL", req.URL.Scheme, req.URL.Host)}
	}
	return nil
}

type redirectError struct{ why string }

// Error implements error.
func (e *redirectError) Error() string { return e.why }

// Fetch is the document at a URL, which may name its digest as #sha256=<hex>. The error is a *RefusedError, an
// *UnavailableError, or that of ctx.
func (f *Fetcher) Fetch(ctx context.Context, raw string) (*Document, error) {
	loc, err := f.locate(raw)
	if err != nil {
		return nil, err
	}
	s, mine := f.claim(loc)
	if mine {
		// Others may wait for this fetch, so it ends by its own deadline only.
		s.doc, s.err = f.get(context.WithoutCancel(ctx), loc)
		f.settle(loc, s)
		return s.doc, s.err
	}
	select {
	case <-s.done:
		return s.doc, s.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (l location) key() string { return l.url.String() + "#" + l.digest }

// claim is the slot of a location; mine says that the caller is to fill it.
func (f *Fetcher) claim(l location) (s *slot, mine bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if s, found := f.kept[l.key()]; found && !f.expired(s) {
		return s, false
	}
	s = &slot{done: make(chan struct{})}
	f.kept[l.key()] = s
	return s, true
}

// expired tells whether a finished slot holds a failure that is due to be tried again.
func (f *Fetcher) expired(s *slot) bool {
	select {
	case <-s.done:
		return s.err != nil && f.policy.Now().Sub(s.at) >= retryAfter
	default:
		return false
	}
}

// settle publishes a finished slot. Documents beyond the bound are forgotten, all at once: it is a bound against abuse,
// not one that an honest fleet meets.
func (f *Fetcher) settle(l location, s *slot) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s.at = f.policy.Now()
	close(s.done)
	if s.doc == nil {
		return
	}
	if f.size+len(s.doc.Data) > maxKept {
		f.kept, f.size = map[string]*slot{l.key(): s}, 0
	}
	f.size += len(s.doc.Data)
}

func (f *Fetcher) get(ctx context.Context, l location) (*Document, error) {
	ctx, cancel := context.WithTimeout(ctx, f.policy.Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, l.url.String(), nil)
	if err != nil {
		return nil, &RefusedError{URL: shown(l.url), Why: "it is no URL"}
	}
	req.Header.Set("User-Agent", "knative-addon")
	resp, err := f.client.Do(req)
	if err != nil {
		return nil, f.explain(l, err)
	}
	defer resp.Body.Close() //nolint:errcheck // only read
	if resp.StatusCode != http.StatusOK {
		return nil, &UnavailableError{URL: shown(l.url), Err: fmt.Errorf("the server answers %q", resp.Status)}
	}
	data, err := io.ReadAll(io.LimitReader(resp.Body, f.policy.MaxBytes+1))
	if err == nil {
		// A server that sees us go may end its answer, and half a document would look like a whole one.
		err = ctx.Err()
	}
	if err != nil {
		return nil, f.explain(l, err)
	}
	if int64(len(data)) > f.policy.MaxBytes {
		return nil, &RefusedError{URL: shown(l.url), Why: fmt.Sprintf("it has more than %d bytes", f.policy.MaxBytes)}
	}
	sum := sha256.Sum256(data)
	doc := &Document{URL: shown(l.url), SHA256: hex.EncodeToString(sum[:]), Pinned: l.digest != "", Data: data}
	if doc.Pinned && doc.SHA256 != l.digest {
		return nil, &RefusedError{URL: shown(l.url), Why: fmt.Sprintf("its SHA-256 is %s, want %s", doc.SHA256, l.digest)}
	}
	return doc, nil
}

// explain turns an error of the HTTP client into one of ours, without the addresses that it names.
func (f *Fetcher) explain(l location, err error) error {
	raw := shown(l.url)
	if e := (*forbiddenAddressError)(nil); errors.As(err, &e) {
		return &RefusedError{URL: raw, Why: e.Error()}
	}
	if e := (*redirectError)(nil); errors.As(err, &e) {
		return &RefusedError{URL: raw, Why: e.Error()}
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return &UnavailableError{URL: raw, Err: fmt.Errorf("no answer within %s: %w", f.policy.Timeout, context.DeadlineExceeded)}
	}
	if e := (*net.DNSError)(nil); errors.As(err, &e) {
		return &UnavailableError{URL: raw, Err: errors.New("its host is not found")}
	}
	if e := (*tls.CertificateVerificationError)(nil); errors.As(err, &e) {
		return &UnavailableError{URL: raw, Err: fmt.Errorf("its certificate is not trusted: %w", e.Err)}
	}
	if e := (*net.OpError)(nil); errors.As(err, &e) {
		return &UnavailableError{URL: raw, Err: errors.New("no connection")}
	}
	if e := (*url.Error)(nil); errors.As(err, &e) {
		return &UnavailableError{URL: raw, Err: e.Err}
	}
	return &UnavailableError{URL: raw, Err: err}
}
