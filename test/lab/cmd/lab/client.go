// Copyright Contributors to the Open Cluster Management project

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"open-cluster-management.io/knative-addon/test/lab"
)

// status is what a running lab tells about itself.
type status struct {
	Dir        string            `json:"dir"`
	Path       []string          `json:"path"`
	Clusters   map[string]string `json:"clusters"` // name -> kubeconfig
	Components []lab.Component   `json:"components"`
}

func newStatus(l *lab.Lab) status {
	s := status{Dir: l.Dir, Path: l.Bin.Dirs(), Clusters: map[string]string{}, Components: l.Components()}
	for _, c := range append(l.Clusters(), l.Hub) {
		s.Clusters[c.Name] = c.Kubeconfig
	}
	return s
}

func (c *command) call(ctx context.Context, method, path string, into any) error {
	client := http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", c.socket())
	}}}
	req, err := http.NewRequestWithContext(ctx, method, "http://lab"+path, http.NoBody)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("no lab %q runs (%w); `lab up --name=%s` starts it", c.name, err, c.name)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return errors.New(strings.TrimSpace(string(body)))
	}
	if into == nil {
		return nil
	}
	return json.Unmarshal(body, into)
}

func (c *command) down(ctx context.Context) error {
	if err := c.call(ctx, http.MethodPost, "/down", nil); err != nil {
		return err
	}
	for range 300 {
		if _, err := os.Stat(c.dir); os.IsNotExist(err) {
			return nil
		}
		time.Sleep(100 * time.Millisecond)
	}
	return fmt.Errorf("lab %q still has its directory %s after 30 s", c.name, c.dir)
}

func (c *command) status(ctx context.Context) error {
	var s status
	if err := c.call(ctx, http.MethodGet, "/status", &s); err != nil {
		return err
	}
	w := tabwriter.NewWriter(os.Stdout, 0, 4, 2, ' ', 0)
	for _, p := range s.Components {
		_, _ = fmt.Fprintf(w, "%s\t%s\t%d\t%s\n", p.Name, p.State, p.PID, p.Log)
	}
	return w.Flush()
}

func (c *command) env(ctx context.Context) error {
	var s status
	if err := c.call(ctx, http.MethodGet, "/status", &s); err != nil {
		return err
	}
	_, err := fmt.Printf("export PATH=%q\nexport KUBECONFIG=%q\n", strings.Join(s.Path, ":")+":"+os.Getenv("PATH"), s.Clusters["hub"])
	for name, kubeconfig := range s.Clusters {
		_, err = fmt.Printf("export KUBECONFIG_%s=%q\n", strings.ToUpper(name), kubeconfig)
	}
	return err
}

func (c *command) logs(ctx context.Context) error {
	var s status
	if err := c.call(ctx, http.MethodGet, "/status", &s); err != nil {
		return err
	}
	for _, p := range s.Components {
		if len(c.args) == 1 && p.Name == c.args[0] {
			content, err := os.ReadFile(p.Log)
			if err != nil {
				return fmt.Errorf("cannot read the log of %s: %w", p.Name, err)
			}
			_, err = os.Stdout.Write(content)
			return err
		}
	}
	return fmt.Errorf("name one component of `lab status --name=%s`", c.name)
}

func (c *command) fault(ctx context.Context, verb string) error {
	if len(c.args) != 1 {
		return fmt.Errorf("name one component: lab %s <component>; `lab status --name=%s` lists them", verb, c.name)
	}
	return c.call(ctx, http.MethodPost, "/"+verb+"/"+c.args[0], nil)
}
