package manifests

import (
	"os"
	"os/exec"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"

	keda "github.com/kedacore/keda/v2/apis/keda/v1alpha1"
	apps "k8s.io/api/apps/v1"
	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// fleetFolder is the overlay for proxies that share a database.
const fleetFolder = "../kubernetes-fleet"

// fleetObjects returns what is applied for a fleet, with the folders that are applied by themselves.
func fleetObjects(t *testing.T) []meta.Object {
	t.Helper()
	objects := built(t, fleetFolder)
	for _, f := range folders[1:] {
		objects = append(objects, must[[]meta.Object](t)(decodeFolder(f))...)
	}
	return objects
}

// fleetProxy returns the container of the fleet's proxies.
func fleetProxy(t *testing.T) core.Container {
	t.Helper()
	return must[*apps.Deployment](t)(find[*apps.Deployment](built(t, fleetFolder), "wsbouncer")).Spec.Template.Spec.Containers[0]
}

// variable returns a variable of a container's environment.
func variable(t *testing.T, c core.Container, name string) core.EnvVar {
	t.Helper()
	at := slices.IndexFunc(c.Env, func(v core.EnvVar) bool { return v.Name == name })
	if at < 0 {
		t.Fatalf("%s has no variable %s", c.Name, name)
	}
	return c.Env[at]
}

// TestFleetSettings gives the proxies' arguments to `check`, and looks at what each is made of: the name and the address are the pod's own.
func TestFleetSettings(t *testing.T) {
	c := fleetProxy(t)
	for name, field := range map[string]string{"POD_NAME": "metadata.name", "POD_IP": "status.podIP"} {
		if from := variable(t, c, name).ValueFrom; from == nil || from.FieldRef == nil || from.FieldRef.FieldPath != field {
			t.Errorf("%s comes from %+v: want %s", name, from, field)
		}
	}
	for name, secret := range map[string]string{"WSBOUNCER_DATABASE": "wsbouncer-database", "WSBOUNCER_ADMIN_TOKEN": "wsbouncer-admin"} {
		if from := variable(t, c, name).ValueFrom; from == nil || from.SecretKeyRef == nil || from.SecretKeyRef.Name != secret {
			t.Errorf("%s comes from %+v: want the Secret %s", name, from, secret)
		}
	}
	admin, _ := flagOf(c.Args, "admin")
	address, _ := flagOf(c.Args, "fleet-address")
	if want := "http://$(POD_IP)" + admin; admin == "" || address != want {
		t.Errorf("--fleet-address=%s: want %s, since others reach the admin API there", address, want)
	}
	if _, own := flagOf(c.Args, "database"); own {
		t.Error("--database would hide the variable")
	}
	// What Kubernetes expands must be defined; it leaves anything else as it is.
	args := slices.Clone(c.Args)
	for i, arg := range args {
		args[i] = strings.NewReplacer("$(POD_NAME)", "wsbouncer-7d9f8c6b5-x2x4z", "$(POD_IP)", "10.1.2.3").Replace(arg)
		if strings.Contains(args[i], "$(") {
			t.Errorf("nothing expands %s", args[i])
		}
	}
	args[0] = "check"
	command := exec.Command(must[string](t)(wsbouncer()), args...)
	command.Env = append(os.Environ(), "WSBOUNCER_SETTINGS=", "WSBOUNCER_ADMIN_TOKEN=of-the-test", "WSBOUNCER_DATABASE="+fleetFolder+"/configuration.yaml")
	if out, err := command.CombinedOutput(); err != nil || !strings.Contains(string(out), "ws://stt-servers:2700") {
		t.Errorf("wsbouncer %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// TestFleetJob checks that the program knows the commands that prepare the database, that they have it as its owner, which the proxies do not
// get, and the file that they read.
func TestFleetJob(t *testing.T) {
	j := must[*batch.Job](t)(find[*batch.Job](built(t, fleetFolder), "wsbouncer-configure"))
	var ran []string
	for _, c := range containersOf(j) {
		if from := variable(t, c, "WSBOUNCER_DATABASE").ValueFrom; from.SecretKeyRef == nil || from.SecretKeyRef.Name != "wsbouncer-database-owner" {
			t.Errorf("%s: the database comes from %+v", c.Name, from)
		}
		if out, err := exec.Command(must[string](t)(wsbouncer()), append(slices.Clone(c.Args), "--help")...).CombinedOutput(); err != nil {
			t.Errorf("%s: wsbouncer %q: %v\n%s", c.Name, c.Args, err, out)
		}
		ran = append(ran, c.Args[0])
		for _, arg := range c.Args {
			if strings.HasPrefix(arg, "/") && (len(c.VolumeMounts) != 1 || path.Dir(arg) != c.VolumeMounts[0].MountPath) {
				t.Errorf("%s reads %s, and has %+v", c.Name, arg, c.VolumeMounts)
			}
		}
	}
	if role, ok := flagOf(containersOf(j)[0].Args, "proxy-role"); !ok || role != "wsbouncer_proxy" {
		t.Errorf("the migration gives its rights to the role %q", role)
	}
	if !slices.Equal(ran, []string{"migrate", "config"}) {
		t.Errorf("the Job runs %q", ran)
	}
}

// TestFleetNetwork checks that the proxies reach each other's admin API and PostgreSQL, and that only Prometheus reaches that API besides.
func TestFleetNetwork(t *testing.T) {
	objects := built(t, fleetFolder)
	d := must[*apps.Deployment](t)(find[*apps.Deployment](objects, "wsbouncer"))
	p := must[*networking.NetworkPolicy](t)(find[*networking.NetworkPolicy](objects, "wsbouncer"))
	proxies := func(peers []networking.NetworkPolicyPeer) bool {
		return len(peers) == 1 && peers[0].PodSelector != nil && peers[0].NamespaceSelector == nil && selects(t, peers[0].PodSelector, d.Spec.Template.Labels)
	}
	port := func(ports []networking.NetworkPolicyPort, want string) bool {
		return slices.ContainsFunc(ports, func(p networking.NetworkPolicyPort) bool { return p.Port.String() == want })
	}
	var in, out, database bool
	for _, rule := range p.Spec.Ingress {
		admin := port(rule.Ports, "admin")
		in = in || admin && proxies(rule.From)
		if (admin || len(rule.Ports) == 0) && (len(rule.From) != 1 || !proxies(rule.From) && rule.From[0].NamespaceSelector == nil) {
			t.Errorf("the admin API is open to %+v", rule.From)
		}
	}
	for _, rule := range p.Spec.Egress {
		out = out || port(rule.Ports, "admin") && proxies(rule.To)
		database = database || port(rule.Ports, "5432")
	}
	if !in || !out || !database {
		t.Errorf("the proxies may be asked by each other: %v, may ask each other: %v, may reach PostgreSQL: %v", in, out, database)
	}
}

// TestFleetPlaces checks that the places that the proxies share are no more than each server has, and suffice for what scaling leaves to it.
func TestFleetPlaces(t *testing.T) {
	objects := fleetObjects(t)
	var c struct {
		Backends map[string]struct {
			Connections int `json:"connections"`
			Warm        int `json:"warm"`
		} `json:"backends"`
	}
	if err := yaml.Unmarshal(must[[]byte](t)(os.ReadFile(fleetFolder+"/configuration.yaml")), &c); err != nil {
		t.Fatal(err)
	}
	servers := must[*apps.Deployment](t)(find[*apps.Deployment](objects, "stt-servers")).Spec.Template.Spec.Containers[0]
	text, _ := flagOf(servers.Args, "sessions")
	places := must[int](t)(strconv.Atoi(text))
	backend := c.Backends["stt"]
	if backend.Connections != places {
		t.Errorf("the proxies share %d places of a server that has %d", backend.Connections, places)
	}
	proxies := must[*apps.Deployment](t)(find[*apps.Deployment](objects, "wsbouncer"))
	scaler := must[*keda.ScaledObject](t)(find[*keda.ScaledObject](objects, "stt-servers"))
	threshold := must[int](t)(strconv.Atoi(scaler.Spec.Triggers[0].Metadata["threshold"]))
	// The old proxies keep none warm while they drain.
	if warm := int(*proxies.Spec.Replicas+1) * backend.Warm; threshold+warm > places {
		t.Errorf("scaling begins at %d sessions on a server with %d places, of which up to %d are kept warm", threshold, places, warm)
	}
}

// TestFleetStays checks that nothing but an operator ends pods before their sessions have ended.
func TestFleetStays(t *testing.T) {
	objects := built(t, fleetFolder)
	d := must[*apps.Deployment](t)(find[*apps.Deployment](objects, "wsbouncer"))
	for _, want := range []struct{ annotation, value string }{
		{"cluster-autoscaler.kubernetes.io/safe-to-evict", "false"}, {"karpenter.sh/do-not-disrupt", "true"},
	} {
		if got := d.Spec.Template.Annotations[want.annotation]; got != want.value {
			t.Errorf("%s: %q", want.annotation, got)
		}
	}
	b := must[*policy.PodDisruptionBudget](t)(find[*policy.PodDisruptionBudget](objects, "wsbouncer"))
	if b.Spec.MaxUnavailable.IntValue() != 1 || *d.Spec.Replicas < 2 {
		t.Errorf("of %d proxies %s may be gone at once", *d.Spec.Replicas, b.Spec.MaxUnavailable.String())
	}
	// The state directory outlives a container, not the pod: a proxy that starts again in its pod proves by it that the one before has ended.
	state, _ := flagOf(d.Spec.Template.Spec.Containers[0].Args, "state-directory")
	mounts := d.Spec.Template.Spec.Containers[0].VolumeMounts
	at := slices.IndexFunc(mounts, func(m core.VolumeMount) bool { return m.MountPath == state })
	if at < 0 || !slices.ContainsFunc(d.Spec.Template.Spec.Volumes, func(v core.Volume) bool { return v.Name == mounts[at].Name && v.EmptyDir != nil }) {
		t.Errorf("the state directory %s is no emptyDir", state)
	}
}
