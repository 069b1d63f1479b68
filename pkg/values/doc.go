// Copyright Contributors to the Open Cluster Management project

// Package values knows how a text refers to values of the cluster that it comes to, and where these are found.
//
// Contract:
//   - A reference is $(cluster.name), $(cluster.labels.KEY), $(cluster.claims.NAME) or $(cluster.variables.NAME). Whatever
//     else begins with "$(cluster." is an error. No other "$(" means anything here.
//   - A "$" in front of a reference makes it text, and goes: $$(cluster.name) is the text $(cluster.name).
//   - A value that is empty is missing. Nothing ever becomes an empty text for want of a value.
package values
