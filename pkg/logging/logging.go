// Copyright Contributors to the Open Cluster Management project

package logging

import (
	"fmt"
	"io"
	"reflect"
	"strings"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// MaxVerbosity is the highest verbosity that has an effect.
const MaxVerbosity = 6

// New returns a logger that writes text.
func New(verbosity int, output io.Writer) logr.Logger {
	config := textlogger.NewConfig(textlogger.Verbosity(min(verbosity, MaxVerbosity)), textlogger.Output(output))
	return logr.New(&sink{LogSink: textlogger.NewLogger(config).GetSink()})
}

// sink withholds the content of objects.
type sink struct{ logr.LogSink }

// Init counts the frame of this sink between the caller and the wrapped sink.
func (s *sink) Init(info logr.RuntimeInfo) {
	info.CallDepth++
	s.LogSink.Init(info)
}

func (s *sink) Info(level int, message string, keysAndValues ...any) {
	s.LogSink.Info(level, message, redactValues(keysAndValues)...)
}

func (s *sink) Error(err error, message string, keysAndValues ...any) {
	s.LogSink.Error(err, message, redactValues(keysAndValues)...)
}

// WithValues implements logr.LogSink.
func (s *sink) WithValues(keysAndValues ...any) logr.LogSink {
	return &sink{LogSink: s.LogSink.WithValues(redactValues(keysAndValues)...)}
}

// WithName implements logr.LogSink.
func (s *sink) WithName(name string) logr.LogSink {
	return &sink{LogSink: s.LogSink.WithName(name)}
}

// WithCallDepth implements logr.CallDepthLogSink.
func (s *sink) WithCallDepth(depth int) logr.LogSink {
	if deep, ok := s.LogSink.(logr.CallDepthLogSink); ok {
		return &sink{LogSink: deep.WithCallDepth(depth)}
	}
	return s
}

func redactValues(keysAndValues []any) []any {
	out := make([]any, len(keysAndValues))
	for i, value := range keysAndValues {
		if key, isText := value.(string); i%2 == 0 && isText {
			out[i] = key
			continue
		}
		out[i] = redactValue(value)
		if i%2 == 1 && holdsBody(keysAndValues[i-1]) {
			out[i] = withholdValue(value)
		}
	}
	return out
}

// holdsBody reports whether client-go and others log the bodies and headers of requests under the key.
func holdsBody(key any) bool {
	text, _ := key.(string)
	text = strings.ToLower(text)
	return strings.Contains(text, "body") || strings.Contains(text, "header") || text == "patch"
}

// redactValue returns the value where the value is a name, a number or a text, and otherwise a name of the value.
func redactValue(value any) any {
	switch v := value.(type) {
	case klog.ObjectRef, []klog.ObjectRef: //nolint:forbidigo // types of other loggers
		return v
	case nil, error, types.NamespacedName, reconcile.Request, []string,
		schema.GroupVersionKind, schema.GroupVersionResource, schema.GroupKind, schema.GroupResource:
		return v
	case metav1.Object:
		if reflect.ValueOf(v).IsNil() {
			return nil
		}
		return types.NamespacedName{Namespace: v.GetNamespace(), Name: v.GetName()}
	case runtime.Object:
		return withholdValue(v)
	}
	switch reflect.TypeOf(value).Kind() {
	case reflect.Bool, reflect.String, reflect.Float32, reflect.Float64,
		reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return value
	default:
		return withholdValue(value)
	}
}

func withholdValue(value any) string { return fmt.Sprintf("[%T withheld]", value) }
