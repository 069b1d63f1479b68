// Copyright Contributors to the Open Cluster Management project

package e2e

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"

	"open-cluster-management.io/knative-addon/pkg/api"
	fleetv1alpha1 "open-cluster-management.io/knative-addon/pkg/api/fleet/v1alpha1"
	"open-cluster-management.io/knative-addon/test/e2e/harness/invariants"
)

// writtenText is a text that the add-on writes.
type writtenText struct{ where, content string }

// readTexts reads what the add-on tells: its logs, every status and Event that it has written on the hub, and the objects that it
// writes.
func (s *storyRecord) readTexts(ctx context.Context) ([]writtenText, error) {
	var out []writtenText
	for _, p := range s.listPrograms() {
		out = append(out, writtenText{"the log of " + p.Name, p.log})
	}
	changes, err := s.lab.Hub.Changes()
	if err != nil {
		return out, err
	}
	var written strings.Builder
	for i := range changes {
		written.Write(changes[i].Content)
		written.WriteByte('\n')
	}
	out = append(out, writtenText{"a status or an Event that was written on the hub", written.String()})
	client, err := dynamic.NewForConfig(s.lab.Hub.Config)
	if err != nil {
		return out, err
	}
	for _, gvr := range []schema.GroupVersionResource{
		{Group: "events.k8s.io", Version: "v1", Resource: "events"},
		api.Serving.Resource(), api.Eventing.Resource(), fleetv1alpha1.Resource(), profileResource, addOnResource,
		{Group: "addon.open-cluster-management.io", Version: "v1beta1", Resource: "clustermanagementaddons"},
		workResource,
		{Group: "apps", Version: "v1", Resource: "controllerrevisions"},
	} {
		list, err := listAll(ctx, client, gvr)
		if err != nil {
			return out, err
		}
		content, err := json.Marshal(slices.DeleteFunc(list, ofClusterProxy))
		if err != nil {
			return out, err
		}
		out = append(out, writtenText{gvr.Resource + " of the hub", string(content)})
	}
	return out, nil
}

// ofClusterProxy reports whether an object is a work of add-on cluster-proxy, which delivers the key of a server in a ManifestWork.
func ofClusterProxy(o unstructured.Unstructured) bool {
	return o.GetLabels()[addonv1beta1.AddonLabelKey] == "cluster-proxy"
}

// publicKeys are keys of Secrets whose values everybody may read.
var publicKeys = []string{"ca.crt", "tls.crt", "ca-cert.pem", "server-cert.pem", "client.crt", "cluster-name", "agent-name", "namespace"}

// readSecrets returns the Secrets that the story has written, every Secret of the lab's running clusters, and the credentials in the lab's
// kubeconfigs. The caller holds the lock.
func (s *storyRecord) readSecrets(ctx context.Context) ([]invariants.Secret, error) {
	out := slices.Clone(s.written)
	for _, c := range append(s.lab.Clusters(), s.lab.Hub) {
		if c.Credential != nil {
			out = append(out, invariants.Secret{Name: "the Credential of " + c.Name, Value: c.Credential.Token})
		}
		if !s.isRunning(c.Name + "-apiserver") {
			continue
		}
		client, err := kubernetes.NewForConfig(c.Config)
		if err != nil {
			return out, err
		}
		list, err := client.CoreV1().Secrets("").List(ctx, metav1.ListOptions{})
		if err != nil {
			return out, fmt.Errorf("cannot list the Secrets of %s: %w", c.Name, err)
		}
		for i := range list.Items {
			out = append(out, secretValues(c.Name, &list.Items[i])...)
		}
	}
	credentials, err := readKubeconfigs(s.lab.Dir)
	return append(out, credentials...), err
}

// readKubeconfigs returns the credentials in the kubeconfigs below a directory. The walk leaves out the files of real nodes, which have no
// kubeconfig and many images, and files that a program removes during the walk.
func readKubeconfigs(root string) ([]invariants.Secret, error) {
	var out []invariants.Secret
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return err
		case entry.IsDir() && entry.Name() == nodeDirectory:
			return filepath.SkipDir
		case entry.IsDir() || !strings.HasSuffix(entry.Name(), "kubeconfig"):
			return nil
		}
		content, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		out = append(out, kubeconfigSecrets(entry.Name(), content)...)
		return err
	})
	return out, err
}

// nodeDirectory is the name of the directory in which a real node keeps its files, below the directory of its cluster.
const nodeDirectory = "node"

func secretValues(cluster string, secret *corev1.Secret) []invariants.Secret {
	var out []invariants.Secret
	if secret.Type == "helm.sh/release.v1" { // the release's manifests and notes
		return nil
	}
	name := fmt.Sprintf("Secret %s/%s of %s", secret.Namespace, secret.Name, cluster)
	for key, value := range secret.Data {
		if !slices.Contains(publicKeys, key) {
			out = append(out, invariants.Secret{Name: name, Value: string(value)})
			out = append(out, kubeconfigSecrets(name, value)...)
		}
	}
	return out
}

// kubeconfigSecrets are the tokens and keys of a kubeconfig; none of another text.
func kubeconfigSecrets(name string, content []byte) []invariants.Secret {
	config, err := clientcmd.Load(content)
	if err != nil {
		return nil
	}
	var out []invariants.Secret
	for _, user := range config.AuthInfos {
		out = append(out, invariants.Secret{Name: name, Value: user.Token}, invariants.Secret{Name: name, Value: string(user.ClientKeyData)})
	}
	return out
}

const metricsReader = `
apiVersion: v1
kind: ServiceAccount
metadata: {name: invariants, namespace: default}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: invariants}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}
subjects: [{kind: ServiceAccount, name: invariants, namespace: default}]
`

var metricLine = regexp.MustCompile(`(?m)^(workqueue_depth|workqueue_longest_running_processor_seconds)\{(.*)\} (\S+)$`)

var metricName = regexp.MustCompile(`\bname="([^"]*)"`)

// readMetrics reads the metrics of the queues of a program, by metric and queue.
func (s *storyRecord) readMetrics(ctx context.Context, p program) (map[string]map[string]float64, error) {
	const flag = "--metrics-bind-address="
	i := slices.IndexFunc(p.Command, func(arg string) bool { return strings.HasPrefix(arg, flag) })
	if i < 0 {
		return nil, errors.New("the program serves none")
	}
	if err := s.lab.Hub.Apply(ctx, []byte(metricsReader)); err != nil {
		return nil, err
	}
	file, err := s.lab.Hub.ServiceAccountKubeconfig(ctx, "default", "invariants")
	if err != nil {
		return nil, err
	}
	config, err := clientcmd.BuildConfigFromFlags("", file)
	if err != nil {
		return nil, err
	}
	text, err := getURL(ctx, "https://"+strings.TrimPrefix(p.Command[i], flag)+"/metrics", config.BearerToken)
	if err != nil {
		return nil, err
	}
	out := map[string]map[string]float64{}
	for _, line := range metricLine.FindAllStringSubmatch(text, -1) {
		name := metricName.FindStringSubmatch(line[2])
		value, err := strconv.ParseFloat(line[3], 64)
		if err != nil || name == nil {
			return nil, fmt.Errorf("cannot read %q: %w", line[0], err)
		}
		if out[line[1]] == nil {
			out[line[1]] = map[string]float64{}
		}
		out[line[1]][name[1]] += value // a queue may have several priorities
	}
	return out, nil
}

func getURL(ctx context.Context, url, token string) (string, error) {
	client := &http.Client{
		Timeout:   time.Minute,
		Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}, //nolint:gosec // the certificate signs itself
	}
	defer client.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return "", err
	}
	req.Header.Set("Authorization", "Bearer "+token)
	resp, err := client.Do(req)
	if err != nil {
		return "", err
	}
	defer func() { _ = resp.Body.Close() }()
	content, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s answers %s: %s", url, resp.Status, content)
	}
	return string(content), err
}
