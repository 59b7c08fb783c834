package manifests

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"testing"

	certmanager "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	keda "github.com/kedacore/keda/v2/apis/keda/v1alpha1"
	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	apps "k8s.io/api/apps/v1"
	autoscaling "k8s.io/api/autoscaling/v2"
	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	rbac "k8s.io/api/rbac/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	gateway "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/yaml"
)

// newObject returns an empty object of a kind, or nil if the manifests have no such kind.
func newObject(kind meta.TypeMeta) meta.Object {
	switch kind {
	case meta.TypeMeta{APIVersion: "v1", Kind: "Namespace"}:
		return new(core.Namespace)
	case meta.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}:
		return new(core.ConfigMap)
	case meta.TypeMeta{APIVersion: "v1", Kind: "Service"}:
		return new(core.Service)
	case meta.TypeMeta{APIVersion: "v1", Kind: "ServiceAccount"}:
		return new(core.ServiceAccount)
	case meta.TypeMeta{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "Role"}:
		return new(rbac.Role)
	case meta.TypeMeta{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "RoleBinding"}:
		return new(rbac.RoleBinding)
	case meta.TypeMeta{APIVersion: "networking.k8s.io/v1", Kind: "Ingress"}:
		return new(networking.Ingress)
	case meta.TypeMeta{APIVersion: "gateway.networking.k8s.io/v1", Kind: "Gateway"}:
		return new(gateway.Gateway)
	case meta.TypeMeta{APIVersion: "gateway.networking.k8s.io/v1", Kind: "HTTPRoute"}:
		return new(gateway.HTTPRoute)
	case meta.TypeMeta{APIVersion: "cert-manager.io/v1", Kind: "Certificate"}:
		return new(certmanager.Certificate)
	case meta.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"}:
		return new(apps.Deployment)
	case meta.TypeMeta{APIVersion: "batch/v1", Kind: "Job"}:
		return new(batch.Job)
	case meta.TypeMeta{APIVersion: "policy/v1", Kind: "PodDisruptionBudget"}:
		return new(policy.PodDisruptionBudget)
	case meta.TypeMeta{APIVersion: "networking.k8s.io/v1", Kind: "NetworkPolicy"}:
		return new(networking.NetworkPolicy)
	case meta.TypeMeta{APIVersion: "monitoring.coreos.com/v1", Kind: "ServiceMonitor"}:
		return new(monitoring.ServiceMonitor)
	case meta.TypeMeta{APIVersion: "monitoring.coreos.com/v1", Kind: "PrometheusRule"}:
		return new(monitoring.PrometheusRule)
	case meta.TypeMeta{APIVersion: "autoscaling/v2", Kind: "HorizontalPodAutoscaler"}:
		return new(autoscaling.HorizontalPodAutoscaler)
	case meta.TypeMeta{APIVersion: "keda.sh/v1alpha1", Kind: "ScaledObject"}:
		return new(keda.ScaledObject)
	}
	return nil
}

// decode reads the objects of a YAML file strictly: a field that Kubernetes does not know is an error, as is a value of the wrong type.
func decode(name string, text []byte) ([]meta.Object, error) {
	var objects []meta.Object
	documents := utilyaml.NewDocumentDecoder(io.NopCloser(bytes.NewReader(text)))
	defer documents.Close()
	buffer := make([]byte, len(text)+1)
	for n := 1; ; n++ {
		size, err := documents.Read(buffer)
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%s: document %d: %w", name, n, err)
		}
		document := buffer[:size]
		var kind meta.TypeMeta
		if err := yaml.Unmarshal(document, &kind); err != nil {
			return nil, fmt.Errorf("%s: document %d: %w", name, n, err)
		}
		if (kind == meta.TypeMeta{}) { // comments only
			continue
		}
		object := newObject(kind)
		if object == nil {
			return nil, fmt.Errorf("%s: document %d: unknown kind %s of %s", name, n, kind.Kind, kind.APIVersion)
		}
		if err := yaml.UnmarshalStrict(document, object); err != nil {
			return nil, fmt.Errorf("%s: document %d: %s: %w", name, n, kind.Kind, err)
		}
		objects = append(objects, object)
	}
}

// decodeFile reads the objects of a YAML file.
func decodeFile(t *testing.T, path string) []meta.Object {
	t.Helper()
	return must[[]meta.Object](t)(decode(path, must[[]byte](t)(os.ReadFile(path))))
}

// find returns the object of a type by its name.
func find[T meta.Object](objects []meta.Object, name string) (T, error) {
	var names []string
	for _, o := range objects {
		if t, ok := o.(T); ok {
			if t.GetName() == name {
				return t, nil
			}
			names = append(names, t.GetName())
		}
	}
	var none T
	return none, fmt.Errorf("no %T named %q: there are %q", none, name, names)
}
