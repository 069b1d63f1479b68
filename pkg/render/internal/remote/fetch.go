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
	"maps"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"sync"
	"time"
)

const (
	defaultTimeout  = 10 * time.Second
	defaultMaxBytes = 8 << 20
	// retryAfter is how long a temporary failure is cached.
	retryAfter = time.Minute
	// maxKept bounds the bytes of all cached documents together.
	maxKept = 64 << 20
	// maxSlots bounds the number of cached documents and failures.
	maxSlots = 4096
	// maxFetches is the number of concurrent fetches, each of which holds a document in memory.
	maxFetches = 8
)

// Policy is the administrator's list of permitted fetches. The zero value permits none.
type Policy struct {
	// AllowedHosts are host names, or "*.name"; with a port when it is not 443.
	AllowedHosts []string
	// AllowedNetworks are networks in CIDR notation whose addresses are permitted although the addresses are not public.
	AllowedNetworks []string
	// RootCAs are the authorities for the hosts' certificates; nil means the system's authorities.
	RootCAs *x509.CertPool
	// Timeout bounds a fetch, from the name look-up to the last byte; 0 means 10 s.
	Timeout time.Duration
	// MaxBytes bounds a document; 0 means 8 MiB.
	MaxBytes int64
	// Now is the clock; nil means the system's clock.
	Now func() time.Time
}

// Document is the content of a URL.
type Document struct {
	// URL is the origin, without query and digest.
	URL string
	// SHA256 is the hex digest of Data.
	SHA256 string
	// Pinned reports whether the URL names the digest.
	Pinned bool
	// Data is the content; read only.
	Data []byte
}

// Fetcher fetches and caches documents and is safe for concurrent use.
type Fetcher struct {
	policy Policy
	client *http.Client
	// fetching has room for maxFetches.
	fetching chan struct{}

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

// New returns a Fetcher. isPublic reports whether an address belongs to the public internet.
func New(p Policy, isPublic func(netip.Addr) bool) (*Fetcher, error) {
	policy, err := newDialPolicy(p.AllowedNetworks, isPublic)
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
	dialer := &net.Dialer{Timeout: p.Timeout, Control: policy.controlDial}
	transport := &http.Transport{
		DialContext:         dialer.DialContext,
		TLSClientConfig:     &tls.Config{RootCAs: p.RootCAs, MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout: p.Timeout,
		DisableKeepAlives:   true,
		// MaxBytes counts the bytes that come over the network.
		DisableCompression:     true,
		MaxResponseHeaderBytes: 64 << 10,
	}
	f := &Fetcher{policy: p, kept: map[string]*slot{}, fetching: make(chan struct{}, maxFetches)}
	f.client = &http.Client{Transport: transport, CheckRedirect: checkRedirect}
	return f, nil
}

// checkRedirect permits redirects to the same host only.
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

// Fetch returns the document at a URL, which may name the digest as #sha256=<hex>. The error is a *RefusedError, an
// *UnavailableError, or the error of ctx.
func (f *Fetcher) Fetch(ctx context.Context, raw string) (*Document, error) {
	loc, err := f.parseLocation(raw)
	if err != nil {
		return nil, err
	}
	s, mine := f.claimEntry(loc)
	if mine {
		// Several callers may wait for this fetch, so that only its own deadline ends the fetch.
		go func() {
			f.fetching <- struct{}{}
			defer func() { <-f.fetching }()
			s.doc, s.err = f.get(context.WithoutCancel(ctx), loc)
			f.settleEntry(loc, s)
		}()
	}
	select {
	case <-s.done:
		return s.doc, s.err
	default:
	}
	select {
	case <-s.done:
		return s.doc, s.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (l location) cacheKey() string { return l.url.String() + "#" + l.digest }

// claimEntry returns the slot of a location; mine reports whether the caller has to fill the slot.
func (f *Fetcher) claimEntry(l location) (s *slot, mine bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if s, found := f.kept[l.cacheKey()]; found && !f.isExpired(s) {
		return s, false
	}
	if len(f.kept) >= maxSlots {
		f.kept, f.size = map[string]*slot{}, 0
	}
	maps.DeleteFunc(f.kept, func(_ string, kept *slot) bool { return f.isExpired(kept) })
	s = &slot{done: make(chan struct{})}
	f.kept[l.cacheKey()] = s
	return s, true
}

// isExpired reports whether a finished slot holds a failure that is old enough for another fetch.
func (f *Fetcher) isExpired(s *slot) bool {
	select {
	case <-s.done:
		return s.err != nil && f.policy.Now().Sub(s.at) >= retryAfter
	default:
		return false
	}
}

// settleEntry publishes a finished slot. Documents beyond the bound are dropped all at once: the bound is against abuse,
// and an honest fleet stays below.
func (f *Fetcher) settleEntry(l location, s *slot) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s.at = f.policy.Now()
	close(s.done)
	if s.doc == nil {
		return
	}
	size := len(s.doc.Data) + 2*len(l.cacheKey()) // the key, and the URL in the document
	if f.size+size > maxKept {
		f.kept, f.size = map[string]*slot{l.cacheKey(): s}, 0
	}
	f.size += size
}

func (f *Fetcher) get(ctx context.Context, l location) (*Document, error) {
	ctx, cancel := context.WithTimeout(ctx, f.policy.Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, l.url.String(), nil)
	if err != nil {
		return nil, &RefusedError{URL: urlForMessages(l.url), Why: "it is no URL"}
	}
	req.Header.Set("User-Agent", "knative-addon")
	resp, err := f.client.Do(req)
	if err != nil {
		return nil, f.explainError(l, err)
	}
	defer resp.Body.Close() //nolint:errcheck // only read
	if resp.StatusCode != http.StatusOK {
		return nil, &UnavailableError{URL: urlForMessages(l.url), Err: fmt.Errorf("the server answers %q", resp.Status)}
	}
	data, err := io.ReadAll(io.LimitReader(resp.Body, f.policy.MaxBytes+1))
	if err == nil {
		// A server may end the response when the client goes away, and half a document would look complete.
		err = ctx.Err()
	}
	if err != nil {
		return nil, f.explainError(l, err)
	}
	if int64(len(data)) > f.policy.MaxBytes {
		return nil, &RefusedError{URL: urlForMessages(l.url), Why: fmt.Sprintf("it has more than %d bytes", f.policy.MaxBytes)}
	}
	sum := sha256.Sum256(data)
	doc := &Document{URL: urlForMessages(l.url), SHA256: hex.EncodeToString(sum[:]), Pinned: l.digest != "", Data: data}
	if doc.Pinned && doc.SHA256 != l.digest {
		return nil, &RefusedError{URL: urlForMessages(l.url), Why: fmt.Sprintf("its SHA-256 is %s, want %s", doc.SHA256, l.digest)}
	}
	return doc, nil
}

// explainError turns an error of the HTTP client into an error of this package, without the addresses in the text.
func (f *Fetcher) explainError(l location, err error) error {
	raw := urlForMessages(l.url)
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
