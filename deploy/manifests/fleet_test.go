package manifests

import (
	"path"
	"slices"
	"strings"
	"testing"

	apps "k8s.io/api/apps/v1"
	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
)

// fleetProxy returns the Deployment of the fleet's proxies.
func fleetProxy(t *testing.T) *apps.Deployment {
	t.Helper()
	return chartProxy(t, decodeFile(t, fleetFolder+"/wsbouncer.yaml"))
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

// TestFleetSettings looks at what the proxies' arguments are made of: the name and the address are the pod's own.
func TestFleetSettings(t *testing.T) {
	c := fleetProxy(t).Spec.Template.Spec.Containers[0]
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
}

// TestFleetJob checks which commands prepare the database, and that each has the file that it reads.
func TestFleetJob(t *testing.T) {
	j := must[*batch.Job](t)(find[*batch.Job](decodeFile(t, fleetFolder+"/wsbouncer.yaml"), "wsbouncer-migration"))
	var ran []string
	for _, c := range containersOf(j) {
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

// TestFleetNetwork checks that the proxies reach each other's admin API and PostgreSQL, that only Prometheus reaches that API besides, and that the
// Job reaches PostgreSQL and DNS before the proxies' policy exists.
func TestFleetNetwork(t *testing.T) {
	objects := decodeFile(t, fleetFolder+"/wsbouncer.yaml")
	d := fleetProxy(t)
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
	job := must[*networking.NetworkPolicy](t)(find[*networking.NetworkPolicy](objects, "wsbouncer-migration"))
	if hook := job.Annotations; hook["helm.sh/hook"] != "pre-install,pre-upgrade" || hook["helm.sh/hook-weight"] != "-10" {
		t.Errorf("the Job's policy is made as %q", hook)
	}
	if len(job.Spec.Ingress) > 0 || len(job.Spec.Egress) != 2 || !port(job.Spec.Egress[0].Ports, "53") || !port(job.Spec.Egress[1].Ports, "5432") {
		t.Errorf("the Job's policy is %+v", job.Spec)
	}
}

// TestFleetStays checks that nothing but an operator ends pods before their sessions have ended.
func TestFleetStays(t *testing.T) {
	d := fleetProxy(t)
	for _, want := range []struct{ annotation, value string }{
		{"cluster-autoscaler.kubernetes.io/safe-to-evict", "false"}, {"karpenter.sh/do-not-disrupt", "true"},
	} {
		if got := d.Spec.Template.Annotations[want.annotation]; got != want.value {
			t.Errorf("%s: %q", want.annotation, got)
		}
	}
	b := must[*policy.PodDisruptionBudget](t)(find[*policy.PodDisruptionBudget](decodeFile(t, fleetFolder+"/wsbouncer.yaml"), "wsbouncer"))
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
