// Copyright Contributors to the Open Cluster Management project

package lab

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
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

// hubAudit begins the policy of the hub, and that of a spoke with Options.RecordChanges.
const hubAudit = `
apiVersion: audit.k8s.io/v1
kind: Policy
rules:
`

// auditedAccounts records each request of the accounts when the API server answers: the answer says whether the request was allowed.
const auditedAccounts = `- {level: Metadata, users: [%s], omitStages: [RequestReceived, Panic]}
`

// hubWrites has each write of a ServiceAccount written once, when it arrives: OCM's controllers and add-ons run as one.
const hubWrites = `- {level: Metadata, userGroups: ["system:serviceaccounts"], verbs: [create, update, patch, delete, deletecollection], omitStages: [ResponseStarted, ResponseComplete, Panic]}
`

// deletions records who deletes CRDs, Namespaces and resources of Knative.
const deletions = `- level: Metadata
  verbs: [delete, deletecollection]
  omitStages: [RequestReceived, ResponseStarted, Panic]
  resources:
  - {group: "", resources: [namespaces]}
  - {group: apiextensions.k8s.io, resources: [customresourcedefinitions]}
  - {group: serving.knative.dev}
  - {group: networking.internal.knative.dev, resources: [clusterdomainclaims]}
  - {group: eventing.knative.dev}
  - {group: messaging.knative.dev}
  - {group: flows.knative.dev}
  - {group: sources.knative.dev}
  - {group: sinks.knative.dev}
`

// reports records the content of Events, and of the status of resources of this project and of add-ons, which the accounts write.
const reports = `- level: Request
  users: [%s]
  verbs: [create, update, patch]
  omitStages: [RequestReceived, Panic]
  resources:
  - {group: "", resources: [events]}
  - {group: events.k8s.io, resources: [events]}
  - {group: operator.knative.dev, resources: ["*/status"]}
  - {group: knative.open-cluster-management.io, resources: ["*/status"]}
  - {group: addon.open-cluster-management.io, resources: ["*/status"]}
`

// spokeWrites records the writes of administrators and of ServiceAccounts, with which clients outside of the cluster write, but for the status of
// simulated nodes and pods. The controllers of Kubernetes, the agents of OCM and the programs of Knative are no such clients.
const spokeWrites = `- {level: None, resources: [{group: "", resources: [nodes, nodes/status, pods, pods/status, events]}, {group: coordination.k8s.io}]}
- level: Metadata
  verbs: [create, update, patch, delete, deletecollection]
  omitStages: [RequestReceived, ResponseStarted, Panic]
  users: [admin, "system:serviceaccount:kube-system:fleet-access"]
- level: None
  userGroups: ["system:serviceaccounts:kube-system", "system:serviceaccounts:open-cluster-management-agent", "system:serviceaccounts:knative-serving", "system:serviceaccounts:knative-eventing"]
- level: Metadata
  verbs: [create, update, patch, delete, deletecollection]
  omitStages: [RequestReceived, ResponseStarted, Panic]
  userGroups: ["system:serviceaccounts"]
`

// auditPolicy is the audit policy of an API server; empty means that nothing is recorded.
func (o *Options) auditPolicy(hub bool) string {
	if hub {
		return o.hubAuditPolicy()
	}
	switch {
	case o.AuditLog:
		return spokeAudit
	case o.RecordChanges:
		return hubAudit + deletions + spokeWrites + "- {level: None}\n"
	}
	return ""
}

func (o *Options) hubAuditPolicy() string {
	if !o.AuditLog && !o.RecordChanges && len(o.AuditedAccounts) == 0 {
		return ""
	}
	policy := hubAudit
	users := make([]string, 0, len(o.AuditedAccounts))
	for _, account := range o.AuditedAccounts {
		users = append(users, strconv.Quote(accountPrefix+account))
	}
	accounts := strings.Join(users, ", ")
	if o.RecordChanges {
		if len(users) > 0 {
			policy += fmt.Sprintf(reports, accounts)
		}
		policy += deletions
	}
	if len(users) > 0 {
		policy += fmt.Sprintf(auditedAccounts, accounts)
	}
	if o.AuditLog {
		policy += hubWrites
	}
	return policy + "- {level: None}\n"
}

const accountPrefix = "system:serviceaccount:"

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
		count[Write{Account: strings.TrimPrefix(e.User.Username, accountPrefix), Verb: e.Verb, Resource: e.resource()}]++
	})
	return count, err
}

// Request is a kind of request of an audited account.
type Request struct {
	// Agent is the program that made the request.
	Agent string
	Verb  string
	// Resource has the subresource too, as in "manifestworks/status".
	Group, Resource string
	// Namespace and Name are empty where the request has none.
	Namespace, Name string
	// Forbidden tells that the permissions of the account do not allow the request.
	Forbidden bool
}

// TimedRequest is a request with the time at which the API server has received the request.
type TimedRequest struct {
	Request

	Received time.Time
}

// RequestsOf counts what an account of Options.AuditedAccounts has asked of the hub.
func (l *Lab) RequestsOf(account string) (map[Request]int, error) {
	count := map[Request]int{}
	requests, err := l.ListRequestsOf(account)
	for _, r := range requests {
		count[r.Request]++
	}
	return count, err
}

// ListRequestsOf lists the requests of an account of Options.AuditedAccounts in the order in which the hub's API server has answered. A
// watch is in the list once for its begin and once for its end.
func (l *Lab) ListRequestsOf(account string) ([]TimedRequest, error) {
	var out []TimedRequest
	err := l.Hub.audited(func(e auditEvent) {
		if e.User.Username != accountPrefix+account || e.ObjectRef.Resource == "" {
			return
		}
		out = append(out, TimedRequest{Received: e.RequestReceivedTimestamp, Request: Request{
			Agent: e.UserAgent, Verb: e.Verb, Group: e.ObjectRef.APIGroup, Resource: e.resource(),
			Namespace: e.ObjectRef.Namespace, Name: e.ObjectRef.Name, Forbidden: e.Annotations["authorization.k8s.io/decision"] == "forbid",
		}})
	})
	return out, err
}

// Change is a write that an API server has accepted and stored.
type Change struct {
	Time time.Time
	// User is the name of the client, Agent the program of the client.
	User, Agent string
	Verb        string
	// Resource has the subresource too, as in "manifestworks/status".
	Group, Resource string
	// Namespace and Name are empty where the request has none.
	Namespace, Name string
	// Content is the body of a write of an Event or of a status by an account of Options.AuditedAccounts on the hub.
	Content []byte
}

// RecordsChanges reports whether the lab was started with Options.RecordChanges.
func (l *Lab) RecordsChanges() bool { return l.opts.RecordChanges }

// Changes lists the changes that Options.RecordChanges records, in the order in which the API server has answered. An API server
// that was stopped and started again continues its record.
func (c *Cluster) Changes() ([]Change, error) {
	var out []Change
	err := c.audited(func(e auditEvent) {
		if !e.isChange() {
			return
		}
		out = append(out, Change{
			Time: e.RequestReceivedTimestamp, User: e.User.Username, Agent: e.UserAgent, Verb: e.Verb, Group: e.ObjectRef.APIGroup,
			Resource: e.resource(), Namespace: e.ObjectRef.Namespace, Name: e.ObjectRef.Name, Content: e.RequestObject,
		})
	})
	return out, err
}

// auditEvent is a request as the audit log has it.
type auditEvent struct {
	Verb string `json:"verb"`
	User struct {
		Username string `json:"username"`
	} `json:"user"`
	UserAgent string `json:"userAgent"`
	ObjectRef struct {
		APIGroup    string `json:"apiGroup"`
		Resource    string `json:"resource"`
		Subresource string `json:"subresource"`
		Namespace   string `json:"namespace"`
		Name        string `json:"name"`
	} `json:"objectRef"`
	Annotations    map[string]string `json:"annotations"`
	RequestURI     string            `json:"requestURI"`
	ResponseStatus struct {
		Code int `json:"code"`
	} `json:"responseStatus"`
	RequestReceivedTimestamp time.Time       `json:"requestReceivedTimestamp"`
	RequestObject            json.RawMessage `json:"requestObject"`
}

func (e *auditEvent) resource() string {
	if e.ObjectRef.Subresource == "" {
		return e.ObjectRef.Resource
	}
	return e.ObjectRef.Resource + "/" + e.ObjectRef.Subresource
}

// isChange reports whether the API server has accepted a write and stored the result.
func (e *auditEvent) isChange() bool {
	write := slices.Contains([]string{"create", "update", "patch", "delete", "deletecollection"}, e.Verb)
	return write && e.ResponseStatus.Code/100 == 2 && !strings.Contains(e.RequestURI, "dryRun=")
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
	lines.Buffer(nil, 4<<20)
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
