// Copyright Contributors to the Open Cluster Management project

package harness

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"open-cluster-management.io/knative-addon/test/lab/process"
	"open-cluster-management.io/knative-addon/test/lab/tools"
)

const (
	// ArgoCDNamespace is the namespace of Argo CD.
	ArgoCDNamespace = "argocd"
	// ApplicationSetController is the name of Argo CD's ApplicationSet controller among the lab's components, and of its ServiceAccount.
	ApplicationSetController = "argocd-applicationset-controller"
)

// argoCDObjects are the objects that other programs of Argo CD write at their start, and the RoleBinding of the ApplicationSet controller,
// whose subject has no namespace in Argo CD's manifests.
const argoCDObjects = `
apiVersion: v1
kind: Secret
metadata:
  name: argocd-secret
  namespace: argocd
stringData: {server.secretkey: key-of-the-signatures-of-the-server}
---
apiVersion: argoproj.io/v1alpha1
kind: AppProject
metadata: {name: default, namespace: argocd}
spec:
  sourceRepos: ["*"]
  destinations: [{namespace: "*", server: "*"}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: argocd-applicationset-controller, namespace: argocd}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: argocd-applicationset-controller}
subjects: [{kind: ServiceAccount, name: argocd-applicationset-controller, namespace: argocd}]
`

// ArgoCD is the ApplicationSet controller of the pinned release of Argo CD. The story runs no other program of Argo CD.
type ArgoCD struct {
	program, manifests string
}

// BuildArgoCD builds the ApplicationSet controller.
func BuildArgoCD(ctx context.Context) (ArgoCD, error) {
	bin, err := tools.Build(ctx, tools.Set{tools.ArgoCD}, os.Stderr)
	if err != nil {
		return ArgoCD{}, err
	}
	return ArgoCD{program: bin.Path(ApplicationSetController), manifests: bin.Path("argocd.yaml")}, nil
}

// Install applies the kinds of Argo CD, and the ServiceAccount with the Role of Argo CD's manifests, to the hub.
func (a ArgoCD) Install(ctx context.Context, f *Fleet) error {
	for _, command := range [][]string{
		{"create", "namespace", ArgoCDNamespace},
		{"apply", "--server-side", "--namespace", ArgoCDNamespace, "--filename", a.manifests},
	} {
		if _, err := f.Command(ctx, "kubectl", command...); err != nil {
			return err
		}
	}
	if err := f.Hub.WaitForCRDs(ctx); err != nil {
		return err
	}
	return f.Hub.Apply(ctx, []byte(argoCDObjects))
}

// Run runs the ApplicationSet controller with a token of its ServiceAccount, as a component of the lab with the name
// ApplicationSetController, and waits until the controller processes ApplicationSets.
func (a ArgoCD) Run(ctx context.Context, f *Fleet) error {
	kubeconfig, err := f.Hub.ServiceAccountKubeconfig(ctx, ArgoCDNamespace, ApplicationSetController)
	if err != nil {
		return err
	}
	webhook, err := f.Port()
	if err != nil {
		return err
	}
	p, err := f.Run(process.Spec{
		Name: ApplicationSetController, Path: a.program, Dir: f.Dir,
		Args: []string{
			"--namespace=" + ArgoCDNamespace, "--metrics-addr=0", "--probe-addr=0", fmt.Sprintf("--webhook-addr=127.0.0.1:%d", webhook), "--logformat=text",
		},
		// A part of the program reads the kubeconfig from this variable only, and not from flag --kubeconfig.
		Env: []string{"KUBECONFIG=" + kubeconfig},
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	return p.WaitReady(ctx, func(context.Context) error {
		log, err := os.ReadFile(p.LogFile())
		if err == nil && !strings.Contains(string(log), "Starting workers") {
			err = errors.New("the controller has not started")
		}
		return err
	})
}
