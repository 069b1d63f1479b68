// Copyright Contributors to the Open Cluster Management project

// Package lab starts a fleet of real components as plain processes on 127.0.0.1: a Kubernetes control plane as the hub
// with the controllers and webhooks of Open Cluster Management under their own service accounts, managed clusters with
// a klusterlet agent under OCM's own RBAC, and spokes that OCM does not manage. Nodes are KWOK's; Knative's own webhooks
// run as processes behind their ClusterIPs.
//
// Everything belongs to one temporary directory and to this process: when it ends, also by SIGKILL, so does the lab.
// Programs are built from pinned modules at the first start and cached (package tools).
//
//	l := lab.Start(t, lab.Options{ManagedClusters: 2})
//	l.Hub.Client()          // a rest.Config with admin rights
//	l.Stop("cluster2-agent") // a fault
package lab
