// Copyright Contributors to the Open Cluster Management project

// Package rendering gives clusters the turn to get a new rendering. The package promises that a cluster whose configuration this manager
// renders differently gets the difference by the rollout strategy that applies to the cluster, and that a restarted manager continues the
// rollout. The package writes nothing while no cluster waits. docs/design/0018-renderings.md has the reasons.
package rendering
