// Copyright Contributors to the Open Cluster Management project

package dashboard

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/installations"
	"open-cluster-management.io/knative-addon/pkg/message"
)

// state is the color of an installation.
type state string

const (
	ready       state = "ready"
	progressing state = "progressing"
	failed      state = "failed"
	paused      state = "paused"
)

// maxRows is the number of clusters up to which the fleet is a table with a row for each cluster; more clusters are a grid.
const maxRows = 40

// maxNamed is the number of clusters that a problem names.
const maxNamed = 8

// maxTitle is the number of bytes that a pointer shows of a message.
const maxTitle = 200

// fleetView is the content of the page of all clusters.
type fleetView struct {
	Hub, Summary, Updated string
	Failures              []string
	Components            []componentView
	Problems              []problemView
	// Rows is empty for a fleet with more than maxRows clusters.
	Rows []rowView
}

// componentView describes a component on all clusters.
type componentView struct {
	Name         string
	Total, Ready int
	// Updated counts the clusters that run their latest revision.
	Updated                      int
	ReadyPercent, UpdatedPercent float64
	Versions                     []countView
	Cells                        []cellView
}

type countView struct {
	Name  string
	Count int
}

// cellView is a component on a cluster.
type cellView struct {
	Cluster, Component, Version, Reason, Message, Age string
	State                                             state
	Paused                                            bool
}

// rowView is a cluster with its components.
type rowView struct {
	Cluster, Mode string
	Cells         []cellView
}

// problemView is a reason with the clusters that have the reason.
type problemView struct {
	Component, Reason, Message, Age string
	State                           state
	Clusters                        []string
	More                            int
	oldest                          *metav1.Time
}

func newCell(i *installations.Installation, now time.Time) cellView {
	out := cellView{
		Cluster: i.Cluster, Component: string(i.Component), Version: cmp.Or(i.Version, "-"), Reason: i.Reason, Message: i.Message, Paused: i.Paused,
		State: stateOf(i),
	}
	if i.NextVersion != "" {
		out.Version = cmp.Or(i.Version, "none") + " → " + i.NextVersion
	}
	if i.Since != nil {
		out.Age = duration.HumanDuration(now.Sub(i.Since.Time))
	}
	return out
}

func stateOf(i *installations.Installation) state {
	switch {
	case i.Paused:
		return paused
	case i.Ready == metav1.ConditionFalse:
		return failed
	case i.Ready != metav1.ConditionTrue || !i.IsCurrent():
		return progressing
	default:
		return ready
	}
}

// newFleetView describes all installations.
func newFleetView(s *snapshot, now time.Time) fleetView {
	summary := installations.Summarize(s.all)
	out := fleetView{Hub: s.hub, Summary: summary.Text(now), Updated: s.at.Format(time.TimeOnly), Failures: s.failures}
	for _, component := range api.Components() {
		if view := newComponentView(component, s.all, now); view.Total > 0 {
			out.Components = append(out.Components, view)
		}
	}
	out.Problems = listProblems(s.all, now)
	out.Rows = listRows(s.all, now)
	return out
}

func newComponentView(component api.Component, all []installations.Installation, now time.Time) componentView {
	out := componentView{Name: string(component)}
	versions := map[string]int{}
	for n := range all {
		i := &all[n]
		if i.Component != component {
			continue
		}
		cell := newCell(i, now)
		out.Total++
		out.Cells = append(out.Cells, cell)
		versions[cell.Version]++
		if i.Ready == metav1.ConditionTrue {
			out.Ready++
		}
		if i.IsCurrent() {
			out.Updated++
		}
	}
	if out.Total > 0 {
		out.ReadyPercent = 100 * float64(out.Ready) / float64(out.Total)
		out.UpdatedPercent = 100 * float64(out.Updated) / float64(out.Total)
	}
	for version, count := range versions {
		out.Versions = append(out.Versions, countView{version, count})
	}
	slices.SortFunc(out.Versions, func(a, b countView) int { return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Name, b.Name)) })
	return out
}

// listProblems groups the installations that are not ready by component and reason: False before Unknown, then by number.
func listProblems(all []installations.Installation, now time.Time) []problemView {
	known := map[string]*problemView{}
	for n := range all {
		i := &all[n]
		if i.Ready == metav1.ConditionTrue {
			continue
		}
		key := fmt.Sprintf("%s %s %s", i.Component, i.Reason, i.Ready)
		p := known[key]
		if p == nil {
			p = &problemView{Component: string(i.Component), Reason: i.Reason, Message: i.Message, State: progressing}
			if i.Ready == metav1.ConditionFalse {
				p.State = failed
			}
			known[key] = p
		}
		if i.Since != nil && (p.oldest == nil || i.Since.Before(p.oldest)) {
			p.oldest, p.Message = i.Since, i.Message
			p.Age = duration.HumanDuration(now.Sub(i.Since.Time))
		}
		if len(p.Clusters) < maxNamed {
			p.Clusters = append(p.Clusters, i.Cluster)
		} else {
			p.More++
		}
	}
	var out []problemView
	for _, p := range known {
		out = append(out, *p)
	}
	slices.SortFunc(out, func(a, b problemView) int {
		return cmp.Or(cmp.Compare(a.State, b.State), cmp.Compare(len(b.Clusters)+b.More, len(a.Clusters)+a.More), cmp.Compare(a.Reason+a.Component, b.Reason+b.Component))
	})
	return out
}

// listRows returns a row for each cluster with a cell for each component, in the order of api.Components; none for a large fleet.
func listRows(all []installations.Installation, now time.Time) []rowView {
	var out []rowView
	for n := range all {
		i := &all[n]
		if len(out) == 0 || out[len(out)-1].Cluster != i.Cluster {
			out = append(out, rowView{Cluster: i.Cluster, Mode: string(i.Mode)})
		}
		row := &out[len(out)-1]
		row.Cells = append(row.Cells, newCell(i, now))
	}
	if len(out) > maxRows {
		return nil
	}
	return out
}

// clusterView is the content of the page of one cluster.
type clusterView struct {
	Cluster, Updated string
	Failures         []string
	Cells            []cellView
	Tree             string
}

// reasonView is the content of the page of one reason.
type reasonView struct {
	Reason, Updated string
	Failures        []string
	Rows            []reasonRow
	Clusters        []cellView
}

type reasonRow struct{ Condition, Status, Meaning, Remedy string }

// title returns the words that a pointer shows over a cell.
func (c *cellView) title() string {
	out := []string{c.Cluster, c.Component, c.Version, c.Reason}
	if c.Age != "" {
		out = append(out, "for "+c.Age)
	}
	if c.Paused {
		out = append(out, "paused")
	}
	text := strings.Join(out, ", ")
	if c.Message != "" {
		text += ": " + message.Shorten(c.Message, maxTitle)
	}
	return text
}
