// Copyright Contributors to the Open Cluster Management project

// Package rollback gives a KnativeServing or KnativeEventing the spec of one of its revisions, as an annotation asks.
//
// It only changes the spec, so that going back is a rollout like any other, by the same strategy. The annotation is taken
// away in the same write: what was asked for happens once.
package rollback
