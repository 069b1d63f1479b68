// Copyright Contributors to the Open Cluster Management project

package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
)

// newCopyFilesCommand returns the command of the chart's init containers that copy plugins. An image of a plugin may contain nothing
// but the plugin, so the first init container copies this program to a volume, and the init containers of the plugins' images run the
// program from there.
func newCopyFilesCommand() *cobra.Command {
	var target string
	cmd := &cobra.Command{
		Use: "copy-files --to DIRECTORY FILE...", Short: "Copy files of a container to a volume: the chart's init containers run this command",
		Args: cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			for _, file := range args {
				if err := copyFile(file, target); err != nil {
					return err
				}
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&target, "to", "", "directory that receives each file at the path which the file has in the container")
	_ = cmd.MarkFlagRequired("to")
	return cmd
}

// copyFile copies a file to its absolute path below a directory, with its permissions. A present file is replaced as a whole, because
// the kubelet may run an init container again.
func copyFile(file, directory string) (err error) {
	if !filepath.IsAbs(file) {
		return fmt.Errorf("cannot copy file %q: the path has to be absolute", file)
	}
	source, err := os.Open(file)
	if err != nil {
		return fmt.Errorf("cannot copy file %q: check the path in the image: %w", file, err)
	}
	defer func() { _ = source.Close() }()
	info, err := source.Stat()
	if err != nil {
		return fmt.Errorf("cannot copy file %q: %w", file, err)
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("cannot copy file %q: a regular file is needed, and the path leads to mode %s", file, info.Mode())
	}
	target := filepath.Join(directory, file)
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		return fmt.Errorf("cannot copy file %q: %w", file, err)
	}
	part, err := os.CreateTemp(filepath.Dir(target), ".part-")
	if err != nil {
		return fmt.Errorf("cannot copy file %q: %w", file, err)
	}
	defer func() {
		if err != nil {
			_ = os.Remove(part.Name())
		}
	}()
	_, copied := io.Copy(part, source)
	if err := errors.Join(copied, part.Chmod(info.Mode().Perm()), part.Close()); err != nil {
		return fmt.Errorf("cannot copy file %q: %w", file, err)
	}
	if err := os.Rename(part.Name(), target); err != nil {
		return fmt.Errorf("cannot copy file %q: %w", file, err)
	}
	return nil
}
