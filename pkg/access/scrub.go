// Copyright Contributors to the Open Cluster Management project

package access

import (
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode"

	clientauthv1 "k8s.io/client-go/pkg/apis/clientauthentication/v1"

	"open-cluster-management.io/knative-addon/pkg/message"
)

// maxShown is the number of bytes of a plugin's output in the log.
const maxShown = 160

// withheld replaces the rest of a text from the first possible secret on.
const withheld = "[withheld]"

// minSecret is the length from which a known value counts as a secret: shorter values are part of any text.
const minSecret = 6

var (
	// Texts that change from one run to the next: the headers of klog and log, times, and local addresses.
	volatileText = regexp.MustCompile(`[IWEF]\d{4} \d\d:\d\d:\d\d\.\d+ +\d+ [\w./-]+:\d+\] ?` +
		`|\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:?\d\d)?` +
		`|\[?[0-9a-fA-F.:]+\]?:\d+->`)

	// The name of a secret with a value behind, or the beginning of a secret.
	secretName = regexp.MustCompile(`(?i)(token|passw(or)?d|passphrase|secret|credentials?|api[_-]?key|(private|access|client)[_-]?key([_-]?data)?|` +
		`authorization|cookie)\\*["']?\s*[:=]|--[\w-]*(token|passw(or)?d|secret|key)\s|\b(bearer|basic)\s|-----|\beyJ|://[^/\s]*@`)

	// The name of a password and a word with a digit.
	secretWord = regexp.MustCompile(`(?i)\b(token|passw(or)?d|passphrase)\s+["']?[^\s"']*\d`)

	// A run that no word and no name is: names in Kubernetes and paths have separators.
	secretRun  = regexp.MustCompile(`[A-Za-z0-9+=_~]{16,}`)
	unlikeWord = regexp.MustCompile(`\d|[+=~]|^.{24,}$`)
)

// scrubText returns the beginning of a text on one short line, up to the first possible secret. The known values count as
// secrets everywhere.
func scrubText(text string, known []string) string {
	text = oneLine(text, len(text))
	end := len(text)
	cut := func(at int) {
		if at >= 0 {
			end = min(end, at)
		}
	}
	if at := secretName.FindStringIndex(text); at != nil {
		// The name itself helps; the value follows.
		cut(findNameEnd(text, at))
	}
	if at := secretWord.FindStringIndex(text); at != nil {
		cut(at[0])
	}
	for _, at := range secretRun.FindAllStringIndex(text, -1) {
		if unlikeWord.MatchString(text[at[0]:at[1]]) {
			cut(at[0])
			break
		}
	}
	for _, value := range known {
		// Trimmed as the text is.
		if value = oneLine(value, len(value)); len(value) >= minSecret {
			cut(strings.Index(text, value))
		}
	}
	out := oneLine(volatileText.ReplaceAllString(text[:end], ""), maxShown)
	if end == len(text) {
		return out
	}
	return strings.TrimSpace(out + " " + withheld)
}

// findNameEnd returns the position at which a match of secretName stops being harmless.
func findNameEnd(text string, at []int) int {
	if i := strings.IndexAny(text[at[0]:at[1]], ":="); i > 0 && !strings.HasPrefix(text[at[0]+i:], "://") {
		return at[0] + i + 1
	}
	return at[0]
}

// maxSecrets is the number of words of stdout that are looked for in stderr. A credential has fewer words.
const maxSecrets = 1000

// findPossibleSecrets returns the words between quotes, spaces and similar characters.
func findPossibleSecrets(data []byte) []string {
	all := strings.FieldsFunc(string(data), func(r rune) bool {
		return unicode.IsSpace(r) || strings.ContainsRune(`"'{}[],\`, r)
	})
	all = slices.DeleteFunc(all, func(w string) bool { return len(w) < minSecret || isProtocolWord(w) })
	return all[:min(len(all), maxSecrets)]
}

// isProtocolWord reports whether a word is part of every ExecCredential, and of many messages about an ExecCredential.
func isProtocolWord(word string) bool {
	return strings.HasPrefix(word, clientauthv1.GroupName) || slices.Contains([]string{
		"ExecCredential", "apiVersion", "status", "expirationTimestamp", "clientCertificateData", "clientKeyData",
	}, word)
}

// oneLine replaces whitespace and characters that cannot be printed by one space, and shortens the text.
func oneLine(text string, limit int) string {
	printable := func(r rune) rune {
		if !unicode.IsPrint(r) || r == unicode.ReplacementChar {
			return ' '
		}
		return r
	}
	return message.OneLine(strings.Map(printable, text), limit)
}

// hostOf returns the host of an address for messages, without the parts of an address that may be secret.
func hostOf(u *url.URL) string { return message.Shorten(u.Host, message.MaxName) }
