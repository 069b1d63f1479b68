// Copyright Contributors to the Open Cluster Management project

// Package rollout determines, with OCM's engine, which clusters get a change now. The package promises that every rollout of this
// project reads a rollout strategy in the way in which OCM reads the strategy.
package rollout
