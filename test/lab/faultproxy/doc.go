// Copyright Contributors to the Open Cluster Management project

// Package faultproxy forwards requests to an API server and injects faults on the way: errors, delays, lost answers, and watches
// that end early.
//
// A client reaches the API server through the URL and the CA of the Proxy, with the client's own token: the Proxy forwards the
// Authorization header and does not authenticate. The Proxy listens on 127.0.0.1.
package faultproxy
