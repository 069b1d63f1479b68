// Copyright Contributors to the Open Cluster Management project

package boundedhttp

// Scanner counts the bytes, values, items and levels of JSON, in a single pass and without memory. A Scanner does not check the
// syntax: the decoder checks the syntax later.
type Scanner struct {
	limits Limits
	// frames reports that values follow each other, as the events of a watch do. The limits apply to each value.
	frames bool

	bytes         int64
	values, items int
	depth         int
	// arrays has a bit for each of the first two levels that is an array.
	arrays uint8
	text   bool
	escape bool

	// Frames counts the values that are complete.
	Frames int
	// Largest is the size of the largest of the values.
	Largest int64
}

// NewScanner returns a Scanner of one response.
func NewScanner(limits Limits) *Scanner { return &Scanner{limits: limits} }

// NewEventScanner returns a Scanner of the events of a watch.
func NewEventScanner(limits Limits) *Scanner { return &Scanner{limits: limits, frames: true} }

// Values returns the number of counted values of the response, or of the event that is not complete.
func (s *Scanner) Values() int { return s.values }

// Scan counts the next bytes. The error is a *LimitError.
func (s *Scanner) Scan(data []byte) error {
	for _, c := range data {
		if s.bytes++; s.bytes > s.limits.Bytes {
			return newLimitError("is longer than %s", sizeText(s.limits.Bytes))
		}
		if s.text {
			s.scanText(c)
			continue
		}
		if err := s.scanStructure(c); err != nil {
			return err
		}
	}
	s.Largest = max(s.Largest, s.bytes)
	return nil
}

// scanText passes over a character of a string.
func (s *Scanner) scanText(c byte) {
	switch {
	case s.escape:
		s.escape = false
	case c == '\\':
		s.escape = true
	case c == '"':
		s.text = false
	}
}

func (s *Scanner) scanStructure(c byte) error {
	switch c {
	case '"':
		s.text = true
	case '{', '[':
		return s.openValue(c == '[')
	case '}', ']':
		return s.closeValue()
	case ',':
		if s.inItems() {
			if err := s.countItem(); err != nil {
				return err
			}
		}
		return s.countValue()
	case ':':
		return s.countValue()
	}
	return nil
}

func (s *Scanner) openValue(array bool) error {
	if s.depth++; s.depth > s.limits.Depth {
		return newLimitError("is nested deeper than %d levels", s.limits.Depth)
	}
	if s.depth <= 2 {
		bit := uint8(1) << s.depth
		s.arrays &^= bit
		if array {
			s.arrays |= bit
		}
	}
	if array && s.inItems() {
		if err := s.countItem(); err != nil {
			return err
		}
	}
	return s.countValue()
}

func (s *Scanner) closeValue() error {
	if s.depth--; s.depth < 0 {
		return newLimitError("is no JSON")
	}
	if s.depth == 0 && s.frames {
		s.Frames++
		s.Largest = max(s.Largest, s.bytes)
		s.bytes, s.values, s.items = 0, 0, 0
	}
	return nil
}

// inItems reports whether the innermost value is an array that a top-level object holds.
func (s *Scanner) inItems() bool { return s.depth == 2 && s.arrays == 1<<2 }

func (s *Scanner) countItem() error {
	if s.items++; s.items > s.limits.Items {
		return newLimitError("lists more than %d items", s.limits.Items)
	}
	return nil
}

func (s *Scanner) countValue() error {
	if s.values++; s.values > s.limits.Values {
		return newLimitError("has more than %d values", s.limits.Values)
	}
	return nil
}
