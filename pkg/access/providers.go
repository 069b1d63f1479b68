// Copyright Contributors to the Open Cluster Management project

package access

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	clientauthv1 "k8s.io/client-go/pkg/apis/clientauthentication/v1"
	clientauthv1beta1 "k8s.io/client-go/pkg/apis/clientauthentication/v1beta1"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	inventoryaccess "sigs.k8s.io/cluster-inventory-api/pkg/access"
	kubejson "sigs.k8s.io/json"
)

// Provider is an access provider of the file of --clusterprofile-provider-file: the name that ClusterProfiles have in
// status.accessProviders, the plugin that returns the credential, and whether profiles may add arguments and variables to those of
// the plugin. An empty policy is Ignore.
type Provider = inventoryaccess.Provider

// ParseProviders reads a file of access providers. The error lists every problem of the file, and repeats no value that may
// be a secret.
func ParseProviders(data []byte) ([]Provider, error) {
	if len(bytes.TrimSpace(data)) == 0 {
		return nil, errors.New(`it is empty; it has to be JSON: {"providers": [...]}`)
	}
	var file struct {
		Providers []Provider `json:"providers"`
	}
	problems, err := kubejson.UnmarshalStrict(data, &file)
	if err != nil {
		return nil, describeJSON(data, err)
	}
	names := map[string]int{}
	for i := range file.Providers {
		p, path := &file.Providers[i], fmt.Sprintf("providers[%d]", i)
		problems = append(problems, checkProvider(path, p)...)
		if first, twice := names[p.Name]; twice {
			problems = append(problems, fmt.Errorf("%s.name: %q is also the name of providers[%d]; names have to be unique", path, p.Name, first))
			continue
		}
		names[p.Name] = i
	}
	if len(problems) > 0 {
		return nil, joinErrors(problems)
	}
	return file.Providers, nil
}

// describeJSON returns the position of an error in JSON. The text of the library's error may repeat a secret.
func describeJSON(data []byte, err error) error {
	if ok, offset := kubejson.SyntaxErrorOffset(err); ok {
		before := data[:min(max(int(offset)-1, 0), len(data))]
		line := bytes.Count(before, []byte("\n")) + 1
		column := len(before) - bytes.LastIndexByte(before, '\n')
		return fmt.Errorf("line %d, column %d: it is not JSON there; correct the syntax", line, column)
	}
	if problems, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		found, _, _ := strings.Cut(problems.Value, " ")
		return fmt.Errorf("%s: it is a %s and has to be a %s", fieldName(problems.Field), found, problems.Type)
	}
	return errors.New("it cannot be read as a list of access providers; compare it with the documentation of --clusterprofile-provider-file")
}

func fieldName(path string) string {
	if path == "" {
		return "the file"
	}
	return path
}

func joinErrors(list []error) error {
	var texts []string
	for _, err := range list {
		texts = append(texts, err.Error())
	}
	return errors.New(strings.Join(texts, "; "))
}

func checkProvider(path string, p *Provider) []error {
	var problems []error
	if p.Name == "" {
		problems = append(problems, fmt.Errorf("%s.name: it is missing; it is the name that ClusterProfiles have in status.accessProviders", path))
	}
	problems = append(problems,
		checkAllowed(path+".profileSourcedCLIArgsPolicy", p.ProfileSourcedCLIArgsPolicy, "",
			inventoryaccess.ProfileSourcedCLIArgsPolicyIgnore, inventoryaccess.ProfileSourcedCLIArgsPolicyAppend),
		checkAllowed(path+".profileSourcedEnvVarsPolicy", p.ProfileSourcedEnvVarsPolicy, "",
			inventoryaccess.ProfileSourcedEnvVarsPolicyIgnore, inventoryaccess.ProfileSourcedEnvVarsPolicyAppendIfNotExists,
			inventoryaccess.ProfileSourcedEnvVarsPolicyReplace))
	if p.ExecConfig == nil {
		problems = append(problems, fmt.Errorf("%s.execConfig: it is missing; it says which plugin gives the credential", path))
		return withoutNil(problems)
	}
	return append(withoutNil(problems), checkExecConfig(path+".execConfig", p.ExecConfig)...)
}

func checkExecConfig(path string, e *clientcmdapi.ExecConfig) []error {
	problems := []error{
		checkAllowed(path+".apiVersion", e.APIVersion, clientauthv1.SchemeGroupVersion.String(), clientauthv1beta1.SchemeGroupVersion.String()),
		checkAllowed(path+".interactiveMode", e.InteractiveMode, "", clientcmdapi.NeverExecInteractiveMode, clientcmdapi.IfAvailableExecInteractiveMode),
	}
	switch {
	case e.Command == "":
		problems = append(problems, fmt.Errorf("%s.command: it is missing; give the full path of the plugin", path))
	case !filepath.IsAbs(e.Command) || strings.ContainsRune(e.Command, 0):
		problems = append(problems, fmt.Errorf("%s.command: %q is not an absolute path; give the full path of the plugin", path, e.Command))
	}
	for i, arg := range e.Args {
		if strings.ContainsRune(arg, 0) {
			problems = append(problems, fmt.Errorf("%s.args[%d]: it holds a NUL character", path, i))
		}
	}
	return append(withoutNil(problems), checkVariables(path+".env", e.Env)...)
}

func checkVariables(path string, variables []clientcmdapi.ExecEnvVar) []error {
	var problems []error
	seen := map[string]bool{}
	for i, v := range variables {
		switch {
		case v.Name == "" || strings.ContainsAny(v.Name, "=\x00"):
			problems = append(problems, fmt.Errorf("%s[%d].name: %q cannot be the name of a variable", path, i, v.Name))
		case v.Name == execInfo:
			problems = append(problems, fmt.Errorf("%s[%d].name: %s is set for every plugin; take it out", path, i, v.Name))
		case strings.ContainsRune(v.Value, 0):
			problems = append(problems, fmt.Errorf("%s[%d].value: it holds a NUL character", path, i))
		case seen[v.Name]:
			problems = append(problems, fmt.Errorf("%s[%d].name: %q stands there twice; take one out", path, i, v.Name))
		}
		seen[v.Name] = true
	}
	return problems
}

// checkAllowed returns an error unless the value is allowed.
func checkAllowed[T ~string](path string, value T, allowed ...T) error {
	var names []string
	for _, a := range allowed {
		if a == value {
			return nil
		}
		if a != "" {
			names = append(names, strconv.Quote(string(a)))
		}
	}
	return fmt.Errorf("%s: it is %q and has to be %s", path, value, strings.Join(names, " or "))
}

// withoutNil removes the fields that have no error.
func withoutNil(list []error) []error {
	return slices.DeleteFunc(list, func(err error) bool { return err == nil })
}
