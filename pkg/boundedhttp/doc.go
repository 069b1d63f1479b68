// Copyright Contributors to the Open Cluster Management project

// Package boundedhttp bounds the responses of API servers that are not trusted.
//
// A decoder makes 300 bytes of a list item that is 3 bytes long, so that a limit in bytes alone protects no memory. A
// Scanner counts the bytes, the values, the items and the depth of JSON while the JSON is read, before a decoder sees any
// of it. A Body reads a response through a Scanner, within a time, and takes the memory for the response from a Budget
// that all clusters share.
//
// The contract: a reader of a Body or a Scanner gets a *LimitError as soon as a limit is exceeded, and no byte after that. The package imports
// the standard library only: every reader of a cluster depends on the package.
package boundedhttp
