package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	apps "k8s.io/api/apps/v1"
	batch "k8s.io/api/batch/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// ending is what the manifest of a Deployment says about the end of its pods. It is static.
type ending struct {
	args    []string      // of the container
	preStop time.Duration // how long the container's preStop hook sleeps before SIGTERM
	grace   time.Duration // from the deletion of the pod to SIGKILL, preStop included
	ready   string        // path of the readiness probe
	forget  time.Duration // from the deletion of the pod until the last node sends no new clients to it
}

// forgetAfter is how long nodes may take to learn that an endpoint is gone. Most take less than a second; busy clusters take several.
const forgetAfter = 5 * time.Second

// manifests are what this program needs of a folder of manifests. They are static.
type manifests struct {
	replicas int
	ending   ending     // of the proxies' pods
	jobs     [][]string // arguments of the containers that prepare the database, in their order
}

// readManifests reads a folder's wsbouncer.yaml.
func readManifests(folder string) (*manifests, error) {
	text, err := os.ReadFile(filepath.Join(folder, "wsbouncer.yaml"))
	if err != nil {
		return nil, err
	}
	m := new(manifests)
	for document := range strings.SplitSeq(string(text), "\n---\n") {
		var kind meta.TypeMeta
		if err := yaml.Unmarshal([]byte(document), &kind); err != nil {
			return nil, err
		}
		switch kind.Kind {
		case "Deployment":
			var d apps.Deployment
			if err := yaml.UnmarshalStrict([]byte(document), &d); err != nil {
				return nil, err
			}
			if s := d.Spec.Strategy.RollingUpdate; s == nil || s.MaxSurge.IntValue() != 1 || s.MaxUnavailable.IntValue() != 0 {
				return nil, errors.New("strategy: this program starts one pod before it ends one (maxSurge: 1, maxUnavailable: 0)")
			}
			if m.ending, err = endingOf(&d); err != nil {
				return nil, err
			}
			m.replicas = int(*d.Spec.Replicas)
		case "Job":
			var j batch.Job
			if err := yaml.UnmarshalStrict([]byte(document), &j); err != nil {
				return nil, err
			}
			pod := j.Spec.Template.Spec
			for _, c := range append(pod.InitContainers, pod.Containers...) {
				m.jobs = append(m.jobs, c.Args)
			}
		}
	}
	if m.replicas == 0 {
		return nil, fmt.Errorf("%s: no Deployment", folder)
	}
	return m, nil
}

func endingOf(d *apps.Deployment) (ending, error) {
	pod := d.Spec.Template.Spec
	if len(pod.Containers) != 1 {
		return ending{}, fmt.Errorf("%d containers: this program runs one", len(pod.Containers))
	}
	container := pod.Containers[0]
	e := ending{args: container.Args, grace: 30 * time.Second, forget: forgetAfter} // Kubernetes' default
	if s := pod.TerminationGracePeriodSeconds; s != nil {
		e.grace = time.Duration(*s) * time.Second
	}
	if l := container.Lifecycle; l != nil && l.PreStop != nil {
		if l.PreStop.Sleep == nil {
			return ending{}, errors.New("preStop: this program carries out sleep, and no other action")
		}
		e.preStop = time.Duration(l.PreStop.Sleep.Seconds) * time.Second
	}
	if p := container.ReadinessProbe; p == nil || p.HTTPGet == nil {
		return ending{}, errors.New("readinessProbe: this program needs httpGet")
	}
	e.ready = container.ReadinessProbe.HTTPGet.Path
	return e, nil
}

// faster returns the ending with all its times divided by a factor.
func (e ending) faster(factor float64) (ending, error) {
	divide := func(d time.Duration) time.Duration {
		return time.Duration(float64(d) / factor).Round(time.Millisecond)
	}
	e.preStop, e.grace, e.forget = divide(e.preStop), divide(e.grace), divide(e.forget)
	e.args = slices.Clone(e.args)
	for _, name := range []string{"shutdown-delay", "drain-timeout"} {
		text, ok := argument(e.args, name)
		if !ok || text == "none" {
			continue
		}
		d, err := time.ParseDuration(text)
		if err != nil {
			return ending{}, fmt.Errorf("--%s: %w", name, err)
		}
		e.args = withArgument(e.args, name, divide(d).String())
	}
	return e, nil
}

// duration returns the value of an argument, or what holds without it.
func (e ending) duration(name string, otherwise time.Duration) (time.Duration, error) {
	text, ok := argument(e.args, name)
	if !ok {
		return otherwise, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0, fmt.Errorf("--%s: %w", name, err)
	}
	return d, nil
}

// drain returns the drain-timeout, and its last part, over which the proxy ends the sessions that are left.
func (e ending) drain() (timeout, spread time.Duration, err error) {
	timeout, err = e.duration("drain-timeout", 30*time.Second)
	return timeout, min(timeout/3, 10*time.Minute), err
}

// argument returns the value of an argument of the form --name=value.
func argument(args []string, name string) (value string, ok bool) {
	for _, arg := range args {
		if value, ok := strings.CutPrefix(arg, "--"+name+"="); ok {
			return value, true
		}
	}
	return "", false
}

// withArgument returns the arguments with another value of one of them.
func withArgument(args []string, name, value string) []string {
	args = slices.DeleteFunc(slices.Clone(args), func(arg string) bool { return strings.HasPrefix(arg, "--"+name+"=") })
	return append(args, "--"+name+"="+value)
}
