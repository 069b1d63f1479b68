// Copyright Contributors to the Open Cluster Management project

// Package status turns what is known of an installation into the conditions of its KnativeServing or KnativeEventing. It
// is pure: the same facts make the same conditions, word for word, so that nothing is written when nothing has changed.
//
// A condition is True only for what was seen. What cannot be seen is Unknown, or, when the cluster is only out of sight,
// what was last seen of it.
package status
