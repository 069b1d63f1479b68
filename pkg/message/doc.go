// Copyright Contributors to the Open Cluster Management project

// Package message bounds and formats parts of the messages of conditions, Events and errors.
//
//   - Every function is pure: equal arguments return equal texts.
//   - A list names the first entries and counts the others; a text that is cut ends with "...".
//   - A cut never splits a character of UTF-8.
//
// The package imports the standard library only, so that every other package may use the functions.
package message
