// Copyright Contributors to the Open Cluster Management project

package render

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	utiljson "k8s.io/apimachinery/pkg/util/json"
	"knative.dev/operator/pkg/apis/operator/base"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/values"
)

// expandedFields returns the fields of a spec whose texts may refer to values of the cluster.
func expandedFields() []string { return []string{"config", "registry", "ingress"} }

// References returns the references of the spec to values of the cluster, sorted and unique.
func (i *Install) References() []values.Reference { return i.references }

// On returns the Install for a cluster, with the cluster's values and the deployment settings, which may be nil. On ignores
// values that the Install does not refer to, so that clusters share renderings.
func (i *Install) On(cluster *values.Cluster, deployment *Deployment) (*Install, error) {
	if len(i.references) == 0 && deployment == nil {
		return i, nil
	}
	out := *i
	out.deployment = deployment
	if len(i.references) > 0 {
		var err error
		if out.values, err = cluster.Values(i.references); err != nil {
			return nil, newError(api.ReasonValueMissing, "%w, which %s %q uses; add the values to the cluster, or remove the references from the resource; the installation stays unchanged",
				err, i.component.Kind(), objectName(i.namespace, i.name))
		}
	}
	out.cluster = identityOf(out.values, deployment)
	return &out, nil
}

// identityOf hashes the values and settings that differ between clusters.
func identityOf(texts []string, deployment *Deployment) [sha256.Size]byte {
	var data []byte
	if deployment != nil {
		data = append(data, deployment.sum[:]...)
	}
	for _, text := range texts {
		data = fmt.Appendf(data, "%d:", len(text))
		data = append(data, text...)
	}
	return sha256.Sum256(data)
}

// checkValues refuses an Install with references and without values.
func (i *Install) checkValues() error {
	if len(i.values) == len(i.references) {
		return nil
	}
	_, err := i.On(values.None(""), nil)
	return err
}

// referencesOf finds the references in a spec; mentioned reports whether the spec contains references or escaped
// references.
func referencesOf(spec map[string]any) (references []values.Reference, mentioned bool, err error) {
	seen := map[values.Reference]bool{}
	for _, field := range expandedFields() {
		_, err := mapTexts(spec[field], func(text string) (string, error) {
			mentioned = mentioned || values.Mentioned(text)
			found, err := values.References(text)
			for _, r := range found {
				seen[r] = true
			}
			return text, err
		})
		if err != nil {
			return nil, false, fmt.Errorf("spec.%s: %w", field, err)
		}
	}
	return slices.SortedFunc(maps.Keys(seen), values.Compare), mentioned, nil
}

var errKey = errors.New("a key refers to a value of the cluster: only texts may")

// mapTexts copies a decoded JSON value and changes every text.
func mapTexts(value any, change func(string) (string, error)) (any, error) {
	var err error
	switch v := value.(type) {
	case string:
		return change(v)
	case map[string]any:
		out := make(map[string]any, len(v))
		for key, nested := range v {
			if values.Mentioned(key) {
				return nil, errKey
			}
			if out[key], err = mapTexts(nested, change); err != nil {
				return nil, err
			}
		}
		return out, nil
	case []any:
		out := make([]any, len(v))
		for n, nested := range v {
			if out[n], err = mapTexts(nested, change); err != nil {
				return nil, err
			}
		}
		return out, nil
	default:
		return v, nil
	}
}

// expandReferences returns the Install with values in place of the references.
func (i *Install) expandReferences() (*Install, error) {
	if !i.mentioned {
		return i, nil
	}
	out := *i
	size := 0
	value := func(r values.Reference) string {
		n, _ := slices.BinarySearchFunc(i.references, r, values.Compare)
		if size += len(i.values[n]); size > api.MaxSpecBytes {
			return "" // the check below refuses the excess
		}
		return i.values[n]
	}
	var err error
	if i.serving != nil {
		out.serving = i.serving.DeepCopy()
		err = errors.Join(expandCommonSpec(&out.serving.Spec.CommonSpec, value), expandField(&out.serving.Spec.Ingress, value))
	} else {
		out.eventing = i.eventing.DeepCopy()
		err = expandCommonSpec(&out.eventing.Spec.CommonSpec, value)
	}
	if err == nil && size > api.MaxSpecBytes {
		return nil, newError(api.ReasonTooLarge, "the values of a cluster make the %s larger than %d bytes: use them less often", i.component.Kind(), api.MaxSpecBytes)
	}
	if err == nil {
		err = checkConfigYAML(out.componentSpec())
	}
	if err != nil {
		return nil, newError(api.ReasonInvalidSpec, "cannot put the values of a cluster into the %s: %w", i.component.Kind(), err) // equal resources share the error
	}
	return &out, nil
}

func expandCommonSpec(spec *base.CommonSpec, value func(values.Reference) string) error {
	return errors.Join(expandField(&spec.Config, value), expandField(&spec.Registry, value))
}

// expandField replaces the references in a field of the operator's types, by way of JSON.
func expandField[T any](field *T, value func(values.Reference) string) error {
	data, err := json.Marshal(field)
	if err != nil {
		return err
	}
	var decoded any
	if err := utiljson.Unmarshal(data, &decoded); err != nil {
		return err
	}
	decoded, err = mapTexts(decoded, func(text string) (string, error) { return values.Expand(text, value) })
	if err != nil {
		return err
	}
	if data, err = json.Marshal(decoded); err != nil {
		return err
	}
	var out T
	if err := json.Unmarshal(data, &out); err != nil {
		return err
	}
	*field = out
	return nil
}
