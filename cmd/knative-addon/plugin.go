// Copyright Contributors to the Open Cluster Management project

package main

import (
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
)

const (
	// programName is the name of the program in help texts and examples.
	programName = "knative-addon"
	// pluginName is how kubectl names the program as a plugin.
	pluginName = "kubectl knative-fleet"
	// pluginFile is the file name by which kubectl finds the plugin: kubectl replaces dashes by underscores.
	pluginFile = "kubectl-knative_fleet"
)

// invokedName returns the name by which a user has called the program.
func invokedName(path string) string {
	if strings.TrimSuffix(filepath.Base(path), ".exe") == pluginFile {
		return pluginName
	}
	return programName
}

// nameCommands writes a name of the program into the commands of a text: in quotes, or on lines with an indent. The name of a namespace or
// of a Deployment stays.
func nameCommands(text, name string) string {
	for _, before := range []string{"  ", "`"} {
		text = strings.ReplaceAll(text, before+programName+" ", before+name+" ")
	}
	return text
}

// nameOfProgram returns the name by which a user has called the program of a command.
func nameOfProgram(cmd *cobra.Command) string {
	if name := cmd.Root().Annotations[cobra.CommandDisplayNameAnnotation]; name != "" {
		return name
	}
	return programName
}

// applyName writes a name of the program into the help texts of a command and of its subcommands.
func applyName(cmd *cobra.Command, name string) {
	if !cmd.HasParent() {
		cmd.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: name}
	}
	for _, text := range []*string{&cmd.Short, &cmd.Long, &cmd.Example} {
		*text = nameCommands(*text, name)
	}
	for _, sub := range cmd.Commands() {
		applyName(sub, name)
	}
}
