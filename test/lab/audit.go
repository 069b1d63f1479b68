// Copyright Contributors to the Open Cluster Management project

package lab

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// auditPolicy has each request of a Credential written once, when it arrives: a watch counts as soon as it starts.
const auditPolicy = `
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [ResponseStarted, ResponseComplete, Panic]
rules:
- {level: Metadata, users: ["system:serviceaccount:kube-system:fleet-access"]}
- {level: None}
`

const auditLog = "audit.log"

// Requests counts what has been asked of the API server with the cluster's Credential, by verb. It needs Options.AuditLog.
func (c *Cluster) Requests() (map[string]int, error) {
	count := map[string]int{}
	f, err := os.Open(c.path(auditLog))
	if errors.Is(err, fs.ErrNotExist) {
		return count, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read the audit log of %s: %w", c.Name, err)
	}
	defer func() { _ = f.Close() }()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var event struct {
			Verb string `json:"verb"`
		}
		if json.Unmarshal(lines.Bytes(), &event) == nil { // else the last one is being written
			count[event.Verb]++
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("cannot read the audit log of %s: %w", c.Name, err)
	}
	return count, nil
}
