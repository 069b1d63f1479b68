// Copyright Contributors to the Open Cluster Management project

package values

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// Source is the origin of a value.
type Source string

// The sources, in the words of a reference.
const (
	Name      Source = "name"
	Labels    Source = "labels"
	Claims    Source = "claims"
	Variables Source = "variables"
)

// Reference is a value of a cluster that a text refers to.
type Reference struct {
	Source Source
	// Key is empty for Name.
	Key string
}

const (
	opening, closing = "$(cluster.", ")"
	// allowed ends the messages about invalid references.
	allowed = "use $(cluster.name), $(cluster.labels.KEY), $(cluster.claims.NAME) or $(cluster.variables.NAME), and $$(cluster. for the text itself"
)

// String returns the reference as users write the reference.
func (r Reference) String() string {
	if r.Source == Name {
		return opening + string(Name) + closing
	}
	return opening + string(r.Source) + "." + r.Key + closing
}

// Compare orders references for messages.
func Compare(a, b Reference) int {
	return cmp.Or(cmp.Compare(a.Source, b.Source), cmp.Compare(a.Key, b.Key))
}

var keys = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_./-]*$`)

// ParseReference reads the text between "$(cluster." and ")".
func ParseReference(body string) (Reference, error) {
	source, key, keyed := strings.Cut(body, ".")
	switch r := (Reference{Source: Source(source), Key: key}); r.Source {
	case Name:
		if !keyed {
			return r, nil
		}
	case Labels, Claims, Variables:
		if keys.MatchString(key) {
			return r, nil
		}
	}
	return Reference{}, fmt.Errorf("%s%s%s is no value of a cluster: %s", opening, body, closing, allowed)
}

// Mentioned reports whether Expand would change a text.
func Mentioned(text string) bool { return strings.Contains(text, opening) }

// References returns the references of a text in order.
func References(text string) ([]Reference, error) {
	var out []Reference
	err := scanText(text, func(string) {}, func(r Reference) { out = append(out, r) })
	return out, err
}

// Expand returns the text with a value in place of each reference.
func Expand(text string, value func(Reference) string) (string, error) {
	var out strings.Builder
	literal := func(s string) { out.WriteString(s) }
	if err := scanText(text, literal, func(r Reference) { literal(value(r)) }); err != nil {
		return "", err
	}
	return out.String(), nil
}

// scanText splits a text into literals and references and calls a function for each part.
func scanText(text string, literal func(string), reference func(Reference)) error {
	for {
		at := strings.Index(text, opening)
		if at < 0 {
			literal(text)
			return nil
		}
		rest := text[at+len(opening):]
		if strings.HasSuffix(text[:at], "$") {
			literal(text[:at-1] + opening)
			text = rest
			continue
		}
		literal(text[:at])
		body, after, closed := strings.Cut(rest, closing)
		if !closed {
			return errors.New("a text has $(cluster. without the closing parenthesis: " + allowed)
		}
		r, err := ParseReference(body)
		if err != nil {
			return err
		}
		reference(r)
		text = after
	}
}
