// Copyright Contributors to the Open Cluster Management project

// Package remote fetches manifests that users name by URL, from a process that sits inside the hub's network.
//
// Contract: nothing is fetched unless its host is on the administrator's list; only https; no proxy; a redirect stays on
// the host; no connection to an address that is not public, whatever the name resolves to at that moment, unless the
// administrator listed the network; a deadline and a size limit hold for the whole of a fetch. What was fetched is kept,
// and so is a failure for a while: the network sees one request per URL and digest, not one per reconciliation.
package remote
