// Copyright Contributors to the Open Cluster Management project

package render

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"open-cluster-management.io/knative-addon/pkg/workload"
)

// WriteSummary writes a summary of a bundle for people.
func WriteSummary(w io.Writer, b *Bundle) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	line := func(format string, args ...any) { fmt.Fprintf(t, format+"\n", args...) }
	line("Component\t%s %s", b.Component, b.Version)
	line("Namespace\t%s", b.Namespace)
	line("Digest\tsha256:%s", b.Digest)
	line("Foundation\t%d objects, %d bytes", len(b.Foundation), b.FoundationSize)
	line("Payload\t%d objects, %d bytes", len(b.Payload), b.PayloadSize)
	line("Objects\t%s", strings.Join(countBy(b, func(o Object) string { return o.GetKind() }), ", "))
	line("Strategies\t%s", strings.Join(countBy(b, func(o Object) string { return string(o.Class) }), ", "))
	line("Images\t%d", len(Images(b)))
	for n, wl := range b.Workloads {
		line("%s\t%s", headingAt("Workloads", n), describeWorkload(wl))
	}
	for n, j := range b.Jobs {
		line("%s\tJob %s/%s", headingAt("Jobs", n), j.Namespace, j.Name)
	}
	for n, text := range b.Warnings {
		line("%s\t%s", headingAt("Warnings", n), text)
	}
	return t.Flush()
}

// headingAt returns the name of a list for the first line, and spaces for the others.
func headingAt(name string, line int) string {
	if line == 0 {
		return name
	}
	return ""
}

func describeWorkload(w workload.Expected) string {
	scale := "scaled by " + w.ScaledBy
	if w.Replicas != nil {
		scale = fmt.Sprintf("%d replicas", *w.Replicas)
	}
	text := fmt.Sprintf("%s %s/%s, %s", w.Kind, w.Namespace, w.Name, scale)
	if w.Webhook {
		text += ", answers webhooks"
	}
	return text
}

// countBy counts the objects by a property, the most frequent value first.
func countBy(b *Bundle, property func(Object) string) []string {
	counts := map[string]int{}
	for _, o := range b.Objects() {
		counts[property(o)]++
	}
	names := slices.SortedFunc(maps.Keys(counts), func(x, y string) int {
		return cmp.Or(cmp.Compare(counts[y], counts[x]), strings.Compare(x, y))
	})
	out := make([]string, 0, len(names))
	for _, name := range names {
		out = append(out, fmt.Sprintf("%d %s", counts[name], name))
	}
	return out
}
