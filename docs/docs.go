// Copyright Contributors to the Open Cluster Management project

// Package docs embeds the pages for users, so that the program can quote the pages.
package docs

import "embed"

// Pages are the pages of this directory.
//
//go:embed *.md
var Pages embed.FS
