//go:build linux

package main

import (
	"embed"
	"os"
	"os/user"
	"path/filepath"
	"strings"
	"text/template"
)

// The configurations of nginx and HAProxy follow their documentation's advice
// for WebSockets. They run in the foreground, with nothing outside task.dir.
//
//go:embed configs
var configs embed.FS

var templates = template.Must(template.ParseFS(configs, "configs/*"))

// settings are what the templates may use.
type settings struct {
	Listen      string
	Backends    []string
	Workers     string
	Connections int // client connections to allow
	Descriptors int // open files to allow
	Dir         string
	Root        bool // started by root, who must name a user for the workers
	User        string
}

func nginx(tools toolbox, workers string) rival {
	return server("nginx-"+workers, tools.nginx, "nginx.conf", workers, func(file string) []string {
		return []string{"-e", "stderr", "-p", filepath.Dir(file), "-c", file}
	})
}

func haproxy(tools toolbox, threads string) rival {
	return server("haproxy-"+threads, tools.haproxy, "haproxy.cfg", threads, func(file string) []string {
		return []string{"-db", "-f", file}
	})
}

// server is a rival with a configuration file.
func server(name, binary, config, workers string, args func(file string) []string) rival {
	r := rival{name: name}
	if binary == "" {
		family, _, _ := strings.Cut(name, "-")
		r.missing = family + " is not installed"
	}
	r.command = func(t task) ([]string, error) {
		s := settings{
			Listen: t.listen, Backends: t.backends, Workers: workers, Dir: t.dir,
			Connections: t.sessions + 100, Descriptors: descriptors(), Root: os.Geteuid() == 0,
		}
		if u, err := user.Current(); err == nil {
			s.User = u.Username
		}
		path := filepath.Join(t.dir, config)
		file, err := os.Create(path)
		if err != nil {
			return nil, err
		}
		defer file.Close()
		if err := templates.ExecuteTemplate(file, config, s); err != nil {
			return nil, err
		}
		return append([]string{binary}, args(path)...), nil
	}
	return r
}
