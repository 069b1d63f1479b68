// Copyright Contributors to the Open Cluster Management project

package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"

	"open-cluster-management.io/knative-addon/pkg/installations"
)

const waitExample = `  # Wait until Knative is ready on a cluster:
  knative-addon wait cluster1

  # Wait until a resource has removed its installation:
  knative-addon wait team/edge-7 --for=removed --timeout=15m

  # Wait until every cluster runs the last edit of the configuration of Serving:
  knative-addon wait --component serving --timeout=1h`

// Exit codes of `knative-addon wait`, besides 0 for a goal that is reached.
const (
	exitTimeout = 1
	exitFailed  = 2
)

// exitError is an error with an exit code of its own.
type exitError struct {
	error
	code int
}

func (e *exitError) Unwrap() error { return e.error }

// exitCodeAnnotation of a command is the exit code of errors without a code of their own, wrong flags and arguments included; without the
// annotation the code is 1.
const exitCodeAnnotation = "exit-code"

// exitCodeOf returns the exit code for the error of a command.
func exitCodeOf(cmd *cobra.Command, err error) int {
	var coded *exitError
	if errors.As(err, &coded) {
		return coded.code
	}
	if code, err := strconv.Atoi(cmd.Annotations[exitCodeAnnotation]); err == nil {
		return code
	}
	return 1
}

// waitCommand holds the flags of `knative-addon wait`.
type waitCommand struct {
	selectionFlags
	goal    string
	timeout time.Duration
}

func newWaitCommand() *cobra.Command {
	var c waitCommand
	cmd := &cobra.Command{
		Use: "wait [CLUSTER|RESOURCE...]", Short: "Wait until Knative is ready on clusters, or removed from clusters",
		Long: "Waits by watches for the installations that the arguments and flags select; without arguments and flags, for all. Ready means that condition " +
			"Ready is True and that the cluster runs the latest revision and the present AddOnDeploymentConfig. The command ends with exit code 0 when the " +
			"goal is reached; 1 after --timeout, or when the hub refuses a request; and 2 when a reason lasts until a user changes the resource or the hub, " +
			"such as InvalidSpec. The command prints its progress to standard error.",
		Example: waitExample,
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.runWait(cmd, args)
		},
	}
	c.add(cmd)
	cmd.ValidArgsFunction = c.completeClustersAndResources
	flags := cmd.Flags()
	flags.StringVar(&c.goal, "for", string(installations.GoalReady), "goal of the wait: ready or removed")
	registerFlagValues(cmd, "for", string(installations.GoalReady), string(installations.GoalRemoved))
	flags.DurationVar(&c.timeout, "timeout", 10*time.Minute, "time after which the wait ends")
	return cmd
}

// checkWaitLists returns the errors of lists without which a wait may end too early. A wait for ready needs the optional lists, too, unless the
// user may not list the objects.
func checkWaitLists(failed []*installations.ListError, goal installations.Goal) error {
	errs := []error{checkLists(failed)}
	for _, e := range failed {
		if goal == installations.GoalReady && e.IsOptional && !apierrors.IsForbidden(e) {
			errs = append(errs, e)
		}
	}
	return errors.Join(errs...)
}

func (c *waitCommand) runWait(cmd *cobra.Command, names []string) error {
	goal, err := installations.ParseGoal(c.goal)
	if err != nil {
		return err
	}
	if c.timeout <= 0 {
		return fmt.Errorf("cannot use --timeout=%s: use a positive duration, such as 10m", c.timeout)
	}
	s, err := c.parse(cmd, names)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), c.timeout)
	defer cancel()
	watcher, failed := s.hub.Watch(ctx, s.query)
	if err := checkWaitLists(failed, goal); err != nil {
		return err
	}
	printListErrors(cmd.ErrOrStderr(), failed)
	progress, err := watcher.Await(ctx, clock.RealClock{}, &s.filter, goal, func(reached, total int) {
		fmt.Fprintf(cmd.ErrOrStderr(), "%d of %d installations have reached the goal\n", reached, total)
	})
	switch {
	case errors.As(err, new(*installations.FailedError)):
		return &exitError{err, exitFailed}
	case err != nil:
		return &exitError{err, exitTimeout}
	}
	for _, text := range progress.Reached {
		fmt.Fprintf(cmd.OutOrStdout(), "%s is %s\n", text, goal)
	}
	if goal == installations.GoalRemoved {
		fmt.Fprintln(cmd.OutOrStdout(), "removed: no selected installation is left")
	}
	return nil
}
