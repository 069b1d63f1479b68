// Copyright Contributors to the Open Cluster Management project

package register

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// requestTimeout is the time for one request. pollInterval is the pause between two requests of a wait.
const (
	requestTimeout = 15 * time.Second
	pollInterval   = time.Second
)

// await repeats a check until the check succeeds. The error is the last error of the check.
func await(ctx context.Context, timeout time.Duration, check func(context.Context) error) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, pollInterval, timeout, true, func(ctx context.Context) (bool, error) {
		if err := check(ctx); err != nil {
			if last == nil || ctx.Err() == nil {
				last = err
			}
			return false, nil
		}
		return true, nil
	})
	if err != nil && last != nil && wait.Interrupted(err) {
		return last
	}
	return err
}

// RotateToken replaces the ServiceAccount on the cluster, after WriteCluster. All tokens of the former ServiceAccount end: the tokens of Secrets, and
// the tokens of an earlier TokenDuration, which nothing else ends.
func (r *Registration) RotateToken(ctx context.Context) error {
	secret, err := r.cluster.findOwnedSecret(ctx, r.id, r.tokenName())
	if err != nil {
		return err
	}
	if secret != nil {
		if err := r.cluster.remove(ctx, secret); err != nil {
			return err
		}
	}
	for _, o := range r.onCluster {
		if o.GetKind() != rbacv1.ServiceAccountKind {
			continue
		}
		found, err := r.cluster.find(ctx, o)
		if err != nil {
			return err
		}
		if found != nil {
			if err := r.cluster.remove(ctx, found); err != nil {
				return err
			}
		}
	}
	_, err = r.WriteCluster(ctx)
	return err
}

// FetchToken returns a token of the ServiceAccount, and the end of its lifetime or zero.
func (r *Registration) FetchToken(ctx context.Context) (token string, expires time.Time, err error) {
	if r.TokenDuration > 0 {
		return r.requestToken(ctx)
	}
	at := r.tokenName()
	err = await(ctx, r.Timeout, func(ctx context.Context) error {
		secret, err := r.cluster.Kube.CoreV1().Secrets(at.Namespace).Get(ctx, at.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) { // the tokens controller may delete the Secret with those of a former ServiceAccount
			_, err = r.WriteCluster(ctx)
			return cmp.Or(err, errNoToken(r.cluster.Name, at))
		}
		if err != nil {
			return r.cluster.explain("read Secret "+at.String(), err)
		}
		token = string(secret.Data[corev1.ServiceAccountTokenKey])
		if token == "" {
			return errNoToken(r.cluster.Name, at)
		}
		return nil
	})
	return token, time.Time{}, err
}

func errNoToken(cluster string, secret types.NamespacedName) error {
	return fmt.Errorf("%s has written no token into Secret %q: check that the controller manager of the cluster runs its tokens controller, or use --token-duration",
		cluster, secret)
}

func (r *Registration) requestToken(ctx context.Context) (string, time.Time, error) {
	seconds := int64(r.TokenDuration.Seconds())
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}
	answer, err := r.cluster.Kube.CoreV1().ServiceAccounts(r.Account.Namespace).CreateToken(ctx, r.Account.Name, request, metav1.CreateOptions{})
	if err != nil {
		return "", time.Time{}, r.cluster.explain(fmt.Sprintf("request a token of ServiceAccount %q", r.Account), err)
	}
	return answer.Status.Token, answer.Status.ExpirationTimestamp.Time, nil
}

// CheckCredential proves that the cluster answers requests with the token, and returns the Kubernetes version of the cluster.
func (r *Registration) CheckCredential(ctx context.Context, token string) (version string, err error) {
	config := rest.AnonymousClientConfig(r.cluster.Config)
	config.BearerToken = token
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return "", fmt.Errorf("cannot create a client with the token of ServiceAccount %q: %w", r.Account, err)
	}
	err = await(ctx, r.Timeout, func(ctx context.Context) error {
		about, err := client.Discovery().ServerVersion()
		if err != nil {
			return r.explainToken("read /version", err)
		}
		if _, err := client.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{}); err != nil {
			return r.explainToken("read Namespace kube-system", err)
		}
		version = about.GitVersion
		return nil
	})
	return version, err
}

// explainToken returns the error of a request with the token.
func (r *Registration) explainToken(action string, err error) error {
	next := "check that the address is right and reachable from this machine"
	var status apierrors.APIStatus
	switch {
	case apierrors.IsUnauthorized(err):
		next = "the API server does not accept the token: check that the server of the kubeconfig is the cluster of the ServiceAccount, and not a proxy with other accounts"
	case apierrors.IsForbidden(err):
		next = "check the ClusterRoleBinding of the ServiceAccount, and further authorizers of the cluster"
	case errors.As(err, &status):
		next = "check the API server of the cluster"
	}
	return fmt.Errorf("cannot %s on %s with the token of ServiceAccount %q: %w; %s", action, r.cluster.Name, r.Account, err, next)
}

// Redact replaces the data of Secrets by PlaceholderToken.
func Redact(objects []*unstructured.Unstructured) []*unstructured.Unstructured {
	out := make([]*unstructured.Unstructured, 0, len(objects))
	for _, o := range objects {
		o = o.DeepCopy()
		if o.GetKind() == "Secret" && o.Object["data"] != nil {
			delete(o.Object, "data")
			o.Object["stringData"] = map[string]any{"token": PlaceholderToken}
		}
		out = append(out, o)
	}
	return out
}
