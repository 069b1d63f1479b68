// Copyright Contributors to the Open Cluster Management project

package invariants

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
	fleetv1alpha1 "open-cluster-management.io/knative-addon/pkg/api/fleet/v1alpha1"
	"open-cluster-management.io/knative-addon/test/lab"
)

// Agents and users of the recorded changes.
const (
	manager     = "knative-addon/devel (linux/amd64)"
	workAgent   = "work-agent"
	kubernetes  = "kube-controller-manager/v1.35.0 (linux/amd64)"
	testProgram = "e2e.test/v0.0.0 (linux/amd64)"
	collector   = "system:serviceaccount:kube-system:generic-garbage-collector"
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// expectViolation holds that the only violation contains the text; an empty text means that no violation is expected.
func expectViolation(t *testing.T, got []string, want string) {
	t.Helper()
	text := strings.Join(got, "\n")
	if want == "" && len(got) > 0 || want != "" && (len(got) != 1 || !strings.Contains(text, want)) {
		t.Errorf("the violations are %q, want %q", text, want)
	}
}

func deletion(agent, group, resource, name string) lab.Change {
	return lab.Change{Time: start, User: "u", Agent: agent, Verb: "delete", Group: group, Resource: resource, Name: name}
}

func TestKeepUserData(t *testing.T) {
	const crdGroup, crds, services = "apiextensions.k8s.io", "customresourcedefinitions", "services.serving.knative.dev"
	request := func(cluster string, after time.Duration) []RemovalRequest {
		return []RemovalRequest{{Cluster: cluster, Since: start.Add(after)}}
	}
	collected := deletion(kubernetes, crdGroup, crds, services)
	collected.User = collector
	emptied := deletion(kubernetes, "serving.knative.dev", "services", "")
	emptied.User, emptied.Verb = namespaceController, "deletecollection"
	verification := deletion(manager, "serving.knative.dev", "services", api.VerificationServiceName)
	verification.Namespace = "knative-serving"
	for name, tc := range map[string]struct {
		change   lab.Change
		hub      bool
		requests []RemovalRequest
		want     string
	}{
		"the manager deletes a CRD":                         {change: deletion(manager, crdGroup, crds, services), want: "customresourcedefinitions.apiextensions.k8s.io " + services},
		"the work agent deletes a CRD":                      {change: deletion(workAgent, crdGroup, crds, services), want: services},
		"the garbage collector deletes a CRD":               {change: collected, want: services},
		"the work agent deletes a Namespace":                {change: deletion(workAgent, "", "namespaces", "knative-serving"), want: "namespaces knative-serving"},
		"the manager deletes a Service of a user":           {change: deletion(manager, "serving.knative.dev", "services", "hello"), want: "hello"},
		"the manager deletes the Service of a verification": {change: verification},
		"the manager deletes another Service of the name":   {change: deletion(manager, "serving.knative.dev", "services", api.VerificationServiceName), want: api.VerificationServiceName},
		"the manager deletes a ClusterDomainClaim":          {change: deletion(manager, "networking.internal.knative.dev", "clusterdomainclaims", "a.b"), want: "a.b"},
		"the manager deletes a Certificate of its own":      {change: deletion(manager, "networking.internal.knative.dev", "certificates", "c")},
		"the manager deletes a KnativeServing":              {change: deletion(manager, api.Group, "knativeservings", "k")},
		"the test deletes a CRD":                            {change: deletion(testProgram, crdGroup, crds, services)},
		"the Namespace of a user is emptied":                {change: emptied},
		"OCM deletes the Namespace of a detached cluster":   {change: deletion(workAgent, "", "namespaces", "cluster1"), hub: true},
		"the manager deletes a Namespace of the hub":        {change: deletion(manager, "", "namespaces", "cluster1"), hub: true, want: "cluster1"},
		"the story has requested the removal":               {change: deletion(manager, crdGroup, crds, services), requests: request("c1", -time.Second)},
		"the story requests the removal later":              {change: deletion(testProgram, crdGroup, crds, services), requests: request("c1", 0), want: "has no such deletion"},
		"the story requests the removal on another":         {change: deletion(manager, crdGroup, crds, services), requests: request("c2", -time.Second), want: services},
		"the manager updates a CRD":                         {change: lab.Change{Agent: manager, Verb: "update", Group: crdGroup, Resource: crds, Name: services}},
	} {
		t.Run(name, func(t *testing.T) {
			expectViolation(t, KeepUserData("c1", tc.hub, []lab.Change{tc.change}, tc.requests), tc.want)
		})
	}
	early := KeepUserData("c1", false, []lab.Change{deletion(manager, crdGroup, crds, services)}, request("c1", time.Second))
	if len(early) != 2 {
		t.Errorf("a deletion before the request: %q, want the deletion and a request without one", early)
	}
}

func TestOrphanNothing(t *testing.T) {
	deployment := Object{Group: "apps", Resource: "deployments", Namespace: "knative-serving", Name: "activator"}
	crd := Object{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions", Name: "services.serving.knative.dev"}
	namespace := Object{Resource: "namespaces", Name: "knative-serving"}
	for name, tc := range map[string]struct {
		delivered []Object
		recorded  map[Object]bool
		notes     []string
		want      string
	}{
		"an object without a record":         {delivered: []Object{deployment}, want: "deployments.apps knative-serving/activator"},
		"a recorded object":                  {delivered: []Object{deployment}, recorded: map[Object]bool{deployment: true}},
		"a CRD and a Namespace after all":    {delivered: []Object{crd, namespace}},
		"an Event names the cluster":         {delivered: []Object{deployment}, notes: []string{`As annotation x asks, cluster "c1" keeps 80 objects`}},
		"an Event names another cluster":     {delivered: []Object{deployment}, notes: []string{`As annotation x asks, cluster "c10" keeps 80 objects`}, want: "activator"},
		"nothing is delivered":               {},
		"the mark of a replaced payload":     {delivered: []Object{{Resource: "configmaps", Namespace: "knative-serving", Name: "knative-serving-bundle-1a2b"}}},
		"another ConfigMap":                  {delivered: []Object{{Resource: "configmaps", Namespace: "knative-serving", Name: "config-gc"}}, want: "config-gc"},
		"the record has an object elsewhere": {delivered: []Object{deployment}, recorded: map[Object]bool{{Group: "apps", Resource: "deployments", Namespace: "other", Name: "activator"}: true}, want: "activator"},
	} {
		t.Run(name, func(t *testing.T) {
			expectViolation(t, OrphanNothing("c1", tc.delivered, tc.recorded, tc.notes), tc.want)
		})
	}
}

func TestReportConsistently(t *testing.T) {
	status := func(ready, last string) string {
		var conditions []string
		for i, c := range api.ConditionTypes() {
			value := "True"
			if i == 0 {
				value = ready
			}
			if i == len(api.ConditionTypes())-1 {
				value = last
			}
			conditions = append(conditions, fmt.Sprintf(`{"type":%q,"status":%q}`, c, value))
		}
		return `{"status":{"conditions":[` + strings.Join(conditions, ",") + `]}}`
	}
	withVerified := func(status, verified string) string {
		return strings.TrimSuffix(status, `]}}`) + fmt.Sprintf(`,{"type":%q,"status":%q}]}}`, api.Verified, verified)
	}
	for name, tc := range map[string]struct{ content, resource, want string }{
		"all are True":                    {content: status("True", "True"), resource: "knativeservings/status"},
		"Ready and verified":              {content: withVerified(status("True", "True"), "True"), resource: "knativeservings/status"},
		"Ready before the verification":   {content: withVerified(status("True", "True"), "False"), resource: "knativeservings/status", want: "Verified=False"},
		"neither Ready nor verified":      {content: withVerified(status("False", "True"), "False"), resource: "knativeservings/status"},
		"Ready with a False condition":    {content: status("True", "False"), resource: "knativeservings/status", want: "DeploymentsAvailable=False"},
		"Ready with an Unknown condition": {content: status("True", "Unknown"), resource: "knativeeventings/status", want: "DeploymentsAvailable=Unknown"},
		"not Ready":                       {content: status("False", "False"), resource: "knativeservings/status"},
		"Ready alone":                     {content: `{"status":{"conditions":[{"type":"Ready","status":"True"}]}}`, resource: "knativeservings/status", want: "=absent"},
		"no conditions are written":       {content: `{"status":{"version":"1"}}`, resource: "knativeservings/status"},
		"not a status":                    {content: `{"metadata":{}}`, resource: "knativeservings"},
		"a text that is not JSON":         {content: `{`, resource: "knativeservings/status", want: "cannot be read"},
	} {
		t.Run(name, func(t *testing.T) {
			expectViolation(t, ReportConsistently([]lab.Change{{Group: api.Group, Resource: tc.resource, Name: "k", Content: []byte(tc.content)}}), tc.want)
		})
	}
}

func TestReportFleetConsistently(t *testing.T) {
	status := func(ready, rolledOut string, others ...string) string {
		conditions := append([]string{
			fmt.Sprintf(`{"type":"Ready","status":%q},{"type":"RolledOut","status":%q}`, ready, rolledOut), `{"type":"TargetClusterResolved","status":"True"}`,
		}, others...)
		return `{"status":{"conditions":[` + strings.Join(conditions, ",") + `]}}`
	}
	for name, tc := range map[string]struct{ content, want string }{
		"all are True":                 {content: status("True", "True", `{"type":"DependenciesInstalled","status":"True"},{"type":"RemovalHeld","status":"True"}`)},
		"Ready before the rollout":     {content: status("True", "False"), want: "RolledOut=False"},
		"Ready with a missing kind":    {content: status("True", "True", `{"type":"DependenciesInstalled","status":"False"}`), want: "DependenciesInstalled=False"},
		"Ready alone":                  {content: `{"status":{"conditions":[{"type":"Ready","status":"True"}]}}`, want: "RolledOut=absent"},
		"neither rolled out nor Ready": {content: status("False", "False")},
	} {
		t.Run(name, func(t *testing.T) {
			expectViolation(t, ReportConsistently([]lab.Change{
				{Group: fleetv1alpha1.Group, Resource: "knativefleets/status", Name: "web", Content: []byte(tc.content)},
				{Group: "addon.open-cluster-management.io", Resource: "managedclusteraddons/status", Name: "a", Content: []byte(tc.content)},
			}), tc.want)
		})
	}
}

func TestRunAsReported(t *testing.T) {
	runs := Workload{Name: "Deployment a/b", Generation: 2, Observed: 2, Desired: 1, Available: 1}
	away, old := runs, runs
	away.Available, old.Observed = 0, 1
	for name, tc := range map[string]struct {
		workloads []Workload
		observed  int64
		want      string
	}{
		"every workload runs":               {workloads: []Workload{runs}, observed: 3},
		"a replica is missing":              {workloads: []Workload{runs, away}, observed: 3, want: "0 of 1 replicas"},
		"a workload runs its previous spec": {workloads: []Workload{old}, observed: 3, want: "generation 1 of 2"},
		"the cluster is empty":              {observed: 3, want: "none of its workloads"},
		"the spec is newer than the status": {workloads: []Workload{runs}, observed: 2, want: "has generation 3"},
	} {
		t.Run(name, func(t *testing.T) {
			expectViolation(t, RunAsReported(&Installation{Name: "k", Cluster: "c1", Generation: 3, Observed: tc.observed, Workloads: tc.workloads}), tc.want)
		})
	}
	alarm := &Installation{Name: "k", Workloads: []Workload{runs}, FalseConditions: []string{"ManifestWork c1/gate: Available"}}
	expectViolation(t, RunAsReported(alarm), "a condition is False: ManifestWork c1/gate: Available")
}

func TestServeAll(t *testing.T) {
	expectViolation(t, ServeAll(map[string]float64{"knativeserving": 59, "scores": 0}), "")
	expectViolation(t, ServeAll(map[string]float64{"knativeserving": 91, "scores": 0}), "controller knativeserving has occupied a worker for 1m31s")
}

func TestTellNoSecret(t *testing.T) {
	const token = "eyJhbGciOiJSUzI1NiIsImtpZCI6Ing"
	const key = "-----BEGIN KEY-----\nMHcCAQEEIE\n-----END KEY-----\n"
	secrets := []Secret{{"token", token}, {"key", key}, {"short", "short"}, {"empty", ""}}
	for name, tc := range map[string]struct{ text, want string }{
		"no secret":                     {text: "GET https://127.0.0.1 200, short"},
		"a token in a log":              {text: `Authorization: Bearer ` + token, want: "the secret of token"},
		"a token in base64":             {text: base64.StdEncoding.EncodeToString([]byte(token)), want: "the secret of token"},
		"a key with line breaks":        {text: "stderr: " + key, want: "the secret of key"},
		"a key in a message as JSON":    {text: `{"message":"-----BEGIN KEY-----\nMHcCAQEEIE\n-----END KEY-----"}`, want: "the secret of key"},
		"the start of a token is a log": {text: token[:12]},
	} {
		t.Run(name, func(t *testing.T) { expectViolation(t, TellNoSecret("the log", tc.text, secrets), tc.want) })
	}
}

func TestConverge(t *testing.T) {
	condition := func(reason string, status metav1.ConditionStatus) []metav1.Condition {
		return []metav1.Condition{{Type: api.InstallSucceeded, Status: status, Reason: reason, Message: "m"}}
	}
	for name, tc := range map[string]struct {
		report Report
		want   string
	}{
		"success":             {report: Report{Conditions: condition(api.ReasonApplied, metav1.ConditionTrue)}},
		"a failure":           {report: Report{Conditions: condition(api.ReasonApplyFailed, metav1.ConditionFalse)}},
		"an endless delivery": {report: Report{Conditions: condition(api.ReasonDelivering, metav1.ConditionUnknown)}, want: "does not leave InstallSucceeded=Unknown, reason Delivering"},
		"an endless delivery to a cluster that cannot be reached": {report: Report{Conditions: append(condition(api.ReasonDelivering, metav1.ConditionUnknown),
			metav1.Condition{Type: api.TargetClusterResolved, Status: metav1.ConditionFalse, Reason: api.ReasonRemoteClusterStale})}},
		"an endless removal": {report: Report{Deleting: true}, want: "still being deleted"},
		"an old status":      {report: Report{Generation: 2, Observed: 1}, want: "its status is of generation 1"},
	} {
		t.Run(name, func(t *testing.T) { expectViolation(t, Converge(&tc.report), tc.want) })
	}
}

func TestRunOn(t *testing.T) {
	expectViolation(t, RunOn("manager", false, "I0101 reconciled\nE0101 cannot connect\n"), "")
	expectViolation(t, RunOn("manager", true, ""), "manager has ended by itself")
	expectViolation(t, RunOn("manager", false, "x\npanic: runtime error\n\ngoroutine 1\n"), "panic: runtime error")
	expectViolation(t, RunOn("manager", false, `{"msg":"Observed a panic","panic":"x"}`), "Observed a panic")
}

func TestWriteNothing(t *testing.T) {
	write := lab.Change{Time: start, Agent: manager, Verb: "patch", Group: "apps", Resource: "deployments", Namespace: "knative-serving", Name: "activator"}
	other, lease, event, review := write, write, write, write
	other.Agent = testProgram
	lease.Group, lease.Resource = "coordination.k8s.io", "leases"
	event.Group, event.Resource = "events.k8s.io", "events"
	review.Group, review.Resource = "authentication.k8s.io", "tokenreviews"
	expectViolation(t, WriteNothing("c1", []lab.Change{write, write}, start), "2 writes: patch deployments.apps knative-serving/activator")
	expectViolation(t, WriteNothing("c1", []lab.Change{write}, start.Add(time.Second)), "")
	expectViolation(t, WriteNothing("c1", []lab.Change{other, lease, event, review}, start), "")

	later, latest := write, lease
	later.Time, latest.Time = start.Add(time.Second), start.Add(2*time.Second)
	if last := LastWrite([]lab.Change{write, later, write, latest}); !last.Equal(later.Time) {
		t.Errorf("the last write is of %s, want %s", last, later.Time)
	}
	if last := LastWrite([]lab.Change{lease}); !last.IsZero() {
		t.Errorf("a lease is the last write, of %s", last)
	}
}

func TestRecordWrites(t *testing.T) {
	write := lab.Change{Time: start, Agent: manager, Verb: "patch", Group: "apps", Resource: "deployments"}
	other := write
	other.Agent = testProgram
	for name, tc := range map[string]struct {
		anchors int
		changes []lab.Change
		want    string
	}{
		"the record has a write of the manager": {anchors: 1, changes: []lab.Change{other, write}},
		"the record has writes of others only":  {anchors: 2, changes: []lab.Change{other}, want: "c1 has 2 anchors, and its record has no write"},
		"the record is empty":                   {anchors: 1, want: "no write of the add-on"},
		"the cluster has no anchor":             {changes: []lab.Change{other}},
	} {
		t.Run(name, func(t *testing.T) { expectViolation(t, RecordWrites("c1", tc.anchors, tc.changes), tc.want) })
	}
}

func TestBounds(t *testing.T) {
	expectViolation(t, StayBounded("manager", 511), "")
	expectViolation(t, StayBounded("manager", 513), "513 MB of resident memory")
	expectViolation(t, DrainQueues(map[string]float64{"scores": 0}), "")
	expectViolation(t, DrainQueues(map[string]float64{"scores": 2}), "2 objects wait in queue scores")
	expectViolation(t, ReportBriefly("KnativeServing a/b", 100<<10), "")
	expectViolation(t, ReportBriefly("KnativeServing a/b", 100<<10+1), "the status of KnativeServing a/b has")
}
