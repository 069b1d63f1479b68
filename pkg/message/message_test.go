// Copyright Contributors to the Open Cluster Management project

package message

import (
	"strings"
	"testing"
	"unicode"
)

func TestFormats(t *testing.T) {
	many := strings.Split("l k j i h g f e d c b a a", " ")
	for name, tc := range map[string]struct{ got, want string }{
		"a short text stays":                 {Shorten("abc", 3), "abc"},
		"a long text is cut":                 {Shorten("abcd", 3), "abc..."},
		"a character is not split":           {Shorten("abä", 3), "ab..."},
		"a text of a cluster is on one line": {OneLine(" a\n\tb\x1b[31m\xff ", 20), "a b[31m"},
		"a text of a cluster is cut":         {OneLine("a  bcd", 3), "a b..."},
		"a name is quoted":                   {Quote("a\nb"), `"a\nb"`},
		"a long name is cut":                 {Quote(strings.Repeat("x", 254)), `"` + strings.Repeat("x", 253) + `..."`},
		"names are sorted, each once":        {QuotedList([]string{"b", "a", "b"}), `"a", "b"`},
		"ten names are listed":               {QuotedList(many), `"a", "b", "c", "d", "e", "f", "g", "h", "i", "j" and 2 more`},
		"no name is no text":                 {QuotedList(nil), ""},
		"words":                              {List([]string{"a", "b"}, 2), "a, b"},
		"more words":                         {List([]string{"a", "b", "c"}, 2), "a, b and 1 more"},
		"clauses":                            {ListClauses([]string{"a", "b"}, 2), "a; b"},
		"more clauses":                       {ListClauses([]string{"a", "b", "c", "d"}, 2), "a; b; and 2 more"},
	} {
		if tc.got != tc.want {
			t.Errorf("%s: got %q, want %q", name, tc.got, tc.want)
		}
	}
	if many[0] != "l" {
		t.Error("QuotedList changes its argument")
	}
}

// limit is the number of bytes in the tests of OneLine.
const limit = 300

func TestOneLine(t *testing.T) {
	for text, want := range map[string]string{
		"":                                       "",
		"as it is":                               "as it is",
		" two\r\n\tlines  ":                      "two lines",
		"a\x1b[31mred\x00":                       "a[31mred",
		"half \xff rune":                         "half rune",
		"\u202ereversed":                         "reversed",
		"\x00 between \x00 ":                     "between",
		"na\u00efve":                             "na\u00efve",
		strings.Repeat("a", limit):               strings.Repeat("a", limit),
		strings.Repeat("a", limit+1):             strings.Repeat("a", limit) + "...",
		strings.Repeat("a", limit-1) + "\u00e9b": strings.Repeat("a", limit-1) + "...",
	} {
		if got := OneLine(text, limit); got != want {
			t.Errorf("OneLine(%q) is %q, want %q", text, got, want)
		}
	}
}

func FuzzOneLine(f *testing.F) {
	for _, seed := range []string{"", "a b", "a\nb\r\n\tc", "\xff\xfe", strings.Repeat("é", 200), "\u2028\u2029\u0085\u00a0\x00\x1b", strings.Repeat("a", 299) + "é"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got := OneLine(text, limit)
		if len(got) > limit+len("...") {
			t.Errorf("%d bytes of %q are left", len(got), text)
		}
		if strings.ToValidUTF8(got, "") != got || strings.ContainsFunc(got, func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Errorf("%q is no line of text", got)
		}
		if strings.Contains(got, "  ") || strings.TrimSpace(got) != got {
			t.Errorf("%q has space that says nothing", got)
		}
		if len(got) <= limit && OneLine(got, limit) != got {
			t.Errorf("%q becomes %q the second time", got, OneLine(got, limit))
		}
	})
}
