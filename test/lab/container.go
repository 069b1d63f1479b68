// Copyright Contributors to the Open Cluster Management project

package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"open-cluster-management.io/knative-addon/test/lab/pki"
	"open-cluster-management.io/knative-addon/test/lab/process"
)

// container is a container of a Deployment that runs as a process, because pods of a lab run nothing. The process has the arguments of
// the container, the token of the pod's ServiceAccount, and the container's Secrets as files below its working directory.
type container struct {
	cluster *Cluster
	// component names the process among the components of the lab.
	component                   string
	namespace, deployment, name string
	// args and env are further arguments and variables.
	args, env []string
}

// accountDir is where a container finds the token of its ServiceAccount.
const accountDir = "/var/run/secrets/kubernetes.io/serviceaccount"

// root is the directory that stands for the root directory of the container.
func (c container) root() string { return c.cluster.path(c.component) }

// file is the file that stands for a file of the container.
func (c container) file(name string) string { return filepath.Join(c.root(), name) }

// startContainer waits for the Deployment of the container and its Secrets, and starts the process.
func (l *Lab) startContainer(ctx context.Context, c container) error {
	client, err := kubernetes.NewForConfig(c.cluster.Config)
	if err != nil {
		return fmt.Errorf("cannot create a client for %s: %w", c.cluster.Name, err)
	}
	var deployment *appsv1.Deployment
	err = waitFor(ctx, "Deployment "+c.deployment+" of "+c.cluster.Name, func(ctx context.Context) error {
		deployment, err = client.AppsV1().Deployments(c.namespace).Get(ctx, c.deployment, metav1.GetOptions{})
		return err
	})
	if err != nil {
		return err
	}
	pod := deployment.Spec.Template.Spec
	i := slices.IndexFunc(pod.Containers, func(of corev1.Container) bool { return of.Name == c.name })
	if i < 0 {
		return fmt.Errorf("deployment %q of %s has no container %q", c.deployment, c.cluster.Name, c.name)
	}
	err = errors.Join(c.mountAccount(ctx, pod.ServiceAccountName), c.mountSecrets(ctx, client, pod.Volumes, pod.Containers[i].VolumeMounts))
	if err != nil {
		return fmt.Errorf("cannot mount the volumes of %s: %w", c.component, err)
	}
	_, err = l.procs.Start(process.Spec{
		Name: c.component, Path: l.Bin.Path(programOf(pod.Containers[i])), Dir: c.root(),
		Args: append(c.arguments(pod.Containers[i]), c.args...),
		Env: append(environment(deployment, pod.Containers[i], map[string]string{
			"NAMESPACE": c.namespace, "KUBECONFIG": c.file(accountDir + "/kubeconfig"),
		}), c.env...),
	})
	return err
}

// programOf names the program of a container's command; the names of two programs of cluster-proxy say too little.
func programOf(c corev1.Container) string {
	name := path.Base(c.Command[0])
	if name == "manager" || name == "agent" {
		return "cluster-proxy-" + name
	}
	return name
}

// arguments are those of the container, with the files that stand for the mounted files.
func (c container) arguments(of corev1.Container) []string {
	args := slices.Concat(of.Command[1:], of.Args)
	for i, arg := range args {
		name, value, _ := strings.Cut(arg, "=")
		for _, mount := range of.VolumeMounts {
			if strings.HasPrefix(value, strings.TrimSuffix(mount.MountPath, "/")+"/") {
				args[i] = name + "=" + c.file(value)
			}
		}
	}
	return args
}

// mountAccount writes what a container finds of its ServiceAccount, and a kubeconfig with the same token.
func (c container) mountAccount(ctx context.Context, account string) error {
	dir := c.file(accountDir)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	var token string
	err := waitFor(ctx, "ServiceAccount "+account+" of "+c.cluster.Name, func(ctx context.Context) error {
		var err error
		token, err = c.cluster.token(ctx, c.namespace, account)
		return err
	})
	if err != nil {
		return err
	}
	files := map[string][]byte{"token": []byte(token), "ca.crt": c.cluster.CA, "namespace": []byte(c.namespace)}
	return errors.Join(writeFiles(dir, files),
		pki.WriteKubeconfig(filepath.Join(dir, "kubeconfig"), c.cluster.Name, c.cluster.URL, c.cluster.CA, pki.User{Token: token}))
}

// mountSecrets writes the Secrets of a container as files, as soon as they have a certificate.
func (c container) mountSecrets(ctx context.Context, client kubernetes.Interface, volumes []corev1.Volume, mounts []corev1.VolumeMount) error {
	for _, mount := range mounts {
		i := slices.IndexFunc(volumes, func(v corev1.Volume) bool { return v.Name == mount.Name })
		if i < 0 || volumes[i].Secret == nil {
			continue
		}
		name := volumes[i].Secret.SecretName
		var secret *corev1.Secret
		err := waitFor(ctx, "Secret "+name+" of "+c.cluster.Name, func(ctx context.Context) error {
			var err error
			if secret, err = client.CoreV1().Secrets(c.namespace).Get(ctx, name, metav1.GetOptions{}); err != nil {
				return err
			}
			if len(secret.Data["tls.crt"])+len(secret.Data["ca.crt"]) == 0 {
				return fmt.Errorf("secret %q has no certificate", name)
			}
			return nil
		})
		if err == nil {
			err = os.MkdirAll(c.file(mount.MountPath), 0o700)
		}
		if err == nil {
			err = writeFiles(c.file(mount.MountPath), secret.Data)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func writeFiles(dir string, files map[string][]byte) error {
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			return err
		}
	}
	return nil
}
