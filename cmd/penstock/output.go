package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"unicode"

	"github.com/spf13/cobra"
)

// jsonFlag adds --json to a command and returns where it is kept.
func jsonFlag(cmd *cobra.Command) *bool {
	return cmd.Flags().Bool("json", false, "print JSON")
}

// printJSON writes one value, indented.
func (p *program) printJSON(v any) error {
	enc := json.NewEncoder(p.out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// jsonArray writes one JSON array as its elements come, each on a line: a listing
// may be longer than memory. If it is not ended, it is no JSON, and nobody takes
// it for the whole.
type jsonArray struct {
	w     io.Writer
	lines int
}

// add writes one element.
func (a *jsonArray) add(v any) error {
	line, err := json.Marshal(v)
	if err != nil {
		return err
	}
	open := ",\n "
	if a.lines == 0 {
		open = "[\n "
	}
	a.lines++
	_, err = fmt.Fprintf(a.w, "%s%s", open, line)
	return err
}

// end closes the array.
func (a *jsonArray) end() error {
	closing := "\n]"
	if a.lines == 0 {
		closing = "[]"
	}
	_, err := fmt.Fprintln(a.w, closing)
	return err
}

// printFields prints pairs of a name and a value, leaving out the empty ones.
func printFields(out io.Writer, pairs ...string) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			fmt.Fprintf(w, "%s\t%s\n", pairs[i], pairs[i+1])
		}
	}
	return w.Flush()
}

// quoted returns a text as it is, or quoted if it holds what would move the cursor
// or break the line.
func quoted(text string) string {
	if strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return strconv.Quote(text)
	}
	return text
}
