// Copyright Contributors to the Open Cluster Management project

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
)

var errProfile = errors.New("cannot take a profile of the manager")

// profile takes a profile while something is measured. The returned function waits for the end of the profile.
func (f *fleet) profile(ctx context.Context, kind, name string) (wait func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := f.saveProfile(ctx, kind, name); err != nil {
			progress("%v", err)
		}
	}()
	return func() { <-done }
}

// saveProfile writes a profile of the manager into the directory of profiles, if there is one.
func (f *fleet) saveProfile(ctx context.Context, kind, name string) error {
	if f.opts.profiles == "" {
		return nil
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, f.profiles+kind, http.NoBody)
	if err != nil {
		return fmt.Errorf("%w: %w", errProfile, err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("%w: %w", errProfile, err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%w: %s", errProfile, resp.Status)
	}
	out, err := os.Create(filepath.Join(f.opts.profiles, name))
	if err != nil {
		return fmt.Errorf("%w: %w", errProfile, err)
	}
	_, err = io.Copy(out, resp.Body)
	if err := errors.Join(err, out.Close()); err != nil {
		return fmt.Errorf("%w: %w", errProfile, err)
	}
	return nil
}
