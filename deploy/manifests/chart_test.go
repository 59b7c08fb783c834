package manifests

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	apps "k8s.io/api/apps/v1"
	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	rbac "k8s.io/api/rbac/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

const chart = "../helm/wsbouncer"

// helmProgram builds Helm once, and returns its path.
var helmProgram = sync.OnceValues(func() (string, error) {
	out, err := exec.Command("go", "-C", "../helm", "tool", "-n", "helm").Output()
	return strings.TrimSpace(string(out)), err
})

// helm runs Helm, and returns what it prints, or its messages as an error.
func helm(t *testing.T, args ...string) (string, error) {
	t.Helper()
	command := exec.Command(must[string](t)(helmProgram()), args...)
	home := t.TempDir()
	command.Env = append(os.Environ(), "HELM_CACHE_HOME="+home, "HELM_CONFIG_HOME="+home, "HELM_DATA_HOME="+home, "KUBECONFIG="+home+"/none")
	var out, messages bytes.Buffer
	command.Stdout, command.Stderr = &out, &messages
	if err := command.Run(); err != nil {
		return "", fmt.Errorf("helm %s: %w\n%s%s", strings.Join(args, " "), err, out.String(), messages.String())
	}
	return out.String(), nil
}

// template returns what the chart makes of values, hooks included.
func template(t *testing.T, args ...string) string {
	t.Helper()
	args = append([]string{"template", "wsbouncer", chart, "--namespace", "wsbouncer", "--kube-version", "1.30.0"}, args...)
	return must[string](t)(helm(t, args...))
}

// rendered returns the objects that the chart makes of a file of values.
func rendered(t *testing.T, values string, more ...string) []meta.Object {
	t.Helper()
	return must[[]meta.Object](t)(decode(values, []byte(template(t, append(more, "--values", values)...))))
}

var update = flag.Bool("update", false, "write the files that TestMade compares")

// TestMade compares the manifests with what the chart renders, and the chart's alert rules with the original. `make manifests` writes them.
func TestMade(t *testing.T) {
	compare := func(path, want string) {
		if *update {
			if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if got := must[[]byte](t)(os.ReadFile(path)); string(got) != want {
			t.Errorf("%s is not what the chart or the alert rules make now: run make manifests", path)
		}
	}
	compare(chart+"/alerts.yaml", string(must[[]byte](t)(os.ReadFile("../prometheus/alerts.yaml"))))
	for path, args := range map[string][]string{
		folder + "/wsbouncer.yaml":        {"--values", folder + "/values.yaml"},
		fleetFolder + "/wsbouncer.yaml":   {"--values", fleetFolder + "/values.yaml"},
		folder + "/monitoring.yaml":       {"--show-only", "templates/monitoring.yaml", "--set", "monitoring.serviceMonitor.enabled=true,monitoring.prometheusRule.enabled=true"},
		folder + "/autoscaling-keda.yaml": {"--show-only", "templates/server-autoscaling.yaml", "--set", "serverAutoscaling.kind=keda"},
		folder + "/autoscaling-hpa.yaml":  {"--show-only", "templates/server-autoscaling.yaml", "--set", "serverAutoscaling.kind=hpa"},
	} {
		compare(path, "# `make manifests` renders this file from the chart in deploy/helm/wsbouncer.\n"+template(t, args...))
	}
}

// valuesFiles returns files of values by their names, without .yaml, and those of the manifests by the names of their folders.
func valuesFiles(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{"kubernetes": folder + "/values.yaml", "kubernetes-fleet": fleetFolder + "/values.yaml"}
	for _, path := range must[[]string](t)(filepath.Glob("testdata/chart/*.yaml")) {
		all[strings.TrimSuffix(filepath.Base(path), ".yaml")] = path
	}
	return all
}

// TestChart lints and renders the chart with several files of values, reads the objects as strictly as the manifests, and checks what holds for
// all of them: which objects there are, pods, references, and commands that the program knows.
func TestChart(t *testing.T) {
	const common = "Deployment Service Service"
	kinds := map[string]string{
		"kubernetes":       common + " ConfigMap NetworkPolicy PodDisruptionBudget Role RoleBinding ServiceAccount",
		"kubernetes-fleet": common + " ConfigMap Job NetworkPolicy NetworkPolicy PodDisruptionBudget Role RoleBinding ServiceAccount",
		"everything": common + " Certificate ConfigMap HTTPRoute Ingress Job NetworkPolicy NetworkPolicy PodDisruptionBudget PrometheusRule Role Role RoleBinding RoleBinding" +
			" ScaledObject ServiceAccount ServiceMonitor",
		"alone": common + " ConfigMap HorizontalPodAutoscaler NetworkPolicy PodDisruptionBudget",
		"bare":  common + " Role RoleBinding ServiceAccount",
	}
	files := valuesFiles(t)
	if len(files) != len(kinds) {
		t.Errorf("there are %d files of values, and %d lists of kinds", len(files), len(kinds))
	}
	for name, path := range files {
		t.Run(name, func(t *testing.T) {
			must[string](t)(helm(t, "lint", "--strict", chart, "--namespace", "wsbouncer", "--values", path))
			objects := rendered(t, path)
			var got []string
			for _, o := range objects {
				kind := fmt.Sprintf("%T", o)
				got = append(got, kind[strings.LastIndex(kind, ".")+1:])
				if ns := o.GetNamespace(); ns != "" && ns != "wsbouncer" && ns != "models" {
					t.Errorf("%T %s is in the namespace %q", o, o.GetName(), ns)
				}
			}
			want := strings.Fields(kinds[name])
			slices.Sort(want)
			slices.Sort(got)
			if !slices.Equal(got, want) {
				t.Errorf("the objects are %q\nwant %q", got, want)
			}
			for _, o := range objects {
				checkPodSecurity(t, o)
				for _, c := range containersOf(o) {
					if c.Image != "ghcr.io/wsbouncer/wsbouncer:"+version(t) {
						t.Errorf("%s: the image of %s is %s", o.GetName(), c.Name, c.Image)
					}
				}
				if d, ok := o.(*apps.Deployment); ok {
					checkDeployment(t, d)
				}
			}
			checkReferences(t, append(objects, decodeFile(t, folder+"/servers.yaml")...))
			checkChartCommands(t, objects)
			checkRoles(t, objects)
		})
	}
}

// version returns the version that the file VERSION has.
func version(t *testing.T) string {
	t.Helper()
	return strings.TrimSpace(string(must[[]byte](t)(os.ReadFile("../../VERSION"))))
}

// chartProxy returns the chart's Deployment.
func chartProxy(t *testing.T, objects []meta.Object) *apps.Deployment {
	t.Helper()
	for _, o := range objects {
		if d, ok := o.(*apps.Deployment); ok {
			return d
		}
	}
	t.Fatal("there is no Deployment")
	return nil
}

// checkChartCommands gives the arguments of the proxies to `check`, with the configuration of the ConfigMap, and those of the Job to the program,
// which must know them.
func checkChartCommands(t *testing.T, objects []meta.Object) {
	t.Helper()
	program := must[string](t)(wsbouncer())
	configuration := filepath.Join(t.TempDir(), "configuration.yaml")
	text := "services: {}"
	for _, o := range objects {
		if m, ok := o.(*core.ConfigMap); ok {
			text = m.Data["configuration.yaml"]
		}
	}
	if err := os.WriteFile(configuration, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c := chartProxy(t, objects).Spec.Template.Spec.Containers[0]
	args := []string{"check", "--database=" + configuration}
	for _, arg := range c.Args[1:] {
		arg = strings.NewReplacer("$(POD_NAME)", "wsbouncer-7d9f8c6b5-x2x4z", "$(POD_IP)", "10.1.2.3").Replace(arg)
		switch {
		case strings.Contains(arg, "$("):
			t.Errorf("nothing expands %s", arg)
		case strings.HasPrefix(arg, "--database="), strings.HasPrefix(arg, "--admin-tls-"), strings.HasPrefix(arg, "--fleet-ca="): // files of the pod
		default:
			args = append(args, strings.Replace(arg, "https://10.1.2.3", "http://10.1.2.3", 1))
		}
	}
	command := exec.Command(program, args...)
	command.Env = append(os.Environ(), "WSBOUNCER_SETTINGS=", "WSBOUNCER_ADMIN_TOKEN=of-the-test-of-the-test", "WSBOUNCER_SECRET_STT=x")
	if out, err := command.CombinedOutput(); err != nil {
		t.Errorf("wsbouncer %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	for _, o := range objects {
		for _, c := range containersOf(o) {
			if out, err := exec.Command(program, append(slices.Clone(c.Args), "--help")...).CombinedOutput(); err != nil {
				t.Errorf("%s: wsbouncer %q: %v\n%s", o.GetName(), c.Args, err, out)
			}
		}
	}
}

// checkRoles checks that only the Job gets the owner's Secret, and runs as a hook; and that the proxies get a token of the cluster's API only to
// read EndpointSlices.
func checkRoles(t *testing.T, objects []meta.Object) {
	t.Helper()
	reads := false
	for _, o := range objects {
		switch o := o.(type) {
		case *batch.Job:
			if hook := o.Annotations["helm.sh/hook"]; hook != "pre-install,pre-upgrade" || !strings.Contains(o.Annotations["helm.sh/hook-delete-policy"], "before-hook-creation") {
				t.Errorf("%s: the hook is %q, deleted %q", o.Name, hook, o.Annotations["helm.sh/hook-delete-policy"])
			}
			if token := o.Spec.Template.Spec.AutomountServiceAccountToken; token == nil || *token {
				t.Errorf("%s gets a token of the cluster's API", o.Name)
			}
			for _, v := range o.Spec.Template.Spec.Volumes {
				if v.ConfigMap == nil { // the Secret of database.caSecret
					continue
				}
				m := must[*core.ConfigMap](t)(find[*core.ConfigMap](objects, v.ConfigMap.Name))
				if m.Annotations["helm.sh/hook"] != "pre-install,pre-upgrade" {
					t.Errorf("the ConfigMap %s does not exist yet when the Job runs", m.Name)
				}
			}
		case *rbac.Role:
			reads = true
			for _, r := range o.Rules {
				if fmt.Sprint(r.APIGroups, r.Resources, r.Verbs) != "[discovery.k8s.io] [endpointslices] [list watch]" {
					t.Errorf("%s allows %+v", o.Name, r)
				}
			}
		case *rbac.RoleBinding:
			if s := o.Subjects[0]; s.Namespace != "wsbouncer" || s.Name != chartProxy(t, objects).Spec.Template.Spec.ServiceAccountName {
				t.Errorf("%s is for %+v", o.Name, s)
			}
			if o.RoleRef.Name != o.Name {
				t.Errorf("%s gives the role %s", o.Name, o.RoleRef.Name)
			}
		}
		for _, c := range containersOf(o) {
			_, isJob := o.(*batch.Job)
			for _, v := range c.Env {
				if s := v.ValueFrom; s != nil && s.SecretKeyRef != nil && (s.SecretKeyRef.Name == "wsbouncer-database-owner") != isJob {
					t.Errorf("%s of %s comes from the Secret %s", v.Name, o.GetName(), s.SecretKeyRef.Name)
				}
			}
		}
	}
	if token := chartProxy(t, objects).Spec.Template.Spec.AutomountServiceAccountToken; token == nil || *token != reads {
		t.Errorf("the proxies get a token: %v; they may read EndpointSlices: %v", token, reads)
	}
}

// TestChartTimes: a pod is killed after all that its end takes.
func TestChartTimes(t *testing.T) {
	d := chartProxy(t, rendered(t, fleetFolder+"/values.yaml", "--set", "drain.seconds=600,drain.preStopSeconds=20,drain.spareSeconds=30"))
	pod := d.Spec.Template.Spec
	drain, _ := flagOf(pod.Containers[0].Args, "drain-timeout")
	if grace, hook := *pod.TerminationGracePeriodSeconds, pod.Containers[0].Lifecycle.PreStop.Sleep.Seconds; grace != 655 || hook != 20 || drain != "600s" {
		t.Errorf("SIGKILL comes after %d s, preStop sleeps %d s, and the drain time is %s", grace, hook, drain)
	}
}

// TestChartRefuses: mistakes in values are named.
func TestChartRefuses(t *testing.T) {
	for set, want := range map[string]string{
		"replicas=two":                        "replicas",
		"replica=2":                           "replica",
		"fleet.enable=false":                  "enable",
		"configuration.service.stt.path=/stt": "service",
		"resources.limit.memory=1Gi":          "limit",
		"image.digest=sha256:1":               "digest",
		"drain.seconds=4h":                    "seconds",
		"serverAutoscaling.kind=vpa":          "kind",
		"gateway.enabled=true":                "gateway: name the Gateway",
		"admin.tls.enabled=true":              "admin.tls: name an issuer of cert-manager",
		"serviceAccount.create=false":         "serviceAccount: without create, set serviceAccount.name",
		"serverAutoscaling.kind=hpa,serverAutoscaling.minReplicas=9": "serverAutoscaling: minReplicas (9) is more than maxReplicas (8)",
	} {
		if _, err := helm(t, "template", "wsbouncer", chart, "--kube-version", "1.30.0", "--set", set); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %q", set, err, want)
		}
	}
}

// TestChartFiles compares the keys of the values with those of their schema.
func TestChartFiles(t *testing.T) {
	var values map[string]any
	if err := yaml.UnmarshalStrict(must[[]byte](t)(os.ReadFile(chart+"/values.yaml")), &values); err != nil {
		t.Fatal(err)
	}
	var schema struct {
		Properties map[string]any `json:"properties"`
	}
	if err := yaml.Unmarshal(must[[]byte](t)(os.ReadFile(chart+"/values.schema.json")), &schema); err != nil {
		t.Fatal(err)
	}
	var missing []error
	for key := range values {
		if schema.Properties[key] == nil {
			missing = append(missing, fmt.Errorf("values.schema.json lacks %s", key))
		}
	}
	for key := range schema.Properties {
		if _, ok := values[key]; !ok && key != "global" {
			missing = append(missing, fmt.Errorf("values.yaml lacks %s", key))
		}
	}
	if err := errors.Join(missing...); err != nil {
		t.Error(err)
	}
}
