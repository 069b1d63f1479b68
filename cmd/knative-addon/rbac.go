// Copyright Contributors to the Open Cluster Management project

package main

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/delivery/direct"
	"open-cluster-management.io/knative-addon/pkg/inventory"
	"open-cluster-management.io/knative-addon/pkg/render"
)

// grantFlags are the subjects and the versions of the permissions.
type grantFlags struct {
	name                           string
	serviceAccounts, users, groups []string
	from                           []string
	// manifestWork is namespace/name of a ManifestWork; empty prints the objects themselves.
	manifestWork string
}

func newRBACCommand() *cobra.Command {
	o := offlineCommand{mode: api.ModeDirect}
	var f grantFlags
	cmd := &cobra.Command{
		Use: "rbac", Short: "Print the fewest permissions that the credential of a cluster without a work agent needs", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			subjects, err := f.parseSubjects()
			if err != nil {
				return err
			}
			needs, err := o.collectNeeds(cmd, f.from)
			if err != nil {
				return err
			}
			objects, err := f.encodeGrant(direct.GrantFor(f.name, subjects, needs...))
			if err != nil {
				return err
			}
			return printObjects(cmd.OutOrStdout(), "yaml", objects)
		},
	}
	o.addInput(cmd)
	cmd.Flags().StringVar(&f.name, "name", "knative-addon", "name of the roles and bindings")
	cmd.Flags().StringSliceVar(&f.serviceAccounts, "service-account", nil,
		"namespace/name of a ServiceAccount whose credential it is (default knative-addon/knative-addon, without --user and --group)")
	cmd.Flags().StringSliceVar(&f.users, "user", nil, "user whose credential it is")
	cmd.Flags().StringSliceVar(&f.groups, "group", nil, "group whose credentials they are")
	cmd.Flags().StringSliceVar(&f.from, "from", nil, "versions, such as 1.22, that the cluster may have now, and is to be upgraded from")
	cmd.Flags().StringVar(&f.manifestWork, "manifest-work", "",
		"namespace/name of a ManifestWork to print, with the permissions in it, for the work agent of the managed cluster of that namespace")
	return cmd
}

// encodeGrant returns the objects of the grant in JSON, or the ManifestWork that delivers the objects.
func (f *grantFlags) encodeGrant(grant *direct.Grant) ([][]byte, error) {
	var objects [][]byte
	for _, object := range grant.Objects() {
		data, err := json.Marshal(object)
		if err != nil {
			return nil, fmt.Errorf("cannot print an object: %w", err)
		}
		objects = append(objects, data)
	}
	if f.manifestWork == "" {
		return objects, nil
	}
	work, err := f.buildManifestWork(grant, objects)
	if err != nil {
		return nil, err
	}
	data, err := json.Marshal(work)
	if err != nil {
		return nil, fmt.Errorf("cannot print the ManifestWork: %w", err)
	}
	return [][]byte{data}, nil
}

// grantWork is a ManifestWork without status.
type grantWork struct {
	metav1.TypeMeta `json:",inline"`
	Metadata        grantWorkMeta           `json:"metadata"`
	Spec            workv1.ManifestWorkSpec `json:"spec"`
}

type grantWorkMeta struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

// buildManifestWork wraps the objects of a grant. The Namespaces stay when the ManifestWork goes, and with the Namespaces an installation.
func (f *grantFlags) buildManifestWork(grant *direct.Grant, objects [][]byte) (*grantWork, error) {
	namespace, name, ok := strings.Cut(f.manifestWork, "/")
	if !ok || namespace == "" || name == "" {
		return nil, fmt.Errorf("cannot use --manifest-work=%q: it has to be namespace/name", f.manifestWork)
	}
	work := &grantWork{
		TypeMeta: metav1.TypeMeta{APIVersion: workv1.GroupVersion.String(), Kind: "ManifestWork"},
		Metadata: grantWorkMeta{Namespace: namespace, Name: name},
	}
	var rules []workv1.OrphaningRule
	for i := range grant.Namespaces {
		rules = append(rules, workv1.OrphaningRule{Resource: "namespaces", Name: grant.Namespaces[i].Name})
	}
	work.Spec.DeleteOption = &workv1.DeleteOption{
		PropagationPolicy: workv1.DeletePropagationPolicyTypeSelectivelyOrphan, SelectivelyOrphan: &workv1.SelectivelyOrphan{OrphaningRules: rules},
	}
	for _, object := range objects {
		work.Spec.Workload.Manifests = append(work.Spec.Workload.Manifests, workv1.Manifest{RawExtension: runtime.RawExtension{Raw: object}})
	}
	return work, nil
}

func (f *grantFlags) parseSubjects() ([]rbacv1.Subject, error) {
	accounts := f.serviceAccounts
	if len(accounts)+len(f.users)+len(f.groups) == 0 {
		accounts = []string{"knative-addon/knative-addon"}
	}
	var out []rbacv1.Subject
	for _, account := range accounts {
		namespace, name, ok := strings.Cut(account, "/")
		if !ok || namespace == "" || name == "" {
			return nil, fmt.Errorf("cannot use --service-account=%q: it has to be namespace/name", account)
		}
		out = append(out, rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: name})
	}
	for _, name := range f.users {
		out = append(out, rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: name})
	}
	for _, name := range f.groups {
		out = append(out, rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: name})
	}
	return out, nil
}

// collectNeeds returns the needs of every installation of the file, in the version of the spec and in the versions before
// an upgrade.
func (o *offlineCommand) collectNeeds(cmd *cobra.Command, from []string) ([]direct.Need, error) {
	installs, err := o.read(cmd)
	if err != nil {
		return nil, err
	}
	var out []direct.Need
	err = o.withRenderer(func(r *render.Renderer) error {
		for _, install := range installs {
			need, err := o.computeNeed(cmd, r, install, from)
			if err != nil {
				return err
			}
			out = append(out, need)
		}
		return nil
	})
	return out, err
}

func (o *offlineCommand) computeNeed(cmd *cobra.Command, r *render.Renderer, install *render.Install, from []string) (direct.Need, error) {
	owner := inventory.Owner{Component: install.Component(), Name: types.NamespacedName{Namespace: install.Namespace(), Name: install.Name()}}
	anchor, err := owner.AnchorName()
	if err != nil {
		return direct.Need{}, err
	}
	users := install.DeletionPolicy() == api.DeletionPolicyDeleteUserResources
	need := direct.Need{Anchor: anchor, Foundation: users || install.DeletionPolicy() == api.DeletionPolicyDelete, UserResources: users}
	for _, version := range append([]string{install.SpecVersion()}, from...) {
		bundle, err := o.renderInstall(cmd, r, install.WithVersion(version))
		if err != nil {
			return direct.Need{}, err
		}
		need.Bundles = append(need.Bundles, bundle)
	}
	return need, nil
}
