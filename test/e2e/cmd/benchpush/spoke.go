// Copyright Contributors to the Open Cluster Management project

package main

import (
	"context"
	"fmt"
	"os"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/test/lab"
)

// pair is the two sides in one lab, each with a spoke. What both do, they do one after the other: ours first.
type pair struct {
	opts   options
	sides  [2]*side
	spokes [2]*lab.Cluster
	rows   []row
}

// Limits of waiting, for what has to succeed.
const (
	installPatience = 5 * time.Minute
	returnPatience  = 5 * time.Minute
)

// Goals: how many times better than the Knative Operator.
const (
	goalInstall = 3
	goalRest    = 50
	goalRepair  = 20
	goalDetect  = 20
	goalMemory  = 1
)

// oneSpoke measures with one spoke for each side, which has controllers, nodes and Knative's webhooks.
func oneSpoke(ctx context.Context, opts options) (rows []row, err error) {
	l, err := lab.New(ctx, lab.Options{Spokes: 2, AuditLog: true, Log: os.Stderr})
	if err != nil {
		return nil, err
	}
	defer func() { err = end(l, err) }()
	p := &pair{opts: opts, spokes: [2]*lab.Cluster(l.Spokes)}
	for i, start := range starts() {
		if p.sides[i], err = start(ctx, l); err != nil {
			return nil, err
		}
		if err := p.sides[i].publish(ctx, p.spokes[i]); err != nil {
			return nil, err
		}
	}
	for _, step := range []func(context.Context) error{p.installs, p.rests, p.repairs, p.silent, p.refused} {
		if err := pause(ctx, settle); err != nil {
			return p.rows, err
		}
		if err := step(ctx); err != nil {
			return p.rows, err
		}
	}
	return p.rows, nil
}

func starts() [2]func(context.Context, *lab.Lab) (*side, error) {
	return [2]func(context.Context, *lab.Lab) (*side, error){startOurs, startTheirs}
}

func (p *pair) add(r row) {
	p.rows = append(p.rows, r)
	progress("%s: %s, Knative Operator: %s", r.what, r.ours.text(r.unit), r.theirs.text(r.unit))
}

func (p *pair) requests(i int) (int, error) {
	count, err := p.spokes[i].Requests()
	sum := 0
	for _, n := range count {
		sum += n
	}
	return sum, err
}

func (p *pair) installs(ctx context.Context) error {
	names := map[api.Component]string{api.Serving: "Serving and Kourier", api.Eventing: "Eventing"}
	for _, component := range []api.Component{api.Serving, api.Eventing} {
		what := names[component]
		var took, asked [2]value
		for i, s := range p.sides {
			before, err := p.requests(i)
			if err != nil {
				return err
			}
			if took[i], err = p.install(ctx, s, component, p.spokes[i]); err != nil {
				return err
			}
			after, err := p.requests(i)
			if err != nil {
				return err
			}
			asked[i] = number(after - before)
			if err := pause(ctx, settle); err != nil {
				return err
			}
		}
		p.add(row{what: what + ": from apply to Ready", ours: took[0], theirs: took[1], unit: seconds, goal: goalInstall})
		p.add(row{what: what + ": requests until Ready", ours: asked[0], theirs: asked[1]})
	}
	return nil
}

func (p *pair) install(ctx context.Context, s *side, component api.Component, c *lab.Cluster) (value, error) {
	ctx, cancel := context.WithTimeout(ctx, installPatience)
	defer cancel()
	start := time.Now()
	if err := s.apply(ctx, component, c); err != nil {
		return value{}, err
	}
	_, err := s.becomes(ctx, true, component, c.Name)
	return duration(time.Since(start)), err
}

// rests counts what is asked while nothing happens. The Knative Operator looks at everything every 10 minutes: a shorter
// rest says nothing about the goal.
func (p *pair) rests(ctx context.Context) error {
	progress("rest of %s", p.opts.rest)
	var before [2]map[string]int
	var cpu [2]time.Duration
	var asked, spent, memory [2]value
	var err error
	for i, s := range p.sides {
		if before[i], err = p.spokes[i].Requests(); err != nil {
			return err
		}
		if cpu[i], err = s.cpu(); err != nil {
			return err
		}
	}
	if err := pause(ctx, p.opts.rest); err != nil {
		return err
	}
	for i, s := range p.sides {
		after, err := p.spokes[i].Requests()
		if err != nil {
			return err
		}
		verbs, sum := "", 0
		for verb, n := range after {
			if more := n - before[i][verb]; more > 0 {
				sum += more
				verbs += fmt.Sprintf(" %s: %d", verb, more)
			}
		}
		progress("requests of %s at rest:%s", s.name, verbs)
		asked[i] = value{number: float64(sum) * (10 * time.Minute).Seconds() / p.opts.rest.Seconds()}
		now, err := s.cpu()
		if err != nil {
			return err
		}
		spent[i] = value{number: (now - cpu[i]).Seconds() * (10 * time.Minute).Seconds() / p.opts.rest.Seconds()}
		if memory[i], err = s.memory(); err != nil {
			return err
		}
	}
	r := row{what: "requests in 10 minutes of rest", ours: asked[0], theirs: asked[1], goal: goalRest}
	if p.opts.rest < 10*time.Minute {
		r.what, r.goal = r.what+", from "+p.opts.rest.String(), 0
	}
	p.add(r)
	p.add(row{what: "CPU in 10 minutes of rest", ours: spent[0], theirs: spent[1], unit: seconds})
	p.add(row{what: "RSS with both components on one spoke", ours: memory[0], theirs: memory[1], unit: megabytes, goal: goalMemory})
	return nil
}

// repairs deletes a Deployment.
func (p *pair) repairs(ctx context.Context) error {
	return p.race(ctx, "a deleted Deployment is back", goalRepair, p.opts.repair, func(ctx context.Context, limit time.Duration, i int) (value, error) {
		client, err := kubernetes.NewForConfig(p.spokes[i].Config)
		if err != nil {
			return value{}, err
		}
		deployments := client.AppsV1().Deployments(api.Serving.InstallNamespace())
		before, err := deployments.Get(ctx, "autoscaler", metav1.GetOptions{})
		if err != nil {
			return value{}, err
		}
		if err := deployments.Delete(ctx, before.Name, metav1.DeleteOptions{}); err != nil {
			return value{}, err
		}
		return within(ctx, limit, func(ctx context.Context) (time.Duration, error) {
			return until(ctx, func(ctx context.Context) error {
				d, err := deployments.Get(ctx, before.Name, metav1.GetOptions{})
				if err == nil && d.UID == before.UID {
					err = apierrors.NewNotFound(api.Serving.Resource().GroupResource(), before.Name)
				}
				return err
			})
		})
	})
}

// silent stops the API server of a spoke so that its connections stay and nothing answers.
func (p *pair) silent(ctx context.Context) error {
	l := p.sides[0].lab
	return p.notices(ctx, "a spoke that is silent is not Ready", l.Pause, l.Resume)
}

// refused kills the API server of a spoke.
func (p *pair) refused(ctx context.Context) error {
	l := p.sides[0].lab
	return p.notices(ctx, "a spoke that refuses connections is not Ready", l.Kill, l.Start)
}

func (p *pair) notices(ctx context.Context, what string, leave, back func(string) error) error {
	return p.race(ctx, what, goalDetect, p.opts.detect, func(ctx context.Context, limit time.Duration, i int) (value, error) {
		s, c := p.sides[i], p.spokes[i]
		if err := s.returns(ctx, c); err != nil {
			return value{}, err
		}
		if err := leave(c.Name + "-apiserver"); err != nil {
			return value{}, err
		}
		took, err := within(ctx, limit, func(ctx context.Context) (time.Duration, error) {
			return s.becomes(ctx, false, api.Serving, c.Name)
		})
		if err != nil {
			return value{}, err
		}
		if err := back(c.Name + "-apiserver"); err != nil {
			return value{}, err
		}
		return took, s.returns(ctx, c)
	})
}

// returns waits until Serving is Ready again.
func (s *side) returns(ctx context.Context, c *lab.Cluster) error {
	ctx, cancel := context.WithTimeout(ctx, returnPatience)
	defer cancel()
	_, err := s.becomes(ctx, true, api.Serving, c.Name)
	return err
}

// within bounds a measurement. What takes longer has the waiting as its figure.
func within(ctx context.Context, limit time.Duration, measure func(context.Context) (time.Duration, error)) (value, error) {
	bounded, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	d, err := measure(bounded)
	took := duration(d)
	if err != nil && bounded.Err() != nil && ctx.Err() == nil {
		took.atLeast, err = true, nil
	}
	return took, err
}

// race measures ours, and then theirs for at least the patience and as long as the goal can be missed.
func (p *pair) race(ctx context.Context, what string, goal float64, patience time.Duration, measure func(context.Context, time.Duration, int) (value, error)) error {
	ours, err := measure(ctx, installPatience, 0)
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	enough := time.Duration(goal*ours.number*float64(time.Second)) + time.Second
	theirs, err := measure(ctx, max(patience, enough), 1)
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	p.add(row{what: what, ours: ours, theirs: theirs, unit: seconds, goal: goal})
	return nil
}
