// Copyright Contributors to the Open Cluster Management project

package boundedhttp

import (
	"errors"
	"strings"
	"testing"
)

func TestScannerCounts(t *testing.T) {
	limits := Limits{Bytes: 100, Values: 12, Items: 3, Depth: 4}
	cases := map[string]struct {
		text string
		want string
	}{
		"an object":                          {text: `{"a":{"b":[1,2,{}]}}`},
		"nothing":                            {},
		"items up to the limit":              {text: `{"items":[{},{},{}]}`},
		"items beyond the limit":             {text: `{"items":[{},{},{},{}]}`, want: "lists more than 3 items"},
		"items of two arrays":                {text: `{"a":[1,2],"items":[{},{}]}`, want: "lists more than 3 items"},
		"elements of a deeper array":         {text: `{"a":{"b":[1,2,3,4,5]}}`},
		"keys of an object are no items":     {text: `{"a":{"b":1,"c":1,"d":1,"e":1}}`},
		"values beyond the limit":            {text: `[[1,2,3],[1,2,3],[1,2,3],[1,2,3]]`, want: "has more than 12 values"},
		"depth up to the limit":              {text: `[[[[]]]]`},
		"depth beyond the limit":             {text: `[[[[[]]]]]`, want: "is nested deeper than 4 levels"},
		"structure in a string is a string":  {text: `{"a":"[[[[[[,,,,,,,,,,,,\"[[[[[[[\\"}`},
		"a string that ends after a slash":   {text: `{"a":"\\","b":[[[[]]]]}`, want: "is nested deeper than 4 levels"},
		"bytes beyond the limit":             {text: `{"a":"` + strings.Repeat("z", 100), want: "is longer than 100 bytes"},
		"more is closed than was opened":     {text: `{}}`, want: "is no JSON"},
		"an object of items after an object": {text: `{"x":{"a":1},"items":[1,2,3,4]}`, want: "lists more than 3 items"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			for _, size := range []int{1, 3, len(c.text) + 1} {
				s := NewScanner(limits)
				var err error
				for rest := c.text; rest != "" && err == nil; {
					n := min(size, len(rest))
					err = s.Scan([]byte(rest[:n]))
					rest = rest[n:]
				}
				limit, _ := errors.AsType[*LimitError](err)
				if got := whatOf(limit); got != c.want {
					t.Errorf("in pieces of %d: got %q, want %q", size, got, c.want)
				}
			}
		})
	}
}

func whatOf(e *LimitError) string {
	if e == nil {
		return ""
	}
	return e.What
}

func TestScannerOfEventsCountsEachForItself(t *testing.T) {
	s := NewEventScanner(Limits{Bytes: 30, Values: 6, Items: 2, Depth: 3})
	for range 100 {
		if err := s.Scan([]byte(`{"items":[1,2]}` + "\n")); err != nil {
			t.Fatal(err)
		}
	}
	if s.Frames != 100 || s.Largest != 16 {
		t.Errorf("%d events of up to %d bytes, want 100 of 16", s.Frames, s.Largest)
	}
	if err := s.Scan([]byte(`{"items":[1,2,3]}`)); err == nil {
		t.Error("an event beyond the limits was taken")
	}
}
