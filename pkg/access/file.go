// Copyright Contributors to the Open Cluster Management project

package access

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

const (
	// maxFile is more than a ConfigMap holds.
	maxFile = 2 << 20
	// defaultFileInterval is the time between two reads of the file.
	defaultFileInterval = 10 * time.Second
)

// FileOptions are the options of OpenFile.
type FileOptions struct {
	// Interval is the time between two reads of Start; 0 means 10 seconds.
	Interval time.Duration
	// Changed is called after each change of the state, by one goroutine at a time, and must not call Reload.
	Changed func(FileState)
	// Clock is for tests.
	Clock clock.WithTicker
}

// FileState is the state of the file of access providers.
type FileState struct {
	// Configured reports whether the manager was started with a file.
	Configured bool
	// Providers are the providers of the last good content, in the order of the file. Callers share the slice and must not
	// change it.
	Providers []Provider
	// Err is the problem of the file now. Providers are then the providers of the last good content, or none.
	Err error
}

// Names returns the names of the providers.
func (s FileState) Names() []string {
	var names []string
	for i := range s.Providers {
		names = append(names, s.Providers[i].Name)
	}
	return names
}

// File is the file of access providers. Start reads the file in an interval instead of watching: the file of a ConfigMap is
// two symbolic links away, and changes without a write to the file or to the first link.
type File struct {
	path string
	opts FileOptions

	// reload serializes reading the file and calling Changed.
	reload sync.Mutex

	mu      sync.RWMutex
	state   FileState
	content []byte
}

// OpenFile reads the file and always succeeds; the State holds the problem of a bad file. An empty path means that no file
// is configured, and that Direct delivery is off.
func OpenFile(path string, opts FileOptions) *File {
	if opts.Clock == nil {
		opts.Clock = clock.RealClock{}
	}
	if opts.Interval <= 0 {
		opts.Interval = defaultFileInterval
	}
	f := &File{path: path, opts: opts, state: FileState{Configured: path != ""}}
	if path != "" {
		f.read()
	}
	return f
}

// State returns the current state.
func (f *File) State() FileState {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.state
}

// Start reads the file until the context ends.
func (f *File) Start(ctx context.Context) error {
	ticker := f.opts.Clock.NewTicker(f.opts.Interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C():
			f.Reload()
		}
	}
}

// Reload reads the file now.
func (f *File) Reload() {
	if f.path == "" {
		return
	}
	f.reload.Lock()
	defer f.reload.Unlock()
	if f.read() && f.opts.Changed != nil {
		f.opts.Changed(f.State())
	}
}

// read reports whether the state has changed. A bad file keeps the last good providers.
func (f *File) read() bool {
	data, err := readProviderFile(f.path)
	var providers []Provider
	if err == nil {
		providers, err = ParseProviders(data)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if err != nil {
		err = fmt.Errorf("cannot use file %q of --clusterprofile-provider-file: %w", f.path, err)
		changed := f.state.Err == nil || f.state.Err.Error() != err.Error()
		f.state.Err = err
		return changed
	}
	changed := f.state.Err != nil || !bytes.Equal(f.content, data)
	f.content, f.state.Providers, f.state.Err = data, providers, nil
	return changed
}

func readProviderFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("it does not exist; mount it, or leave the option out to do without Direct delivery: %w", fs.ErrNotExist)
	case errors.Is(err, fs.ErrPermission):
		return nil, fmt.Errorf("the manager may not read it; correct its mode or owner: %w", fs.ErrPermission)
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, errors.New("it is not a file; give the path of the file, not of its directory")
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err = errors.Join(err, file.Close()); err != nil {
		return nil, err
	}
	if len(data) > maxFile {
		return nil, fmt.Errorf("it has more than %d bytes; it has to be a short list of access providers", maxFile)
	}
	return data, nil
}
