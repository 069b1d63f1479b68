// Copyright Contributors to the Open Cluster Management project

package dashboard

import (
	_ "embed"
	"net/url"
	"strconv"

	g "maragu.dev/gomponents"
	"maragu.dev/gomponents/html"
)

//go:embed style.css
var style string

// renderFleetPage returns the page of all clusters.
func renderFleetPage(view *fleetView) g.Node {
	const title = "Knative on the fleet"
	isGrid := len(view.Rows) == 0
	return renderDocument(title,
		renderHeader(title, g.Text(view.Hub), view.Updated),
		html.P(html.Class("summary"), g.Text(view.Summary)),
		renderFailures(view.Failures),
		html.Div(html.Class("cards"), g.Map(view.Components, func(component componentView) g.Node {
			return renderComponentCard(&component, g.If(isGrid, renderGrid(component.Cells)))
		})),
		g.If(isGrid && len(view.Components) > 0, renderLegend()),
		renderProblems(view.Problems),
		renderFleetTable(view.Rows),
	)
}

// renderClusterPage returns the page of one cluster.
func renderClusterPage(view *clusterView) g.Node {
	return renderDocument(view.Cluster,
		renderHeader(view.Cluster, renderFleetLink(), view.Updated),
		renderFailures(view.Failures),
		html.H2(g.Text("Components")),
		renderTable([]string{"Component", "State", "Version", "Reason", "For", "Message"}, g.Map(view.Cells, renderComponentRow)),
		html.H2(g.Text("Objects that are not in order")),
		html.Pre(g.Text(view.Tree)),
	)
}

// renderReasonPage returns the page of one reason.
func renderReasonPage(view *reasonView) g.Node {
	return renderDocument(view.Reason,
		renderHeader(view.Reason, renderFleetLink(), view.Updated),
		renderFailures(view.Failures),
		renderExplanations(view.Rows),
		html.H2(g.Textf("%d installations have this reason", len(view.Clusters))),
		renderTable([]string{"Cluster", "Component", "For", "Message"}, g.Map(view.Clusters, renderInstallationRow)),
	)
}

// renderDocument returns an HTML document that a browser loads again every five seconds.
func renderDocument(title string, content ...g.Node) g.Node {
	return html.Doctype(html.HTML(
		html.Lang("en"),
		html.Head(
			html.Meta(html.Charset("utf-8")),
			html.Meta(html.Name("viewport"), html.Content("width=device-width")),
			html.Meta(g.Attr("http-equiv", "refresh"), html.Content("5")),
			html.TitleEl(g.Text(title)),
			html.StyleEl(g.Raw(style)), // the Content-Security-Policy permits exactly this text
		),
		html.Body(html.Main(content...)),
	))
}

// renderHeader returns the title of a page, with the source and the time of the shown state beside the title.
func renderHeader(title string, source g.Node, updated string) g.Node {
	return html.Header(
		html.H1(g.Text(title)),
		html.Span(html.Class("soft"), source, g.Text(", as of "+updated)),
	)
}

// renderFailures returns a warning for each failure.
func renderFailures(failures []string) g.Node {
	return g.Map(failures, func(failure string) g.Node { return html.P(html.Class("warning"), g.Text(failure)) })
}

// renderTable returns a table with a title above each column.
func renderTable(titles []string, rows g.Group) g.Node {
	return html.Table(
		html.THead(html.Tr(g.Map(titles, func(title string) g.Node { return html.Th(g.Text(title)) }))),
		html.TBody(rows),
	)
}

// renderComponentCard returns the readiness, the rollout and the versions of a component above the grid of the clusters.
func renderComponentCard(view *componentView, grid g.Node) g.Node {
	return html.Section(
		html.Class("card"),
		html.H2(g.Text(view.Name)),
		renderBar("Ready", view.ReadyPercent, view.Ready, view.Total),
		renderBar("Latest revision", view.UpdatedPercent, view.Updated, view.Total, html.Class("rollout")),
		html.Div(html.Class("versions"), g.Map(view.Versions, renderVersion)),
		grid,
	)
}

// renderBar returns a progress bar between a label and the numbers. The attributes are attributes of the progress bar.
func renderBar(label string, percent float64, count, total int, attributes ...g.Node) g.Node {
	return html.Div(
		html.Class("bar"),
		html.Span(g.Text(label)),
		html.Progress(g.Group(attributes), html.Max("100"), html.Value(strconv.FormatFloat(percent, 'f', -1, 64))),
		html.Span(g.Textf("%d of %d", count, total)),
	)
}

// renderVersion returns a version with the number of clusters.
func renderVersion(view countView) g.Node {
	return html.Span(html.B(g.Text(view.Name)), g.Textf(" on %d", view.Count))
}

// renderGrid returns a square in the color of the state for each cluster. A square links to the cluster.
func renderGrid(cells []cellView) g.Node {
	return html.Div(html.Class("grid"), g.Map(cells, func(cell cellView) g.Node {
		return html.A(
			html.Class(string(cell.State)),
			html.Href(addressOfCluster(cell.Cluster)),
			html.Title(cell.title()),
			html.Aria("label", cell.Cluster+" "+string(cell.State)),
		)
	}))
}

// renderLegend returns all states, which explain the colors of a grid.
func renderLegend() g.Node {
	return html.P(html.Class("legend"), g.Map([]state{ready, progressing, failed, paused}, renderStateBadge))
}

// renderStateBadge returns the words for a state on the color of the state.
func renderStateBadge(s state) g.Node {
	words := "Progressing"
	switch s {
	case ready:
		words = "Ready"
	case failed:
		words = "Not ready"
	case paused:
		words = "Paused"
	default:
	}
	return html.Span(html.Class("state "+string(s)), g.Text(words))
}

// renderProblems returns a table of the problems with a title, or nothing without problems.
func renderProblems(problems []problemView) g.Node {
	if len(problems) == 0 {
		return nil
	}
	return g.Group{
		html.H2(g.Text("Why clusters are not ready")),
		renderTable([]string{"State", "Component", "Reason", "Longest", "Clusters", "Message of the oldest"}, g.Map(problems, renderProblemRow)),
	}
}

func renderProblemRow(view problemView) g.Node {
	return html.Tr(
		html.Td(renderStateBadge(view.State)),
		renderTextCell(view.Component),
		renderReasonCell(view.Reason),
		renderTextCell(view.Age),
		html.Td(renderProblemClusters(&view)),
		renderMessageCell(view.Message),
	)
}

// renderProblemClusters returns links to the first clusters with a problem, and the number of further clusters.
func renderProblemClusters(view *problemView) g.Node {
	var out g.Group
	for n, cluster := range view.Clusters {
		if n > 0 {
			out = append(out, g.Text(", "))
		}
		out = append(out, renderClusterLink(cluster))
	}
	if view.More > 0 {
		out = append(out, g.Text(" and "), html.A(html.Href(addressOfReason(view.Reason)), g.Textf("%d more", view.More)))
	}
	return out
}

// renderFleetTable returns a table of the clusters with a title, or nothing for a fleet without rows.
func renderFleetTable(rows []rowView) g.Node {
	if len(rows) == 0 {
		return nil
	}
	return g.Group{
		html.H2(g.Text("Clusters")),
		renderTable([]string{"Cluster", "Delivery", "Component", "State", "Version", "Reason", "For"}, g.Map(rows, renderClusterRows)),
	}
}

// renderClusterRows returns a row for each component of a cluster. The first row has the name and the delivery of the cluster.
func renderClusterRows(view rowView) g.Node {
	var out g.Group
	for n := range view.Cells {
		cell := &view.Cells[n]
		isFirst := n == 0
		out = append(out, html.Tr(
			html.Td(g.If(isFirst, renderClusterLink(view.Cluster))),
			html.Td(g.If(isFirst, g.Text(view.Mode))),
			renderTextCell(cell.Component),
			html.Td(renderStateBadge(cell.State)),
			renderTextCell(cell.Version),
			renderReasonCell(cell.Reason),
			renderTextCell(cell.Age),
		))
	}
	return out
}

// renderComponentRow returns the row of a component on the page of a cluster.
func renderComponentRow(view cellView) g.Node {
	return html.Tr(
		renderTextCell(view.Component),
		html.Td(renderStateBadge(view.State)),
		renderTextCell(view.Version),
		renderReasonCell(view.Reason),
		renderTextCell(view.Age),
		renderMessageCell(view.Message),
	)
}

// renderInstallationRow returns the row of an installation on the page of a reason.
func renderInstallationRow(view cellView) g.Node {
	return html.Tr(
		html.Td(renderClusterLink(view.Cluster)),
		renderTextCell(view.Component),
		renderTextCell(view.Age),
		renderMessageCell(view.Message),
	)
}

// renderExplanations returns the meaning and the remedy of a reason for each condition of the documentation.
func renderExplanations(rows []reasonRow) g.Node {
	if len(rows) == 0 {
		return html.P(g.Text("The documentation of this version has no such reason."))
	}
	return g.Map(rows, func(row reasonRow) g.Node {
		return g.Group{
			html.H2(g.Text(row.Condition + " is " + row.Status)),
			html.P(g.Text(row.Meaning)),
			html.P(html.B(g.Text("What to do:")), g.Text(" "+row.Remedy)),
		}
	})
}

func renderTextCell(text string) g.Node { return html.Td(g.Text(text)) }

func renderMessageCell(text string) g.Node { return html.Td(html.Class("message"), g.Text(text)) }

func renderReasonCell(reason string) g.Node {
	return html.Td(html.A(html.Href(addressOfReason(reason)), g.Text(reason)))
}

func renderClusterLink(name string) g.Node {
	return html.A(html.Href(addressOfCluster(name)), g.Text(name))
}

func renderFleetLink() g.Node {
	return html.A(html.Href("/"), g.Text("All clusters"))
}

func addressOfCluster(name string) string { return "/cluster?name=" + url.QueryEscape(name) }

func addressOfReason(name string) string { return "/reason?name=" + url.QueryEscape(name) }
