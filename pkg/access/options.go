// Copyright Contributors to the Open Cluster Management project

package access

import (
	"math/rand/v2"
	"os"
	"time"

	"k8s.io/utils/clock"

	"open-cluster-management.io/knative-addon/pkg/trust"
)

// Options are the options of NewSessions. Zero values stand for defaults.
type Options struct {
	// AllowPlainHTTP and AllowInsecureTLS permit connections that expose credentials: servers without TLS, and
	// insecure-skip-tls-verify.
	AllowPlainHTTP, AllowInsecureTLS bool
	// Inventories are the namespaces whose ClusterProfiles may be connected to, with the permitted servers and Secrets. The
	// zero value permits no namespace.
	Inventories trust.Inventories
	// PluginStderr receives the stderr of a failed plugin, cut before the first text that may be a secret; nil drops the
	// text. Errors never contain the text.
	PluginStderr func(provider, command, text string)
	// PluginResult receives the result of each plugin that ran to its end, or could not run: a nil error is a credential. Nil drops
	// the results.
	PluginResult func(provider string, err error)

	// Plugin limits the plugins.
	Plugin PluginLimits
	// Cluster limits the requests to each cluster.
	Cluster ClusterLimits
	// Breaker limits the retries of failing clusters.
	Breaker BreakerOptions

	// UserAgent is the user agent of all requests.
	UserAgent string
	// Clock, Jitter (from 0 to 1) and LookupEnv are for tests.
	Clock     clock.PassiveClock
	Jitter    func() float64
	LookupEnv func(string) (string, bool)
}

// PluginLimits are for the plugins of all access providers.
type PluginLimits struct {
	// Timeout is the time after which a plugin is killed; 10 seconds.
	Timeout time.Duration
	// Parallel is the number of plugins that run at once; 16.
	Parallel int
}

// ClusterLimits apply to each cluster separately.
type ClusterLimits struct {
	// QPS and Burst limit requests per second; 50 and 400. Both components are installed with fewer than the latter.
	QPS   float32
	Burst int
	// InFlight is the number of requests at once, without watches; 8.
	InFlight int
	// DialTimeout is for TCP, and again for TLS; 5 seconds.
	DialTimeout time.Duration
	// AnswerTimeout is until an answer begins; 60 seconds.
	AnswerTimeout time.Duration
	// ProbeTimeout is for Session.Probe as a whole, with the plugin; 20 seconds.
	ProbeTimeout time.Duration
	// MaxAnswer is the number of bytes of an answer after decompression, except for watches; 8 MiB.
	MaxAnswer int64
	// BodyTimeout is the time for the body of an answer, except for watches; 15 seconds.
	BodyTimeout time.Duration
}

// BreakerOptions limit the retries of a failing cluster.
type BreakerOptions struct {
	// Threshold is after how many failures in a row a cluster is left alone; 3. Failures of requests that ran at the same time count
	// as one. Failures of plugins and refused credentials need no second time.
	Threshold int
	// Base is the first pause, 5 seconds; each further pause is twice as long, up to Max, a minute.
	Base, Max time.Duration
	// MaxOffence is the longest pause after a refused answer, 15 minutes. The first pause is Base; each further pause is
	// twice as long, even if the cluster has given acceptable answers meanwhile.
	MaxOffence time.Duration
}

func (o Options) withDefaults() Options {
	defaultDuration(&o.Plugin.Timeout, 10*time.Second)
	defaultNumber(&o.Plugin.Parallel, 16)
	defaultNumber(&o.Cluster.QPS, 50)
	defaultNumber(&o.Cluster.Burst, 400)
	defaultNumber(&o.Cluster.InFlight, 8)
	defaultDuration(&o.Cluster.DialTimeout, 5*time.Second)
	defaultDuration(&o.Cluster.AnswerTimeout, time.Minute)
	defaultDuration(&o.Cluster.ProbeTimeout, 20*time.Second)
	defaultNumber(&o.Cluster.MaxAnswer, 8<<20)
	defaultDuration(&o.Cluster.BodyTimeout, 15*time.Second)
	defaultNumber(&o.Breaker.Threshold, 3)
	defaultDuration(&o.Breaker.Base, 5*time.Second)
	defaultDuration(&o.Breaker.Max, time.Minute)
	defaultDuration(&o.Breaker.MaxOffence, 15*time.Minute)
	if o.UserAgent == "" {
		o.UserAgent = "knative-addon"
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.Jitter == nil {
		o.Jitter = rand.Float64
	}
	if o.LookupEnv == nil {
		o.LookupEnv = os.LookupEnv
	}
	return o
}

func defaultNumber[T int | int64 | float32](value *T, fallback T) {
	if *value <= 0 {
		*value = fallback
	}
}

func defaultDuration(value *time.Duration, fallback time.Duration) {
	if *value <= 0 {
		*value = fallback
	}
}
