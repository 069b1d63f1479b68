// Copyright Contributors to the Open Cluster Management project

package boundedhttp

import (
	"fmt"
	"time"
)

// Limits bound one response, or one event of a watch.
type Limits struct {
	// Bytes count after decompression.
	Bytes int64
	// Values are objects, arrays, keys and elements of JSON, at any depth.
	Values int
	// Items are the elements of arrays that a top-level object holds, such as the items of a list.
	Items int
	// Depth is how deep values are nested.
	Depth int
	// Time bounds reading a response that has begun; events have no such limit.
	Time time.Duration
}

// ResponseLimits returns the limits of responses that are not watches. An API server stores no object above 1.5 MiB, and the
// manager requests lists in pages.
func ResponseLimits() Limits {
	return Limits{Bytes: 8 << 20, Values: 100_000, Items: 2000, Depth: 128, Time: 15 * time.Second}
}

// FailureLimits returns the limits of responses with an HTTP status of 400 and above.
func FailureLimits() Limits {
	return Limits{Bytes: 256 << 10, Values: 10_000, Items: 2000, Depth: 128, Time: 15 * time.Second}
}

// EventLimits returns the limits of each event of a watch.
func EventLimits() Limits {
	return Limits{Bytes: 512 << 10, Values: 20_000, Items: 2000, Depth: 128}
}

// LimitError reports which limit a response exceeds.
type LimitError struct {
	// What completes a sentence that begins with "the answer", such as "is longer than 8 MiB".
	What string
	// ShortMemory reports that the responses of other clusters have taken the memory: a later response of the same size may be within all limits.
	ShortMemory bool
}

// Error implements error.
func (e *LimitError) Error() string { return "the answer " + e.What }

func newLimitError(format string, args ...any) *LimitError {
	return &LimitError{What: fmt.Sprintf(format, args...)}
}

// sizeText formats a number of bytes for messages.
func sizeText(bytes int64) string {
	switch {
	case bytes >= 1<<20 && bytes%(1<<20) == 0:
		return fmt.Sprintf("%d MiB", bytes>>20)
	case bytes >= 1<<10 && bytes%(1<<10) == 0:
		return fmt.Sprintf("%d KiB", bytes>>10)
	}
	return fmt.Sprintf("%d bytes", bytes)
}
