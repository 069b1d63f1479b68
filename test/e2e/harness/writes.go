// Copyright Contributors to the Open Cluster Management project

package harness

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
)

// WriteWatch records the writes of the objects that a selector selects.
type WriteWatch struct {
	writes chan []string
}

// WatchWrites records writes until the context ends. A creation is a write: the watch begins after the list of the present objects.
func WatchWrites(ctx context.Context, objects dynamic.ResourceInterface, selector metav1.ListOptions) (*WriteWatch, error) {
	present, err := objects.List(ctx, selector)
	if err != nil {
		return nil, err
	}
	if len(present.Items) == 0 {
		return nil, errors.New("there is no object to watch")
	}
	selector.ResourceVersion = present.GetResourceVersion()
	events, err := objects.Watch(ctx, selector)
	if err != nil {
		return nil, err
	}
	out := &WriteWatch{writes: make(chan []string, 1)}
	go func() {
		defer events.Stop()
		out.writes <- recordWrites(ctx, events.ResultChan())
	}()
	return out, nil
}

// Wait waits for the end of the context, and describes the writes. The end of a watch before that is in the list: later writes are unknown.
func (w *WriteWatch) Wait() []string { return <-w.writes }

func recordWrites(ctx context.Context, events <-chan watch.Event) []string {
	var out []string
	for {
		select {
		case <-ctx.Done():
			return out
		case e, isOpen := <-events:
			switch {
			case ctx.Err() != nil:
				return out
			case !isOpen:
				return append(out, "the watch has ended early")
			case e.Type != watch.Bookmark:
				out = append(out, describeWrite(e))
			}
		}
	}
}

// describeWrite describes an event of a watch, with the last field manager of the object.
func describeWrite(e watch.Event) string {
	o, err := apimeta.Accessor(e.Object)
	if err != nil {
		return fmt.Sprintf("%s %v", e.Type, e.Object)
	}
	name := strings.TrimPrefix(o.GetNamespace()+"/"+o.GetName(), "/")
	return fmt.Sprintf("%s %s %s: %s", e.Type, e.Object.GetObjectKind().GroupVersionKind().Kind, name, lastFieldManager(o))
}

// lastFieldManager returns the last field manager of an object, with the fields.
func lastFieldManager(o metav1.Object) string {
	fields := o.GetManagedFields()
	if len(fields) == 0 {
		return "no field manager"
	}
	last := slices.MaxFunc(fields, func(a, b metav1.ManagedFieldsEntry) int { return a.Time.Compare(b.Time.Time) })
	return fmt.Sprintf("%s %s %s", last.Manager, last.Subresource, last.FieldsV1)
}
