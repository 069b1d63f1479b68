// Copyright Contributors to the Open Cluster Management project

package pki

import (
	"fmt"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// User is how a kubeconfig logs in: by certificate or by token.
type User struct {
	Cert, Key []byte
	Token     string
}

// WriteKubeconfig writes a kubeconfig with one cluster, one user and one context named name.
func WriteKubeconfig(file, name, server string, ca []byte, user User) error {
	cfg := clientcmdapi.NewConfig()
	cfg.Clusters[name] = &clientcmdapi.Cluster{Server: server, CertificateAuthorityData: ca}
	cfg.AuthInfos[name] = &clientcmdapi.AuthInfo{
		ClientCertificateData: user.Cert, ClientKeyData: user.Key, Token: user.Token,
	}
	cfg.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	cfg.CurrentContext = name
	if err := clientcmd.WriteToFile(*cfg, file); err != nil {
		return fmt.Errorf("cannot write kubeconfig %q: %w", file, err)
	}
	return nil
}
