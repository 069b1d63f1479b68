// Copyright Contributors to the Open Cluster Management project

// Package dashboard serves pages that show the installations of a hub to an operator.
//
// The package promises:
//   - Handler answers GET and HEAD requests for a name of the loopback interface alone, so that no other site can read the pages by a
//     name that resolves to this machine.
//   - Pages have no scripts and load nothing: the Content-Security-Policy forbids both.
//   - A page of all clusters sends no request to the hub, and a page of one cluster lists the ManifestWorks of the cluster.
//   - Nothing is written.
package dashboard
