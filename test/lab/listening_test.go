// Copyright Contributors to the Open Cluster Management project

package lab

import (
	"encoding/hex"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

func itoa(n int) string { return strconv.Itoa(n) }

// listening lists the addresses of the TCP sockets that the processes listen on, from /proc.
func listening(t *testing.T, pids []int) []string {
	t.Helper()
	addresses := map[string]string{} // inode -> address
	for _, file := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		content, err := os.ReadFile(file)
		if os.IsNotExist(err) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range strings.Split(string(content), "\n")[1:] {
			fields := strings.Fields(line)
			if len(fields) > 9 && fields[3] == "0A" { // LISTEN
				addresses[fields[9]] = parseAddress(t, fields[1])
			}
		}
	}
	var out []string
	for _, pid := range pids {
		fds, err := filepath.Glob("/proc/" + itoa(pid) + "/fd/*")
		if err != nil {
			t.Fatal(err)
		}
		for _, fd := range fds {
			target, err := os.Readlink(fd)
			if err != nil {
				continue // closed meanwhile
			}
			if inode, ok := strings.CutPrefix(target, "socket:["); ok {
				if address, ok := addresses[strings.TrimSuffix(inode, "]")]; ok {
					out = append(out, address)
				}
			}
		}
	}
	if len(out) == 0 {
		t.Fatal("no component listens anywhere")
	}
	return out
}

// parseAddress reads "0100007F:1F90": the address in words of little endian, and the port.
func parseAddress(t *testing.T, s string) string {
	t.Helper()
	host, port, _ := strings.Cut(s, ":")
	raw, err := hex.DecodeString(host)
	if err != nil {
		t.Fatal(err)
	}
	for word := range slices.Chunk(raw, 4) {
		slices.Reverse(word)
	}
	n, err := strconv.ParseUint(port, 16, 16)
	if err != nil {
		t.Fatal(err)
	}
	return net.JoinHostPort(net.IP(raw).String(), strconv.FormatUint(n, 10))
}
