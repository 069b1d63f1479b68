// Copyright Contributors to the Open Cluster Management project

package lab

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
)

// spokeAudit has each request of a Credential written once, when it arrives: a watch counts as soon as it starts.
const spokeAudit = `
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [ResponseStarted, ResponseComplete, Panic]
rules:
- {level: Metadata, users: ["system:serviceaccount:kube-system:fleet-access"]}
- {level: None}
`

// hubAudit has each write of a ServiceAccount written once, when it arrives: OCM's controllers and add-ons run as one.
const hubAudit = `
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [ResponseStarted, ResponseComplete, Panic]
rules:
- {level: Metadata, userGroups: ["system:serviceaccounts"], verbs: [create, update, patch, delete, deletecollection]}
- {level: None}
`

const auditLog = "audit.log"

// Requests counts what has been asked of the API server with the cluster's Credential, by verb. It needs Options.AuditLog.
func (c *Cluster) Requests() (map[string]int, error) {
	count := map[string]int{}
	err := c.audited(func(e auditEvent) { count[e.Verb]++ })
	return count, err
}

// Write is a kind of request that changes something.
type Write struct {
	// Account is the ServiceAccount that has made it, such as "namespace:name".
	Account string
	Verb    string
	// Resource has the subresource too, as in "manifestworks/status".
	Resource string
}

// Writes counts what ServiceAccounts have written on the hub. It needs Options.AuditLog.
func (l *Lab) Writes() (map[Write]int, error) {
	count := map[Write]int{}
	err := l.Hub.audited(func(e auditEvent) {
		w := Write{Account: strings.TrimPrefix(e.User.Username, "system:serviceaccount:"), Verb: e.Verb, Resource: e.ObjectRef.Resource}
		if e.ObjectRef.Subresource != "" {
			w.Resource += "/" + e.ObjectRef.Subresource
		}
		count[w]++
	})
	return count, err
}

// auditEvent is a request as the audit log has it.
type auditEvent struct {
	Verb string `json:"verb"`
	User struct {
		Username string `json:"username"`
	} `json:"user"`
	ObjectRef struct {
		Resource    string `json:"resource"`
		Subresource string `json:"subresource"`
	} `json:"objectRef"`
}

// audited hands on every request of the cluster's audit log.
func (c *Cluster) audited(see func(auditEvent)) error {
	f, err := os.Open(c.path(auditLog))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("cannot read the audit log of %s: %w", c.Name, err)
	}
	defer func() { _ = f.Close() }()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var event auditEvent
		if json.Unmarshal(lines.Bytes(), &event) == nil { // else the last one is being written
			see(event)
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("cannot read the audit log of %s: %w", c.Name, err)
	}
	return nil
}
