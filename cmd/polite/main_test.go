package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/politehttp/polite/cmd/polite/internal/lab"
)

func polite(t *testing.T, args ...string) (code int, out, errs string) {
	t.Helper()
	var o, e bytes.Buffer
	code = run(t.Context(), args, &o, &e)
	return code, o.String(), e.String()
}

func TestCommandLine(t *testing.T) {
	for _, c := range []struct {
		args string
		code int
		out  string
		errs string
	}{
		{"", 2, "", "a command is missing"},
		{"help", 0, "lab ", ""},
		{"--help", 0, "Usage: polite COMMAND", ""},
		{"labor", 2, "", `there is no command "labor"`},
		{"lab", 0, "burst", ""},
		{"lab --help", 0, "-seed number", ""},
		{"lab brust", 2, "", `there is no experiment "brust"; there are burst, idle`},
		{"lab burst idle", 2, "", `what is "idle"?`},
		{"lab --nonsense", 2, "", "-nonsense; see polite lab --help"},
		{"lab burst --seed x", 2, "", `"x"`},
		{"lab --json", 2, "", "the name of an experiment is missing"},
		{"lab --svg x.svg", 2, "", "the name of an experiment is missing"},
		{"lab all --svg x.svg", 2, "", "--svg and --png draw one experiment"},
		{"lab burst --svg no/such/folder/x.svg", 1, "", "no/such/folder/x.svg"},
		{"lab race --redis 127.0.0.1:1", 1, "", "race: --redis 127.0.0.1:1"},
	} {
		code, out, errs := polite(t, strings.Fields(c.args)...)
		assert.Equal(t, c.code, code, c.args)
		assert.Contains(t, out, c.out, c.args)
		assert.Contains(t, errs, c.errs, c.args)
	}
}

func TestListHasAll(t *testing.T) {
	_, out, _ := polite(t, "lab")
	lines := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
	require.Len(t, lines, len(lab.All()))
	for i, e := range lab.All() {
		assert.True(t, strings.HasPrefix(lines[i], e.Name+" "), lines[i])
		assert.True(t, strings.HasSuffix(lines[i], "  "+e.Title), lines[i])
		assert.LessOrEqual(t, wide(lines[i]), columns, lines[i])
	}
}

func TestText(t *testing.T) {
	code, out, errs := polite(t, "lab", "burst")
	assert.Zero(t, code)
	assert.Empty(t, errs)
	assert.Contains(t, out, `
rule, 10 a second  admitted  most in any second  the first one begins at, s
-----------------  --------  ------------------  --------------------------
fixed window             40                  20                        0.90
token bucket             35                  19                        2.00
`)
	assert.Contains(t, out, "\nWhat must hold:\n\n  ok      most in any second, fixed window               20  = 20\n")
}

func TestJSON(t *testing.T) {
	code, out, _ := polite(t, "lab", "--seed", "7", "idle", "--json")
	assert.Zero(t, code)
	var got struct {
		Name    string
		Seed    int
		OK      bool
		Tables  []lab.Table
		Figures []lab.Figure
	}
	require.NoError(t, json.Unmarshal([]byte(out), &got))
	assert.Equal(t, "idle", got.Name)
	assert.Equal(t, 7, got.Seed)
	assert.True(t, got.OK)
	assert.Equal(t, lab.Figure{Name: "leave at once, token bucket", Got: 10, Bound: "= 10", OK: true}, got.Figures[0])
	assert.Equal(t, []any{"token bucket", 10.0, 10.0, 0.0, 5.0}, got.Tables[0].Rows[0])
}

func TestFiles(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	args := []string{"lab", "burst", "--svg", at("b.svg"), "--html", at("b.html"), "--docs", at("img")}
	names := []string{"b.svg", "b-2.svg", "b.html", "img/burst.svg", "img/burst-running.svg"}
	if !raced { // takes seconds in one goroutine
		args, names = append(args, "--png", at("b.png")), append(names, "b.png", "b-2.png")
	}
	code, _, errs := polite(t, args...)
	assert.Zero(t, code)
	for _, name := range names {
		assert.FileExists(t, at(name))
		assert.Contains(t, errs, "wrote "+at(name)+"\n")
	}
	first, err := os.ReadFile(at("b.svg"))
	require.NoError(t, err)
	again, err := os.ReadFile(at("img/burst.svg"))
	require.NoError(t, err)
	assert.Equal(t, string(first), string(again))
}

// An experiment that does not show what it must ends with 1, and says which
// figure it is.
func TestMissed(t *testing.T) {
	held := lab.Figure{Name: "held", OK: true}
	all := []outcome{{Name: "a", Result: &lab.Result{Figures: []lab.Figure{held}}}}
	require.NoError(t, missed(all))
	all[0].Figures = append(all[0].Figures, lab.Figure{Name: "load", Got: 1.23, Unit: "×", Bound: "≤ 1.1"})
	require.EqualError(t, missed(all), "missed: a: load")
	assert.Equal(t, []string{
		"  ok      held       0",
		"  MISSED  load  1.23 ×  ≤ 1.1",
	}, figures(all[0].Figures))
}

func TestProgress(t *testing.T) {
	said := make(chan bool, 1)
	after(time.Hour, func() { said <- true })()
	assert.Empty(t, said)
	begun := make(chan bool)
	done := after(0, func() { begun <- true; said <- true })
	<-begun
	done()
	assert.Len(t, said, 1, "done waits for it")
}

func TestLayOut(t *testing.T) {
	table := lab.Table{
		Columns: []string{"a way to keep a limit that has a very long name", "calls that were made in the end", "share of all the calls, %", "x"},
		Rows:    [][]any{{strings.Repeat("w", 30), 12, 0.5, "–"}, {"short", 1234567, 100.0, 3}},
	}
	assert.Equal(t, []string{
		"a way to keep a limit that has  calls that were  share of all",
		"a very long name                made in the end  the calls, %  x",
		"------------------------------  ---------------  ------------  -",
		"wwwwwwwwwwwwwwwwwwwwwwwwwwwwww               12          0.50  –",
		"short                                   1234567           100  3",
	}, layOut(table))

	assert.Equal(t, []string{"one two", "three", "fourfivesix"}, wrap("one  two three\nfourfivesix", 7))
}

// A table that is too wide goes on below, with the columns that tell its rows
// apart.
func TestLayOutInParts(t *testing.T) {
	long := strings.Repeat("c", 40)
	table := lab.Table{
		Columns: []string{"way", "load", long, "d", long},
		Rows:    [][]any{{"none", 50, 1, 2, 3}, {"none", 150, 4, 5, 6}},
	}
	line := strings.Repeat("-", 40)
	blank := strings.Repeat(" ", 39)
	assert.Equal(t, []string{
		"way   load  " + long + "  d",
		"----  ----  " + line + "  -",
		"none    50  " + blank + "1  2",
		"none   150  " + blank + "4  5",
		"",
		"way   load  " + long,
		"----  ----  " + line,
		"none    50  " + blank + "3",
		"none   150  " + blank + "6",
	}, layOut(table))
}

// All experiments show what they must, in the command that people run; and
// docs/img is what it draws:
//
//	go run ./cmd/polite lab all --docs docs/img
func TestAllAndDocsAreCurrent(t *testing.T) {
	if testing.Short() || raced {
		t.Skip("runs all experiments, which takes half a minute: without -short and -race")
	}
	dir := t.TempDir()
	binary := filepath.Join(dir, "polite")
	build, err := exec.CommandContext(t.Context(), "go", "build", "-o", binary, ".").CombinedOutput()
	require.NoError(t, err, "%s", build)
	img, html := filepath.Join(dir, "img"), filepath.Join(dir, "all.html")
	command := exec.CommandContext(t.Context(), binary, "lab", "all", "--docs", img, "--html", html)
	var out, errs bytes.Buffer
	command.Stdout, command.Stderr = &out, &errs
	require.NoError(t, command.Run(), "%s", &errs)

	for line := range strings.Lines(out.String()) {
		assert.LessOrEqual(t, wide(strings.TrimSuffix(line, "\n")), columns, line)
	}
	page, err := os.ReadFile(html)
	require.NoError(t, err)
	for _, e := range lab.All() {
		assert.Contains(t, "\n"+out.String(), "\n"+e.Name+": ")
		assert.Contains(t, string(page), `<section id="`+e.Name+`">`)
	}
	for _, outside := range []string{"src=", "url(", "<link", "<script", "@import"} {
		assert.NotContains(t, string(page), outside, "the page is self-contained")
	}
	assert.NotContains(t, string(page), "MISSED")

	drawn, committed := read(t, img), read(t, filepath.Join("..", "..", "docs", "img"))
	const remake = "run: go run ./cmd/polite lab all --docs docs/img"
	for name := range committed {
		assert.Contains(t, drawn, name, "docs/img/%s belongs to no experiment", name)
	}
	for name, svg := range drawn {
		require.Contains(t, committed, name, remake)
		if runtime.GOARCH == "amd64" { // elsewhere a multiplication may be rounded in another way
			assert.True(t, svg == committed[name], "docs/img/%s is not current; %s", name, remake)
		}
	}
}

// read returns the pictures of a folder by name.
func read(t *testing.T, dir string) map[string]string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*.svg"))
	require.NoError(t, err)
	files := map[string]string{}
	for _, name := range names {
		b, err := os.ReadFile(name)
		require.NoError(t, err)
		files[filepath.Base(name)] = string(b)
	}
	return files
}
