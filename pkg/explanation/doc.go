// Copyright Contributors to the Open Cluster Management project

// Package explanation finds in the pages for users what a reason of a condition or of an Event means, and what to do. The package is
// pure: equal pages give equal text.
package explanation
