// Copyright Contributors to the Open Cluster Management project

package main

import (
	"fmt"
	"io"
	"os"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
	"golang.org/x/term"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/installations"
)

// progressBars draws a bar for each component below the lines that a command prints on a terminal. The bar of a component shows how
// many installations are ready and have no other version, revision or pending change to come.
type progressBars struct {
	progress *mpb.Progress
	bars     map[api.Component]*mpb.Bar
}

// isTerminal reports whether a command prints on a terminal.
func isTerminal(out io.Writer) bool {
	file, isFile := out.(*os.File)
	return isFile && term.IsTerminal(int(file.Fd()))
}

// newProgressBars returns bars for the components, in their order. The caller prints lines by Write, and ends the bars by Close.
func newProgressBars(out io.Writer, components []api.Component) *progressBars {
	b := &progressBars{progress: mpb.New(mpb.WithOutput(out), mpb.WithAutoRefresh()), bars: map[api.Component]*mpb.Bar{}}
	for _, component := range components {
		// A bar with total 0 does not end when every installation is ready: the next edit moves the bar back.
		b.bars[component] = b.progress.AddBar(0,
			mpb.PrependDecorators(decor.Name(string(component), decor.WCSyncSpaceR)),
			mpb.AppendDecorators(decor.Any(func(s decor.Statistics) string { return fmt.Sprintf("%d of %d ready and current", s.Current, s.Total) })))
	}
	return b
}

// Write prints lines above the bars.
func (b *progressBars) Write(lines []byte) (int, error) { return b.progress.Write(lines) }

// Close draws the bars for the last time.
func (b *progressBars) Close() { b.progress.Shutdown() }

// update moves the bars to the state of the installations.
func (b *progressBars) update(all []installations.Installation) {
	total, current := map[api.Component]int64{}, map[api.Component]int64{}
	for _, i := range all {
		total[i.Component]++
		if i.Ready == metav1.ConditionTrue && i.NextVersion == "" && i.IsCurrent() {
			current[i.Component]++
		}
	}
	for component, bar := range b.bars {
		bar.SetTotal(total[component], false)
		bar.SetCurrent(current[component])
	}
}
