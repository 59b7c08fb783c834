package manifests

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"
	"sigs.k8s.io/yaml"
)

// project returns deploy/compose.yaml, read as Compose reads it: strictly.
func project(t *testing.T) *types.Project {
	t.Helper()
	options := must[*cli.ProjectOptions](t)(cli.NewProjectOptions([]string{"../compose.yaml"}))
	return must[*types.Project](t)(options.LoadProject(t.Context()))
}

// TestCompose checks that all that compose.yaml refers to is there, and that the program knows the flags.
func TestCompose(t *testing.T) {
	p := project(t)
	program := must[string](t)(wsbouncer())
	for name, s := range p.Services {
		for _, v := range s.Volumes {
			if v.Type != types.VolumeTypeBind {
				continue
			}
			if _, err := os.Stat(v.Source); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if !v.ReadOnly {
				t.Errorf("%s may write %s", name, v.Source)
			}
		}
		for _, port := range s.Ports {
			if port.HostIP != "127.0.0.1" {
				t.Errorf("%s: port %s is open to the network", name, port.Published)
			}
		}
		if !strings.HasPrefix(s.Image, "wsbouncer:") {
			continue
		}
		if !s.ReadOnly || !slices.Equal(s.CapDrop, []string{"ALL"}) {
			t.Errorf("%s has rights that it does not need", name)
		}
		if out, err := exec.Command(program, append(slices.Clone(s.Command), "--help")...).CombinedOutput(); err != nil {
			t.Errorf("%s: wsbouncer %q: %v\n%s", name, s.Command, err, out)
		}
	}
	proxy := p.Services["proxy"]
	if dockerfile := filepath.Join(proxy.Build.Context, proxy.Build.Dockerfile); filepath.Base(dockerfile) != "Dockerfile" {
		t.Errorf("the image is built by %s", dockerfile)
	} else if _, err := os.Stat("../../Dockerfile"); err != nil || filepath.Clean(dockerfile) != must[string](t)(filepath.Abs("../../Dockerfile")) {
		t.Errorf("the image is built by %s: %v", dockerfile, err)
	}
	drain, ok := flagOf(proxy.Command, "drain-timeout")
	if d := must[time.Duration](t)(time.ParseDuration(drain)); !ok || time.Duration(*proxy.StopGracePeriod) < d+10*time.Second {
		t.Errorf("Compose kills the proxy %v after SIGTERM, and it drains for %s", proxy.StopGracePeriod, drain)
	}
}

// TestComposeToken: compose.yaml and README.md name the token that the proxy gets.
func TestComposeToken(t *testing.T) {
	token := project(t).Services["proxy"].Environment["WSBOUNCER_ADMIN_TOKEN"]
	if token == nil || *token == "" {
		t.Fatal("the proxy has no token")
	}
	for file, text := range map[string]string{"../README.md": "the token is `" + *token + "`", "../compose.yaml": "(token: " + *token + ")"} {
		if !strings.Contains(string(must[[]byte](t)(os.ReadFile(file))), text) {
			t.Errorf("%s does not have %q", file, text)
		}
	}
}

func flagOf(args []string, name string) (value string, ok bool) {
	for _, arg := range args {
		if value, ok := strings.CutPrefix(arg, "--"+name+"="); ok {
			return value, true
		}
	}
	return "", false
}

// TestProvisioning checks that Grafana gets the dashboard, and the data source at the place where Prometheus is.
func TestProvisioning(t *testing.T) {
	p := project(t)
	var sources struct {
		APIVersion  int `json:"apiVersion"`
		Datasources []struct {
			Name, UID, Type, Access, URL string
			IsDefault                    bool
			JSONData                     map[string]string
		} `json:"datasources"`
	}
	var dashboards struct {
		APIVersion int `json:"apiVersion"`
		Providers  []struct {
			Name, Type string
			Options    struct{ Path string }
		} `json:"providers"`
	}
	for file, into := range map[string]any{"datasources.yaml": &sources, "dashboards.yaml": &dashboards} {
		if err := yaml.UnmarshalStrict(must[[]byte](t)(os.ReadFile("../compose/grafana/"+file)), into); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
	if len(sources.Datasources) != 1 || !sources.Datasources[0].IsDefault || sources.Datasources[0].URL != "http://prometheus:9090" {
		t.Errorf("data sources: %+v", sources)
	}
	if len(dashboards.Providers) != 1 || !slices.ContainsFunc(p.Services["grafana"].Volumes, func(v types.ServiceVolumeConfig) bool {
		_, err := os.Stat(filepath.Join(v.Source, "wsbouncer.json"))
		return err == nil && v.Target == dashboards.Providers[0].Options.Path
	}) {
		t.Errorf("dashboards: %+v", dashboards)
	}
}
