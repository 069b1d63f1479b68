// Copyright Contributors to the Open Cluster Management project

package delivery

import "time"

const (
	// FirstRepairInterval and LongestRepairInterval bound the time between two repairs: of a payload, or of an object without a work
	// agent. Each repair doubles the interval, and twice the longest interval without a repair starts over. The longest interval is
	// the resync interval of the work agent.
	FirstRepairInterval, LongestRepairInterval = 3 * time.Second, 4 * time.Minute
	// DriftLoopInterval is the interval from which on an Event reports a loop: the fifth repair in a row.
	DriftLoopInterval = 48 * time.Second
)
