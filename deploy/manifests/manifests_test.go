package manifests

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	keda "github.com/kedacore/keda/v2/apis/keda/v1alpha1"
	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	apps "k8s.io/api/apps/v1"
	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	gateway "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/resmap"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

// Folders of manifests: of proxies without a database, and of a fleet.
const (
	folder      = "../kubernetes"
	fleetFolder = "../kubernetes-fleet"
)

func must[T any](t *testing.T) func(T, error) T {
	t.Helper()
	return func(value T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

// TestDecoder gives the decoder what it must refuse.
func TestDecoder(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"apiVersion: apps/v1\nkind: Deployment\nspec:\n  replica: 2\n", `unknown field "replica"`},
		{"apiVersion: apps/v1\nkind: Deployment\nspec:\n  replicas: two\n", "cannot unmarshal"},
		{"apiVersion: v1\nkind: Service\nspec: {}\nspec: {}\n", "already"},
		{"apiVersion: v1\nkind: Servise\n", "unknown kind"},
		{"# a\n---\napiVersion: keda.sh/v1alpha1\nkind: ScaledObject\nspec:\n  triggers:\n    - kind: prometheus\n", `unknown field "kind"`},
		{"apiVersion: monitoring.coreos.com/v1\nkind: ServiceMonitor\nspec:\n  endpoints:\n    - ports: admin\n", `unknown field "ports"`},
	} {
		if _, err := decode("x.yaml", []byte(c.text)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want %s", c.text, err, c.want)
		}
	}
}

// TestKustomize checks what kustomize makes of each folder: everything is in the namespace, and the ConfigMap has configuration.yaml, which the
// proxies of the manifests can serve.
func TestKustomize(t *testing.T) {
	for _, f := range []string{folder, fleetFolder} {
		t.Run(filepath.Base(f), func(t *testing.T) {
			objects := built(t, f)
			maps := 0
			for _, o := range objects {
				if _, ok := o.(*core.Namespace); !ok && o.GetNamespace() != "wsbouncer" {
					t.Errorf("%T %s is in the namespace %q", o, o.GetName(), o.GetNamespace())
				}
				if m, ok := o.(*core.ConfigMap); ok {
					maps++
					if file := must[[]byte](t)(os.ReadFile(f + "/configuration.yaml")); m.Data["configuration.yaml"] != string(file) {
						t.Errorf("the ConfigMap has %q", m.Data)
					}
				}
			}
			if maps != 1 {
				t.Errorf("there are %d ConfigMaps", maps)
			}
			checkChartCommands(t, objects)
			checkRoles(t, objects)
			for _, other := range []string{"servers", "monitoring", "autoscaling-keda"} {
				objects = append(objects, decodeFile(t, folder+"/"+other+".yaml")...)
			}
			checkReferences(t, objects)
		})
	}
}

// built returns the objects that kustomize makes of a folder.
func built(t *testing.T, folder string) []meta.Object {
	t.Helper()
	made := must[resmap.ResMap](t)(krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), folder))
	return must[[]meta.Object](t)(decode(folder, must[[]byte](t)(made.AsYaml())))
}

// podOf returns the pod that an object makes; nil for none.
func podOf(o meta.Object) *core.PodSpec {
	switch o := o.(type) {
	case *apps.Deployment:
		return &o.Spec.Template.Spec
	case *batch.Job:
		return &o.Spec.Template.Spec
	}
	return nil
}

func containersOf(o meta.Object) []core.Container {
	if pod := podOf(o); pod != nil {
		return slices.Concat(pod.InitContainers, pod.Containers)
	}
	return nil
}

// checkPodSecurity checks that the pod that an object makes, if any, meets the restricted standard, and that it has the volumes that it mounts.
func checkPodSecurity(t *testing.T, o meta.Object) {
	t.Helper()
	pod := podOf(o)
	if pod == nil {
		return
	}
	if s := pod.SecurityContext; s == nil || s.RunAsNonRoot == nil || !*s.RunAsNonRoot || s.RunAsUser == nil || *s.RunAsUser == 0 ||
		s.SeccompProfile == nil || s.SeccompProfile.Type != core.SeccompProfileTypeRuntimeDefault {
		t.Errorf("%s: securityContext of the pod: %+v", o.GetName(), s)
	}
	for _, c := range containersOf(o) {
		if s := c.SecurityContext; s == nil || s.AllowPrivilegeEscalation == nil || *s.AllowPrivilegeEscalation || s.ReadOnlyRootFilesystem == nil ||
			!*s.ReadOnlyRootFilesystem || s.Capabilities == nil || !slices.Equal(s.Capabilities.Drop, []core.Capability{"ALL"}) {
			t.Errorf("%s: securityContext of %s: %+v", o.GetName(), c.Name, s)
		}
		for _, m := range c.VolumeMounts {
			if !slices.ContainsFunc(pod.Volumes, func(v core.Volume) bool { return v.Name == m.Name }) {
				t.Errorf("%s: no volume %s", o.GetName(), m.Name)
			}
			if m.SubPath != "" {
				t.Errorf("%s: the mount of %s would not follow changes", o.GetName(), m.Name)
			}
		}
	}
}

// checkDeployment checks what holds for pods that serve.
func checkDeployment(t *testing.T, d *apps.Deployment) {
	t.Helper()
	pod := d.Spec.Template.Spec
	if !selects(t, d.Spec.Selector, d.Spec.Template.Labels) {
		t.Errorf("%s: its selector does not match its pods", d.Name)
	}
	for _, c := range pod.Containers {
		for name, probe := range map[string]*core.Probe{"startup": c.StartupProbe, "liveness": c.LivenessProbe, "readiness": c.ReadinessProbe} {
			if probe != nil && !hasPort(c, *probePort(probe)) {
				t.Errorf("%s: the %s probe asks the port %s, which %s has not", d.Name, name, probePort(probe).String(), c.Name)
			}
		}
		if c.ReadinessProbe == nil {
			t.Errorf("%s: %s has no readiness probe", d.Name, c.Name)
		}
		if hook := c.Lifecycle.PreStop.Sleep; hook == nil || hook.Seconds >= *pod.TerminationGracePeriodSeconds {
			t.Errorf("%s: preStop %+v, and %d s until SIGKILL", d.Name, hook, *pod.TerminationGracePeriodSeconds)
		}
	}
	for _, c := range pod.TopologySpreadConstraints {
		if !selects(t, c.LabelSelector, d.Spec.Template.Labels) {
			t.Errorf("%s: the constraint for %s does not select its own pods", d.Name, c.TopologyKey)
		}
	}
}

func selects(t *testing.T, selector *meta.LabelSelector, of map[string]string) bool {
	t.Helper()
	s := must[labels.Selector](t)(meta.LabelSelectorAsSelector(selector))
	return !s.Empty() && s.Matches(labels.Set(of))
}

func probePort(p *core.Probe) *intstr.IntOrString {
	if p.HTTPGet != nil {
		return &p.HTTPGet.Port
	}
	return &p.TCPSocket.Port
}

func hasPort(c core.Container, port intstr.IntOrString) bool {
	return slices.ContainsFunc(c.Ports, func(p core.ContainerPort) bool {
		return p.Name == port.StrVal || port.Type == intstr.Int && p.ContainerPort == port.IntVal
	})
}

// checkReferences checks that services, policies, budgets, monitors and scalers lead to pods, and to ports that these have.
func checkReferences(t *testing.T, objects []meta.Object) {
	t.Helper()
	var templates []core.PodTemplateSpec
	var services []*core.Service
	for _, o := range objects {
		switch o := o.(type) {
		case *apps.Deployment:
			templates = append(templates, o.Spec.Template)
		case *batch.Job:
			templates = append(templates, o.Spec.Template)
		case *core.Service:
			services = append(services, o)
		}
	}
	// pods returns the container of the pods that a selector chooses.
	pods := func(name string, selector *meta.LabelSelector) core.Container {
		var found []core.Container
		for _, pod := range templates {
			if selects(t, selector, pod.Labels) {
				found = append(found, pod.Spec.Containers[0])
			}
		}
		if len(found) != 1 {
			t.Fatalf("%s selects the pods of %d deployments and jobs: want 1", name, len(found))
		}
		return found[0]
	}
	for _, o := range objects {
		switch o := o.(type) {
		case *core.Service:
			c := pods("Service "+o.Name, &meta.LabelSelector{MatchLabels: o.Spec.Selector})
			for _, p := range o.Spec.Ports {
				if !hasPort(c, p.TargetPort) {
					t.Errorf("Service %s: no port %s", o.Name, p.TargetPort.String())
				}
			}
		case *policy.PodDisruptionBudget:
			pods("PodDisruptionBudget", o.Spec.Selector)
		case *networking.NetworkPolicy:
			c := pods("NetworkPolicy "+o.Name, &o.Spec.PodSelector)
			for _, rule := range o.Spec.Ingress {
				for _, p := range rule.Ports {
					if !hasPort(c, *p.Port) {
						t.Errorf("NetworkPolicy %s: no port %s", o.Name, p.Port.String())
					}
				}
				for _, from := range rule.From {
					if from.PodSelector != nil {
						pods("NetworkPolicy "+o.Name+": from", from.PodSelector)
					}
				}
			}
			for _, rule := range o.Spec.Egress {
				for _, to := range rule.To {
					if to.PodSelector != nil {
						pods("NetworkPolicy "+o.Name+": to", to.PodSelector)
					}
				}
			}
		case *monitoring.ServiceMonitor:
			found := 0
			for _, s := range services {
				if !selects(t, &o.Spec.Selector, s.Labels) {
					continue
				}
				found++
				if !slices.ContainsFunc(s.Spec.Ports, func(p core.ServicePort) bool { return p.Name == o.Spec.Endpoints[0].Port }) {
					t.Errorf("ServiceMonitor: Service %s has no port %s", s.Name, o.Spec.Endpoints[0].Port)
				}
			}
			if found != 1 {
				t.Errorf("ServiceMonitor selects %d services: want 1", found)
			}
		case *networking.Ingress:
			for _, rule := range o.Spec.Rules {
				to := rule.HTTP.Paths[0].Backend.Service
				s := must[*core.Service](t)(find[*core.Service](objects, to.Name))
				if !slices.ContainsFunc(s.Spec.Ports, func(p core.ServicePort) bool { return p.Name == to.Port.Name }) {
					t.Errorf("Ingress %s: Service %s has no port %s", o.Name, s.Name, to.Port.Name)
				}
			}
		case *gateway.HTTPRoute:
			to := o.Spec.Rules[0].BackendRefs[0]
			s := must[*core.Service](t)(find[*core.Service](objects, string(to.Name)))
			if !slices.ContainsFunc(s.Spec.Ports, func(p core.ServicePort) bool { return p.Port == int32(*to.Port) }) {
				t.Errorf("HTTPRoute %s: Service %s has no port %d", o.Name, s.Name, *to.Port)
			}
		case *keda.ScaledObject:
			must[*apps.Deployment](t)(find[*apps.Deployment](objects, o.Spec.ScaleTargetRef.Name))
		}
	}
}

// TestPlaces checks that the proxies of both folders never open more connections to a server than it has places: without a database also
// during a rollout, in which as many proxies as there are replicas may drain while the new ones run.
func TestPlaces(t *testing.T) {
	objects := decodeFile(t, folder+"/servers.yaml")
	servers := must[*apps.Deployment](t)(find[*apps.Deployment](objects, "stt-servers"))
	service := must[*core.Service](t)(find[*core.Service](objects, "stt-servers"))
	text, _ := flagOf(servers.Spec.Template.Spec.Containers[0].Args, "sessions")
	places := must[int](t)(strconv.Atoi(text))
	for _, f := range []string{folder, fleetFolder} {
		var c struct {
			Backends map[string]struct {
				URL         string `json:"url"`
				Discover    string `json:"discover"`
				Connections int    `json:"connections"`
			} `json:"backends"`
		}
		if err := yaml.Unmarshal(must[[]byte](t)(os.ReadFile(f+"/configuration.yaml")), &c); err != nil {
			t.Fatal(err)
		}
		backend := c.Backends["stt"]
		if want := "ws://" + service.Name + ":" + strconv.Itoa(int(service.Spec.Ports[0].Port)); backend.URL != want || backend.Discover != "kubernetes" {
			t.Errorf("%s: the backend is %+v: want %s", f, backend, want)
		}
		most := backend.Connections
		if f == folder {
			most *= 2 * int(*chartProxy(t, decodeFile(t, f+"/wsbouncer.yaml")).Spec.Replicas)
		}
		if most != places {
			t.Errorf("%s: the proxies may open %d connections to a server that has %d places", f, most, places)
		}
	}
}

// TestServers checks the simulated servers: their pods, that the program knows their arguments, and that they stay until sessions have ended.
func TestServers(t *testing.T) {
	servers := must[*apps.Deployment](t)(find[*apps.Deployment](decodeFile(t, folder+"/servers.yaml"), "stt-servers"))
	checkPodSecurity(t, servers)
	checkDeployment(t, servers)
	pod := servers.Spec.Template.Spec
	if pod.AutomountServiceAccountToken == nil || *pod.AutomountServiceAccountToken {
		t.Error("they get a token of the cluster's API, which they do not need")
	}
	args := append(slices.Clone(pod.Containers[0].Args), "--help")
	if out, err := exec.Command(must[string](t)(wsbouncer()), args...).CombinedOutput(); err != nil {
		t.Errorf("wsbouncer %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	if hook := pod.Containers[0].Lifecycle.PreStop.Sleep.Seconds; hook < 60 {
		t.Errorf("a server ends %d s after it has to go, and cuts the sessions that run then", hook)
	}
}

// wsbouncer builds the program once.
var wsbouncer = sync.OnceValues(func() (string, error) {
	path := filepath.Join(os.TempDir(), "wsbouncer-manifests-"+strconv.Itoa(os.Getpid()))
	build := exec.Command("go", "build", "-o", path, "./cmd/wsbouncer")
	build.Dir = "../.."
	build.Stderr = os.Stderr
	return path, build.Run()
})

func TestMain(m *testing.M) {
	status := m.Run()
	_ = os.Remove(filepath.Join(os.TempDir(), "wsbouncer-manifests-"+strconv.Itoa(os.Getpid())))
	os.Exit(status)
}

// TestMonitor checks that targets do not get a label that wsbouncer's own metrics have: Prometheus would rename the latter.
func TestMonitor(t *testing.T) {
	monitor := must[*monitoring.ServiceMonitor](t)(find[*monitoring.ServiceMonitor](decodeFile(t, folder+"/monitoring.yaml"), "wsbouncer"))
	for _, e := range monitor.Spec.Endpoints {
		if !e.HonorLabels || !slices.ContainsFunc(e.RelabelConfigs, func(r monitoring.RelabelConfig) bool {
			return strings.EqualFold(r.Action, "labeldrop") && r.Regex == "service"
		}) {
			t.Error("the operator's label `service` would hide that of the metrics")
		}
	}
}
