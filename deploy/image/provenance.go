// Copyright Contributors to the Open Cluster Management project

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
	provenance "github.com/in-toto/attestation/go/predicates/provenance/v1"
	intoto "github.com/in-toto/attestation/go/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/structpb"
)

const (
	// intotoMediaType is the media type of in-toto statements in JSON.
	intotoMediaType types.MediaType = "application/vnd.in-toto+json"
	// predicateType is the type of SLSA provenance in an in-toto statement.
	predicateType = "https://slsa.dev/provenance/v1"
	// sourceRepository is the repository of the source, and buildType the page that describes the parameters of a build.
	sourceRepository = "https://github.com/open-cluster-management-io/knative-addon"
	buildType        = sourceRepository + "/blob/main/deploy/image/provenance.go"
)

// build describes how an image was built.
type build struct {
	// builder is the URI of the builder, revision the commit of the source.
	builder, revision string
	version           string
	platform          v1.Platform
}

// readRevision returns the commit of a checkout. A checkout with changes has no revision.
func readRevision(ctx context.Context, source string) (string, error) {
	changes, err := runGit(ctx, source, "status", "--porcelain")
	if err != nil {
		return "", err
	}
	if changes != "" {
		return "", fmt.Errorf("cannot describe the provenance of an image from a checkout with changes; commit these, or leave out -builder:\n%s", changes)
	}
	return runGit(ctx, source, "rev-parse", "HEAD")
}

func runGit(ctx context.Context, directory string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir = directory
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("cannot read the revision of %s: git %s: %w: %s", directory, args[0], err, strings.TrimSpace(stderr.String()))
	}
	return strings.TrimSpace(string(out)), nil
}

// describeBuild returns the provenance of an image: an in-toto statement with a predicate of SLSA 1.0, in JSON. The statement has no
// time, so that the same build yields the same statement.
func describeBuild(repository name.Repository, image v1.Image, b build) ([]byte, error) {
	digest, err := image.Digest()
	if err != nil {
		return nil, err
	}
	parameters, err := structpb.NewStruct(map[string]any{"source": sourceRepository, "version": b.version, "platform": b.platform.String()})
	if err != nil {
		return nil, err
	}
	internal, err := structpb.NewStruct(map[string]any{"go": runtime.Version()})
	if err != nil {
		return nil, err
	}
	described := &provenance.Provenance{
		BuildDefinition: &provenance.BuildDefinition{
			BuildType: buildType, ExternalParameters: parameters, InternalParameters: internal,
			ResolvedDependencies: []*intoto.ResourceDescriptor{{
				Uri: "git+" + sourceRepository + "@" + b.revision, Digest: map[string]string{"gitCommit": b.revision},
			}},
		},
		RunDetails: &provenance.RunDetails{Builder: &provenance.Builder{Id: b.builder}},
	}
	predicate := &structpb.Struct{}
	encoded, err := protojson.Marshal(described)
	if err = errors.Join(described.Validate(), err, protojson.Unmarshal(encoded, predicate)); err != nil {
		return nil, fmt.Errorf("cannot describe the build of %s: %w", repository, err)
	}
	statement := &intoto.Statement{
		Type:    intoto.StatementTypeUri,
		Subject: []*intoto.ResourceDescriptor{{Name: repository.Name(), Digest: map[string]string{digest.Algorithm: digest.Hex}}},

		PredicateType: predicateType, Predicate: predicate,
	}
	encoded, err = protojson.Marshal(statement)
	if err = errors.Join(statement.Validate(), err); err != nil {
		return nil, fmt.Errorf("cannot describe the build of %s: %w", repository, err)
	}
	return indentJSON(encoded)
}

// indentJSON removes the random spaces of protojson.
func indentJSON(encoded []byte) ([]byte, error) {
	var compact, out bytes.Buffer
	if err := json.Compact(&compact, encoded); err != nil {
		return nil, err
	}
	err := json.Indent(&out, compact.Bytes(), "", " ")
	return out.Bytes(), err
}
