// generate writes the files that packages and images contain beside the program, from the program's own sources, so that none of them is
// written twice. `make packages`, `make image` and goreleaser call it:
//
//	go run ./deploy/generate -date SECONDS DIRECTORY
//
// It replaces these files in DIRECTORY:
//
//	wsbouncer.yaml               the settings file, as `wsbouncer config init` writes it
//	completions/                 for bash, zsh and fish
//	man/                         a manual page for each command, compressed
//	rootfs/                      the image's file system, the program aside: settings, root certificates, an empty state directory
package main

import (
	"bytes"
	"compress/gzip"
	"encoding/pem"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
	"golang.org/x/crypto/x509roots/fallback/bundle"

	"github.com/wsbouncer/wsbouncer/internal/cli"
	"github.com/wsbouncer/wsbouncer/internal/config/settings"
)

func main() {
	seconds := flag.Int64("date", 0, "date of the manual pages, in `seconds` since 1970; 0 or less for today, which goreleaser says where it knows no commit")
	flag.Parse()
	if flag.NArg() != 1 {
		fmt.Fprintf(os.Stderr, "Error: generate takes one directory, but got %d\n", flag.NArg())
		os.Exit(2)
	}
	date := time.Now()
	if *seconds > 0 {
		date = time.Unix(*seconds, 0)
	}
	if err := generate(flag.Arg(0), date.UTC()); err != nil {
		fmt.Fprintf(os.Stderr, "Error: %v\n", err)
		os.Exit(1)
	}
}

// generate writes all files. Files of an older run that are no longer written are removed, so that no package contains them.
func generate(directory string, date time.Time) error {
	for _, part := range []string{"completions", "man", "rootfs"} {
		if err := os.RemoveAll(filepath.Join(directory, part)); err != nil {
			return err
		}
	}
	return errors.Join(
		write(filepath.Join(directory, "wsbouncer.yaml"), settings.Template()),
		writeCompletions(filepath.Join(directory, "completions")),
		writeManual(filepath.Join(directory, "man"), date),
		writeRoot(filepath.Join(directory, "rootfs")),
	)
}

func write(file string, content []byte) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return os.WriteFile(file, content, 0o644)
}

func writeCompletions(directory string) error {
	for shell, generate := range map[string]func(*cobra.Command, io.Writer) error{
		"wsbouncer.bash": func(c *cobra.Command, to io.Writer) error { return c.GenBashCompletionV2(to, true) },
		"wsbouncer.zsh":  func(c *cobra.Command, to io.Writer) error { return c.GenZshCompletion(to) },
		"wsbouncer.fish": func(c *cobra.Command, to io.Writer) error { return c.GenFishCompletion(to, true) },
	} {
		var script bytes.Buffer
		if err := generate(cli.Command(), &script); err != nil {
			return err
		}
		if err := write(filepath.Join(directory, shell), script.Bytes()); err != nil {
			return err
		}
	}
	return nil
}

// writeManual writes a page for the program and each of its commands: wsbouncer.1.gz, wsbouncer-serve.1.gz.
func writeManual(directory string, date time.Time) error {
	var pages func(*cobra.Command) error
	pages = func(command *cobra.Command) error {
		command.DisableAutoGenTag = true // a date of the build, which would make every build another
		var page bytes.Buffer
		if err := doc.GenMan(command, &doc.GenManHeader{Section: "1", Date: &date, Source: "wsbouncer", Manual: "wsbouncer"}, &page); err != nil {
			return err
		}
		var packed bytes.Buffer
		w, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
		if err != nil {
			return err
		}
		if _, err := w.Write(page.Bytes()); err != nil {
			return err
		}
		if err := w.Close(); err != nil {
			return err
		}
		name := strings.ReplaceAll(command.CommandPath(), " ", "-") + ".1.gz"
		if err := write(filepath.Join(directory, name), packed.Bytes()); err != nil {
			return err
		}
		for _, below := range command.Commands() {
			if below.IsAvailableCommand() && !below.IsAdditionalHelpTopicCommand() {
				if err := pages(below); err != nil {
					return err
				}
			}
		}
		return nil
	}
	return pages(cli.Command())
}

// writeRoot writes the image's file system.
func writeRoot(directory string) error {
	image, err := os.ReadFile("deploy/image/wsbouncer.yaml")
	if err != nil {
		return fmt.Errorf("generate must run in the root of the repository: %w", err)
	}
	return errors.Join(
		write(filepath.Join(directory, "etc/wsbouncer/wsbouncer.yaml"), image),
		write(filepath.Join(directory, "etc/ssl/certs/ca-certificates.crt"), rootCertificates()),
		os.MkdirAll(filepath.Join(directory, "var/lib/wsbouncer"), 0o755),
	)
}

// rootCertificates returns Mozilla's root certificates in PEM, for backends at wss://. A file cannot say that a root is trusted only for
// certificates that were issued before some date, so those roots are left out.
func rootCertificates() []byte {
	var all bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			// A bytes.Buffer returns no errors.
			_ = pem.Encode(&all, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate})
		}
	}
	return all.Bytes()
}
