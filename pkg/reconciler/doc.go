// Copyright Contributors to the Open Cluster Management project

// Package reconciler wraps the Reconcile of every controller.
//
// Contract:
//   - A pass that fails only because a cache was behind (Conflict, AlreadyExists) is requeued, and is no error: neither the
//     log nor controller-runtime's metrics count the pass as failed.
//   - With verbosity 1, every pass logs one line with the cluster, the component and the revision where known, with the result
//     and with the duration. controller-runtime's logger adds the controller and the object.
//   - A pass begins only while this process leads ([WithLeadership]): a process that was suspended, or does not reach the hub, has stale
//     caches, and would undo on a cluster what the next leader has written.
//   - The wrapper changes no other result and no other error; controller-runtime logs errors.
package reconciler
