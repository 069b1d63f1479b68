// Copyright Contributors to the Open Cluster Management project

// Package process starts, pauses and stops programs that must never outlive their parent.
//
// Every program runs in a process group of its own with its output in a log file, and with a parent-death signal:
// when the parent ends, also by SIGKILL, the kernel kills the program. Programs are ended by the pid that was started,
// never by name. A program that ends before it is ready is reported with the end of its log.
package process
