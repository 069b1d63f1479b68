// Copyright Contributors to the Open Cluster Management project

package e2e

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/test/e2e/harness"
	"open-cluster-management.io/knative-addon/test/lab/faultproxy"
)

// soakFault is a fault of a round.
type soakFault struct {
	description string
	inject, end func(ctx context.Context) error
	// gap is the time from the former fault of the round to this one.
	gap time.Duration
	// cluster is the cluster of the fault; empty means the hub or no cluster.
	cluster string
	// deleted is the object that the fault deletes, if it deletes one.
	deleted *deletedObject
	// replacesAll means that the fault replaces every pod of the cluster.
	replacesAll bool
}

// replacesPods reports whether the fault replaces the pods of a Deployment.
func (f *soakFault) replacesPods(deployment, _ string) bool {
	return f.replacesAll || f.deleted != nil && f.deleted.resource.Resource == "deployments" && f.deleted.name == deployment
}

func endsByItself(context.Context) error { return nil }

// drawFaults draws the faults of a round. The kinds are in the order of injection: a cluster must respond to the faults that
// delete its objects, and the hub to those that edit resources.
func (s *soakTest) drawFaults() []soakFault {
	kinds := []func() soakFault{
		s.editSpec, s.editSpecBadly, s.deleteDeployment, s.deleteWebhookConfiguration, s.deleteObject, s.deleteNamespace,
		s.failHubRequests, s.failSpokeRequests, s.killManager, s.stopAgent, s.interruptAPIServer, s.pauseHub,
	}
	drawn := s.random.Perm(len(kinds))[:1+s.random.IntN(mostFaults)]
	slices.Sort(drawn)
	out := make([]soakFault, 0, len(drawn))
	for i, kind := range drawn {
		f := kinds[kind]()
		if i > 0 {
			f.gap = time.Duration(s.random.Int64N(int64(longestGap)))
		}
		out = append(out, f)
	}
	return out
}

// drawCluster draws the name of a cluster's resource.
func (s *soakTest) drawCluster() string { return s.drawName(slices.Sorted(maps.Keys(s.clusters))) }

func (s *soakTest) drawName(names []string) string { return names[s.random.IntN(len(names))] }

// patchSpec merges a patch into the spec of a resource.
func (s *soakTest) patchSpec(ctx context.Context, name, spec string) error {
	_, err := s.resources(api.Serving).Patch(ctx, name, types.MergePatchType, []byte(`{"spec":`+spec+`}`), metav1.PatchOptions{})
	return err
}

// editSpec changes the configuration of a resource. No Deployment reads the configuration at its start.
func (s *soakTest) editSpec() soakFault {
	name, timeout := s.drawCluster(), s.drawTimeout()
	return soakFault{
		description: fmt.Sprintf("edit spec.config of %s to %s", name, timeout),
		inject:      func(ctx context.Context) error { return s.setTimeout(ctx, name, timeout) },
		end:         endsByItself,
	}
}

func (s *soakTest) drawTimeout() string { return strconv.Itoa(100 + s.random.IntN(500)) }

// setTimeout sets the revision timeout of a resource.
func (s *soakTest) setTimeout(ctx context.Context, name, timeout string) error {
	s.timeouts[name] = timeout
	return s.patchSpec(ctx, name, fmt.Sprintf(`{"config":{"defaults":{"revision-timeout-seconds":%q}}}`, timeout))
}

// editSpecBadly sets a version that does not exist.
func (s *soakTest) editSpecBadly() soakFault {
	name := s.drawCluster()
	return soakFault{
		description: "set an unknown version in " + name,
		inject:      func(ctx context.Context) error { return s.patchSpec(ctx, name, `{"version":"9.9"}`) },
		end:         func(ctx context.Context) error { return s.patchSpec(ctx, name, `{"version":"1.23"}`) },
	}
}

// deleteOne returns a fault that deletes an object of a cluster.
func (s *soakTest) deleteOne(group, resource, namespace string, names ...string) soakFault {
	cluster, d := s.drawCluster(), &deletedObject{namespace: namespace, name: s.drawName(names)}
	d.resource = schema.GroupVersionResource{Group: group, Version: "v1", Resource: resource}
	return soakFault{
		description: fmt.Sprintf("delete %s %s of %s", resource, d.name, cluster), cluster: cluster, deleted: d,
		inject: func(ctx context.Context) error { return d.delete(ctx, s.spokes[cluster]) },
		end:    endsByItself,
	}
}

func (s *soakTest) deleteDeployment() soakFault {
	return s.deleteOne("apps", "deployments", installNamespace, "activator", "autoscaler", "controller", "net-kourier-controller", "webhook")
}

func (s *soakTest) deleteWebhookConfiguration() soakFault {
	const group = "admissionregistration.k8s.io"
	if s.random.IntN(2) == 0 {
		return s.deleteOne(group, "mutatingwebhookconfigurations", "", "webhook.serving.knative.dev")
	}
	return s.deleteOne(group, "validatingwebhookconfigurations", "", "config.webhook.serving.knative.dev", "validation.webhook.serving.knative.dev")
}

// deleteObject deletes an object that is no workload. The Service of the webhook is left out: the lab does not follow its address.
func (s *soakTest) deleteObject() soakFault {
	switch s.random.IntN(4) {
	case 0:
		return s.deleteOne("", "services", installNamespace, "activator-service", "autoscaler", "controller")
	case 1:
		return s.deleteOne("", "configmaps", installNamespace, "config-autoscaler", "config-defaults", "config-network")
	case 2:
		return s.deleteOne("", "serviceaccounts", installNamespace, "activator", "controller")
	default:
		return s.deleteOne("rbac.authorization.k8s.io", "clusterrolebindings", "", "knative-serving-controller-admin")
	}
}

// deleteNamespace deletes the install namespace.
func (s *soakTest) deleteNamespace() soakFault {
	f := s.deleteOne("", "namespaces", "", installNamespace)
	f.replacesAll = true
	return f
}

// failHubRequests lets a third of the manager's requests to the hub fail.
func (s *soakTest) failHubRequests() soakFault {
	return failRequests("the hub", s.hubProxy, s.random.Uint64())
}

// failSpokeRequests lets a third of the manager's requests to the cluster without a work agent fail.
func (s *soakTest) failSpokeRequests() soakFault {
	return failRequests("the cluster without a work agent", s.edgeProxy, s.random.Uint64())
}

func failRequests(to string, proxy *faultproxy.Proxy, seed uint64) soakFault {
	return soakFault{
		description: "fail a third of the requests to " + to,
		inject: func(context.Context) error {
			proxy.Inject(faultproxy.Random(seed, 1./3))
			proxy.Disconnect()
			return nil
		},
		end: func(context.Context) error { proxy.Inject(nil); return nil },
	}
}

// interrupt returns a fault of a component of the lab.
func interrupt(description, component string, begin, end func(component string) error) soakFault {
	return soakFault{
		description: description + " " + component,
		inject:      func(context.Context) error { return begin(component) },
		end:         func(context.Context) error { return end(component) },
	}
}

func (s *soakTest) killManager() soakFault {
	return interrupt("kill", harness.Manager, s.Kill, s.Start)
}

func (s *soakTest) stopAgent() soakFault {
	return interrupt("stop", s.Managed[0].Name+"-agent", s.Stop, s.Start)
}

// interruptAPIServer stops the API server of a cluster, which refuses connections then, or pauses the API server, which sends no
// responses then.
func (s *soakTest) interruptAPIServer() soakFault {
	component := s.clusters[s.drawCluster()].Name + "-apiserver"
	if s.random.IntN(2) == 0 {
		return interrupt("stop", component, s.Stop, s.Start)
	}
	return interrupt("pause", component, s.Pause, s.Resume)
}

// pauseHub pauses the API server of the hub.
func (s *soakTest) pauseHub() soakFault { return interrupt("pause", hubServer, s.Pause, s.Resume) }
