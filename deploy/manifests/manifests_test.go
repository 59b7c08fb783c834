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
	"sigs.k8s.io/yaml"

	"github.com/wsbouncer/wsbouncer/deploy/manifests/kustomized"
)

const folder = "../kubernetes"

// folders of manifests, each applied by itself.
var folders = []string{folder, folder + "/servers", folder + "/monitoring", folder + "/autoscaling"}

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

// all returns the objects of all folders.
func all(t *testing.T) []meta.Object {
	t.Helper()
	var objects []meta.Object
	for _, f := range folders {
		objects = append(objects, must[[]meta.Object](t)(decodeFolder(f))...)
	}
	return objects
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

// TestKustomize compares what kustomize makes of each folder with the files: every file is applied, in the namespace.
func TestKustomize(t *testing.T) {
	for _, f := range append(folders, fleetFolder) {
		made := built(t, f)
		for _, o := range made {
			if _, ok := o.(*core.Namespace); !ok && o.GetNamespace() != "wsbouncer" {
				t.Errorf("%s: %T %s is in the namespace %q", f, o, o.GetName(), o.GetNamespace())
			}
			for _, c := range containersOf(o) {
				if !strings.Contains(c.Image, ":") {
					t.Errorf("%s: the image of %s in %s has no version", f, c.Name, o.GetName())
				}
			}
		}
		var want int
		switch f {
		case fleetFolder:
			want = len(built(t, folder)) + 1 // the Job
		default:
			want = len(must[[]meta.Object](t)(decodeFolder(f)))
		}
		if f == folder || f == fleetFolder {
			m := must[*core.ConfigMap](t)(find[*core.ConfigMap](made, "wsbouncer"))
			if file := must[[]byte](t)(os.ReadFile(f + "/configuration.yaml")); m.Data["configuration.yaml"] != string(file) {
				t.Errorf("the ConfigMap has %q", m.Data)
			}
		}
		if f == folder {
			want++ // the ConfigMap
		}
		if len(made) != want {
			t.Errorf("%s: kustomize makes %d objects of %d", f, len(made), want)
		}
	}
}

// built returns the objects that kustomize makes of a folder.
func built(t *testing.T, folder string) []meta.Object {
	t.Helper()
	return must[[]meta.Object](t)(decode(folder, must[[]byte](t)(kustomized.Build(folder))))
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

// TestPods checks what holds for every pod: that it meets the restricted standard, and that all that it refers to is there.
func TestPods(t *testing.T) {
	for _, o := range append(all(t), built(t, fleetFolder)...) {
		pod := podOf(o)
		if pod == nil {
			continue
		}
		checkPodSecurity(t, o)
		if pod.AutomountServiceAccountToken == nil || *pod.AutomountServiceAccountToken {
			t.Errorf("%s gets a token of the cluster's API, which it does not need", o.GetName())
		}
		for _, v := range pod.Volumes {
			if v.ConfigMap != nil && v.ConfigMap.Name != "wsbouncer" { // made of configuration.yaml: TestKustomize
				t.Errorf("%s: no ConfigMap %s", o.GetName(), v.ConfigMap.Name)
			}
		}
		if d, ok := o.(*apps.Deployment); ok {
			checkDeployment(t, d)
		}
	}
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

// TestReferences checks that services, policies, budgets, monitors and scalers lead to pods, and to ports that these have.
func TestReferences(t *testing.T) {
	t.Run("each proxy by itself", func(t *testing.T) { checkReferences(t, all(t)) })
	t.Run("a fleet", func(t *testing.T) { checkReferences(t, fleetObjects(t)) })
}

func checkReferences(t *testing.T, objects []meta.Object) {
	t.Helper()
	var deployments []*apps.Deployment
	var services []*core.Service
	for _, o := range objects {
		switch o := o.(type) {
		case *apps.Deployment:
			deployments = append(deployments, o)
		case *core.Service:
			services = append(services, o)
		}
	}
	// pods returns the container of the pods that a selector chooses.
	pods := func(name string, selector *meta.LabelSelector) core.Container {
		var found []core.Container
		for _, d := range deployments {
			if selects(t, selector, d.Spec.Template.Labels) {
				found = append(found, d.Spec.Template.Spec.Containers[0])
			}
		}
		if len(found) != 1 {
			t.Fatalf("%s selects the pods of %d deployments: want 1", name, len(found))
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

// TestPlaces checks that the proxies together never open more connections to a server than it has places: also during a rollout, in which
// as many proxies as there are replicas may drain while the new ones run.
func TestPlaces(t *testing.T) {
	objects := all(t)
	proxies := must[*apps.Deployment](t)(find[*apps.Deployment](objects, "wsbouncer"))
	servers := must[*apps.Deployment](t)(find[*apps.Deployment](objects, "stt-servers"))
	var c struct {
		Backends map[string]struct {
			URL         string `json:"url"`
			Discover    string `json:"discover"`
			Connections int    `json:"connections"`
		} `json:"backends"`
	}
	if err := yaml.Unmarshal(must[[]byte](t)(os.ReadFile(folder+"/configuration.yaml")), &c); err != nil {
		t.Fatal(err)
	}
	backend := c.Backends["stt"]
	service := must[*core.Service](t)(find[*core.Service](objects, "stt-servers"))
	if want := "ws://" + service.Name + ":" + strconv.Itoa(int(service.Spec.Ports[0].Port)); backend.URL != want || backend.Discover != "dns" {
		t.Errorf("the backend is %+v: want %s", backend, want)
	}
	if service.Spec.ClusterIP != core.ClusterIPNone || service.Spec.PublishNotReadyAddresses {
		t.Error("the servers' Service must be headless, and have ready servers only")
	}
	container := servers.Spec.Template.Spec.Containers[0]
	places := 0
	for _, arg := range container.Args {
		if value, ok := strings.CutPrefix(arg, "--sessions="); ok {
			places = must[int](t)(strconv.Atoi(value))
		}
	}
	replicas := int(*proxies.Spec.Replicas)
	if most := 2 * replicas * backend.Connections; most > places {
		t.Errorf("the proxies may open %d connections to a server that has %d places", most, places)
	}
	scaler := must[*keda.ScaledObject](t)(find[*keda.ScaledObject](objects, "stt-servers"))
	threshold := must[int](t)(strconv.Atoi(scaler.Spec.Triggers[0].Metadata["threshold"]))
	if usable := replicas * backend.Connections; threshold >= usable {
		t.Errorf("scaling begins at %d sessions on a server, of which the proxies use at most %d", threshold, usable)
	}
	metrics := string(must[[]byte](t)(os.ReadFile("../../docs/reference/metrics.md")))
	for _, name := range strings.FieldsFunc(scaler.Spec.Triggers[0].Metadata["query"], func(r rune) bool { return !strings.ContainsRune(metricLetters, r) }) {
		if strings.HasPrefix(name, "wsbouncer_") && !describes(metrics, name) {
			t.Errorf("the query names the metric %s, which does not exist", name)
		}
	}
	if hook := container.Lifecycle.PreStop.Sleep.Seconds; hook < 60 {
		t.Errorf("a server ends %d s after it has to go, and cuts the sessions that run then", hook)
	}
}

const metricLetters = "abcdefghijklmnopqrstuvwxyz_"

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

// TestArguments gives the Deployments' arguments to the program: the proxies' to `check`, with the file of the ConfigMap, and the servers' to
// `sim`, which must know each flag.
func TestArguments(t *testing.T) {
	program := must[string](t)(wsbouncer())
	objects := all(t)
	proxies := must[*apps.Deployment](t)(find[*apps.Deployment](objects, "wsbouncer"))
	args := slices.Clone(proxies.Spec.Template.Spec.Containers[0].Args)
	if args[0] != "serve" {
		t.Fatalf("the proxies run %q", args)
	}
	args[0] = "check"
	const mounted = "--database=/etc/wsbouncer/services/configuration.yaml"
	at := slices.Index(args, mounted)
	if at < 0 {
		t.Fatalf("the proxies do not read %s: %q", mounted, args)
	}
	args[at] = "--database=" + folder + "/configuration.yaml"
	command := exec.Command(program, args...)
	command.Env = append(os.Environ(), "WSBOUNCER_SETTINGS=", "WSBOUNCER_ADMIN_TOKEN=of-the-test")
	out, err := command.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "ws://stt-servers:2700") {
		t.Errorf("wsbouncer %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	t.Logf("%s", out)

	servers := must[*apps.Deployment](t)(find[*apps.Deployment](objects, "stt-servers"))
	args = append(slices.Clone(servers.Spec.Template.Spec.Containers[0].Args), "--help")
	if out, err := exec.Command(program, args...).CombinedOutput(); err != nil {
		t.Errorf("wsbouncer %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// TestMonitor checks that targets do not get a label that wsbouncer's own metrics have: Prometheus would rename the latter.
func TestMonitor(t *testing.T) {
	monitor := must[*monitoring.ServiceMonitor](t)(find[*monitoring.ServiceMonitor](all(t), "wsbouncer"))
	for _, e := range monitor.Spec.Endpoints {
		if !e.HonorLabels || !slices.ContainsFunc(e.RelabelConfigs, func(r monitoring.RelabelConfig) bool {
			return strings.EqualFold(r.Action, "labeldrop") && r.Regex == "service"
		}) {
			t.Error("the operator's label `service` would hide that of the metrics")
		}
	}
}
