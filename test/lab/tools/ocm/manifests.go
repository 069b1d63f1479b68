// Copyright Contributors to the Open Cluster Management project

package main

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"text/template"

	"github.com/spf13/cobra"

	"open-cluster-management.io/ocm/manifests"
)

// klusterlet fills the templates of the klusterlet's RBAC as OCM's operator does for a klusterlet named "klusterlet" in
// Singleton mode, where one service account serves registration and work.
type klusterlet struct {
	KlusterletName, KlusterletNamespace, AgentNamespace string
	RegistrationServiceAccount, WorkServiceAccount      string
	ManagedClusterRoleArn                               string
	RegistrationDriver                                  struct{ AuthType string }
	ImagePullSecret                                     string
	Labels                                              map[string]string
}

type manifestsFlags struct {
	caFile      string
	webhookPort int32
}

// newManifests prints OCM's own manifests as one YAML stream: the CRDs or the RBAC and webhook configurations of the
// hub, or the CRDs and RBAC of a managed cluster.
func newManifests() *cobra.Command {
	var f manifestsFlags
	cmd := &cobra.Command{
		Use: "manifests hub-crds|hub|managed", Args: cobra.ExactArgs(1), ValidArgs: []string{"hub-crds", "hub", "managed"},
		RunE: func(cmd *cobra.Command, args []string) error { return printManifests(cmd.OutOrStdout(), args[0], f) },
	}
	cmd.Flags().StringVar(&f.caFile, "ca-file", "", "CA of the hub's webhooks (hub, hub-crds)")
	cmd.Flags().Int32Var(&f.webhookPort, "webhook-port", 0, "port of the hub's webhooks (hub, hub-crds)")
	return cmd
}

func printManifests(w io.Writer, what string, f manifestsFlags) error {
	if what == "managed" {
		return printManaged(w)
	}
	ca, err := os.ReadFile(f.caFile)
	if err != nil {
		return err
	}
	bundle := base64.StdEncoding.EncodeToString(ca)
	webhook := manifests.Webhook{Port: f.webhookPort}
	config := manifests.HubConfig{
		ClusterManagerName: "cluster-manager", ClusterManagerNamespace: "open-cluster-management-hub", OperatorNamespace: "open-cluster-management",
		RegistrationAPIServiceCABundle: bundle, WorkAPIServiceCABundle: bundle, AddonAPIServiceCABundle: bundle,
		RegistrationWebhook: webhook, WorkWebhook: webhook, AddonWebhook: webhook,
		AddOnManagerEnabled: true, WorkControllerEnabled: true, ClusterProfileEnabled: true,
	}
	dirs := []string{"crds"}
	if what == "hub" {
		dirs = []string{"registration", "placement", "work", "addon-manager", "clusterprofiles"}
	}
	for _, dir := range dirs {
		err := each(manifests.ClusterManagerManifestFiles, "cluster-manager/hub/"+dir, func(file string) error {
			// The lab makes the webhooks' Services itself; token-*.yaml are templates for single add-ons.
			if strings.Contains(file, "hosted") || strings.HasSuffix(file, "webhook-service.yaml") || strings.Contains(file, "/token-") {
				return nil
			}
			return fill(w, manifests.ClusterManagerManifestFiles, file, config)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func printManaged(w io.Writer) error {
	const serviceAccount, namespace = "klusterlet-agent-sa", "open-cluster-management-agent"
	config := klusterlet{
		KlusterletName: "klusterlet", KlusterletNamespace: namespace, AgentNamespace: namespace,
		RegistrationServiceAccount: serviceAccount, WorkServiceAccount: serviceAccount,
	}
	for _, dir := range []string{"klusterlet/managed", "klusterlet/management"} {
		err := each(manifests.KlusterletManifestFiles, dir, func(file string) error {
			if strings.HasSuffix(file, "deployment.yaml") {
				return nil
			}
			return fill(w, manifests.KlusterletManifestFiles, file, config)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func each(fsys fs.FS, dir string, visit func(file string) error) error {
	entries, err := fs.ReadDir(fsys, dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := visit(path.Join(dir, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

func fill(w io.Writer, fsys fs.FS, file string, config any) error {
	content, err := fs.ReadFile(fsys, file)
	if err != nil {
		return err
	}
	if !strings.HasPrefix(file, "klusterlet/") || !strings.Contains(file, ".crd.") {
		funcs := template.FuncMap{"indent": func(_ int, b []byte) string { return string(b) }}
		t, err := template.New(file).Funcs(funcs).Parse(string(content))
		if err != nil {
			return err
		}
		var out bytes.Buffer
		if err := t.Execute(&out, config); err != nil {
			return err
		}
		content = out.Bytes()
	}
	// An annotation key ending in "-" tells OCM's operator to remove it; no API server takes it.
	content = bytes.ReplaceAll(content, []byte("  annotations:\n    eks.amazonaws.com/role-arn-: \"\"\n"), nil)
	if hub, ok := config.(manifests.HubConfig); ok { // the CRDs have the port of their conversion webhook fixed
		content = bytes.ReplaceAll(content, []byte("port: 9443"), fmt.Appendf(nil, "port: %d", hub.AddonWebhook.Port))
	}
	_, err = fmt.Fprintf(w, "---\n# %s\n%s\n", file, content)
	return err
}
