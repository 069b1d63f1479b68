// Copyright Contributors to the Open Cluster Management project

package explanation

import (
	"cmp"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strings"
)

// Reason is a row of a table of reasons in conditions.md. Condition is "Event" for a reason that only Events have.
type Reason struct {
	Condition, Name, Status, Meaning, Remedy string
}

// Passage is a paragraph or a row of a page that mentions a reason.
type Passage struct {
	Page, Section, Text string
}

// Book holds the pages.
type Book struct {
	reasons []Reason
	pages   map[string]string
}

// reasonsPage is the page with the tables of reasons.
const reasonsPage = "conditions.md"

// passagePages lists the pages that Explain quotes, in the order of the quotations. Of reasonsPage, Explain quotes the passages outside of
// tables, too.
func passagePages() []string {
	return []string{"troubleshooting.md", "rollouts.md", "fleets.md", "commands.md"}
}

// Read reads the pages.
func Read(pages fs.FS) (*Book, error) {
	out := &Book{pages: map[string]string{}}
	for _, page := range append(passagePages(), reasonsPage) {
		text, err := fs.ReadFile(pages, page)
		if err != nil {
			return nil, fmt.Errorf("cannot read page %q: %w", page, err)
		}
		out.pages[page] = string(text)
	}
	for _, table := range []string{"reasons", "fleet-reasons", "other reasons"} {
		out.reasons = append(out.reasons, readTable(out.pages[reasonsPage], table)...)
	}
	if len(out.reasons) == 0 {
		return nil, fmt.Errorf("page %q has no table of reasons", reasonsPage)
	}
	return out, nil
}

// readTable returns the rows between the marks of a table.
func readTable(page, name string) []Reason {
	_, table, _ := strings.Cut(page, "<!-- "+name+" -->")
	table, _, _ = strings.Cut(table, "<!-- /"+name+" -->")
	var out []Reason
	for line := range strings.Lines(table) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), " | ")
		if len(cells) == 5 && strings.Contains(cells[1], "`") {
			out = append(out, Reason{cleanCell(cells[0]), cleanCell(cells[1]), cleanCell(cells[2]), plainText(cells[3]), plainText(cells[4])})
		}
	}
	return out
}

// Reasons returns the tables of reasons.
func (b *Book) Reasons() []Reason { return b.reasons }

// Names returns every reason of the pages, sorted.
func (b *Book) Names() []string {
	var out []string
	for _, r := range b.reasons {
		out = append(out, r.Name)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Explain returns the rows and the passages about a reason. Upper and lower case do not matter.
func (b *Book) Explain(name string) ([]Reason, []Passage) {
	var rows []Reason
	for _, r := range b.reasons {
		if strings.EqualFold(r.Name, name) {
			rows = append(rows, r)
		}
	}
	mention := regexp.MustCompile("(?i)`" + regexp.QuoteMeta(name) + "`")
	var passages []Passage
	for _, page := range append(passagePages(), reasonsPage) {
		for _, p := range splitPassages(b.pages[page]) {
			isRow := page == reasonsPage && strings.HasPrefix(p.Text, "|")
			if !isRow && mention.MatchString(p.Text) {
				passages = append(passages, Passage{page, p.Section, plainText(p.Text)})
			}
		}
	}
	return rows, passages
}

// splitPassages returns the paragraphs and the rows of tables of a page. A paragraph of code is none.
func splitPassages(page string) []Passage {
	var out []Passage
	var section string
	var paragraph []string
	end := func() {
		if len(paragraph) > 0 {
			out = append(out, Passage{Section: section, Text: strings.Join(paragraph, " ")})
		}
		paragraph = nil
	}
	for line := range strings.Lines(page) {
		text := strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(text, "#"):
			end()
			section = strings.TrimLeft(text, "# ")
		case text == "" || strings.HasPrefix(line, "    "):
			end()
		case strings.HasPrefix(text, "|") || strings.HasPrefix(text, "- "):
			end()
			paragraph = []string{text}
			if strings.HasPrefix(text, "|") {
				end()
			}
		default:
			paragraph = append(paragraph, text)
		}
	}
	end()
	return out
}

// plainText returns text of a page without the marks of links and of cells.
func plainText(text string) string {
	text = regexp.MustCompile(`\[([^\]]+)\]\(([^)]+)\)`).ReplaceAllString(text, "$1 (docs/$2)")
	text = strings.ReplaceAll(text, "(docs/#", "(#")
	if strings.HasPrefix(text, "|") {
		text = strings.ReplaceAll(strings.TrimSpace(strings.Trim(text, "|")), " | ", "; ")
	}
	return strings.TrimSpace(text)
}

func cleanCell(cell string) string { return strings.Trim(cell, " `|") }

// NearNames returns the reasons that a misspelled reason may mean, nearest first.
func (b *Book) NearNames(name string) []string {
	const most = 3
	wanted := strings.ToLower(name)
	distances := map[string]int{}
	var near []string
	for _, known := range b.Names() {
		lower := strings.ToLower(known)
		distances[known] = measureDistance(wanted, lower)
		if distances[known] <= len(wanted)/3 || len(wanted) > 3 && strings.Contains(lower, wanted) {
			near = append(near, known)
		}
	}
	slices.SortFunc(near, func(a, b string) int { return cmp.Or(cmp.Compare(distances[a], distances[b]), cmp.Compare(a, b)) })
	return near[:min(len(near), most)]
}

// measureDistance returns how many bytes have to be inserted, deleted or replaced to turn one text into the other.
func measureDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := diagonal
			if a[i] != b[j] {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(replaced, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
