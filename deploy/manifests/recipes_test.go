package manifests

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	gateway "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/yaml"
)

const recipes = "../../examples/recipes/"

// trafficPolicy is what examples/recipes sets of Envoy Gateway's BackendTrafficPolicy.
type trafficPolicy struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata"`
	Spec            struct {
		TargetRefs []gateway.LocalPolicyTargetReference `json:"targetRefs"`
		Timeout    struct {
			HTTP struct {
				RequestTimeout    gateway.Duration `json:"requestTimeout"`
				StreamIdleTimeout gateway.Duration `json:"streamIdleTimeout"`
			} `json:"http"`
		} `json:"timeout"`
		CircuitBreaker struct {
			MaxConnections      int64 `json:"maxConnections"`
			MaxParallelRequests int64 `json:"maxParallelRequests"`
		} `json:"circuitBreaker"`
	} `json:"spec"`
}

// application is what examples/recipes sets of Argo CD's Application.
type application struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata"`
	Spec            struct {
		Project string `json:"project"`
		Source  struct {
			RepoURL        string `json:"repoURL"`
			TargetRevision string `json:"targetRevision"`
			Path           string `json:"path"`
			Helm           struct {
				ReleaseName  string         `json:"releaseName"`
				ValuesObject map[string]any `json:"valuesObject"`
			} `json:"helm"`
		} `json:"source"`
		Destination struct {
			Server    string `json:"server"`
			Namespace string `json:"namespace"`
		} `json:"destination"`
		SyncPolicy struct {
			Automated struct {
				Prune    bool `json:"prune"`
				SelfHeal bool `json:"selfHeal"`
			} `json:"automated"`
		} `json:"syncPolicy"`
	} `json:"spec"`
}

// TestRecipeApplication renders the chart with the values of the Application, as Argo CD does, and checks that nothing but the migration,
// its ConfigMap and its NetworkPolicy is a hook: Argo CD runs pre-install and pre-upgrade hooks before it applies the rest.
func TestRecipeApplication(t *testing.T) {
	var a application
	if err := yaml.UnmarshalStrict(must[[]byte](t)(os.ReadFile(recipes+"argo-cd.yaml")), &a); err != nil {
		t.Fatal(err)
	}
	if a.APIVersion != "argoproj.io/v1alpha1" || a.Kind != "Application" || a.Namespace != "argocd" || a.Spec.Project != "default" {
		t.Errorf("%s %s in the namespace %s, project %s", a.APIVersion, a.Kind, a.Namespace, a.Spec.Project)
	}
	source := a.Spec.Source
	if source.TargetRevision != "v"+version(t) || source.Path != "deploy/"+strings.TrimPrefix(chart, "../") {
		t.Errorf("the source is %s of %s", source.Path, source.TargetRevision)
	}
	if a.Spec.Destination.Namespace != "wsbouncer" || source.Helm.ReleaseName != "wsbouncer" {
		t.Errorf("the release %s is in the namespace %s", source.Helm.ReleaseName, a.Spec.Destination.Namespace)
	}
	values := filepath.Join(t.TempDir(), "values.yaml")
	if err := os.WriteFile(values, must[[]byte](t)(yaml.Marshal(source.Helm.ValuesObject)), 0o600); err != nil {
		t.Fatal(err)
	}
	objects := rendered(t, values)
	checkChartCommands(t, objects)
	var hooks []string
	for _, o := range objects {
		hook, ok := o.GetAnnotations()["helm.sh/hook"]
		if !ok {
			continue
		}
		if hook != "pre-install,pre-upgrade" {
			t.Errorf("%T %s is a hook of %s", o, o.GetName(), hook)
		}
		switch o.(type) {
		case *batch.Job:
			hooks = append(hooks, "Job")
		case *core.ConfigMap:
			hooks = append(hooks, "ConfigMap")
		case *networking.NetworkPolicy:
			hooks = append(hooks, "NetworkPolicy")
		default:
			t.Errorf("%T %s is a hook", o, o.GetName())
		}
	}
	if slices.Sort(hooks); !slices.Equal(hooks, []string{"ConfigMap", "Job", "NetworkPolicy"}) {
		t.Errorf("the hooks are %q", hooks)
	}
}

// TestRecipeGateways reads the objects for Envoy Gateway and ingress-nginx strictly, and checks that they name each other and the chart's Service.
func TestRecipeGateways(t *testing.T) {
	name := recipes + "envoy-gateway.yaml"
	var standard []string
	var policy trafficPolicy
	for document := range strings.SplitSeq(string(must[[]byte](t)(os.ReadFile(name))), "\n---\n") {
		if !strings.Contains(document, "gateway.envoyproxy.io/") {
			standard = append(standard, document)
		} else if err := yaml.UnmarshalStrict([]byte(document), &policy); err != nil {
			t.Fatal(err)
		}
	}
	objects := must[[]meta.Object](t)(decode(name, []byte(strings.Join(standard, "\n---\n"))))
	public := must[*gateway.Gateway](t)(find[*gateway.Gateway](objects, "public"))
	route := must[*gateway.HTTPRoute](t)(find[*gateway.HTTPRoute](objects, "realtime"))
	other := must[*gateway.HTTPRoute](t)(find[*gateway.HTTPRoute](objects, "other"))
	for _, r := range []*gateway.HTTPRoute{route, other} {
		if parent := r.Spec.ParentRefs[0]; string(parent.Name) != public.Name || r.Spec.Hostnames[0] != *public.Spec.Listeners[0].Hostname {
			t.Errorf("%s is a route of %s for %q", r.Name, parent.Name, r.Spec.Hostnames)
		}
	}
	if target := policy.Spec.TargetRefs[0]; policy.Kind != "BackendTrafficPolicy" || policy.Namespace != route.Namespace || string(target.Name) != route.Name {
		t.Errorf("%s in %s is for %s", policy.Kind, policy.Namespace, target.Name)
	}
	if limits := policy.Spec.Timeout.HTTP; limits.RequestTimeout != "0s" || limits.StreamIdleTimeout != "1h" {
		t.Errorf("the timeouts are %+v", limits)
	}

	name = recipes + "ingress-nginx.yaml"
	objects = must[[]meta.Object](t)(decode(name, must[[]byte](t)(os.ReadFile(name))))
	ingress := must[*networking.Ingress](t)(find[*networking.Ingress](objects, "realtime"))
	service := must[*core.Service](t)(find[*core.Service](rendered(t, fleetFolder+"/values.yaml"), "wsbouncer"))
	port := service.Spec.Ports[0]
	if to := route.Spec.Rules[0].BackendRefs[0]; string(to.Name) != service.Name || *to.Port != port.Port {
		t.Errorf("the route leads to port %d of %s", *to.Port, to.Name)
	}
	if to := ingress.Spec.Rules[0].HTTP.Paths[0].Backend.Service; to.Name != service.Name || to.Port.Name != port.Name {
		t.Errorf("the Ingress leads to port %s of %s", to.Port.Name, to.Name)
	}
}
