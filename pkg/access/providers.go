// Copyright Contributors to the Open Cluster Management project

package access

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	clientauthv1 "k8s.io/client-go/pkg/apis/clientauthentication/v1"
	clientauthv1beta1 "k8s.io/client-go/pkg/apis/clientauthentication/v1beta1"
	kubejson "sigs.k8s.io/json"
)

// Provider is an access provider of the file of --clusterprofile-provider-file. The fields are those of
// cluster-inventory-api.
type Provider struct {
	// Name is that of the entry of a profile's status.accessProviders.
	Name string `json:"name"`
	// ExecConfig is the plugin that gives the credential.
	ExecConfig *ExecConfig `json:"execConfig"`
	// ProfileSourcedCLIArgsPolicy says whether profiles may add arguments.
	ProfileSourcedCLIArgsPolicy string `json:"profileSourcedCLIArgsPolicy,omitempty"`
	// ProfileSourcedEnvVarsPolicy says whether profiles may add environment variables.
	ProfileSourcedEnvVarsPolicy string `json:"profileSourcedEnvVarsPolicy,omitempty"`
}

// ExecConfig says how a plugin is run.
type ExecConfig struct {
	// APIVersion is the version of ExecCredential that the plugin answers with.
	APIVersion string `json:"apiVersion"`
	// Command is the plugin's file, with its full path.
	Command string `json:"command"`
	// Args are its arguments.
	Args []string `json:"args,omitempty"`
	// Env are variables that the plugin has besides those of inheritedVariables.
	Env []EnvVar `json:"env,omitempty"`
	// InstallHint is shown when there is no such file.
	InstallHint string `json:"installHint,omitempty"`
	// ProvideClusterInfo tells the plugin the cluster's address and the profile's configuration for it.
	ProvideClusterInfo bool `json:"provideClusterInfo,omitempty"`
	// InteractiveMode is part of the format. A manager has no terminal, so that it cannot be Always.
	InteractiveMode string `json:"interactiveMode,omitempty"`
}

// EnvVar is an environment variable.
type EnvVar struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Policies of a Provider; none is policyIgnore.
const (
	policyIgnore = "Ignore"
	// policyAppend is for arguments.
	policyAppend = "Append"
	// policyAppendIfNotExists and policyReplace are for variables. They differ in whose value counts when the provider
	// has the variable too: the provider's, or the profile's.
	policyAppendIfNotExists = "AppendIfNotExists"
	policyReplace           = "Replace"
)

// ParseProviders reads a file of access providers. The error lists everything that is wrong, and repeats no value that
// may be a secret.
func ParseProviders(data []byte) ([]Provider, error) {
	if len(bytes.TrimSpace(data)) == 0 {
		return nil, errors.New(`it is empty; it has to be JSON: {"providers": [...]}`)
	}
	var file struct {
		Providers []Provider `json:"providers"`
	}
	wrong, err := kubejson.UnmarshalStrict(data, &file)
	if err != nil {
		return nil, describeJSON(data, err)
	}
	names := map[string]int{}
	for i := range file.Providers {
		p, path := &file.Providers[i], fmt.Sprintf("providers[%d]", i)
		wrong = append(wrong, p.check(path)...)
		if first, twice := names[p.Name]; twice {
			wrong = append(wrong, fmt.Errorf("%s.name: %q is also the name of providers[%d]; names have to be unique", path, p.Name, first))
			continue
		}
		names[p.Name] = i
	}
	if len(wrong) > 0 {
		return nil, joined(wrong)
	}
	return file.Providers, nil
}

// describeJSON says where JSON is wrong. The library's own words may repeat what stands there.
func describeJSON(data []byte, err error) error {
	if ok, offset := kubejson.SyntaxErrorOffset(err); ok {
		before := data[:min(max(int(offset)-1, 0), len(data))]
		line := bytes.Count(before, []byte("\n")) + 1
		column := len(before) - bytes.LastIndexByte(before, '\n')
		return fmt.Errorf("line %d, column %d: it is not JSON there; correct the syntax", line, column)
	}
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		found, _, _ := strings.Cut(wrong.Value, " ")
		return fmt.Errorf("%s: it is a %s and has to be a %s", fieldName(wrong.Field), found, wrong.Type)
	}
	return errors.New("it cannot be read as a list of access providers; compare it with the documentation of --clusterprofile-provider-file")
}

func fieldName(path string) string {
	if path == "" {
		return "the file"
	}
	return path
}

func joined(list []error) error {
	var texts []string
	for _, err := range list {
		texts = append(texts, err.Error())
	}
	return errors.New(strings.Join(texts, "; "))
}

func (p *Provider) check(path string) []error {
	var wrong []error
	if p.Name == "" {
		wrong = append(wrong, fmt.Errorf("%s.name: it is missing; it is the name that ClusterProfiles have in status.accessProviders", path))
	}
	wrong = append(wrong,
		oneOf(path+".profileSourcedCLIArgsPolicy", p.ProfileSourcedCLIArgsPolicy, "", policyIgnore, policyAppend),
		oneOf(path+".profileSourcedEnvVarsPolicy", p.ProfileSourcedEnvVarsPolicy, "", policyIgnore, policyAppendIfNotExists, policyReplace))
	if p.ExecConfig == nil {
		wrong = append(wrong, fmt.Errorf("%s.execConfig: it is missing; it says which plugin gives the credential", path))
		return compact(wrong)
	}
	return append(compact(wrong), p.ExecConfig.check(path+".execConfig")...)
}

func (e *ExecConfig) check(path string) []error {
	wrong := []error{
		oneOf(path+".apiVersion", e.APIVersion, clientauthv1.SchemeGroupVersion.String(), clientauthv1beta1.SchemeGroupVersion.String()),
		oneOf(path+".interactiveMode", e.InteractiveMode, "", "Never", "IfAvailable"),
	}
	switch {
	case e.Command == "":
		wrong = append(wrong, fmt.Errorf("%s.command: it is missing; give the full path of the plugin", path))
	case !filepath.IsAbs(e.Command) || strings.ContainsRune(e.Command, 0):
		wrong = append(wrong, fmt.Errorf("%s.command: %q is not an absolute path; give the full path of the plugin", path, e.Command))
	}
	for i, arg := range e.Args {
		if strings.ContainsRune(arg, 0) {
			wrong = append(wrong, fmt.Errorf("%s.args[%d]: it holds a NUL character", path, i))
		}
	}
	return append(compact(wrong), checkVariables(path+".env", e.Env)...)
}

func checkVariables(path string, variables []EnvVar) []error {
	var wrong []error
	seen := map[string]bool{}
	for i, v := range variables {
		switch {
		case v.Name == "" || strings.ContainsAny(v.Name, "=\x00"):
			wrong = append(wrong, fmt.Errorf("%s[%d].name: %q cannot be the name of a variable", path, i, v.Name))
		case v.Name == execInfo:
			wrong = append(wrong, fmt.Errorf("%s[%d].name: %s is set for every plugin; take it out", path, i, v.Name))
		case strings.ContainsRune(v.Value, 0):
			wrong = append(wrong, fmt.Errorf("%s[%d].value: it holds a NUL character", path, i))
		case seen[v.Name]:
			wrong = append(wrong, fmt.Errorf("%s[%d].name: %q stands there twice; take one out", path, i, v.Name))
		}
		seen[v.Name] = true
	}
	return wrong
}

// oneOf is an error unless the value is allowed.
func oneOf(path, value string, allowed ...string) error {
	var names []string
	for _, a := range allowed {
		if a == value {
			return nil
		}
		if a != "" {
			names = append(names, strconv.Quote(a))
		}
	}
	return fmt.Errorf("%s: it is %q and has to be %s", path, value, strings.Join(names, " or "))
}

// compact leaves out what is no error.
func compact(list []error) []error {
	var out []error
	for _, err := range list {
		if err != nil {
			out = append(out, err)
		}
	}
	return out
}
