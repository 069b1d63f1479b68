// Copyright Contributors to the Open Cluster Management project

// Package values defines how a text refers to values of a cluster, and where the values come from.
//
// Contract:
//   - A reference is $(cluster.name), $(cluster.labels.KEY), $(cluster.claims.NAME) or $(cluster.variables.NAME). Any other
//     text that begins with "$(cluster." is an error. Any other "$(" is plain text.
//   - A "$" in front of a reference escapes the reference: $$(cluster.name) becomes the text $(cluster.name).
//   - An empty value counts as missing. A missing value never becomes an empty text.
package values
