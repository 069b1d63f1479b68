// Copyright Contributors to the Open Cluster Management project

package manifestwork

import workv1 "open-cluster-management.io/api/work/v1"

// Executor names a ServiceAccount of a cluster; the work agent applies a work with the permissions of the account.
func Executor(namespace, name string) *workv1.ManifestWorkExecutor {
	return &workv1.ManifestWorkExecutor{Subject: workv1.ManifestWorkExecutorSubject{
		Type:           workv1.ExecutorSubjectTypeServiceAccount,
		ServiceAccount: &workv1.ManifestWorkSubjectServiceAccount{Namespace: namespace, Name: name},
	}}
}

// LacksExecutor reports whether a work has no executor although the administrator has configured an executor. A work keeps
// an executor that an administrator has set on the work.
func LacksExecutor(w *workv1.ManifestWork, configured *workv1.ManifestWorkExecutor) bool {
	return configured != nil && w.Spec.Executor == nil
}
