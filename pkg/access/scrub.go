// Copyright Contributors to the Open Cluster Management project

package access

import (
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode"

	clientauthv1 "k8s.io/client-go/pkg/apis/clientauthentication/v1"
)

// maxShown is how many bytes are shown of what a plugin says.
const maxShown = 160

// withheld stands for the rest of a text from where it may hold a secret.
const withheld = "[withheld]"

// minSecret is the length from which a value is looked for as it is: shorter ones stand in every text.
const minSecret = 6

var (
	// What changes from one time to the next: the headers of klog and log, times, and addresses of our side.
	volatileText = regexp.MustCompile(`[IWEF]\d{4} \d\d:\d\d:\d\d\.\d+ +\d+ [\w./-]+:\d+\] ?` +
		`|\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:?\d\d)?` +
		`|\[?[0-9a-fA-F.:]+\]?:\d+->`)

	// A name of secrets with a value after it, or what a secret begins with.
	secretName = regexp.MustCompile(`(?i)(token|passw(or)?d|passphrase|secret|credentials?|api[_-]?key|(private|access|client)[_-]?key([_-]?data)?|` +
		`authorization|cookie)\\*["']?\s*[:=]|--[\w-]*(token|passw(or)?d|secret|key)\s|\b(bearer|basic)\s|-----|\beyJ|://[^/\s]*@`)

	// A password's name and something with a digit.
	secretWord = regexp.MustCompile(`(?i)\b(token|passw(or)?d|passphrase)\s+["']?[^\s"']*\d`)

	// A run that no word and no name is: names in Kubernetes and paths have separators.
	secretRun  = regexp.MustCompile(`[A-Za-z0-9+=_~]{16,}`)
	unlikeWord = regexp.MustCompile(`\d|[+=~]|^.{24,}$`)
)

// scrub is the beginning of a text, on one line and not long, up to the first thing that may be a secret. The known
// values are secrets wherever they stand.
func scrub(text string, known []string) string {
	text = oneLine(text, len(text))
	end := len(text)
	cut := func(at int) {
		if at >= 0 {
			end = min(end, at)
		}
	}
	if at := secretName.FindStringIndex(text); at != nil {
		// The name itself helps; what follows is the value.
		cut(nameEnd(text, at))
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

// nameEnd is where a match of secretName stops being harmless.
func nameEnd(text string, at []int) int {
	if i := strings.IndexAny(text[at[0]:at[1]], ":="); i > 0 && !strings.HasPrefix(text[at[0]+i:], "://") {
		return at[0] + i + 1
	}
	return at[0]
}

// maxWords is how many words of stdout are looked for in stderr. A credential has fewer.
const maxWords = 1000

// words are what stands between quotes, spaces and the like.
func words(data []byte) []string {
	all := strings.FieldsFunc(string(data), func(r rune) bool {
		return unicode.IsSpace(r) || strings.ContainsRune(`"'{}[],\`, r)
	})
	all = slices.DeleteFunc(all, func(w string) bool { return len(w) < minSecret || ofProtocol(w) })
	return all[:min(len(all), maxWords)]
}

// ofProtocol tells that a word stands in every answer, and in many messages about it.
func ofProtocol(word string) bool {
	return strings.HasPrefix(word, clientauthv1.GroupName) || slices.Contains([]string{
		"ExecCredential", "apiVersion", "status", "expirationTimestamp", "clientCertificateData", "clientKeyData",
	}, word)
}

// oneLine makes whitespace and what cannot be printed one space, and cuts.
func oneLine(text string, limit int) string {
	printable := func(r rune) rune {
		if !unicode.IsPrint(r) || r == unicode.ReplacementChar {
			return ' '
		}
		return r
	}
	text = strings.Join(strings.Fields(strings.Map(printable, text)), " ")
	return shorten(text, limit)
}

// hostOf is the host of an address for messages, without what may be secret in an address.
func hostOf(u *url.URL) string { return shorten(u.Host, maxName) }
