// Copyright Contributors to the Open Cluster Management project

// Package invariants decides whether the records of an end-to-end story break a promise of docs/reliability.md that holds in every
// story. The functions are pure: each function takes records of the lab, and returns one sentence for each violation.
package invariants
