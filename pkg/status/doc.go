// Copyright Contributors to the Open Cluster Management project

// Package status computes the conditions of a KnativeServing or KnativeEventing from the facts about an installation. The
// package is pure: equal facts give equal conditions, word for word, so that an unchanged installation causes no write.
//
// A condition is True only after an observation. Without an observation the condition is Unknown; an unreachable cluster keeps the
// conditions of the last observation.
package status
