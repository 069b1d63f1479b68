// Copyright Contributors to the Open Cluster Management project

package render

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/yaml"
	"knative.dev/operator/pkg/apis/operator/base"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/render/internal/remote"
)

const (
	// originAnnotation marks the objects of spec.additionalManifests on their way through the operator's functions.
	originAnnotation = api.Prefix + "additional-manifest"
	versionVariable  = "${VERSION}"
)

// sources are the documents that an Install names by URL, in order.
type sources struct {
	manifests, additional []*remote.Document
}

// fetchSources fetches the documents of spec.manifests and spec.additionalManifests.
func (r *Renderer) fetchSources(ctx context.Context, in *Install, exact string) (sources, error) {
	spec := in.componentSpec()
	var s sources
	var err error
	if s.manifests, err = r.fetchAll(ctx, "spec.manifests", exact, spec.GetManifests()); err != nil {
		return sources{}, err
	}
	if s.additional, err = r.fetchAll(ctx, "spec.additionalManifests", exact, spec.GetAdditionalManifests()); err != nil {
		return sources{}, err
	}
	return s, s.checkBounds()
}

// checkBounds refuses documents that are too large together.
func (s sources) checkBounds() error {
	size := 0
	for _, doc := range append(slices.Clone(s.manifests), s.additional...) {
		if size += len(doc.Data); size > maxRemoteBytes {
			return newError(api.ReasonTooLarge, "the documents of spec.manifests and spec.additionalManifests have more than %d bytes: leave out %s, or split the resource",
				maxRemoteBytes, doc.URL)
		}
	}
	return nil
}

func (r *Renderer) fetchAll(ctx context.Context, field, exact string, list []base.Manifest) ([]*remote.Document, error) {
	var out []*remote.Document
	for n, m := range list {
		doc, err := r.fetcher.Fetch(ctx, strings.ReplaceAll(m.Url, versionVariable, exact))
		if refused := (*remote.RefusedError)(nil); errors.As(err, &refused) {
			return nil, newError(api.ReasonRemoteManifestRefused, "%s[%d]: %w", field, n, err)
		}
		if IsPending(err) {
			return nil, err
		}
		if err != nil {
			return nil, newError(api.ReasonRemoteManifestUnavailable, "%s[%d]: %w", field, n, err)
		}
		out = append(out, doc)
	}
	return out, nil
}

// contentHash identifies the content of the documents; zero without documents.
func (s sources) contentHash() [sha256.Size]byte {
	if len(s.manifests)+len(s.additional) == 0 {
		return [sha256.Size]byte{}
	}
	h := sha256.New()
	for _, doc := range s.manifests {
		fmt.Fprintf(h, "manifests %s\n", doc.SHA256)
	}
	for _, doc := range s.additional {
		fmt.Fprintf(h, "additional %s\n", doc.SHA256)
	}
	return [sha256.Size]byte(h.Sum(nil))
}

// listWarnings returns a warning for every document without a digest in the CR.
func (s sources) listWarnings() []string {
	var out []string
	for _, doc := range append(append([]*remote.Document{}, s.manifests...), s.additional...) {
		if !doc.Pinned {
			out = append(out, fmt.Sprintf("%s is not pinned: append #sha256=%s to its URL", doc.URL, doc.SHA256))
		}
	}
	return out
}

// writeFiles writes the checked objects of the documents below dir and makes the spec name the files: the operator's
// functions, which would fetch any URL and read any file, get only these names.
func (s sources) writeFiles(dir string, spec *base.CommonSpec, allowed allowedKinds) error {
	for n, doc := range s.manifests {
		path, err := writeSource(dir, doc, allowed, false)
		if err != nil {
			return err
		}
		spec.Manifests[n].Url = path
	}
	for n, doc := range s.additional {
		path, err := writeSource(dir, doc, allowed, true)
		if err != nil {
			return err
		}
		spec.AdditionalManifests[n].Url = path
	}
	return nil
}

func writeSource(dir string, doc *remote.Document, allowed allowedKinds, additional bool) (string, error) {
	objects, err := parseSource(doc.Data)
	if err != nil {
		return "", newError(api.ReasonInvalidSpec, "cannot read %s: %w", doc.URL, err)
	}
	var out bytes.Buffer
	name := "manifest-" + doc.SHA256
	if additional {
		name = "additional-" + doc.SHA256
	}
	for _, u := range objects {
		if err := allowed.checkKind(u); err != nil {
			return "", err
		}
		addEmptyLists(u)
		if additional {
			u.SetAnnotations(labels.Merge(u.GetAnnotations(), map[string]string{originAnnotation: "true"}))
		}
		data, err := json.Marshal(u.Object)
		if err != nil {
			return "", newError(api.ReasonInvalidSpec, "cannot read %s: %w", doc.URL, err)
		}
		out.WriteString("---\n")
		out.Write(data)
		out.WriteByte('\n')
	}
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, out.Bytes(), 0o600); err != nil {
		return "", newError(api.ReasonRenderFailed, "cannot keep %s: %w", doc.URL, err)
	}
	return path, nil
}

// parseSource reads YAML or JSON documents; the items of a List count as separate documents.
func parseSource(data []byte) ([]*unstructured.Unstructured, error) {
	if err := checkDocuments(data); err != nil {
		return nil, err
	}
	return decodeDocuments(data)
}

// decodeDocuments is parseSource for documents of the administrator, which may have anchors: manifests of eventing sources do.
func decodeDocuments(data []byte) ([]*unstructured.Unstructured, error) {
	decoder := yaml.NewYAMLToJSONDecoder(bytes.NewReader(data))
	var out []*unstructured.Unstructured
	for {
		u := &unstructured.Unstructured{}
		err := decoder.Decode(u)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		if len(u.Object) == 0 {
			continue
		}
		found, err := flattenList(u)
		if err != nil {
			return nil, err
		}
		if out = append(out, found...); len(out) > maxObjects {
			return nil, fmt.Errorf("it has more than %d objects", maxObjects)
		}
	}
	if len(out) == 0 {
		return nil, errors.New("it has no object")
	}
	return out, nil
}

// checkDocuments refuses YAML documents that become large when a parser reads them.
func checkDocuments(data []byte) error {
	reader := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	for {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := checkDocument(document); err != nil {
			return err
		}
	}
}

func flattenList(u *unstructured.Unstructured) ([]*unstructured.Unstructured, error) {
	items, isList := u.Object["items"].([]any)
	if !isList || !strings.HasSuffix(u.GetKind(), "List") {
		return []*unstructured.Unstructured{u}, checkShape(u)
	}
	var out []*unstructured.Unstructured
	for _, item := range items {
		m, ok := item.(map[string]any)
		if !ok || strings.HasSuffix(stringOf(m["kind"]), "List") {
			return nil, errors.New("it has a List whose items are not plain objects")
		}
		one := &unstructured.Unstructured{Object: m}
		if err := checkShape(one); err != nil {
			return nil, err
		}
		out = append(out, one)
	}
	return out, nil
}

// checkShape refuses objects on which the operator's functions panic.
func checkShape(u *unstructured.Unstructured) error {
	if u.GetAPIVersion() == "" || u.GetKind() == "" || cmp.Or(u.GetName(), u.GetGenerateName()) == "" {
		return errors.New("it has an object without apiVersion, kind or name")
	}
	for _, field := range []string{"subjects", "webhooks"} {
		value, found := u.Object[field]
		if !found || value == nil {
			continue
		}
		list, ok := value.([]any)
		if !ok {
			return fmt.Errorf("%s of %s is not a list", field, describeObject(u))
		}
		for _, item := range list {
			if _, ok := item.(map[string]any); !ok {
				return fmt.Errorf("%s of %s has an entry that is not an object", field, describeObject(u))
			}
		}
	}
	return nil
}

// addEmptyLists adds the empty lists that the operator's functions require.
func addEmptyLists(u *unstructured.Unstructured) {
	field := ""
	switch u.GetKind() {
	case "ClusterRoleBinding", "RoleBinding":
		field = "subjects"
	case "ValidatingWebhookConfiguration", "MutatingWebhookConfiguration":
		field = "webhooks"
	}
	if field != "" && u.Object[field] == nil {
		u.Object[field] = []any{}
	}
}

// readOrigins reads and removes the annotations of writeSource.
func readOrigins(d *draft) error {
	d.forEachObject(func(u *unstructured.Unstructured) {
		annotations := u.GetAnnotations()
		if _, found := annotations[originAnnotation]; !found {
			return
		}
		delete(annotations, originAnnotation)
		u.SetAnnotations(annotations)
		if len(annotations) == 0 {
			unstructured.RemoveNestedField(u.Object, "metadata", "annotations")
		}
		id := objectIDOf(u)
		d.additional[id], d.users[id] = true, true
	})
	return nil
}
