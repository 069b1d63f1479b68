// Copyright Contributors to the Open Cluster Management project

// Package access connects to the clusters of ClusterProfiles through access providers (docs/design/0014-libraries.md).
//
//   - Profiles share a connection only with equal connection specs. No lock is held during a request or a plugin.
//   - Only the administrator's inventories (package trust) decide about a profile: without a permission, no plugin runs and no
//     address is dialled. Each attempt to dial checks the address of server or proxy.
//   - A plugin runs with a deadline, limits, a process group and an environment of its own. A profile never sets a guarded or an
//     inherited variable.
//   - A credential goes only to its server; redirects are not followed. No error contains a token, a key or output of a plugin.
//   - An Error names the ClusterProfile, the problem and the next step, in the same words as long as the problem is the same.
//   - Each cluster has its own limits. After failures, requests fail at once until Session.RetryAt.
//   - A Session ends when its profile, access provider or plugin changes: ask Sessions.For again.
package access
