// Copyright Contributors to the Open Cluster Management project

package hub

import (
	"context"
	"fmt"
	"reflect"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workv1 "open-cluster-management.io/api/work/v1"
	"open-cluster-management.io/sdk-go/pkg/patcher"
)

// Patch writes the fields that change changes in a copy of read, and returns the stored object. A
// subresource such as "status" takes only fields of that subresource. The error is a Conflict when the object has changed since
// read was read, so that a list, such as the finalizers, loses no entry of another writer. Where change changes nothing, Patch
// sends no request and returns read. c is a client of the object's kind and namespace.
func Patch[T client.Object](ctx context.Context, c patcher.PatchClient[T], read T, change func(T), subresources ...string) (T, error) {
	if read.GetResourceVersion() == "" {
		var none T
		return none, fmt.Errorf("cannot patch %s: the object was not read from the hub", describeObject(read))
	}
	return sendPatch(ctx, c, difference[T]{read, change, true}, subresources)
}

// PatchUnlocked is Patch without the Conflict: another writer's change between the read and the write stays, unless both writers
// change one field. PatchUnlocked is for a label or an annotation whose new value does not depend on the object, on objects that
// agents change all the time. No list may change, since the patch replaces the whole list; no key may be removed, since a patch
// that removes the last key removes keys of other writers too.
func PatchUnlocked[T client.Object](ctx context.Context, c patcher.PatchClient[T], read T, change func(T)) (T, error) {
	return sendPatch(ctx, c, difference[T]{read, change, false}, nil)
}

// difference is a change of an object. The patch of a locked difference has the resource version of the object.
type difference[T client.Object] struct {
	read   T
	change func(T)
	locked bool
}

func sendPatch[T client.Object](ctx context.Context, c patcher.PatchClient[T], d difference[T], subresources []string) (T, error) {
	var none T
	desired, ok := d.read.DeepCopyObject().(T)
	if !ok {
		return none, fmt.Errorf("cannot copy %s", describeObject(d.read))
	}
	d.change(desired)
	if reflect.DeepEqual(d.read, desired) { // costs less than the encoding, in most passes of a controller
		return d.read, nil
	}
	data, err := d.encode(desired)
	if err != nil {
		return none, fmt.Errorf("cannot encode a patch of %s: %w", describeObject(d.read), err)
	}
	if data == nil {
		return d.read, nil
	}
	stored, err := c.Patch(ctx, d.read.GetName(), types.MergePatchType, data, metav1.PatchOptions{}, subresources...)
	if err != nil {
		return none, fmt.Errorf("cannot patch %s: %w", describeObject(d.read), err)
	}
	return stored, nil
}

// encode returns the merge patch from the object that was read to desired; nil when both have the same encoding.
func (d difference[T]) encode(desired T) ([]byte, error) {
	var read, changed client.Object = d.read, desired
	if w, ok := read.(*workv1.ManifestWork); ok {
		read, changed = omitEqualParts(w, changed.(*workv1.ManifestWork)) //nolint:forcetypeassert // both are a T
	}
	patch, unchanged := client.MergeFrom(read), "{}"
	if d.locked {
		patch = client.MergeFromWithOptions(read, client.MergeFromWithOptimisticLock{})
		unchanged = fmt.Sprintf(`{"metadata":{"resourceVersion":%q}}`, read.GetResourceVersion())
	}
	data, err := patch.Data(changed)
	if err != nil || string(data) == unchanged {
		return nil, err
	}
	return data, nil
}

// omitEqualParts returns both works without the spec and without the status where the works have equal ones: a foundation has 130 kB
// of manifests, and most patches of works change only metadata.
func omitEqualParts(read, changed *workv1.ManifestWork) (readParts, changedParts *workv1.ManifestWork) {
	readParts = &workv1.ManifestWork{TypeMeta: read.TypeMeta, ObjectMeta: read.ObjectMeta}
	changedParts = &workv1.ManifestWork{TypeMeta: changed.TypeMeta, ObjectMeta: changed.ObjectMeta}
	if !reflect.DeepEqual(read.Spec, changed.Spec) {
		readParts.Spec, changedParts.Spec = read.Spec, changed.Spec
	}
	if !reflect.DeepEqual(read.Status, changed.Status) {
		readParts.Status, changedParts.Status = read.Status, changed.Status
	}
	return readParts, changedParts
}

// describeObject returns the kind, the namespace and the name of an object. An object of a typed cache has no kind, but the Go
// type has the same name.
func describeObject(o client.Object) string {
	kind := o.GetObjectKind().GroupVersionKind().Kind
	if kind == "" {
		kind = reflect.TypeOf(o).Elem().Name()
	}
	name := o.GetName()
	if namespace := o.GetNamespace(); namespace != "" {
		name = namespace + "/" + name
	}
	return fmt.Sprintf("%s %q", kind, name)
}

// ConditionsOfOthers returns the entries of a stored list of conditions whose types are not in own, such as conditions of a newer
// manager, with every field. A merge patch replaces a list as a whole, so that a writer of conditions has to repeat these entries.
func ConditionsOfOthers(stored any, own []string) []any {
	list, _ := stored.([]any)
	return slices.DeleteFunc(slices.Clone(list), func(entry any) bool {
		condition, _ := entry.(map[string]any)
		name, _ := condition["type"].(string)
		return slices.Contains(own, name)
	})
}
