// Package kustomized makes of a folder of manifests what `kubectl kustomize` makes of it. The tests and the programs of this module use it.
package kustomized

import (
	"fmt"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// Build returns the objects of a folder with a kustomization.yaml, as YAML documents.
func Build(folder string) ([]byte, error) {
	made, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), folder)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", folder, err)
	}
	text, err := made.AsYaml()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", folder, err)
	}
	return text, nil
}
