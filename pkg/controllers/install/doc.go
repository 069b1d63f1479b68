// Copyright Contributors to the Open Cluster Management project

// Package install serves KnativeServings and KnativeEventings: it enables the add-on on the managed cluster that
// spec.clusterProfileRef leads to, with the resource as its configuration, tells in the resource's status what has become
// of it, and disables the add-on when the resource is deleted. Resources without a reference configure the add-on for
// many clusters; their status counts these.
//
// What the add-on then puts on the cluster is the business of addon-framework and of package foundation. Nothing here is
// remembered: whose an add-on is, is read from its spec.configs.
package install
