// Copyright Contributors to the Open Cluster Management project

// Package docpage reads the commands of a page for users with the outputs that the page promises, so that a story can run the
// commands. The package is pure: every command of the page is in a block, or Read returns an error.
package docpage
