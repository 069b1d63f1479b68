// Copyright Contributors to the Open Cluster Management project

package supportbundle

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterinventoryv1alpha1 "sigs.k8s.io/cluster-inventory-api/apis/v1alpha1"
	"sigs.k8s.io/yaml"

	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"
	clusterv1 "open-cluster-management.io/api/cluster/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
	fleetv1alpha1 "open-cluster-management.io/knative-addon/pkg/api/fleet/v1alpha1"
	"open-cluster-management.io/knative-addon/pkg/installations"
	"open-cluster-management.io/knative-addon/pkg/message"
)

// Options select the content of an archive.
type Options struct {
	// Version is the version of the program.
	Version string
	// AddOnNamespace is the namespace of the manager.
	AddOnNamespace string
	// Clusters are the managed clusters whose ManifestWorks the archive has; without a name, clusters that are not ready.
	Clusters []string
	// MaxClusters bounds the number of clusters with ManifestWorks.
	MaxClusters int
	Now         time.Time
}

// list selects the objects of one file of the archive, and redacts each object.
type list struct {
	file      string
	resource  schema.GroupVersionResource
	namespace string
	redact    func(*unstructured.Unstructured) map[string]any
	// selects reports whether the archive has the object; nil means every object.
	selects func(*unstructured.Unstructured) bool
	// isOptional is true when a hub need not serve the kind.
	isOptional bool
}

func (o *Options) lists() []list {
	addOns := schema.GroupVersion(addonv1beta1.GroupVersion)
	isOurs := func(u *unstructured.Unstructured) bool {
		return u.GetName() == api.Serving.AddOnName() || u.GetName() == api.Eventing.AddOnName()
	}
	isEvent := func(u *unstructured.Unstructured) bool {
		kind, _, _ := unstructured.NestedString(u.Object, "involvedObject", "kind")
		name, _, _ := unstructured.NestedString(u.Object, "involvedObject", "name")
		switch kind {
		case api.Serving.Kind(), api.Eventing.Kind(), fleetv1alpha1.Kind, "ManagedCluster", "ClusterProfile", "AddOnDeploymentConfig":
			return true
		default:
			return strings.HasPrefix(name, api.Serving.AddOnName()) || strings.HasPrefix(name, api.Eventing.AddOnName()) || u.GetNamespace() == o.AddOnNamespace
		}
	}
	isManager := func(u *unstructured.Unstructured) bool {
		return u.GetLabels()["app.kubernetes.io/name"] == "knative-addon"
	}
	return []list{
		{file: "knativeservings.yaml", resource: api.Serving.Resource(), redact: redactObject},
		{file: "knativeeventings.yaml", resource: api.Eventing.Resource(), redact: redactObject},
		{file: "knativefleets.yaml", resource: fleetv1alpha1.Resource(), redact: redactObject, isOptional: true},
		{file: "managedclusteraddons.yaml", resource: addOns.WithResource("managedclusteraddons"), redact: redactObject, selects: isOurs},
		{file: "clustermanagementaddons.yaml", resource: addOns.WithResource("clustermanagementaddons"), redact: redactObject, selects: isOurs},
		{file: "addondeploymentconfigs.yaml", resource: addOns.WithResource("addondeploymentconfigs"), redact: redactObject},
		{file: "managedclusters.yaml", resource: schema.GroupVersion(clusterv1.GroupVersion).WithResource("managedclusters"), redact: redactCluster},
		{file: "clusterprofiles.yaml", resource: clusterinventoryv1alpha1.GroupVersion.WithResource("clusterprofiles"), redact: redactProfile, isOptional: true},
		{file: "events.yaml", resource: schema.GroupVersionResource{Version: "v1", Resource: "events"}, redact: redactEvent, selects: isEvent},
		{
			file: "manager.yaml", namespace: o.AddOnNamespace, redact: redactManager, selects: isManager,
			resource: schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"},
		},
	}
}

// Gaps describe the content that an archive lacks.
type Gaps struct {
	// Failures name the lists and the clusters that the archive lacks.
	Failures []string
	// IsIncomplete reports whether the archive lacks a list that every hub of this add-on has.
	IsIncomplete bool
}

// archive is a tar.gz file in the making.
type archive struct {
	out  *tar.Writer
	now  time.Time
	gaps Gaps
}

// Collect writes the archive.
func Collect(ctx context.Context, hub *installations.Hub, o *Options, out io.Writer) (Gaps, error) {
	compressed := gzip.NewWriter(out)
	a := &archive{out: tar.NewWriter(compressed), now: o.Now}
	err := a.collect(ctx, hub, o)
	return a.gaps, errors.Join(err, a.out.Close(), compressed.Close())
}

// addFailure notes a list that failed.
func (a *archive) addFailure(err error, isOptional bool) {
	a.gaps.Failures = append(a.gaps.Failures, describeFailure(err))
	a.gaps.IsIncomplete = a.gaps.IsIncomplete || !isOptional
}

func (a *archive) collect(ctx context.Context, hub *installations.Hub, o *Options) error {
	objects, failed := hub.List(ctx, installations.Query{Components: api.Components()})
	for _, e := range failed {
		if installations.IsUnanswered(e) && !e.IsOptional {
			return e
		}
		a.addFailure(e, e.IsOptional)
	}
	all := installations.Compose(objects)
	if err := a.addStatus(all, o); err != nil {
		return err
	}
	if err := a.addLists(ctx, hub, o); err != nil {
		return err
	}
	clusters, omissions := o.selectClusters(all)
	a.gaps.Failures = append(a.gaps.Failures, omissions...)
	for _, cluster := range clusters {
		if err := a.addWorks(ctx, hub, cluster, all, objects); err != nil {
			return err
		}
	}
	for n, text := range a.gaps.Failures {
		a.gaps.Failures[n] = scrubText(text)
	}
	return a.addFile("failures.txt", []byte(strings.Join(append(a.gaps.Failures, ""), "\n")))
}

// addLists adds the files with the objects of the hub.
func (a *archive) addLists(ctx context.Context, hub *installations.Hub, o *Options) error {
	for _, l := range o.lists() {
		listed, err := hub.ListResource(ctx, l.resource, l.namespace)
		if err != nil {
			a.addFailure(err, l.isOptional && apierrors.IsNotFound(err))
			continue
		}
		var redacted []any
		for _, u := range listed {
			if l.selects == nil || l.selects(u) {
				redacted = append(redacted, l.redact(u))
			}
		}
		if err := a.addYAML(l.file, redacted); err != nil {
			return err
		}
	}
	return nil
}

// describeFailure returns the text of an error without the query of the request, which scrubText takes for a credential.
func describeFailure(err error) string {
	text := err.Error()
	if request := (*url.Error)(nil); errors.As(err, &request) {
		if address, _, hasQuery := strings.Cut(request.URL, "?"); hasQuery {
			return strings.ReplaceAll(text, request.URL, address)
		}
	}
	return text
}

// addStatus adds the version and the output of command status.
func (a *archive) addStatus(all []installations.Installation, o *Options) error {
	for n := range all {
		all[n].Message, all[n].PendingChange = scrubText(all[n].Message), scrubText(all[n].PendingChange)
	}
	var table bytes.Buffer
	if err := installations.WriteTable(&table, all, true, o.Now); err != nil {
		return err
	}
	summary := installations.Summarize(all)
	fmt.Fprintln(&table, summary.Text(o.Now))
	status, err := json.MarshalIndent(map[string]any{"items": all, "summary": summary}, "", "  ")
	if err != nil {
		return err
	}
	return errors.Join(
		a.addFile("version.txt", fmt.Appendf(nil, "knative-addon %s\n%s\n", o.Version, o.Now.UTC().Format(time.RFC3339))),
		a.addFile("status.txt", table.Bytes()), a.addFile("status.json", status))
}

// selectClusters returns the managed clusters whose ManifestWorks the archive has. The omissions name the clusters that the archive lacks.
func (o *Options) selectClusters(all []installations.Installation) (clusters, omissions []string) {
	filter := installations.Filter{Names: o.Clusters, Mode: api.ModeManifestWork, NotReady: len(o.Clusters) == 0}
	selected, unknown := filter.Select(all)
	for _, i := range selected {
		clusters = append(clusters, i.Cluster)
	}
	slices.Sort(clusters)
	clusters = slices.Compact(clusters)
	if len(unknown) > 0 {
		omissions = append(omissions, fmt.Sprintf("no installation has the cluster, ClusterProfile or resource %s", message.QuotedList(unknown)))
	}
	if limit := max(o.MaxClusters, 0); len(clusters) > limit {
		omissions = append(omissions, fmt.Sprintf("the archive lacks the ManifestWorks of %d clusters, beyond the first %d: %s",
			len(clusters)-limit, limit, message.QuotedList(clusters[limit:])))
		clusters = clusters[:limit]
	}
	return clusters, omissions
}

// addWorks adds the ManifestWorks of a cluster, and the output of command tree.
func (a *archive) addWorks(ctx context.Context, hub *installations.Hub, cluster string, all []installations.Installation, objects installations.Objects) error {
	works, err := hub.ListWorks(ctx, cluster)
	if err != nil {
		a.addFailure(err, false)
		return nil
	}
	var redacted []any
	for n := range works {
		if installations.ComponentOf(&works[n]) == "" {
			continue
		}
		work, err := redactWork(&works[n])
		if err != nil {
			return fmt.Errorf("cannot read ManifestWork \"%s/%s\": %w", cluster, works[n].Name, err)
		}
		redacted = append(redacted, work)
	}
	var tree bytes.Buffer
	for n := range all {
		if all[n].Cluster != cluster {
			continue
		}
		node := installations.Tree(&all[n], objects, works)
		if err := node.Write(&tree); err != nil {
			return err
		}
	}
	return errors.Join(
		a.addYAML("works/"+cluster+".yaml", redacted), a.addFile("works/"+cluster+"-tree.txt", scrubLines(tree.String())))
}

// scrubLines scrubs each line of a text.
func scrubLines(text string) []byte {
	var out strings.Builder
	for line := range strings.Lines(text) {
		out.WriteString(scrubText(strings.TrimSuffix(line, "\n")) + "\n")
	}
	return []byte(out.String())
}

// addYAML adds a list of objects as a stream of YAML.
func (a *archive) addYAML(name string, objects []any) error {
	var out bytes.Buffer
	for _, o := range objects {
		text, err := yaml.Marshal(o)
		if err != nil {
			return fmt.Errorf("cannot print an object of %s: %w", name, err)
		}
		fmt.Fprintf(&out, "---\n%s", text)
	}
	return a.addFile(name, out.Bytes())
}

func (a *archive) addFile(name string, content []byte) error {
	header := &tar.Header{Name: "knative-addon-bundle/" + name, Mode: 0o600, Size: int64(len(content)), ModTime: a.now, Typeflag: tar.TypeReg}
	if err := a.out.WriteHeader(header); err != nil {
		return fmt.Errorf("cannot write %s: %w", name, err)
	}
	if _, err := a.out.Write(content); err != nil {
		return fmt.Errorf("cannot write %s: %w", name, err)
	}
	return nil
}
