// Copyright Contributors to the Open Cluster Management project

// Package logging creates the manager's logger.
//
//   - No verbosity logs the content of an object: objects are logged by name, and bodies of requests and other values without a
//     short name are withheld. A list of harmless types decides (redactValue), not a list of types with secrets.
//   - Levels above MaxVerbosity count as MaxVerbosity: client-go logs bodies of requests above.
//   - klog's own verbosity stays 0. Libraries that format objects into a text use klog.V, as OCM's work applier does, which
//     logs ManifestWorks with their Secrets. Structured loggers of libraries follow the verbosity.
//
// Levels: 0 is for operators, 1 has Events and every pass of a controller, 4 and above the logs of libraries.
package logging
