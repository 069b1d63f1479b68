// Copyright Contributors to the Open Cluster Management project

package render

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"knative.dev/operator/pkg/apis/operator/base"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/render/internal/remote"
)

const (
	// originAnnotation marks the objects of spec.additionalManifests on their way through the operator's functions.
	originAnnotation = api.Prefix + "additional-manifest"
	// maxSourceObjects bounds the objects of one document.
	maxSourceObjects = 2000
	versionVariable  = "${VERSION}"
)

// sources are the documents that an Install names by URL, in order.
type sources struct {
	manifests, additional []*remote.Document
}

// fetchSources gets what spec.manifests and spec.additionalManifests name.
func (r *Renderer) fetchSources(ctx context.Context, in *Install, exact string) (sources, error) {
	spec := in.spec()
	var s sources
	var err error
	if s.manifests, err = r.fetchAll(ctx, "spec.manifests", exact, spec.GetManifests()); err != nil {
		return sources{}, err
	}
	s.additional, err = r.fetchAll(ctx, "spec.additionalManifests", exact, spec.GetAdditionalManifests())
	return s, err
}

func (r *Renderer) fetchAll(ctx context.Context, field, exact string, list []base.Manifest) ([]*remote.Document, error) {
	var out []*remote.Document
	for n, m := range list {
		doc, err := r.fetcher.Fetch(ctx, strings.ReplaceAll(m.Url, versionVariable, exact))
		if refused := (*remote.RefusedError)(nil); errors.As(err, &refused) {
			return nil, refuse(ReasonRemoteManifestRefused, "%s[%d]: %w", field, n, err)
		}
		if err != nil {
			return nil, refuse(ReasonRemoteManifestUnavailable, "%s[%d]: %w", field, n, err)
		}
		out = append(out, doc)
	}
	return out, nil
}

// sum identifies the content of the documents; it is zero without any.
func (s sources) sum() [sha256.Size]byte {
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

// warnings name the documents whose content the CR does not pin.
func (s sources) warnings() []string {
	var out []string
	for _, doc := range append(append([]*remote.Document{}, s.manifests...), s.additional...) {
		if !doc.Pinned {
			out = append(out, fmt.Sprintf("%s is not pinned: append #sha256=%s to its URL", doc.URL, doc.SHA256))
		}
	}
	return out
}

// localize writes the checked objects of the documents below dir and makes the spec name these files: the operator's
// functions, which would fetch any URL and read any file, see nothing else.
func (s sources) localize(dir string, spec *base.CommonSpec, allowed kinds) error {
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

func writeSource(dir string, doc *remote.Document, allowed kinds, additional bool) (string, error) {
	objects, err := parseSource(doc.Data)
	if err != nil {
		return "", refuse(ReasonInvalidSpec, "cannot read %s: %w", doc.URL, err)
	}
	var out bytes.Buffer
	name := "manifest-" + doc.SHA256
	if additional {
		name = "additional-" + doc.SHA256
	}
	for _, u := range objects {
		if err := allowed.check(u); err != nil {
			return "", err
		}
		completeShape(u)
		if additional {
			u.SetAnnotations(union(u.GetAnnotations(), map[string]string{originAnnotation: "true"}))
		}
		data, err := json.Marshal(u.Object)
		if err != nil {
			return "", refuse(ReasonInvalidSpec, "cannot read %s: %w", doc.URL, err)
		}
		out.WriteString("---\n")
		out.Write(data)
		out.WriteByte('\n')
	}
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, out.Bytes(), 0o600); err != nil {
		return "", refuse(ReasonInternal, "cannot keep %s: %w", doc.URL, err)
	}
	return path, nil
}

// parseSource reads YAML or JSON documents; the items of a List count as documents of their own.
func parseSource(data []byte) ([]*unstructured.Unstructured, error) {
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
		found, err := flatten(u)
		if err != nil {
			return nil, err
		}
		if out = append(out, found...); len(out) > maxSourceObjects {
			return nil, fmt.Errorf("it has more than %d objects", maxSourceObjects)
		}
	}
	if len(out) == 0 {
		return nil, errors.New("it has no object")
	}
	return out, nil
}

func flatten(u *unstructured.Unstructured) ([]*unstructured.Unstructured, error) {
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

// checkShape refuses objects that the operator's functions cannot walk.
func checkShape(u *unstructured.Unstructured) error {
	if u.GetAPIVersion() == "" || u.GetKind() == "" || firstOf(u.GetName(), u.GetGenerateName()) == "" {
		return errors.New("it has an object without apiVersion, kind or name")
	}
	for _, field := range []string{"subjects", "webhooks"} {
		value, found := u.Object[field]
		if !found || value == nil {
			continue
		}
		list, ok := value.([]any)
		if !ok {
			return fmt.Errorf("%s of %s is not a list", field, describe(u))
		}
		for _, item := range list {
			if _, ok := item.(map[string]any); !ok {
				return fmt.Errorf("%s of %s has an entry that is not an object", field, describe(u))
			}
		}
	}
	return nil
}

// completeShape adds the empty lists that the operator's functions take for granted.
func completeShape(u *unstructured.Unstructured) {
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

// takeOrigin reads and removes the marks of writeSource.
func takeOrigin(d *draft) error {
	d.each(func(u *unstructured.Unstructured) {
		annotations := u.GetAnnotations()
		if _, found := annotations[originAnnotation]; !found {
			return
		}
		delete(annotations, originAnnotation)
		u.SetAnnotations(annotations)
		if len(annotations) == 0 {
			unstructured.RemoveNestedField(u.Object, "metadata", "annotations")
		}
		id := idOf(u)
		d.additional[id], d.users[id] = true, true
	})
	return nil
}
