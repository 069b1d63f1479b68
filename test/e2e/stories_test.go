// Copyright Contributors to the Open Cluster Management project

package e2e

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"open-cluster-management.io/knative-addon/test/e2e/harness/storyqueue"
)

// Values of flag -stories: `make test` runs the main stories, `make test-rest` the others, `make test-e2e` both, `make test-nightly`
// the stories of rare faults, of many clusters, of other projects, and of push that repeat a story of pull, `make test-real` the stories on a
// node that runs pods, and `make soak` the soak test alone.
const (
	mainStories    = "main"
	restStories    = "rest"
	allStories     = "all"
	nightlyStories = "nightly"
	realStories    = "real"
	soakStories    = "soak"
)

// actingFlag is the number of stories that act at a time: beside them, one story may wait for its fleet to come to rest.
var actingFlag = flag.Int("acting-stories", 2, "how many stories act at a time; -parallel has to be greater than the number of stories for the order of storyqueue")

// queuedStories orders the stories of this run.
var queuedStories = sync.OnceValue(func() *storyqueue.Queue {
	concurrent := 1
	if f := flag.Lookup("test.parallel"); f != nil {
		concurrent, _ = strconv.Atoi(f.Value.String())
	}
	return storyqueue.New(*actingFlag, concurrent, longStories()...)
})

// longStories are the long stories of all tiers, in the order in which the stories begin: begun at the end of a run, a long story would run alone.
func longStories() []string {
	return []string{
		"TestGuard", "TestModes", "TestReferenceFaults", "TestPush", "TestReference", "TestSharedFleet", "TestManagerKilled", "TestFaultsRemoval",
		"TestFaultyRequests", "TestPushLife", "TestLocalInstalls", "TestRenderings", "TestScores", "TestWaves", "TestHostileCluster", "TestHostileRemoval",
		"TestClusterProxy", "TestDirectRenderings", "TestTwoHubs", "TestPayloadFaults", "TestRollout", "TestHostileSpoke", "TestPermissions",
		"TestKnativeFleet", "TestUserFinalizer",
	}
}

// storyTurns has the turn of each story, by the name of the test.
var storyTurns sync.Map

// restStory lets another story act while the story of the test waits for its fleet.
func restStory(t *testing.T) {
	t.Helper()
	name, _, _ := strings.Cut(t.Name(), "/")
	if turn, ok := storyTurns.Load(name); ok {
		turn.(*storyqueue.Turn).Rest() //nolint:forcetypeassert // startStory stores nothing else
	}
}

// timesFlag names the file that gets a line with the time of each story.
var timesFlag = flag.String("story-times", "", "a file to which each story adds a line: the time from its turn to its end, and the processor time of its labs by program")

// cpuTimes has the processor time that the labs of a story took, by program, by the name of the story.
var cpuTimes sync.Map

// recordCPUTime keeps the processor time of a closed lab for recordTime.
func recordCPUTime(t *testing.T, ofLab map[string]time.Duration) {
	t.Helper()
	name, _, _ := strings.Cut(t.Name(), "/")
	total := maps.Clone(ofLab)
	if earlier, ok := cpuTimes.Load(name); ok {
		for program, spent := range earlier.(map[string]time.Duration) { //nolint:forcetypeassert // recordCPUTime stores nothing else
			total[program] += spent
		}
	}
	cpuTimes.Store(name, total)
}

// describeCPUTime returns the sum of the processor time of a story, and its parts by program, the largest first.
func describeCPUTime(name string) string {
	recorded, ok := cpuTimes.Load(name)
	if !ok {
		return "no lab"
	}
	byProgram := recorded.(map[string]time.Duration) //nolint:forcetypeassert // recordCPUTime stores nothing else
	var sum time.Duration
	var parts []string
	for _, program := range slices.SortedFunc(maps.Keys(byProgram), func(a, b string) int { return cmp.Compare(byProgram[b], byProgram[a]) }) {
		sum += byProgram[program]
		if spent := byProgram[program].Seconds(); spent >= 1 {
			parts = append(parts, fmt.Sprintf("%s %.0f", program, spent))
		}
	}
	return fmt.Sprintf("%.0f s of CPU: %s", sum.Seconds(), strings.Join(parts, ", "))
}

// recordTime adds the time of a story to the file of -story-times.
func recordTime(t *testing.T, begin time.Time) {
	t.Helper()
	if *timesFlag == "" {
		return
	}
	f, err := os.OpenFile(*timesFlag, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = fmt.Fprintf(f, "%4.0f s %s, %s\n", time.Since(begin).Seconds(), t.Name(), describeCPUTime(t.Name()))
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		t.Error(err)
	}
}

var storiesFlag = flag.String("stories", allStories, "which stories run: main, rest, all (main and rest), nightly, real or soak")

// startMainStory starts a test that `make test` runs, and lets it run while others do. The main stories are what a user meets
// first in each mode; together they take about five minutes on two idle cores.
func startMainStory(t *testing.T) {
	t.Helper()
	startStory(t, mainStories)
}

// startRestStory starts a test that only `make test-all` runs, and lets it run while others do.
func startRestStory(t *testing.T) {
	t.Helper()
	startStory(t, restStories)
}

// startNightlyStory starts a test that only `make test-nightly` runs, and lets it run while others do: a test of a rare fault, of many clusters, of
// another project, or of push that repeats a story of pull.
func startNightlyStory(t *testing.T) {
	t.Helper()
	startStory(t, nightlyStories)
}

// startRealStory starts a test that needs a node that runs pods, and therefore root and packages of Debian; only `make test-real` and
// `make test-real-short` run such tests. Without root or the packages, the lab fails the test.
func startRealStory(t *testing.T) {
	t.Helper()
	startStory(t, realStories)
}

// startSoak starts a test that only `make soak` runs.
func startSoak(t *testing.T) {
	t.Helper()
	startStory(t, soakStories)
}

func startStory(t *testing.T, tier string) {
	t.Helper()
	if !runsTier(*storiesFlag, tier) {
		t.Skipf("-stories=%s: this is one of %s", *storiesFlag, tier)
	}
	turn := queuedStories().Register(t.Name())
	storyTurns.Store(t.Name(), turn)
	t.Cleanup(turn.End)
	t.Parallel()
	turn.Await()
	begin := time.Now()
	t.Cleanup(func() { recordTime(t, begin) })
}

// runsTier reports whether a value of -stories selects the stories of a tier.
func runsTier(stories, tier string) bool {
	return stories == tier || stories == allStories && (tier == mainStories || tier == restStories)
}

// checkStoriesFlag returns an error for a value of -stories that selects nothing.
func checkStoriesFlag() error {
	if tiers := []string{mainStories, restStories, allStories, nightlyStories, realStories, soakStories}; !slices.Contains(tiers, *storiesFlag) {
		return fmt.Errorf("-stories=%s: want one of %s", *storiesFlag, strings.Join(tiers, ", "))
	}
	return nil
}

// TestEveryTestIsAStory holds that each test of this package belongs to a tier, so that `make test-all` leaves out the nightly stories,
// the long stories on real nodes and the soak test alone. The exceptions need no lab.
func TestEveryTestIsAStory(t *testing.T) {
	exceptions := []string{
		"TestMain", "TestEveryTestIsAStory", "TestTiers", "TestLongStories", "TestEveryLabIsChecked", "TestPermissionUse", "TestPermissionRecord",
	}
	starts := []string{"startMainStory", "startRestStory", "startNightlyStory", "startRealStory", "startSoak"}
	for file, parsed := range parsedTests(t) {
		for _, d := range parsed.Decls {
			f, isFunc := d.(*ast.FuncDecl)
			if !isFunc || f.Recv != nil || !strings.HasPrefix(f.Name.Name, "Test") || slices.Contains(exceptions, f.Name.Name) {
				continue
			}
			first := firstCall(f)
			if !slices.Contains(starts, first) {
				t.Errorf("%s: %s calls %q first, want one of %s", file, f.Name.Name, first, strings.Join(starts, ", "))
			}
			if first == "startRealStory" && !strings.HasPrefix(f.Name.Name, "TestReal") {
				t.Errorf("%s: `make test-real` runs tests whose names begin with TestReal, and not %s", file, f.Name.Name)
			}
		}
	}
}

// TestTiers holds that `make test-e2e` runs neither nightly stories, stories on a real node nor the soak test, and every other value of
// -stories one tier.
func TestTiers(t *testing.T) {
	tiers := []string{mainStories, restStories, nightlyStories, realStories, soakStories}
	for _, stories := range append(tiers, allStories) {
		want := []string{stories}
		if stories == allStories {
			want = []string{mainStories, restStories}
		}
		got := slices.DeleteFunc(slices.Clone(tiers), func(tier string) bool { return !runsTier(stories, tier) })
		if !slices.Equal(got, want) {
			t.Errorf("-stories=%s runs %q, want %q", stories, got, want)
		}
	}
}

// TestLongStories holds that the long stories exist.
func TestLongStories(t *testing.T) {
	var found []string
	for _, parsed := range parsedTests(t) {
		for _, d := range parsed.Decls {
			if f, isFunc := d.(*ast.FuncDecl); isFunc && slices.Contains(longStories(), f.Name.Name) {
				found = append(found, f.Name.Name)
			}
		}
	}
	if want := longStories(); len(found) != len(want) {
		t.Errorf("long stories are %q, and %q exist", want, found)
	}
}

// TestEveryLabIsChecked holds that tests start labs with ownLab only, which has the invariants checked.
func TestEveryLabIsChecked(t *testing.T) {
	var callers []string
	for file, parsed := range parsedTests(t) {
		for _, d := range parsed.Decls {
			f, isFunc := d.(*ast.FuncDecl)
			if isFunc && startsLab(f) {
				callers = append(callers, file+": "+f.Name.Name)
			}
		}
	}
	if want := []string{"fleet_test.go: ownLab"}; !slices.Equal(callers, want) {
		t.Errorf("labs are started by %q, want %q", callers, want)
	}
}

// startsLab reports whether the function uses lab.Start or lab.New.
func startsLab(f *ast.FuncDecl) bool {
	found := false
	ast.Inspect(f, func(n ast.Node) bool {
		selector, isSelector := n.(*ast.SelectorExpr)
		if isSelector {
			of, isName := selector.X.(*ast.Ident)
			found = found || isName && of.Name == "lab" && (selector.Sel.Name == "Start" || selector.Sel.Name == "New")
		}
		return !found
	})
	return found
}

// parsedTests parses the files with tests of this package.
func parsedTests(t *testing.T) map[string]*ast.File {
	t.Helper()
	files, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]*ast.File{}
	for _, file := range files {
		if out[file], err = parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// firstCall returns the name of the function that the first statement of f calls.
func firstCall(f *ast.FuncDecl) string {
	if len(f.Body.List) == 0 {
		return ""
	}
	statement, isExpr := f.Body.List[0].(*ast.ExprStmt)
	if !isExpr {
		return ""
	}
	call, isCall := statement.X.(*ast.CallExpr)
	if !isCall {
		return ""
	}
	name, isName := call.Fun.(*ast.Ident)
	if !isName {
		return ""
	}
	return name.Name
}
