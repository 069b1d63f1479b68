// Copyright Contributors to the Open Cluster Management project

// Package alerts tests the alerts and the dashboard of the chart with the query engine of Prometheus. The module is separate, so
// that Prometheus is no dependency of the add-on.
package alerts
