// Copyright Contributors to the Open Cluster Management project

package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"

	"golang.org/x/net/dns/dnsmessage"
)

// hostsEnv has the addresses of names, as "name=address,name=address": what hostAliases of a pod and the cluster's DNS are to the
// programs in a pod.
const hostsEnv = "LAB_HOSTS"

// aliasHosts resolves the names of the list, and no other name but those of /etc/hosts.
func aliasHosts(list string) error {
	hosts := map[string]netip.Addr{}
	for entry := range strings.SplitSeq(list, ",") {
		if entry == "" {
			continue
		}
		name, address, _ := strings.Cut(entry, "=")
		ip, err := netip.ParseAddr(address)
		if err != nil || !ip.Is4() {
			return fmt.Errorf("%q has no IPv4 address", entry)
		}
		hosts[name+"."] = ip
	}
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		client, server := net.Pipe()
		go serveDNS(server, hosts)
		return client, nil
	}}
	return nil
}

// serveDNS answers queries of one connection as DNS over TCP until the client closes the connection.
func serveDNS(conn net.Conn, hosts map[string]netip.Addr) {
	defer func() { _ = conn.Close() }()
	for {
		var size uint16
		if err := binary.Read(conn, binary.BigEndian, &size); err != nil {
			return
		}
		query := make([]byte, size)
		if _, err := io.ReadFull(conn, query); err != nil {
			return
		}
		answer, err := answerQuery(query, hosts)
		if err != nil {
			return
		}
		if _, err := conn.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(answer))), answer...)); err != nil {
			return
		}
	}
}

func answerQuery(query []byte, hosts map[string]netip.Addr) ([]byte, error) {
	var m dnsmessage.Message
	if err := m.Unpack(query); err != nil {
		return nil, err
	}
	if len(m.Questions) != 1 {
		return nil, errors.New("a query has one question")
	}
	q := m.Questions[0]
	m.Response, m.RecursionAvailable, m.Additionals = true, true, nil
	address, known := hosts[q.Name.String()]
	switch {
	case !known:
		m.RCode = dnsmessage.RCodeNameError
	case q.Type == dnsmessage.TypeA:
		m.Answers = []dnsmessage.Resource{{
			Header: dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class}, Body: &dnsmessage.AResource{A: address.As4()},
		}}
	}
	return m.Pack()
}
