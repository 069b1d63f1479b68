// Copyright Contributors to the Open Cluster Management project

package message

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

const (
	// MaxName is the number of bytes of a name that a message repeats: the longest name that Kubernetes allows.
	MaxName = 253
	// MaxNote is the number of bytes of an Event's note that a caller of Shorten or OneLine passes: Kubernetes refuses a note of more
	// than 1024 bytes, and the note of a shortened text ends with "...".
	MaxNote = 1000
	// maxNames is the number of names that QuotedList names.
	maxNames = 10
)

// Shorten returns the text, or the first limit bytes of the text and "...".
func Shorten(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit], "") + "..."
}

// OneLine returns a text of a cluster or a tenant on one line, without characters that control a terminal, and shortened to
// limit bytes.
func OneLine(text string, limit int) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) || unicode.IsSpace(r) {
			return r
		}
		return -1
	}, strings.ToValidUTF8(text, ""))
	return Shorten(strings.Join(strings.Fields(text), " "), limit)
}

// Quote returns a name in quotes, on one line and shortened to MaxName bytes.
func Quote(name string) string { return strconv.Quote(Shorten(name, MaxName)) }

// QuotedList returns the names sorted, each name once and in quotes: `"a", "b"`. The list names ten names and counts the others.
func QuotedList(names []string) string {
	names = slices.Compact(slices.Sorted(slices.Values(names)))
	quoted := make([]string, 0, len(names))
	for _, name := range names {
		quoted = append(quoted, Quote(name))
	}
	return List(quoted, maxNames)
}

// List returns the first texts as a list of words, and the number of the others: "a, b and 3 more".
func List(texts []string, limit int) string { return joinFirst(texts, limit, ", ", " and") }

// ListClauses returns the first texts as a list of clauses, which may contain commas, and the number of the others:
// "a: x, y; b: z; and 3 more".
func ListClauses(texts []string, limit int) string { return joinFirst(texts, limit, "; ", "; and") }

func joinFirst(texts []string, limit int, separator, conjunction string) string {
	out := strings.Join(texts[:min(len(texts), limit)], separator)
	if more := len(texts) - limit; more > 0 {
		out += fmt.Sprintf("%s %d more", conjunction, more)
	}
	return out
}
