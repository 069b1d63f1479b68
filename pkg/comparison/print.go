// Copyright Contributors to the Open Cluster Management project

package comparison

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"open-cluster-management.io/knative-addon/pkg/message"
)

// maxProblem is the number of bytes that Write prints of a problem, which may repeat a text of a cluster or a tenant.
const maxProblem = 4096

// HasDifference reports whether a group has a change.
func HasDifference(groups []Group) bool {
	return slices.ContainsFunc(groups, func(g Group) bool { return len(g.Changes) > 0 || g.Rendering != nil })
}

// HasProblem reports whether a group cannot be compared.
func HasProblem(groups []Group) bool {
	return slices.ContainsFunc(groups, func(g Group) bool { return g.Problem != "" })
}

// Write writes the groups as text: the clusters, the objects and, unless namesOnly, the differences.
func Write(out io.Writer, groups []Group, namesOnly bool) error {
	for _, g := range groups {
		if _, err := fmt.Fprintln(out, g.describe()); err != nil {
			return err
		}
		for _, c := range g.Changes {
			text := fmt.Sprintf("%s %s\n", c.Action, c.Object)
			if !namesOnly {
				text += c.Diff
			}
			if _, err := io.WriteString(out, text); err != nil {
				return err
			}
		}
	}
	return nil
}

// describe returns the headline of a group.
func (g *Group) describe() string {
	noun := "clusters"
	if len(g.Clusters) == 1 {
		noun = "cluster"
	}
	out := fmt.Sprintf("# %d %s, %s %s (%s): ", len(g.Clusters), noun, g.Component, g.Version, g.Mode)
	switch {
	case g.Problem != "":
		out = fmt.Sprintf("# %d %s, %s (%s): cannot compare: %s", len(g.Clusters), noun, g.Component, g.Mode, message.OneLine(g.Problem, maxProblem))
	case g.Rendering != nil:
		out += g.Rendering.describe()
	case len(g.Changes) == 0:
		out += "no difference"
	default:
		out += g.countActions()
	}
	out += "\n#   " + strings.Join(g.Clusters, ", ")
	if len(g.Paused) > 0 {
		out += "\n#   paused, and unchanged until resumed: " + strings.Join(g.Paused, ", ")
	}
	if len(g.Incomplete) > 0 {
		out += "\n#   configuration not completed, so that the change may be of the configuration: " + strings.Join(g.Incomplete, ", ")
	}
	return out
}

// countActions returns the number of objects by action.
func (g *Group) countActions() string {
	var out []string
	for _, action := range []Action{Create, Update, Delete, Keep} {
		count := 0
		for _, c := range g.Changes {
			if c.Action == action {
				count++
			}
		}
		if count > 0 {
			out = append(out, fmt.Sprintf("%s %d", action, count))
		}
	}
	return strings.Join(out, ", ") + " objects"
}
