// Copyright Contributors to the Open Cluster Management project

package access

import (
	"math/rand/v2"
	"os"
	"time"

	"k8s.io/utils/clock"
)

// Options are those of NewSessions. Zero values stand for defaults.
type Options struct {
	// AllowPlainHTTP and AllowInsecureTLS permit what gives credentials away: servers without TLS, and
	// insecure-skip-tls-verify.
	AllowPlainHTTP, AllowInsecureTLS bool

	// Plugin limits the plugins.
	Plugin PluginLimits
	// Cluster limits what each cluster is asked.
	Cluster ClusterLimits
	// Breaker says when a cluster that fails is asked again.
	Breaker BreakerOptions

	// UserAgent is what clusters see.
	UserAgent string
	// Clock, Jitter (from 0 to 1) and LookupEnv are for tests.
	Clock     clock.PassiveClock
	Jitter    func() float64
	LookupEnv func(string) (string, bool)
}

// PluginLimits are for the plugins of all access providers.
type PluginLimits struct {
	// Timeout is after what time a plugin is killed; 10 seconds.
	Timeout time.Duration
	// Parallel is how many run at once; 16.
	Parallel int
}

// ClusterLimits are for each cluster on its own.
type ClusterLimits struct {
	// QPS and Burst limit requests per second; 50 and 400. Both components are installed with fewer than the latter.
	QPS   float32
	Burst int
	// InFlight is how many requests run at once, watches aside; 8.
	InFlight int
	// DialTimeout is for TCP, and again for TLS; 5 seconds.
	DialTimeout time.Duration
	// AnswerTimeout is until an answer begins; 60 seconds.
	AnswerTimeout time.Duration
	// ProbeTimeout is for Session.Probe as a whole, with the plugin; 20 seconds.
	ProbeTimeout time.Duration
	// MaxAnswer is how many bytes an answer may have, watches aside; 64 MiB.
	MaxAnswer int64
}

// BreakerOptions say when a cluster that fails is asked again.
type BreakerOptions struct {
	// Threshold is after how many failures in a row a cluster is left alone; 3. Failures of plugins and refused
	// credentials need no second time.
	Threshold int
	// Base is the first pause, 5 seconds; each is twice the one before, up to Max, a minute.
	Base, Max time.Duration
}

func (o Options) withDefaults() Options {
	orDuration(&o.Plugin.Timeout, 10*time.Second)
	orNumber(&o.Plugin.Parallel, 16)
	orNumber(&o.Cluster.QPS, 50)
	orNumber(&o.Cluster.Burst, 400)
	orNumber(&o.Cluster.InFlight, 8)
	orDuration(&o.Cluster.DialTimeout, 5*time.Second)
	orDuration(&o.Cluster.AnswerTimeout, time.Minute)
	orDuration(&o.Cluster.ProbeTimeout, 20*time.Second)
	orNumber(&o.Cluster.MaxAnswer, 64<<20)
	orNumber(&o.Breaker.Threshold, 3)
	orDuration(&o.Breaker.Base, 5*time.Second)
	orDuration(&o.Breaker.Max, time.Minute)
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

func orNumber[T int | int64 | float32](value *T, fallback T) {
	if *value <= 0 {
		*value = fallback
	}
}

func orDuration(value *time.Duration, fallback time.Duration) {
	if *value <= 0 {
		*value = fallback
	}
}
