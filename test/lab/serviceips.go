// Copyright Contributors to the Open Cluster Management project

package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"syscall"
)

// serviceIPs is the range of ClusterIPs of a cluster. They are loopback addresses (127.64.0.0/10 in blocks of 256), so
// that an API server reaches a Service through a forwarder on <ClusterIP>:443, with no network of its own.
type serviceIPs struct {
	mu        sync.Mutex
	net       [2]byte
	listeners map[string]net.Listener
	closed    bool
}

// servicePort is the only port that is forwarded: the one of webhooks and of the API server.
const servicePort = "443"

func (s *serviceIPs) cidr() string  { return fmt.Sprintf("127.%d.%d.0/24", s.net[0], s.net[1]) }
func (s *serviceIPs) first() string { return fmt.Sprintf("127.%d.%d.1", s.net[0], s.net[1]) }

// claim picks a range that no other lab uses: whoever listens on its first address has it.
func (s *serviceIPs) claim() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for range 200 {
		s.net = [2]byte{byte(64 + rand.IntN(64)), byte(rand.IntN(256))}
		l, err := net.Listen("tcp", net.JoinHostPort(s.first(), servicePort)) //nolint:noctx // loopback
		if errors.Is(err, syscall.EACCES) {
			return errors.New("cannot listen on port 443 of 127.64.0.0/10, where Knative's webhooks are reached: run as root, or allow it with " +
				"`sysctl -w net.ipv4.ip_unprivileged_port_start=443`, or run it in namespaces of your own with " +
				"`unshare --user --map-root-user --net bash -c 'ip link set lo up; <command>'`")
		}
		if err == nil {
			s.listeners = map[string]net.Listener{s.first(): l}
			return nil
		}
	}
	return errors.New("cannot find a free range of service addresses in 127.64.0.0/10")
}

// forward sends connections to <ip>:443 to the target. Forwarding an address again moves it to the new target.
func (s *serviceIPs) forward(ip, target string) error {
	if ip != s.first() {
		s.stop(ip)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return net.ErrClosed
	}
	l, ok := s.listeners[ip]
	if !ok {
		var err error
		if l, err = net.Listen("tcp", net.JoinHostPort(ip, servicePort)); err != nil { //nolint:noctx // loopback
			return fmt.Errorf("cannot forward service address %s: %w", ip, err)
		}
		s.listeners[ip] = l
	}
	go serve(l, target)
	return nil
}

// stop ends forwarding of an address.
func (s *serviceIPs) stop(ip string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l, ok := s.listeners[ip]; ok {
		_ = l.Close()
		delete(s.listeners, ip)
	}
}

func (s *serviceIPs) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for _, l := range s.listeners {
		_ = l.Close()
	}
}

func serve(l net.Listener, target string) {
	for {
		in, err := l.Accept()
		if err != nil {
			return
		}
		go pipe(in, target)
	}
}

func pipe(in net.Conn, target string) {
	defer func() { _ = in.Close() }()
	out, err := (&net.Dialer{Timeout: probeTimeout}).DialContext(context.Background(), "tcp", target)
	if err != nil {
		return
	}
	defer func() { _ = out.Close() }()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.Copy(out, in)
		_ = out.(*net.TCPConn).CloseWrite() //nolint:forcetypeassert // a TCP dial returns one
	}()
	_, _ = io.Copy(in, out)
	_ = in.(*net.TCPConn).CloseWrite() //nolint:forcetypeassert // a TCP listener accepts these
	<-done
}
