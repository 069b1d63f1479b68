// Copyright Contributors to the Open Cluster Management project

package process

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"
)

// Ports below the range that the kernel hands to outgoing connections, so that none of those can take a port between
// its reservation and the program's bind.
const (
	firstPort = 20000
	lastPort  = 31999
)

// Ports hands out free ports of 127.0.0.1. Each is held by a lock file until Release or the end of this process, so that
// labs side by side never get the same one.
type Ports struct {
	mu    sync.Mutex
	locks []*os.File
}

// Next reserves a port.
func (p *Ports) Next() (int, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return 0, fmt.Errorf("cannot reserve a port (set HOME or XDG_CACHE_HOME): %w", err)
	}
	dir := filepath.Join(cache, "knative-addon-lab", "ports")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return 0, fmt.Errorf("cannot reserve a port: %w", err)
	}
	for range 1000 {
		port := firstPort + rand.IntN(lastPort-firstPort+1)
		lock, err := lockPort(dir, port)
		if err != nil {
			continue
		}
		p.mu.Lock()
		p.locks = append(p.locks, lock)
		p.mu.Unlock()
		return port, nil
	}
	return 0, fmt.Errorf("cannot reserve a port: none of 127.0.0.1:%d-%d that was tried is free", firstPort, lastPort)
}

func lockPort(dir string, port int) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, strconv.Itoa(port)), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = f.Close()
		return nil, err
	}
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port))) //nolint:noctx // a probe of a loopback port
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, l.Close()
}

// Release gives all ports back.
func (p *Ports) Release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, f := range p.locks {
		_ = f.Close()
	}
	p.locks = nil
}
