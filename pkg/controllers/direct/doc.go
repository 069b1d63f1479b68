// Copyright Contributors to the Open Cluster Management project

// Package direct serves the KnativeServings and KnativeEventings whose cluster is written to by the manager itself, with no
// work agent: at present those that are installed on the hub.
//
// What is installed is recorded on the cluster (see package delivery/direct). Nothing is remembered here but how often a
// cluster was repaired lately, and connections.
package direct
