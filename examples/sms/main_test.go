package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/politehttp/polite/examples/sms/provider"
)

// The tests run the program as its users do: this binary, started again, is it.
const asProgram = "SMS_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	// With -race, each that is started would wait a second at its end.
	os.Setenv("GORACE", os.Getenv("GORACE")+" atexit_sleep_ms=0")
	if os.Getenv(asProgram) != "" {
		main()
		return
	}
	flag.Parse()
	if err := flag.Set("test.parallel", "16"); err != nil { // they wait, and compute little
		panic(err)
	}
	os.Exit(m.Run())
}

// program is a run of it.
type program struct {
	cmd  *exec.Cmd
	out  bytes.Buffer
	fail bytes.Buffer
	jobs string
}

// start begins a run; what it leaves behind is ended, and found, with the test.
func start(t *testing.T, jobs string, args ...string) *program {
	self, err := os.Executable()
	require.NoError(t, err)
	p := &program{cmd: exec.Command(self, append([]string{"--jobs", jobs}, args...)...), jobs: jobs}
	p.cmd.Env = append(os.Environ(), asProgram+"=1")
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.fail
	require.NoError(t, p.cmd.Start())
	t.Cleanup(func() { p.cmd.Process.Kill() })
	return p
}

// end waits for the run and returns its table: the first number of each line,
// by name.
func (p *program) end(t *testing.T, code int) map[string]string {
	p.cmd.Wait()
	require.Equal(t, code, p.cmd.ProcessState.ExitCode(), "%s\n%s", p.out.String(), p.fail.String())
	return p.table()
}

func (p *program) table() map[string]string {
	table := map[string]string{}
	for _, line := range strings.Split(p.out.String(), "\n") {
		if strings.HasPrefix(line, "  ") && len(line) >= 35 {
			table[strings.TrimSpace(line[:27])] = strings.TrimSpace(line[27:35])
		}
	}
	return table
}

// jobs is a directory for jobs, of which no process is left at the end.
func jobs(t *testing.T) string {
	dir := t.TempDir()
	t.Cleanup(func() {
		for _, c := range children(t, dir) {
			if resp, err := http.Post(c.URL+"/stop", "", nil); err == nil {
				resp.Body.Close()
				t.Errorf("a provider was left behind, of %s", dir)
			}
		}
		assert.Eventually(t, func() bool { return len(processes(dir)) == 0 }, 5*time.Second, 20*time.Millisecond)
	})
	return dir
}

// children are the providers that say that they run.
func children(t *testing.T, jobs string) (all []child) {
	found, err := filepath.Glob(filepath.Join(jobs, "*", "provider", addressFile))
	require.NoError(t, err)
	for _, path := range found {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		var c child
		require.NoError(t, json.Unmarshal(text, &c))
		all = append(all, c)
	}
	return all
}

// processes are those that have dir on their command line, where that can be
// seen.
func processes(dir string) (all []string) {
	found, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range found {
		if text, err := os.ReadFile(path); err == nil && bytes.Contains(text, []byte(dir)) {
			all = append(all, path)
		}
	}
	return all
}

// delivered waits until the ledger of the job has n lines.
func delivered(t *testing.T, jobs, job string, n int) []provider.Delivery {
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		ledger, err := provider.Ledger(filepath.Join(jobs, job, "provider"))
		require.NoError(t, err)
		if len(ledger) >= n {
			return ledger
		}
	}
	require.Fail(t, "nothing was delivered for a minute")
	return nil
}

// assertOnce says that each row is in the ledger, once, and nothing else.
func assertOnce(t *testing.T, rows []row, jobs, job string) (segments int64) {
	ledger, err := provider.Ledger(filepath.Join(jobs, job, "provider"))
	require.NoError(t, err)
	var want, got []string
	for _, r := range rows {
		want = append(want, r.ID)
	}
	for _, d := range ledger {
		got = append(got, d.ID)
		segments += d.Segments
	}
	assert.ElementsMatch(t, want, got)
	return segments
}

// listFile writes the first n rows of the list to a file.
func listFile(t *testing.T, n int) (path string, rows []row) {
	lines := strings.SplitAfter(messages, "\n")[:n+1]
	path = filepath.Join(t.TempDir(), "list.csv")
	require.NoError(t, os.WriteFile(path, []byte(strings.Join(lines, "")), 0o600))
	rows, err := readList(path, strings.NewReader(strings.Join(lines, "")))
	require.NoError(t, err)
	return path, rows
}

// long is the list of the long runs, and how they are told: the committed one, or
// its first rows.
func long(t *testing.T) (args []string, rows []row) {
	if !raced {
		return nil, committed(t)
	}
	path, rows := listFile(t, 60)
	return []string{"--csv", path}, rows
}

func committed(t *testing.T) []row {
	rows, err := readList("messages.csv", strings.NewReader(messages))
	require.NoError(t, err)
	return rows
}

// inProcess runs the program here, for what needs no process of its own.
func inProcess(t *testing.T, args ...string) (out string, err error) {
	var b bytes.Buffer
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	err = run(ctx, append([]string{"--jobs", t.TempDir()}, args...), &b)
	return b.String(), err
}
