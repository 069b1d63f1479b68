// Copyright Contributors to the Open Cluster Management project

package lab

import (
	"io"
	"net"
	"strings"
	"testing"
)

func answer(t *testing.T, text string) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // loopback
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(c, text)
			_ = c.Close()
		}
	}()
	return l.Addr().String()
}

func read(t *testing.T, ip string) (string, error) {
	t.Helper()
	c, err := net.Dial("tcp", net.JoinHostPort(ip, servicePort)) //nolint:noctx // loopback
	if err != nil {
		return "", err
	}
	defer func() { _ = c.Close() }()
	b, err := io.ReadAll(c)
	return string(b), err
}

func TestServiceIPs(t *testing.T) {
	var a, b serviceIPs
	defer a.close()
	defer b.close()
	for _, s := range []*serviceIPs{&a, &b} {
		if err := s.claim(); err != nil {
			t.Fatal(err)
		}
	}
	if a.cidr() == b.cidr() {
		t.Fatalf("two clusters have the range %s", a.cidr())
	}
	ip := strings.TrimSuffix(a.first(), ".1") + ".77"
	for _, want := range []string{"first", "second"} {
		if err := a.forward(ip, answer(t, want)); err != nil {
			t.Fatal(err)
		}
		if got, err := read(t, ip); err != nil || got != want {
			t.Errorf("%s answers %q (%v), want %q", ip, got, err, want)
		}
	}
	a.stop(ip)
	if got, err := read(t, ip); err == nil {
		t.Errorf("%s still answers %q", ip, got)
	}
}
