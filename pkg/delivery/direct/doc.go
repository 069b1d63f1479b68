// Copyright Contributors to the Open Cluster Management project

// Package direct applies a bundle to the API server of a cluster, keeps the objects there and removes them.
//
// An Installation plans the difference between a bundle, the inventory on the cluster and the cached objects. The Installation
// records objects in the inventory before applying them, and deletes only objects whose label and UID are ours.
//
// Objects are applied server-side and with force. Drift is detected without reading objects: an API server records the fields
// of every field manager, and removes a field from our record as soon as another client changes the field.
package direct
