// Copyright Contributors to the Open Cluster Management project

package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/metadata"

	"open-cluster-management.io/knative-addon/test/lab"
)

// terminal runs commands until the reader interrupts the commands.
type terminal struct {
	cmd   *exec.Cmd
	ended chan struct{}

	mu     sync.Mutex
	output bytes.Buffer
}

func (s *terminal) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.output.Write(p)
}

func (s *terminal) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.output.String()
}

// openTerminal starts the commands in a process group of their own.
func openTerminal(t *testing.T, cmd *exec.Cmd) *terminal {
	t.Helper()
	s := &terminal{cmd: cmd, ended: make(chan struct{})}
	cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = s, s, &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = cmd.Wait() // the output says why the commands have ended
		close(s.ended)
	}()
	return s
}

// signal sends a signal to the commands, unless the commands have ended.
func (s *terminal) signal(number syscall.Signal) {
	select {
	case <-s.ended:
	default:
		_ = syscall.Kill(-s.cmd.Process.Pid, number)
	}
}

// interrupt sends the signal of Ctrl-C, and waits until the commands have ended.
func (s *terminal) interrupt(t *testing.T) {
	t.Helper()
	s.signal(syscall.SIGINT)
	select {
	case <-s.ended:
	case <-time.After(loadFactor * 10 * time.Second):
		s.signal(syscall.SIGKILL)
		t.Errorf("%q does not end after an interrupt: %s", s.cmd.Args, s.text())
	}
}

// shows waits until the terminal has a line with all words.
func (s *terminal) shows(t *testing.T, words ...string) {
	t.Helper()
	eventually(t, fmt.Sprintf("a line with %q", words), 30*time.Second, func(context.Context) error {
		for line := range strings.Lines(s.text()) {
			if missing(line, words) == "" {
				return nil
			}
		}
		return fmt.Errorf("the terminal has: %s", s.text())
	})
}

// missing returns the first word that a text lacks.
func missing(text string, words []string) string {
	for _, word := range words {
		if !strings.Contains(text, word) {
			return word
		}
	}
	return ""
}

// dashboardAddress is the address in the output of `knative-addon dashboard`.
var dashboardAddress = regexp.MustCompile(`http://127\.0\.0\.1:\d+`)

// checkDashboard reads the pages of the dashboard as a browser does, until all clusters are Ready there.
func (q *quickstart) checkDashboard(t *testing.T, clusters ...string) {
	summary := fmt.Sprintf("%d of %d ready", len(clusters), len(clusters))
	eventually(t, "the dashboard with "+summary, 30*time.Second, func(ctx context.Context) error {
		address := dashboardAddress.FindString(q.terminals[len(q.terminals)-1].text())
		if address == "" {
			return errors.New("the terminal has no address")
		}
		page, err := readPage(ctx, address)
		if err != nil {
			return err
		}
		if word := missing(page, append([]string{summary, "Ready", "1.23.0"}, clusters...)); word != "" {
			return fmt.Errorf("%q is not in: %s", word, page)
		}
		page, err = readPage(ctx, address+"/cluster?name="+clusters[len(clusters)-1])
		if word := missing(page, []string{"knative-serving", "Ready is True"}); err == nil && word != "" {
			err = fmt.Errorf("%q is not in: %s", word, page)
		}
		return err
	})
}

func readPage(ctx context.Context, address string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return "", err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer func() { _ = answer.Body.Close() }()
	content, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s answers %s: %s", address, answer.Status, content)
	}
	return string(content), err
}

// listObjects lists the objects of a cluster as "resource namespace/name", without those of which Kubernetes itself creates many.
func listObjects(ctx context.Context, c *lab.Cluster) (map[string]bool, error) {
	resources, err := listedResources(c)
	if err != nil {
		return nil, err
	}
	client, err := metadata.NewForConfig(c.Config)
	if err != nil {
		return nil, err
	}
	out := map[string]bool{}
	for _, gvr := range resources {
		list, err := client.Resource(gvr).List(ctx, metav1.ListOptions{})
		if apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("cannot list %s of %s: %w", gvr.Resource, c.Name, err)
		}
		for i := range list.Items {
			out[fmt.Sprintf("%s %s/%s", gvr.GroupResource(), list.Items[i].Namespace, list.Items[i].Name)] = true
		}
	}
	return out, nil
}
