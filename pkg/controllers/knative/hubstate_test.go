// Copyright Contributors to the Open Cluster Management project

package knative

import (
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"

	"open-cluster-management.io/knative-addon/pkg/api"
)

// config is the resource as the hub has it, nil when it is gone.
func (h *fakeHub) config(name string) *unstructured.Unstructured {
	h.t.Helper()
	o, err := h.configs.Tracker().Get(api.Serving.Resource(), team, name)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		h.t.Fatal(err)
	}
	return o.(*unstructured.Unstructured) //nolint:forcetypeassert // it is one
}

// changeConfig changes the resource as a user would.
func (h *fakeHub) changeConfig(name string, change func(*unstructured.Unstructured)) {
	h.t.Helper()
	c := h.config(name).DeepCopy()
	change(c)
	c.SetResourceVersion(h.next())
	if err := h.configs.Tracker().Update(api.Serving.Resource(), c, team); err != nil {
		h.t.Fatal(err)
	}
}

// delete deletes the resource as a user would.
func (h *fakeHub) delete(name string) {
	h.t.Helper()
	if len(h.config(name).GetFinalizers()) > 0 {
		h.changeConfig(name, beingDeleted)
		return
	}
	if err := h.configs.Tracker().Delete(api.Serving.Resource(), team, name); err != nil {
		h.t.Fatal(err)
	}
}

var addOnResource = schema.GroupVersionResource{
	Group: addonv1beta1.GroupVersion.Group, Version: addonv1beta1.GroupVersion.Version, Resource: "managedclusteraddons",
}

// addOn is the cluster's add-on as the hub has it, nil when there is none.
func (h *fakeHub) addOn() *addonv1beta1.ManagedClusterAddOn {
	h.t.Helper()
	o, err := h.addOns.Tracker().Get(addOnResource, clusterName, api.Serving.AddOnName())
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		h.t.Fatal(err)
	}
	return o.(*addonv1beta1.ManagedClusterAddOn) //nolint:forcetypeassert // it is one
}

// enabled puts an add-on on the hub.
func (h *fakeHub) enabled(a *addonv1beta1.ManagedClusterAddOn) *fakeHub {
	h.t.Helper()
	a = a.DeepCopy()
	a.UID, a.ResourceVersion = types.UID("uid-"+h.next()), h.next()
	if err := h.addOns.Tracker().Create(addOnResource, a, a.Namespace); err != nil {
		h.t.Fatal(err)
	}
	return h
}

// changeAddOn changes the add-on as OCM or a user would.
func (h *fakeHub) changeAddOn(change func(*addonv1beta1.ManagedClusterAddOn)) {
	h.t.Helper()
	a := h.addOn().DeepCopy()
	change(a)
	a.ResourceVersion = h.next()
	if err := h.addOns.Tracker().Update(addOnResource, a, clusterName); err != nil {
		h.t.Fatal(err)
	}
}

// cleaned releases an add-on that is being deleted, as the controller of the add-on does after the removal from the cluster.
func (h *fakeHub) cleaned() {
	h.t.Helper()
	if h.addOn().DeletionTimestamp == nil {
		h.t.Fatal("the add-on is not being deleted")
	}
	if err := h.addOns.Tracker().Delete(addOnResource, clusterName, api.Serving.AddOnName()); err != nil {
		h.t.Fatal(err)
	}
	h.works = nil
}

// told are the Events since it was called last.
func (h *fakeHub) told() []string {
	var out []string
	for {
		select {
		case e := <-h.events.Events:
			out = append(out, e)
		default:
			return out
		}
	}
}

// conditions are those of the resource, as "Type Status Reason".
func (h *fakeHub) conditions(name string) []string {
	h.t.Helper()
	r, err := readStatus(h.config(name))
	if err != nil {
		h.t.Fatal(err)
	}
	var out []string
	for _, c := range r.Conditions {
		out = append(out, c.Type+" "+string(c.Status)+" "+c.Reason)
	}
	return out
}

// findCondition returns a condition of resource "self", and nil without the condition.
func (h *fakeHub) findCondition(condition string) *metav1.Condition {
	h.t.Helper()
	r, err := readStatus(h.config("self"))
	if err != nil {
		h.t.Fatal(err)
	}
	return apimeta.FindStatusCondition(r.Conditions, condition)
}

func (h *fakeHub) message(name, condition string) string {
	h.t.Helper()
	r, err := readStatus(h.config(name))
	if err != nil {
		h.t.Fatal(err)
	}
	i := slices.IndexFunc(r.Conditions, func(c metav1.Condition) bool { return c.Type == condition })
	if i < 0 {
		h.t.Fatalf("condition %s is missing", condition)
	}
	return r.Conditions[i].Message
}
