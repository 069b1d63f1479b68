// Copyright Contributors to the Open Cluster Management project

package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"open-cluster-management.io/knative-addon/docs"
	"open-cluster-management.io/knative-addon/pkg/explanation"
)

const explainExample = `  # Print what a reason means, and what to do:
  knative-addon explain RemoteClusterStale

  # List all reasons:
  knative-addon explain`

func newExplainCommand() *cobra.Command {
	return &cobra.Command{
		Use: "explain [REASON]", Args: cobra.MaximumNArgs(1), ValidArgsFunction: completeReasons,
		Short:   "Explain a reason of a condition or of an Event",
		Long:    "Prints what a reason of a condition or of an Event means, and what to do, from the documentation of this version. Sends no request.",
		Example: explainExample,
		RunE: func(cmd *cobra.Command, args []string) error {
			book, err := explanation.Read(docs.Pages)
			if err != nil {
				return err
			}
			if len(args) == 0 {
				return listReasons(cmd.OutOrStdout(), book)
			}
			var out strings.Builder
			if err := explainReason(&out, book, args[0]); err != nil {
				return err
			}
			_, err = io.WriteString(cmd.OutOrStdout(), nameCommands(out.String(), nameOfProgram(cmd)))
			return err
		},
	}
}

func listReasons(out io.Writer, book *explanation.Book) error {
	table := tabwriter.NewWriter(out, 6, 4, 3, ' ', 0)
	fmt.Fprintln(table, "CONDITION\tREASON\tSTATUS")
	for _, r := range book.Reasons() {
		fmt.Fprintf(table, "%s\t%s\t%s\n", r.Condition, r.Name, r.Status)
	}
	return table.Flush()
}

func explainReason(out io.Writer, book *explanation.Book, name string) error {
	rows, passages := book.Explain(name)
	if len(rows)+len(passages) == 0 {
		near := ""
		if names := book.NearNames(name); len(names) > 0 {
			near = "; near names are " + strings.Join(names, ", ")
		}
		return fmt.Errorf("cannot explain %q: the documentation has no such reason%s; `knative-addon explain` lists all reasons", name, near)
	}
	for _, r := range rows {
		fmt.Fprintf(out, "%s is %s with reason %s\n  Meaning:    %s\n  What to do: %s\n\n", r.Condition, r.Status, r.Name, r.Meaning, r.Remedy)
	}
	for _, p := range passages {
		fmt.Fprintf(out, "docs/%s, %s:\n  %s\n\n", p.Page, p.Section, p.Text)
	}
	return nil
}
