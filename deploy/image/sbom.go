// Copyright Contributors to the Open Cluster Management project

package main

import (
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"fmt"
	"net/url"
	"os"
	"regexp"
	"runtime/debug"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdx/v2/common"
	"github.com/spdx/tools-golang/spdx/v2/v2_3"
)

// spdxMediaType is the media type of SPDX documents in JSON, registered at IANA.
const spdxMediaType types.MediaType = "application/spdx+json"

// describeProgram returns the software bill of materials of a Go program, an SPDX 2.3 document in JSON: the main module, the modules that
// the linker put into the program, and the version of Go. The document depends on the program alone.
func describeProgram(program, version string) ([]byte, error) {
	content, err := os.ReadFile(program)
	if err != nil {
		return nil, err
	}
	info, err := buildinfo.Read(bytes.NewReader(content))
	if err != nil {
		return nil, fmt.Errorf("cannot read the modules of %s: %w", program, err)
	}
	digest := sha256.Sum256(content)
	main := describeModule(info.Main.Path, version)
	main.PackageChecksums = []common.Checksum{{Algorithm: common.SHA256, Value: hex.EncodeToString(digest[:])}}
	main.PackageLicenseDeclared = "Apache-2.0"
	document := &v2_3.Document{
		SPDXVersion: v2_3.Version, DataLicense: v2_3.DataLicense, SPDXIdentifier: "DOCUMENT", DocumentName: "knative-addon " + version,
		DocumentNamespace: fmt.Sprintf("https://%s/sbom/%x", info.Main.Path, digest),
		CreationInfo: &v2_3.CreationInfo{
			Created: "1970-01-01T00:00:00Z", Creators: []common.Creator{{CreatorType: "Organization", Creator: "Open Cluster Management"}},
			CreatorComment: "The document has no time, so that the same source yields the same document.",
		},
		Packages: []*v2_3.Package{main},
	}
	relate := func(from, to common.ElementID, relationship string) {
		document.Relationships = append(document.Relationships, &v2_3.Relationship{
			RefA: common.DocElementID{ElementRefID: from}, RefB: common.DocElementID{ElementRefID: to}, Relationship: relationship,
		})
	}
	relate(document.SPDXIdentifier, main.PackageSPDXIdentifier, common.TypeRelationshipDescribe)
	for _, m := range append(linkedModules(info), &debug.Module{Path: "stdlib", Version: strings.TrimPrefix(info.GoVersion, "go")}) {
		dependency := describeModule(m.Path, m.Version)
		document.Packages = append(document.Packages, dependency)
		relate(main.PackageSPDXIdentifier, dependency.PackageSPDXIdentifier, common.TypeRelationshipDependsOn)
	}
	var out bytes.Buffer
	err = json.Write(document, &out, json.Indent(" "))
	return out.Bytes(), err
}

// linkedModules returns the modules of the program besides the main module. A replaced module is the replacement.
func linkedModules(info *debug.BuildInfo) []*debug.Module {
	var out []*debug.Module
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		out = append(out, m)
	}
	return out
}

// notInIdentifiers matches the characters that an SPDX identifier must not have.
var notInIdentifiers = regexp.MustCompile(`[^a-zA-Z0-9.-]+`)

func describeModule(path, version string) *v2_3.Package {
	return &v2_3.Package{
		PackageName: path, PackageVersion: version, PackageSPDXIdentifier: common.ElementID("Package-" + notInIdentifiers.ReplaceAllString(path+"-"+version, "-")),
		PackageDownloadLocation: "NOASSERTION", PackageLicenseConcluded: "NOASSERTION", PackageLicenseDeclared: "NOASSERTION", PackageCopyrightText: "NOASSERTION",
		PackageExternalReferences: []*v2_3.PackageExternalReference{{
			Category: common.CategoryPackageManager, RefType: common.TypePackageManagerPURL,
			Locator: "pkg:golang/" + path + "@" + url.QueryEscape(version),
		}},
	}
}

// attachDocument returns the OCI artifact of a document that refers to an image: registries list the artifact among the referrers of the
// image.
func attachDocument(d document, image v1.Image) (v1.Image, error) {
	subject, err := partial.Descriptor(image)
	if err != nil {
		return nil, fmt.Errorf("cannot describe the image of a document: %w", err)
	}
	artifact, err := mutate.AppendLayers(mutate.MediaType(empty.Image, types.OCIManifestSchema1), static.NewLayer(d.content, d.mediaType))
	if err != nil {
		return nil, fmt.Errorf("cannot pack a document: %w", err)
	}
	// Registries take the type of an artifact from the media type of the configuration.
	artifact = mutate.ConfigMediaType(artifact, d.mediaType)
	attached, ok := mutate.Subject(artifact, *subject).(v1.Image)
	if !ok {
		return nil, fmt.Errorf("cannot refer from a document to image %s", subject.Digest)
	}
	return attached, nil
}

// pushDocument pushes the document of an image beside the image.
func pushDocument(repository name.Repository, d document, image v1.Image, options ...remote.Option) error {
	artifact, err := attachDocument(d, image)
	if err != nil {
		return err
	}
	digest, err := artifact.Digest()
	if err != nil {
		return err
	}
	reference := repository.Digest(digest.String())
	if err := remote.Write(reference, artifact, options...); err != nil {
		return fmt.Errorf("cannot push the document %s of type %s: %w", reference, d.mediaType, err)
	}
	return nil
}
