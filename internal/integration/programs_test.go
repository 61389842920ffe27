package integration

import (
	"flag"
	"os"
	"os/exec"
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
