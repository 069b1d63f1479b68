// Copyright Contributors to the Open Cluster Management project

package installations

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"
)

// WriteTable writes a row for each installation, with more columns when wide is true. now decides the ages.
func WriteTable(out io.Writer, all []Installation, wide bool, now time.Time) error {
	table := tabwriter.NewWriter(out, 6, 4, 3, ' ', 0)
	head := []string{"CLUSTER", "COMPONENT", "MODE", "VERSION", "REVISION", "READY", "REASON", "SINCE", "PAUSED"}
	if wide {
		head = append(head, "NAMESPACE/NAME", "MESSAGE")
	}
	fmt.Fprintln(table, strings.Join(head, "\t"))
	for _, i := range all {
		cells := append(i.listCells(), i.describeAge(now), describePause(i.Paused))
		if wide {
			cells = append(cells, i.Object.Namespace+"/"+i.Object.Name, cmp.Or(i.Message, i.PendingChange, "-"))
		}
		fmt.Fprintln(table, strings.Join(cells, "\t"))
	}
	return table.Flush()
}

// listCells returns the columns that do not change by the passage of time.
func (i *Installation) listCells() []string {
	return []string{
		i.Cluster, string(i.Component), string(i.Mode), describeStep(i.Version, i.NextVersion),
		describeStep(shortHash(i.Revision), shortHash(i.NextRevision)), string(i.Ready), i.Reason,
	}
}

// describeStep returns the present value, and the next value when there is one.
func describeStep(present, next string) string {
	if next == "" {
		return cmp.Or(present, "-")
	}
	return present + "->" + next
}

func (i *Installation) describeAge(now time.Time) string {
	if i.Since == nil {
		return "-"
	}
	return duration.HumanDuration(now.Sub(i.Since.Time))
}

func describePause(paused bool) string {
	if paused {
		return "True"
	}
	return "-"
}
