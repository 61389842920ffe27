package integration

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestMain lets all tests run side by side: they wait, they do not compute.
func TestMain(m *testing.M) {
	flag.Parse()
	if f := flag.Lookup("test.parallel"); f.Value.String() == f.DefValue {
		_ = f.Value.Set("32")
	}
	os.Exit(m.Run())
}

// program returns where a program is. Without it the test skips, or fails where
// everything must be there.
func program(t *testing.T, name, install string) string {
	t.Helper()
	for _, file := range []string{name, "/usr/sbin/" + name} { // a user's PATH may lack sbin
		if path, err := exec.LookPath(file); err == nil {
			return path
		}
	}
	missing(t, "%s is MISSING: nothing is tested against it here. To install: %s", name, install)
	return ""
}

func missing(t *testing.T, format string, args ...any) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatalf(format, args...)
	}
	t.Skipf(format, args...)
}

// nodeWith returns where Node.js is, and the folder of testdata where it finds
// the packages whose name is said when they are missing.
func nodeWith(t *testing.T, folder, packages string) (node, dir string) {
	t.Helper()
	const howto = "apt-get install nodejs npm"
	node, npm := program(t, "node", howto), program(t, "npm", howto)
	dir, err := filepath.Abs(filepath.Join("testdata", folder))
	require.NoError(t, err)
	npmCI.Lock() // for tests run side by side
	defer npmCI.Unlock()
	if installed(dir) {
		return node, dir
	}
	cmd := exec.CommandContext(t.Context(), npm, "ci", "--no-audit", "--no-fund")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		missing(t, "%s is MISSING: nothing is tested against it here. npm ci: %v\n%s", packages, err, out)
	}
	return node, dir
}

var npmCI sync.Mutex

// installed tells whether npm ci has run since the lock file last changed.
func installed(dir string) bool {
	lock, err := os.Stat(filepath.Join(dir, "package-lock.json"))
	if err != nil {
		return false
	}
	done, err := os.Stat(filepath.Join(dir, "node_modules", ".package-lock.json"))
	return err == nil && !done.ModTime().Before(lock.ModTime())
}

// start runs a program until the test ends, and stops that one process. The
// channel is closed when it is gone.
func start(t *testing.T, cmd *exec.Cmd) (gone <-chan struct{}) {
	t.Helper()
	require.NoError(t, cmd.Start(), "starting %s", cmd.Path)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-done
	})
	return done
}
