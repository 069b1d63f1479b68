// Copyright Contributors to the Open Cluster Management project

package render

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"sync"

	mf "github.com/manifestival/manifestival"
	"go.uber.org/zap"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"knative.dev/operator/pkg/apis/operator/base"
	"knative.dev/operator/pkg/reconciler/common"
	"knative.dev/pkg/logging"
	kversion "knative.dev/pkg/version"

	"open-cluster-management.io/knative-addon/pkg/api"
)

// operatorMu serializes all calls of the Knative Operator's functions (module knative.dev/operator). The operator keeps a process-wide
// cache without a lock, and reads KO_DATA_PATH and KUBERNETES_MIN_VERSION from the environment on every call. The holder of the lock sets
// both variables meanwhile; other callers of these functions in the process race with this package. The import of the operator also
// registers the flags "clusterprofile-provider-file" and "remote-deployments-poll-interval" on flag.CommandLine: a command must not define
// these two flags there.
//
//nolint:gochecknoglobals // it serializes the use of process-wide state
var operatorMu sync.Mutex

// operator calls the Knative Operator's functions on one directory of release manifests.
type operator struct {
	dir        string
	minVersion string
	deployment *Deployment // may be nil
	begin      func()      // starts the time limit of a job; may be nil
}

// stage is a step of the operator's pipeline, which changes the manifest.
type stage func(context.Context, *mf.Manifest, base.KComponent) error

// pipeline holds the steps that differ between the components.
type pipeline struct {
	component       api.Component
	appendManifests []stage
	transformers    func(context.Context, *mf.Manifest) []mf.Transformer
}

// runPipeline appends and transforms the manifests of cr, as the operator's reconcilers do before the first write to a
// cluster. runPipeline may change cr.
func (o operator) runPipeline(ctx context.Context, cr base.KComponent, p pipeline) ([]*unstructured.Unstructured, error) {
	operatorMu.Lock()
	defer operatorMu.Unlock()
	if o.begin != nil {
		o.begin() // other renderings may have held the lock for long
	}
	restore, err := o.setEnvironment()
	if err != nil {
		return nil, err
	}
	defer restore()

	ctx = logging.WithLogger(ctx, zap.NewNop().Sugar())
	manifest, err := mf.ManifestFrom(mf.Slice{}, mf.UseClient(emptyCluster{}))
	if err != nil {
		return nil, err
	}
	for _, s := range p.appendManifests {
		if err := context.Cause(ctx); err != nil {
			return nil, err
		}
		if err := recoverPanic(func() error { return s(ctx, &manifest, cr) }, nil); err != nil {
			return nil, err
		}
	}
	objects := manifest.Resources() // copies
	for n := range objects {
		if err := o.deployment.applyTo(&objects[n]); err != nil {
			return nil, err
		}
	}
	long, short := splitByName(objects)
	seen := &progress{resources: long, stopped: func() error { return context.Cause(ctx) }}
	err = recoverPanic(func() error {
		m, err := mf.ManifestFrom(mf.Slice(long), mf.UseClient(emptyCluster{}))
		if err != nil {
			return err
		}
		return common.Transform(ctx, &m, cr, append(p.transformers(ctx, &m), seen.collectObject)...)
	}, seen)
	if err != nil {
		return nil, err
	}
	rest, err := transformShortNamed(short, cr, p.component)
	return append(seen.done, rest...), err
}

// releaseMemory returns memory after a time of rendering: parsed manifests and garbage, ten times as much as the bundles.
func releaseMemory() {
	forgetParsed()
	debug.FreeOSMemory()
}

// forgetParsed makes the Knative Operator's functions read release manifests again.
func forgetParsed() {
	operatorMu.Lock()
	defer operatorMu.Unlock()
	common.ClearCache()
}

// setEnvironment points the operator's functions to the release manifests. Any other environment would make a bundle depend
// on the machine.
func (o operator) setEnvironment() (func(), error) {
	restoreDir, err := setVariable(common.KoEnvKey, o.dir)
	if err != nil {
		return nil, err
	}
	restoreVersion, err := setVariable(kversion.KubernetesMinVersionKey, o.minVersion)
	if err != nil {
		restoreDir()
		return nil, err
	}
	return func() { restoreVersion(); restoreDir() }, nil
}

func setVariable(key, value string) (restore func(), err error) {
	before, found := os.LookupEnv(key)
	if err := os.Setenv(key, value); err != nil {
		return nil, fmt.Errorf("cannot set %s: %w", key, err)
	}
	return func() {
		if found {
			_ = os.Setenv(key, before)
		} else {
			_ = os.Unsetenv(key)
		}
	}, nil
}

// progress follows the transformers, which run object by object; collectObject is the last transformer.
type progress struct {
	resources []unstructured.Unstructured
	done      []*unstructured.Unstructured
	// stopped is why the rendering is to end early.
	stopped func() error
}

func (p *progress) collectObject(u *unstructured.Unstructured) error {
	p.done = append(p.done, u)
	return p.stopped()
}

// currentObject names the object in transformation.
func (p *progress) currentObject() string {
	if p == nil || len(p.done) >= len(p.resources) {
		return "manifests"
	}
	u := p.resources[len(p.done)]
	return fmt.Sprintf("%s %q", u.GetKind(), cmp.Or(u.GetName(), u.GetGenerateName()))
}

// recoverPanic turns a panic into an error: the operator's functions panic on unexpected input, and one bad CR must not
// stop a manager that serves a fleet.
func recoverPanic(call func() error, p *progress) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = newError(api.ReasonRenderFailed, "cannot render %s: the Knative Operator's functions cannot handle it (%v): "+
				"check the part of the spec that changes it", p.currentObject(), cause)
		}
	}()
	if err := call(); err != nil {
		if e := (*Error)(nil); errors.As(err, &e) {
			return err
		}
		return newError(api.ReasonInvalidSpec, "cannot render %s: %w", p.currentObject(), err)
	}
	return nil
}

// emptyCluster is an API server without objects for the operator's functions, which would otherwise copy objects of a
// cluster into the manifests.
type emptyCluster struct{}

func (emptyCluster) Get(u *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	return nil, apierrors.NewNotFound(schema.GroupResource{Group: u.GroupVersionKind().Group, Resource: u.GetKind()}, u.GetName())
}

func (emptyCluster) Create(*unstructured.Unstructured, ...mf.ApplyOption) error  { return errNoCluster }
func (emptyCluster) Update(*unstructured.Unstructured, ...mf.ApplyOption) error  { return errNoCluster }
func (emptyCluster) Delete(*unstructured.Unstructured, ...mf.DeleteOption) error { return errNoCluster }

var errNoCluster = errors.New("rendering writes to no cluster")
