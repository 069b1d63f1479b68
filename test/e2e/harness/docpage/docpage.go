// Copyright Contributors to the Open Cluster Management project

package docpage

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Mark is the HTML comment above a block of commands.
type Mark string

const (
	// Plain blocks have no mark: the commands succeed.
	Plain Mark = ""
	// ReaderValues blocks export variables, which the reader sets.
	ReaderValues Mark = "values of the reader"
	// SecondTerminal blocks run until the reader interrupts the commands.
	SecondTerminal Mark = "second terminal"
	// ExitCode2 blocks end with exit code 2.
	ExitCode2 Mark = "exit code 2"
)

// Block is a fenced block of commands.
type Block struct {
	// Section is the heading above the block.
	Section string
	// Line is the line of the first command.
	Line int
	Mark Mark
	// Commands are commands of bash.
	Commands string
	// Output has the lines that the page promises; nil when the page promises no output.
	Output []string
}

const (
	commandFence = "```sh"
	outputFence  = "```text"
)

var mark = regexp.MustCompile(`^<!-- (.+) -->$`)

// Read returns the blocks of a page in their order. A block of commands is a fence of language sh; an output is a fence of language text
// below a block of commands. Any other code of the page is an error, because a story would leave out its commands.
func Read(page string) ([]Block, error) {
	r := reader{lines: strings.Split(page, "\n")}
	for r.next < len(r.lines) {
		if err := r.readLine(); err != nil {
			return nil, fmt.Errorf("line %d: %w", r.next, err)
		}
	}
	if r.mark != Plain {
		return nil, fmt.Errorf("mark %q is above no commands", r.mark)
	}
	if len(r.blocks) == 0 {
		return nil, errors.New("the page has no commands")
	}
	return r.blocks, nil
}

// SelectSections returns the page with empty lines in place of all lines but those of the named sections, which begin with a heading and
// end before the next one. A missing section is an error.
func SelectSections(page string, sections ...string) (string, error) {
	missing := slices.Clone(sections)
	var out []string
	selected := false
	isCode := false
	for line := range strings.SplitSeq(page, "\n") {
		if strings.HasPrefix(line, "```") {
			isCode = !isCode
		}
		if !isCode && strings.HasPrefix(line, "#") {
			heading := strings.TrimLeft(line, "# ")
			selected = slices.Contains(sections, heading)
			missing = slices.DeleteFunc(missing, func(s string) bool { return s == heading })
		}
		if !selected {
			line = ""
		}
		out = append(out, line)
	}
	if len(missing) > 0 {
		return "", fmt.Errorf("the page has no section %q", missing)
	}
	return strings.Join(out, "\n"), nil
}

// FindManifests returns the YAML between the comments of a name on a page: `<!-- NAME -->` above the fence, and `<!-- /NAME -->` below.
func FindManifests(page, name string) (string, error) {
	_, rest, found := strings.Cut(page, "<!-- "+name+" -->\n```yaml\n")
	manifests, _, isClosed := strings.Cut(rest, "```\n<!-- /"+name+" -->")
	if !found || !isClosed {
		return "", fmt.Errorf("the page has no manifests %q", name)
	}
	return manifests, nil
}

// reader reads a page line by line.
type reader struct {
	lines   []string
	next    int
	section string
	mark    Mark
	blocks  []Block
	// hasText reports whether a paragraph has followed the last block of commands.
	hasText bool
}

func (r *reader) readLine() error {
	line := r.lines[r.next]
	r.next++
	found := mark.FindStringSubmatch(line)
	switch {
	case line == commandFence:
		return r.readCommands()
	case line == outputFence:
		return r.readOutput()
	case strings.HasPrefix(strings.TrimSpace(line), "```"), strings.HasPrefix(line, "    "):
		return fmt.Errorf("%q is code: write commands into a fence %q and outputs into a fence %q", line, commandFence, outputFence)
	case r.mark != Plain && line != "":
		return fmt.Errorf("mark %q is above %q, not above commands", r.mark, line)
	case found != nil:
		return r.readMark(Mark(found[1]))
	case strings.HasPrefix(line, "#"):
		r.section = strings.TrimLeft(line, "# ")
	}
	r.hasText = r.hasText || line != ""
	return nil
}

func (r *reader) readMark(m Mark) error {
	if known := []Mark{ReaderValues, SecondTerminal, ExitCode2}; !slices.Contains(known, m) {
		return fmt.Errorf("%q is none of the marks %q", m, known)
	}
	r.mark = m
	return nil
}

func (r *reader) readCommands() error {
	first := r.next + 1
	lines, err := r.readFence()
	if err != nil {
		return err
	}
	if r.mark == ReaderValues && slices.ContainsFunc(lines, func(line string) bool { return !strings.HasPrefix(line, "export ") }) {
		return fmt.Errorf("a block with mark %q has another command than export", r.mark)
	}
	r.blocks = append(r.blocks, Block{Section: r.section, Line: first, Mark: r.mark, Commands: strings.Join(lines, "\n")})
	r.mark, r.hasText = Plain, false
	return nil
}

func (r *reader) readOutput() error {
	if len(r.blocks) == 0 || r.hasText || r.blocks[len(r.blocks)-1].Output != nil {
		return errors.New("an output does not follow its commands")
	}
	lines, err := r.readFence()
	r.blocks[max(len(r.blocks)-1, 0)].Output = lines
	return err
}

// readFence returns the lines up to the end of a fence.
func (r *reader) readFence() ([]string, error) {
	length := slices.Index(r.lines[r.next:], "```")
	if length < 1 {
		return nil, errors.New("a fence has no line, or no end")
	}
	lines := r.lines[r.next : r.next+length]
	r.next += length + 1
	return lines, nil
}

// Exports returns the lines of the block that set variables for the following blocks.
func (b *Block) Exports() []string {
	lines := strings.Split(b.Commands, "\n")
	return slices.DeleteFunc(lines, func(line string) bool { return !strings.HasPrefix(line, "export ") })
}

var (
	spaces = regexp.MustCompile(`\s+`)
	// shortHash is the beginning of a hash, age a time since an event.
	shortHash = regexp.MustCompile(`\b[0-9a-f]{8}\b`)
	age       = regexp.MustCompile(`\b(\d+[smhd])+\b`)
	anyText   = regexp.MustCompile(` ?\.\.\. ?`)
)

// normalize returns a line without the parts that differ from one run of a command to the next.
func normalize(line string) string {
	line = shortHash.ReplaceAllString(line, "HASH")
	line = age.ReplaceAllString(line, "AGE")
	return strings.TrimSpace(spaces.ReplaceAllString(line, " "))
}

// CheckOutput returns an error unless the output has each promised line, in order. Spaces, hashes and ages may differ, and "..." stands for
// any text.
func (b *Block) CheckOutput(output string) error {
	actual := strings.Split(output, "\n")
	for _, want := range b.Output {
		at := slices.IndexFunc(actual, func(line string) bool { return matches(normalize(want), normalize(line)) })
		if at < 0 {
			return fmt.Errorf("the output lacks %q, or has the line too early", want)
		}
		actual = actual[at+1:]
	}
	return nil
}

// matches reports whether a line has the parts of the promised line that "..." separates. Without "..." both are equal.
func matches(want, line string) bool {
	parts := anyText.Split(want, -1)
	for i, part := range parts {
		at := strings.Index(line, part)
		if at < 0 || i == 0 && at > 0 {
			return false
		}
		line = line[at+len(part):]
	}
	return line == "" || parts[len(parts)-1] == ""
}
