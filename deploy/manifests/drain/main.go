// Command drain ends a proxy as a kubelet ends a pod, while clients stream through it: it takes the program's arguments, the preStop hook
// and the grace period from the manifests in deploy/kubernetes, runs the real program with them, and shows what becomes of each session.
//
//	make build && go -C deploy/manifests run ./drain
//
// With -rollout, it replaces all pods of deploy/kubernetes-fleet, as a rolling update does, and looks that no server gets more connections
// than it has places while old and new pods overlap.
//
// Two pods and the inference servers run on this machine, at addresses of their own. The exit status is 1 if a session was cut.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/lab/sim"
	"github.com/wsbouncer/wsbouncer/internal/proof/kit"
)

// options are the settings of a run. They are static.
type options struct {
	program string  // wsbouncer
	folder  string  // of the manifests
	clients int     // that stream at the same time
	faster  float64 // by which the manifest's times are divided
	out     io.Writer
}

func main() {
	o := options{out: os.Stdout}
	flag.StringVar(&o.program, "wsbouncer", "../../bin/wsbouncer", "the program")
	flag.IntVar(&o.clients, "clients", 80, "clients that stream at the same time")
	flag.Float64Var(&o.faster, "faster", 1, "divide the times of the manifest by this")
	rollout := flag.Bool("rollout", false, "play a rolling update of the Deployment in ../kubernetes-fleet; needs PostgreSQL's server")
	flag.Parse()
	if flag.NArg() > 0 || o.clients < 1 || o.faster < 1 {
		fmt.Fprintln(os.Stderr, "drain: use no arguments, at least one client, and 1 or more for -faster")
		os.Exit(2)
	}
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	var err error
	if *rollout {
		o.folder = "../kubernetes-fleet"
		err = rollOut(ctx, o)
	} else {
		o.folder = "../kubernetes"
		var result *result
		if result, err = run(ctx, o); err == nil {
			err = result.verdict()
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "drain:", err)
		os.Exit(1)
	}
}

// servers is how many simulated servers run: enough for all clients, within the caps of the manifest's configuration, on one pod.
func servers(clients int) int { return clients/8 + 2 }

// run starts servers, pods and clients, ends the first pod, and says what became of its sessions.
func run(ctx context.Context, o options) (*result, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	m, err := readManifests(o.folder)
	if err != nil {
		return nil, err
	}
	e, err := m.ending.faster(o.faster)
	if err != nil {
		return nil, err
	}
	drain, err := e.duration("drain-timeout", 30*time.Second)
	if err != nil {
		return nil, err
	}
	folder, err := os.MkdirTemp("", "drain")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(folder)

	var urls []string
	for i := range servers(o.clients) {
		server, err := sim.Start(sim.Options{Protocol: sim.Vosk, Latency: 20 * time.Millisecond, Jitter: 5 * time.Millisecond, Seed: uint64(i)})
		if err != nil {
			return nil, err
		}
		defer server.Close()
		urls = append(urls, server.URL())
	}
	configuration, path, err := localConfiguration(filepath.Join(o.folder, "configuration.yaml"), folder, urls)
	if err != nil {
		return nil, err
	}
	both := new(endpoints)
	for _, name := range []string{"wsbouncer-a", "wsbouncer-b"} {
		p, err := startPod(ctx, o.program, name, e, configuration, folder)
		if err != nil {
			return nil, err
		}
		defer kit.StopAll(p.process)
		both.pods = append(both.pods, p)
	}
	a, b := both.pods[0], both.pods[1]

	fmt.Fprintf(o.out, "%s: preStop sleeps %v, SIGKILL after %v\nwsbouncer", o.folder, m.ending.preStop, m.ending.grace)
	for _, arg := range m.ending.args {
		fmt.Fprint(o.out, " ", arg)
	}
	fmt.Fprintln(o.out)
	if o.faster != 1 {
		fmt.Fprintf(o.out, "All times are divided by %v: preStop %v, SIGKILL after %v.\n", o.faster, e.preStop, e.grace)
	}
	fmt.Fprintln(o.out)

	c := newClients(both, path, 2*drain)
	c.start(ctx, o.clients)
	defer c.group.Wait()
	defer cancel() // before the wait for the clients
	if err := kit.Wait(ctx, drain/10); err != nil {
		return nil, err
	}
	k := &kubelet{ending: e, out: o.out, clients: c, endpoints: both, pod: a, other: b}
	return k.end(ctx)
}
