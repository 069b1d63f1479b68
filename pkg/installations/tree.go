// Copyright Contributors to the Open Cluster Management project

package installations

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"open-cluster-management.io/addon-framework/pkg/addonmanager/controllers/agentdeploy"
	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"
	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/delivery/manifestwork"
	"open-cluster-management.io/knative-addon/pkg/message"
	"open-cluster-management.io/knative-addon/pkg/revision"
)

// Node is an object or a problem, with what belongs to the object below.
type Node struct {
	Text     string
	Children []Node
}

// Write writes the node and its children as an indented tree.
func (n *Node) Write(out io.Writer) error {
	_, err := fmt.Fprintln(out, n.Text)
	if err != nil {
		return err
	}
	return n.writeChildren(out, "")
}

func (n *Node) writeChildren(out io.Writer, indent string) error {
	for k := range n.Children {
		branch, below := "├─ ", "│  "
		if k == len(n.Children)-1 {
			branch, below = "└─ ", "   "
		}
		if _, err := fmt.Fprintln(out, indent+branch+n.Children[k].Text); err != nil {
			return err
		}
		if err := n.Children[k].writeChildren(out, indent+below); err != nil {
			return err
		}
	}
	return nil
}

// ListWorks returns the ManifestWorks of a managed cluster.
func (h *Hub) ListWorks(ctx context.Context, cluster string) ([]workv1.ManifestWork, error) {
	objects, err := h.ListResource(ctx, schema.GroupVersion(workv1.GroupVersion).WithResource("manifestworks"), cluster)
	if err != nil {
		return nil, err
	}
	var out []workv1.ManifestWork
	for _, u := range objects {
		var work workv1.ManifestWork
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &work); err != nil {
			return nil, fmt.Errorf("cannot read ManifestWork \"%s/%s\": %w", cluster, u.GetName(), err)
		}
		out = append(out, work)
	}
	return out, nil
}

// Tree returns the objects of an installation, from the resource to the objects of the cluster that are not applied or not available.
// works are the ManifestWorks of the cluster.
func Tree(i *Installation, objects Objects, works []workv1.ManifestWork) Node {
	root := Node{Text: fmt.Sprintf("%s %s (%s, version %s): %s", i.Cluster, i.Component, i.Mode, describeStep(i.Version, i.NextVersion), i.describeState())}
	if i.PendingChange != "" {
		root.Text += "; " + i.PendingChange
	}
	addOn := FindAddOn(i, objects)
	resource := findResource(i, objects, addOn)
	parent := &root
	if resource != nil {
		root.Children = []Node{describeResource(i.Component, resource)}
		parent = &root.Children[0]
	}
	if addOn != nil {
		node := describeAddOn(addOn)
		for n := range works {
			if ComponentOf(&works[n]) == i.Component {
				node.Children = append(node.Children, describeWork(&works[n], addOn))
			}
		}
		parent.Children = append(parent.Children, node)
	}
	return root
}

// describeState returns the status of the condition that decides, with its reason.
func (i *Installation) describeState() string {
	out := "Ready is " + string(i.Ready)
	if i.Ready != metav1.ConditionTrue || i.Paused {
		out += ", " + i.Reason
	}
	if i.Paused {
		out += ", paused"
	}
	return out
}

// FindAddOn returns the ManagedClusterAddOn of an installation; nil without a work agent.
func FindAddOn(i *Installation, objects Objects) *addonv1beta1.ManagedClusterAddOn {
	n := slices.IndexFunc(objects.AddOns, func(a *addonv1beta1.ManagedClusterAddOn) bool {
		return i.Mode == api.ModeManifestWork && a.Namespace == i.Cluster && a.Name == i.Component.AddOnName()
	})
	if n < 0 {
		return nil
	}
	return objects.AddOns[n]
}

// findResource returns the resource of the installation, or the configuration of its add-on; nil when the hub has neither.
func findResource(i *Installation, objects Objects, addOn *addonv1beta1.ManagedClusterAddOn) *unstructured.Unstructured {
	namespace, name := i.Object.Namespace, i.Object.Name
	if addOn != nil {
		config := ConfigOf(addOn)
		namespace, name = config.Namespace, config.Name
	}
	for _, config := range objects.Resources[i.Component] {
		if config.GetNamespace() == namespace && config.GetName() == name {
			return config
		}
	}
	return nil
}

// describeResource returns a resource with its conditions that are not True. The clauses of a message are objects of the cluster.
func describeResource(component api.Component, config *unstructured.Unstructured) Node {
	out := Node{Text: fmt.Sprintf("%s%s", objectOf(component, config), describeMarks(config))}
	if !isReported(config) {
		out.Children = append(out.Children, Node{Text: readResource(config).Message})
	}
	for _, c := range conditionsOf(config) {
		if c.Type != api.Ready && c.Status != metav1.ConditionTrue {
			out.Children = append(out.Children, describeCondition(c))
		}
	}
	return out
}

// describeMarks returns the text about an object that a tree adds to its conditions.
func describeMarks(o metav1.Object) string {
	var out string
	if revision.Paused(o.GetAnnotations()) {
		out += ", paused"
	}
	if o.GetDeletionTimestamp() != nil {
		out += ", being deleted"
	}
	return out
}

// describeCondition returns a condition. A message that lists objects of the cluster becomes a node for each object.
func describeCondition(c metav1.Condition) Node {
	out := Node{Text: fmt.Sprintf("%s is %s, %s", cleanText(c.Type), c.Status, cleanText(c.Reason))}
	text := message.OneLine(c.Message, maxMessage)
	lists := []string{api.ReasonWorkloadsNotReady, api.ReasonApplyFailed, addonv1beta1.AddonManifestAppliedReasonManifestsApplyFailed}
	if !slices.Contains(lists, c.Reason) {
		out.Text = strings.TrimSuffix(out.Text+": "+text, ": ")
		return out
	}
	for clause := range strings.SplitSeq(text, "; ") {
		out.Children = append(out.Children, Node{Text: clause})
	}
	return out
}

// describeAddOn returns an add-on with the conditions that report a problem, a removal or a wait.
func describeAddOn(addOn *addonv1beta1.ManagedClusterAddOn) Node {
	out := Node{Text: fmt.Sprintf("ManagedClusterAddOn %s/%s%s", addOn.Namespace, addOn.Name, describeMarks(addOn))}
	usual := []string{
		api.TargetClusterResolved, api.VersionMigrationEligible, api.DependenciesInstalled, api.ValuesResolved,
		addonv1beta1.ManagedClusterAddOnManifestApplied, addonv1beta1.ManagedClusterAddOnConditionAvailable, api.Verified,
	}
	for _, c := range addOn.Status.Conditions {
		isProblem := slices.Contains(usual, c.Type) && c.Status != metav1.ConditionTrue ||
			c.Type == api.Degraded && c.Status == metav1.ConditionTrue || c.Type == api.RemovalHeld && addOn.DeletionTimestamp != nil
		if isProblem {
			out.Children = append(out.Children, describeCondition(c))
		}
	}
	return out
}

// ComponentOf returns the component of a ManifestWork of this add-on; empty for any other work.
func ComponentOf(work *workv1.ManifestWork) api.Component {
	if component := work.Labels[api.FoundationLabel]; component != "" {
		return api.Component(component)
	}
	return api.Component(work.Labels[addonv1beta1.AddonLabelKey])
}

// describeWork returns a ManifestWork of an add-on with the objects that are not applied or not available. OCM waits for a gate that names
// other configurations than the add-on should have.
func describeWork(work *workv1.ManifestWork, addOn *addonv1beta1.ManagedClusterAddOn) Node {
	out := Node{Text: fmt.Sprintf("ManifestWork %s%s", work.Name, describeMarks(work))}
	isGate := work.Name == manifestwork.GateName(ComponentOf(work))
	if isGate && !maps.Equal(manifestwork.ConfigsOf(work), agentdeploy.ConfigsToMap(addOn.Status.ConfigReferences)) {
		out.Text += ": holds the rollout"
		return out
	}
	out.Text += fmt.Sprintf(": Applied is %s, Available is %s, %d objects",
		statusOf(work.Status.Conditions, workv1.WorkApplied), statusOf(work.Status.Conditions, workv1.WorkAvailable), len(work.Spec.Workload.Manifests))
	if c := apimeta.FindStatusCondition(work.Status.Conditions, workv1.WorkApplied); c != nil && c.ObservedGeneration != work.Generation {
		out.Text += fmt.Sprintf("; the work agent has not reported on generation %d yet", work.Generation)
	}
	for _, m := range work.Status.ResourceStatus.Manifests {
		object := cleanText(Object{m.ResourceMeta.Kind, m.ResourceMeta.Namespace, m.ResourceMeta.Name}.String())
		for _, state := range []struct{ condition, text string }{{workv1.ManifestApplied, "not applied"}, {workv1.ManifestAvailable, "not available"}} {
			c := apimeta.FindStatusCondition(m.Conditions, state.condition)
			if c != nil && c.Status != metav1.ConditionTrue {
				out.Children = append(out.Children, Node{Text: fmt.Sprintf("%s: %s: %s", object, state.text, message.OneLine(c.Message, maxMessage))})
				break // an object that is not applied need not exist
			}
		}
	}
	return out
}

func statusOf(conditions []metav1.Condition, of string) metav1.ConditionStatus {
	if c := apimeta.FindStatusCondition(conditions, of); c != nil {
		return c.Status
	}
	return metav1.ConditionUnknown
}
