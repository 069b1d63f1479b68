// Copyright Contributors to the Open Cluster Management project

// Package access connects to the clusters of ClusterProfiles: it reads the file of access providers, runs the plugin
// that gives the credential, and keeps one connection per cluster.
//
// It does what package sigs.k8s.io/cluster-inventory-api/pkg/access and the exec plugins of client-go do together, and
// reads the same file and fields, but builds on neither. The former writes what one profile says into the configuration
// that all share, hides connections from client-go's cache and drops the TLS server name; the latter run a plugin
// without deadline or limit, with the environment of the manager, and remember its credentials for ever.
//
// Contract:
//   - Nothing of one profile reaches another. Profiles share a connection only when everything it is made from is equal.
//   - No plugin runs without deadline and limits. Its process group is gone when its answer is read.
//   - No token, key or password is in an error, wherever a plugin prints it. What a plugin says on stderr is shown up to
//     the first thing that may be a secret.
//   - Where a profile has no proxy-url, HTTPS_PROXY and NO_PROXY of the manager count, as in every client of Kubernetes.
//   - A credential goes only to the server that it was asked for; redirects are not followed.
//   - An Error says which ClusterProfile, what is wrong and what to do, in the same words as long as the same is wrong.
//   - No lock is held while a cluster or a plugin is waited for. A cluster that does not answer costs the others nothing:
//     each has its own limits, and after some failures it is not asked again before its time (Session.RetryAt).
//   - A Session whose profile, access provider or plugin has changed sends nothing any more: ask Sessions.For again.
//
// A plugin's environment holds the variables of inheritedVariables that the manager has, and those of the provider's
// execConfig.env. Static secrets of the manager, such as AWS_SECRET_ACCESS_KEY, are not among them: whoever wants a
// plugin to have one names it in execConfig.env.
//
// Profiles may add arguments and variables where the provider's policies say so, but never a
// variable that decides what the plugin's process loads, whom it trusts or whom it asks (guardedVariable).
package access
