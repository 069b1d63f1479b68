// Copyright Contributors to the Open Cluster Management project

package imageregistry

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
	"golang.org/x/sync/errgroup"
)

// State is the result of the check of an image.
type State string

const (
	// Exists means that the registry has the image.
	Exists State = "Exists"
	// Missing means that the registry answered that it does not have the image, or that the image lacks a platform.
	Missing State = "Missing"
	// NotChecked means that the registry did not answer the question.
	NotChecked State = "NotChecked"
)

// Result is the result of the check of one image.
type Result struct {
	State State
	// Err is the reason for a State other than Exists.
	Err error
}

// Options are the options of a Checker.
type Options struct {
	// Keychain has the credentials of registries.
	Keychain authn.Keychain
	// UserAgent names the client to registries.
	UserAgent string
	// Timeout is the time for the check of one image.
	Timeout time.Duration
	// Platforms are platforms, such as linux/arm64, that each image must have.
	Platforms []string
}

// maxParallel is the number of images that are checked at a time.
const maxParallel = 8

// Checker checks images. A Checker is safe for concurrent use.
type Checker struct {
	puller    *remote.Puller
	timeout   time.Duration
	platforms []*v1.Platform
}

// New creates a Checker, and sends no request.
func New(o Options) (*Checker, error) {
	out := &Checker{timeout: o.Timeout}
	for _, text := range o.Platforms {
		platform, err := v1.ParsePlatform(text)
		if err != nil || platform.OS == "" || platform.Architecture == "" {
			return nil, fmt.Errorf("cannot use platform %q: use OS/ARCHITECTURE, such as linux/arm64", text)
		}
		out.platforms = append(out.platforms, platform)
	}
	var err error
	if out.puller, err = remote.NewPuller(remote.WithAuthFromKeychain(o.Keychain), remote.WithUserAgent(o.UserAgent)); err != nil {
		return nil, fmt.Errorf("cannot create a client of registries: %w", err)
	}
	return out, nil
}

// Check returns a result for each image reference, in the order of the references.
func (c *Checker) Check(ctx context.Context, references []string) []Result {
	out := make([]Result, len(references))
	var parallel errgroup.Group
	parallel.SetLimit(maxParallel)
	for n, reference := range references {
		parallel.Go(func() error {
			out[n] = c.checkImage(ctx, reference)
			return nil
		})
	}
	_ = parallel.Wait() // a check has no error
	return out
}

func (c *Checker) checkImage(ctx context.Context, reference string) Result {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	parsed, err := name.ParseReference(reference)
	if err != nil {
		return Result{NotChecked, err}
	}
	if len(c.platforms) == 0 {
		if _, err := c.puller.Head(ctx, parsed); err == nil {
			return Result{State: Exists}
		}
	}
	image, err := c.puller.Get(ctx, parsed) // the answer to HEAD has no reason, and some registries refuse HEAD
	if err != nil {
		return describeFailure(ctx, err)
	}
	return c.checkPlatforms(ctx, image)
}

// describeFailure returns the result for the error of a request for a manifest.
func describeFailure(ctx context.Context, err error) Result {
	var response *transport.Error
	switch {
	case ctx.Err() != nil:
		return Result{NotChecked, fmt.Errorf("the registry has not answered in time: %w", err)}
	case !errors.As(err, &response):
		return Result{NotChecked, err}
	case isUnknown(response):
		return Result{Missing, err}
	case response.StatusCode == http.StatusUnauthorized || response.StatusCode == http.StatusForbidden:
		return Result{NotChecked, fmt.Errorf(
			"the registry refuses access, also for repositories that do not exist: check the name, and the credentials of `docker login`: %w", err)}
	default:
		return Result{NotChecked, err}
	}
}

// isUnknown reports whether a registry has answered that the repository or the manifest does not exist. An answer to another request, such
// as the first one for the version of the API, or the one for a token, says nothing about the image.
func isUnknown(response *transport.Error) bool {
	if response.Request == nil || !strings.Contains(response.Request.URL.Path, "/manifests/") {
		return false
	}
	return response.StatusCode == http.StatusNotFound || slices.ContainsFunc(response.Errors, func(d transport.Diagnostic) bool {
		return d.Code == transport.ManifestUnknownErrorCode || d.Code == transport.NameUnknownErrorCode
	})
}

// checkPlatforms returns Missing for an image that lacks a platform.
func (c *Checker) checkPlatforms(ctx context.Context, image *remote.Descriptor) Result {
	if len(c.platforms) == 0 {
		return Result{State: Exists}
	}
	available, err := listPlatforms(image)
	if err != nil {
		return describeFailure(ctx, err)
	}
	var lacking []string
	for _, wanted := range c.platforms {
		if !slices.ContainsFunc(available, func(p v1.Platform) bool { return p.Satisfies(*wanted) }) {
			lacking = append(lacking, wanted.String())
		}
	}
	if len(lacking) == 0 {
		return Result{State: Exists}
	}
	return Result{Missing, fmt.Errorf("the image has no platform %s; the platforms are %s", strings.Join(lacking, ", "), describePlatforms(available))}
}

// listPlatforms returns the platforms of the images of an index, or the platform of one image.
func listPlatforms(image *remote.Descriptor) ([]v1.Platform, error) {
	var out []v1.Platform
	if image.MediaType.IsIndex() {
		index, err := image.ImageIndex()
		if err != nil {
			return nil, err
		}
		manifests, err := index.IndexManifest()
		if err != nil {
			return nil, err
		}
		for _, m := range manifests.Manifests {
			if m.Platform != nil && m.Platform.OS != "unknown" { // attestations have platform unknown/unknown
				out = append(out, *m.Platform)
			}
		}
		return out, nil
	}
	single, err := image.Image()
	if err != nil {
		return nil, err
	}
	config, err := single.ConfigFile()
	if err != nil {
		return nil, err
	}
	if platform := config.Platform(); platform != nil {
		out = append(out, *platform)
	}
	return out, nil
}

func describePlatforms(all []v1.Platform) string {
	if len(all) == 0 {
		return "not recorded"
	}
	var out []string
	for _, p := range all {
		out = append(out, p.String())
	}
	slices.Sort(out)
	return strings.Join(slices.Compact(out), ", ")
}
