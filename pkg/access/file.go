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
	// defaultFileInterval is how often the file is looked at.
	defaultFileInterval = 10 * time.Second
)

// FileOptions are those of OpenFile.
type FileOptions struct {
	// Interval is how often Start reads the file; 0 is 10 seconds.
	Interval time.Duration
	// Changed is called after a state that differs from the one before, by one goroutine at a time. It must not call Reload.
	Changed func(FileState)
	// Clock is for tests.
	Clock clock.WithTicker
}

// FileState is what is known of the file of access providers.
type FileState struct {
	// Configured tells that there is to be a file.
	Configured bool
	// Providers are those of the last good content, in its order. They are shared: do not change them.
	Providers []Provider
	// Err says what is wrong with the file now. Providers are those from before then, or none.
	Err error
}

// Names are the names of the providers.
func (s FileState) Names() []string {
	var names []string
	for i := range s.Providers {
		names = append(names, s.Providers[i].Name)
	}
	return names
}

// File is the file of access providers. It is read again and again and not watched: a file in a ConfigMap is two symbolic
// links away, and changes by neither being written to.
type File struct {
	path string
	opts FileOptions

	// reload lets one goroutine at a time read the file and call Changed.
	reload sync.Mutex

	mu      sync.RWMutex
	state   FileState
	content []byte
}

// OpenFile reads the file. It always succeeds; the State says what is wrong. An empty path means that there is no file,
// and that Direct delivery is off.
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

// State is what is known now.
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

// read tells whether the state is another one now. A file that is bad takes nothing away.
func (f *File) read() bool {
	data, err := readLimited(f.path)
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

func readLimited(path string) ([]byte, error) {
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
