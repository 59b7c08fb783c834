//go:build unix

package pgtest

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
)

// NewStandby makes the files of a standby of a server that runs, by pg_basebackup over the server's socket. When it runs, the standby reads
// what the server writes over TCP from an address: the server's, or a forwarder's to it. Remove ends it.
func NewStandby(of *Server, host string, port int) (*Server, error) {
	if _, err := exec.LookPath(filepath.Join(of.bin, "pg_basebackup")); err != nil {
		return nil, ErrNone
	}
	s := &Server{bin: of.bin, account: of.account, log: new(bytes.Buffer)}
	var err error
	if s.Directory, err = os.MkdirTemp("", "pgtest"); err != nil {
		return nil, err
	}
	if err := s.copy(of, host, port); err != nil {
		s.Remove()
		return nil, err
	}
	return s, nil
}

func (s *Server) copy(of *Server, host string, port int) error {
	if s.account != nil {
		if err := os.Chown(s.Directory, int(s.account.Uid), int(s.account.Gid)); err != nil {
			return err
		}
	}
	backup := s.command("pg_basebackup", "-D", s.data(), "-h", of.Directory, "-p", fmt.Sprint(of.Port), "-U", User, "-c", "fast", "-X", "stream", "--no-sync")
	if output, err := backup.CombinedOutput(); err != nil {
		return fmt.Errorf("pg_basebackup: %w\n%s", err, output)
	}
	settings := fmt.Sprintf("primary_conninfo = 'host=%s port=%d user=%s password=%s sslmode=disable'\nwal_retrieve_retry_interval = '100ms'\n", host, port, User, Password)
	if err := os.WriteFile(filepath.Join(s.data(), "postgresql.auto.conf"), []byte(settings), 0o600); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(s.data(), "standby.signal"), nil, 0o600); err != nil {
		return err
	}
	if s.account != nil {
		for _, name := range []string{"postgresql.auto.conf", "standby.signal"} {
			if err := os.Chown(filepath.Join(s.data(), name), int(s.account.Uid), int(s.account.Gid)); err != nil {
				return err
			}
		}
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	s.Port = listener.Addr().(*net.TCPAddr).Port
	return listener.Close()
}
