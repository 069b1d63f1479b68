// Copyright Contributors to the Open Cluster Management project

// Package controllers runs the add-on on a hub: the caches that addon-framework and our controllers share, and the order
// in which they start. Each controller is a package below this one.
package controllers
