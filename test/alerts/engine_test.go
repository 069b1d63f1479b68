// Copyright Contributors to the Open Cluster Management project

package alerts

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/util/annotations"
)

// interval is the interval of the scrapes and of the evaluations.
const interval = time.Minute

// sample is a sample of a gauge or a counter.
type sample struct {
	at    int64
	value float64
}

func (s sample) T() int64                            { return s.at }
func (s sample) F() float64                          { return s.value }
func (sample) H() *histogram.Histogram               { return nil }
func (sample) FH() *histogram.FloatHistogram         { return nil }
func (sample) Type() chunkenc.ValueType              { return chunkenc.ValFloat }
func (s sample) Copy() chunks.Sample                 { return s }
func atMinute(minute int) time.Time                  { return time.Unix(0, 0).Add(time.Duration(minute) * interval) }
func (s *seriesSet) Next() bool                      { s.next++; return s.next <= len(s.series) }
func (s *seriesSet) At() storage.Series              { return s.series[s.next-1] }
func (*seriesSet) Err() error                        { return nil }
func (*seriesSet) Warnings() annotations.Annotations { return nil }

// seriesSet is a storage.SeriesSet.
type seriesSet struct {
	series []storage.Series
	next   int
}

// store returns the series, each in the notation of promtool's unit tests: one value for each minute.
func store(t *testing.T, series []string) storage.Queryable {
	t.Helper()
	var all []storage.Series
	for _, text := range series {
		name, values, err := parser.ParseSeriesDesc(text)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		var samples []chunks.Sample
		for minute, v := range values {
			if !v.Omitted {
				samples = append(samples, sample{atMinute(minute).UnixMilli(), v.Value})
			}
		}
		all = append(all, storage.NewListSeries(name, samples))
	}
	return &storage.MockQueryable{MockQuerier: &storage.MockQuerier{
		SelectMockFunction: func(_ bool, _ *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
			return &seriesSet{series: selectSeries(all, matchers)}
		},
	}}
}

func selectSeries(all []storage.Series, matchers []*labels.Matcher) []storage.Series {
	var out []storage.Series
	for _, s := range all {
		differs := func(m *labels.Matcher) bool { return !m.Matches(s.Labels().Get(m.Name)) }
		if !slices.ContainsFunc(matchers, differs) {
			out = append(out, s)
		}
	}
	return out
}

// evaluate returns for each result of the rule the number of minutes, up to and with the last minute, that the result has existed.
func evaluate(t *testing.T, rule rulefmt.Rule, series []string, last int) map[string]int {
	t.Helper()
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 1e6, Timeout: time.Minute, LookbackDelta: 5 * time.Minute})
	query, err := engine.NewRangeQuery(context.Background(), store(t, series), nil, rule.Expr, atMinute(0), atMinute(last), interval)
	if err != nil {
		t.Fatal(err)
	}
	defer query.Close()
	result := query.Exec(t.Context())
	matrix, err := result.Matrix()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]int{}
	for _, s := range matrix {
		minutes := 0
		for _, point := range slices.Backward(s.Floats) {
			if point.T != atMinute(last-minutes).UnixMilli() {
				break
			}
			minutes++
		}
		if minutes > 0 {
			out[s.Metric.WithoutEmpty().String()] = minutes - 1
		}
	}
	return out
}

// fires returns the results for which the alert fires in the last minute.
func fires(t *testing.T, rule rulefmt.Rule, series []string, last int) []string {
	t.Helper()
	var out []string
	for result, minutes := range evaluate(t, rule, series, last) {
		if time.Duration(minutes)*interval >= time.Duration(rule.For) {
			out = append(out, result)
		}
	}
	slices.Sort(out)
	return out
}
