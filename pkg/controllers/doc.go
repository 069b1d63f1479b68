// Copyright Contributors to the Open Cluster Management project

// Package controllers adds addon-framework and the controllers of the add-on to a manager. Each controller is a package below
// this package.
//
// Contract:
//   - SetupWithManager serves a hub, SetupLocalWithManager serves the hub's own installations; the two write different resources.
//   - addon-framework and all controllers read the caches of one hub.Hub.
//   - The package wires and decides nothing about clusters or resources.
package controllers
