// Copyright Contributors to the Open Cluster Management project

package remote

import (
	"encoding/hex"
	"fmt"
	"net"
	"net/url"
	"strings"
)

// RefusedError means that a URL is never fetched.
type RefusedError struct{ URL, Why string }

// Error implements error.
func (e *RefusedError) Error() string { return fmt.Sprintf("cannot fetch %q: %s", e.URL, e.Why) }

// UnavailableError means that a fetch failed temporarily.
type UnavailableError struct {
	URL string
	Err error
}

// Error implements error.
func (e *UnavailableError) Error() string { return fmt.Sprintf("cannot fetch %q: %v", e.URL, e.Err) }

// Unwrap returns the cause.
func (e *UnavailableError) Unwrap() error { return e.Err }

// location is a permitted URL with the required digest of the content.
type location struct {
	url    *url.URL
	digest string // hex SHA-256, or empty
}

// urlForMessages returns the URL without the query, which may be a credential.
func urlForMessages(u *url.URL) string {
	s := url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}
	if u.RawQuery != "" {
		s.RawQuery = "..."
	}
	return s.String()
}

const digestPrefix = "sha256="

// parseLocation parses a URL and checks the policy.
func (f *Fetcher) parseLocation(raw string) (location, error) {
	u, err := url.Parse(raw)
	if err != nil {
		return location{}, &RefusedError{URL: "(unreadable)", Why: "it is no URL"}
	}
	refuse := func(format string, args ...any) (location, error) {
		return location{}, &RefusedError{URL: urlForMessages(u), Why: fmt.Sprintf(format, args...)}
	}
	switch {
	case u.Scheme == "" || u.Scheme == "file":
		return refuse("files are not read: use an https URL")
	case u.Scheme != "https":
		return refuse("its scheme is %q: use https", u.Scheme)
	case u.User != nil:
		return refuse("it holds a credential: remove it")
	case u.Host == "":
		return refuse("it has no host")
	case !f.isAllowedHost(u):
		return refuse("host %q is not allowed: ask an administrator to add it to the allowed hosts", u.Host)
	}
	digest, err := parseDigest(u.Fragment)
	if err != nil {
		return refuse("%s", err)
	}
	u.Fragment, u.RawFragment = "", ""
	return location{url: u, digest: digest}, nil
}

func parseDigest(fragment string) (string, error) {
	if fragment == "" {
		return "", nil
	}
	digest, found := strings.CutPrefix(strings.ToLower(fragment), digestPrefix)
	if raw, err := hex.DecodeString(digest); !found || err != nil || len(raw) != 32 {
		return "", fmt.Errorf("its fragment %q is no digest: want #sha256=<64 hex digits>", fragment)
	}
	return digest, nil
}

// isAllowedHost reports whether the host is on the list: by name, or below a name that the list has as "*.name". The port
// belongs to the name unless the port is 443.
func (f *Fetcher) isAllowedHost(u *url.URL) bool {
	host := canonicalHost(u)
	for _, allowed := range f.policy.AllowedHosts {
		allowed = strings.ToLower(allowed)
		if host == allowed {
			return true
		}
		if suffix, found := strings.CutPrefix(allowed, "*"); found && strings.HasPrefix(suffix, ".") &&
			strings.HasSuffix(host, suffix) && len(host) > len(suffix) {
			return true
		}
	}
	return false
}

// canonicalHost returns the lower-case host, with the port unless the port is 443.
func canonicalHost(u *url.URL) string {
	host := strings.TrimSuffix(strings.ToLower(u.Hostname()), ".")
	if port := u.Port(); port != "" && port != "443" {
		return net.JoinHostPort(host, port)
	}
	return host
}
