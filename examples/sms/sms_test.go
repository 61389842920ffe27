package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Three runs side by side, each with a provider of its own that fails others.
func TestEverythingIsDeliveredOnceAndInTime(t *testing.T) {
	t.Parallel()
	list, rows := long(t)
	dir := jobs(t)
	var programs []*program
	for seed := 1; seed <= 3; seed++ {
		programs = append(programs, start(t, dir, append(list, "--job", fmt.Sprint("run", seed), "--seed", fmt.Sprint(seed))...))
	}
	var over []float64
	for i, p := range programs {
		table := p.end(t, 0)
		assert.Equal(t, fmt.Sprint(len(rows)), table["delivered"])
		assert.Equal(t, "0", table["delivered twice"])
		assert.Equal(t, "0", table["lost"])
		billed := assertOnce(t, rows, dir, fmt.Sprint("run", i+1))
		assert.Equal(t, fmt.Sprint(billed), table["segments billed"])
		// A call that failed stays spent, and its row spends again.
		spent := numberIn(t, table, "quota spent")
		assert.GreaterOrEqual(t, spent, float64(billed))
		assert.LessOrEqual(t, spent, 1.1*float64(billed))
		attempts := numberIn(t, table, "attempts")
		least := 0.05 * attempts
		if raced {
			least = 1
		}
		assert.GreaterOrEqual(t, numberIn(t, table, "answered 503"), least)
		assert.GreaterOrEqual(t, numberIn(t, table, "answer lost"), least)
		ideal := max((attempts-20)/10, numberIn(t, table, "most of one sender")-2)
		assert.InDelta(t, ideal, numberIn(t, table, "ideal"), 0.06, "the printed one is rounded")
		over = append(over, numberIn(t, table, "elapsed")/ideal)
		t.Log(p.out.String())
	}
	if raced {
		return
	}
	slices.Sort(over)
	assert.LessOrEqual(t, over[1], 1.15, "the median of %v", over)
}

func TestKilledItGoesOnWhereItStopped(t *testing.T) {
	t.Parallel()
	list, rows := long(t)
	dir, args := jobs(t), append(list, "--job", "spring")
	first := start(t, dir, args...)
	delivered(t, dir, "spring", len(rows)/2)
	require.NoError(t, first.cmd.Process.Kill()) // -9
	first.cmd.Wait()
	before := children(t, dir)
	require.Len(t, before, 1, "the provider has outlived it")
	resp, err := http.Get(before[0].URL + "/job")
	require.NoError(t, err)
	resp.Body.Close()

	second := start(t, dir, args...)
	table := second.end(t, 0)
	assert.Contains(t, second.out.String(), "rows were done before")
	assert.Equal(t, fmt.Sprint(len(rows)), table["delivered"])
	assert.Equal(t, "0", table["delivered twice"])
	assert.Equal(t, "0", table["lost"])
	billed := assertOnce(t, rows, dir, "spring")
	assert.Equal(t, fmt.Sprint(billed), table["segments billed"])
	// What was under way when it was killed stays spent; at most the calls of
	// all workers, of few segments each.
	spent := numberIn(t, table, "quota spent")
	assert.GreaterOrEqual(t, spent, float64(billed))
	assert.LessOrEqual(t, spent, float64(billed)+24*4)
	t.Log(second.out.String())

	third := start(t, dir, args...) // nothing is left to do
	table = third.end(t, 0)
	assert.Equal(t, fmt.Sprint(len(rows)), table["delivered"])
	assert.Equal(t, "0", table["attempts"])
}

func TestProviderThatIsStartedAgainKnowsItsKeys(t *testing.T) {
	t.Parallel()
	n := 60
	if raced {
		n = 40
	}
	list, rows := listFile(t, n)
	dir := jobs(t)
	first := start(t, dir, "--job", "j", "--csv", list)
	delivered(t, dir, "j", n*2/3)
	require.NoError(t, first.cmd.Process.Kill())
	first.cmd.Wait()
	provider := children(t, dir)
	require.Len(t, provider, 1)
	p, err := os.FindProcess(provider[0].PID)
	require.NoError(t, err)
	require.NoError(t, p.Kill())
	require.Eventually(t, func() bool { return len(processes(dir)) == 0 }, 5*time.Second, 10*time.Millisecond)
	// As if the sender had noted nothing of what it sent.
	require.NoError(t, os.Remove(filepath.Join(dir, "j", "done.jsonl")))

	table := start(t, dir, "--job", "j", "--csv", list).end(t, 0)
	assert.Equal(t, strconv.Itoa(n), table["delivered"])
	assert.Equal(t, "0", table["delivered twice"])
	billed := assertOnce(t, rows, dir, "j")
	assert.LessOrEqual(t, numberIn(t, table, "quota spent"), float64(billed)+24*4, "what was answered before is not spent twice")
}

func TestInterruptedItEndsInOrder(t *testing.T) {
	t.Parallel()
	list, rows := listFile(t, 60)
	dir := jobs(t)
	first := start(t, dir, "--job", "j", "--csv", list)
	delivered(t, dir, "j", 25)
	require.NoError(t, first.cmd.Process.Signal(os.Interrupt))
	table := first.end(t, 1)
	assert.Contains(t, first.fail.String(), "interrupted; --job j goes on with it")
	assert.Equal(t, "0", table["lost"], "a row that is pending is not lost")
	assert.NotEqual(t, "60", table["delivered"])
	require.Len(t, children(t, dir), 1)

	table = start(t, dir, "--job", "j", "--csv", list).end(t, 0)
	assert.Equal(t, "60", table["delivered"])
	assertOnce(t, rows, dir, "j")
}

func TestWithoutMannersMessagesAreLostAndDoubled(t *testing.T) {
	t.Parallel()
	p := start(t, jobs(t), "--naive")
	table := p.end(t, 0)
	assert.Positive(t, numberIn(t, table, "delivered twice"))
	assert.Positive(t, numberIn(t, table, "lost"))
	assert.Positive(t, numberIn(t, table, "429s met"))
	t.Log(p.out.String())
}

func TestSpentQuotaStops(t *testing.T) {
	t.Parallel()
	list, rows := listFile(t, 30)
	dir := jobs(t)
	p := start(t, dir, "--job", "j", "--csv", list, "--quota", "15")
	table := p.end(t, 1)
	assert.Regexp(t, `the quota of today is spent: \d segments are left, row \d+ needs \d; it starts anew at .*T00:00:00Z`, p.fail.String())
	assert.LessOrEqual(t, numberIn(t, table, "segments billed"), 15.)
	assert.LessOrEqual(t, numberIn(t, table, "quota spent"), 15.)
	assert.Equal(t, "0", table["lost"])
	assert.GreaterOrEqual(t, numberIn(t, table, "delivered")+numberIn(t, table, "pending"), 30.)

	table = start(t, dir, "--job", "j", "--csv", list).end(t, 0) // tomorrow, or a larger one
	assert.Equal(t, "30", table["delivered"])
	assertOnce(t, rows, dir, "j")
}

func TestAnotherProvider(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	seen := map[string]int{} // by key
	ts := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		body, _ := io.ReadAll(r.Body)
		key := r.Header.Get("Idempotency-Key")
		seen[key]++
		switch {
		case seen[key] == 1 && len(seen)%5 == 0:
			w.WriteHeader(http.StatusBadGateway)
		case strings.Contains(string(body), "dentist"):
			http.Error(w, "no dentists", http.StatusUnprocessableEntity)
		}
	}))
	defer ts.Close()
	list, rows := listFile(t, 20)
	dentists := 0
	for _, r := range rows {
		if strings.HasPrefix(r.ID, "dentist") {
			dentists++
		}
	}
	out, err := inProcess(t, "--csv", list, "--to", ts.URL)
	require.EqualError(t, err, "the provider has rejected messages")
	assert.Regexp(t, fmt.Sprintf(`accepted +%d   of 20`, 20-dentists), out)
	assert.Regexp(t, fmt.Sprintf(`rejected +%d   `, dentists), out)
	assert.Len(t, seen, 20, "a key for each row")

	_, err = inProcess(t, "--csv", list, "--to", ts.URL+"/x", "--naive")
	require.EqualError(t, err, "--naive is for the provider of this example, not for --to")
}

func TestRefusedCredentialsStopAtOnce(t *testing.T) {
	t.Parallel()
	ts := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "who are you?", http.StatusUnauthorized)
	}))
	defer ts.Close()
	out, err := inProcess(t, "--to", ts.URL)
	require.ErrorContains(t, err, "answers 401 Unauthorized: who are you?")
	assert.Regexp(t, `accepted +0   of 300\n  pending +300 `, out)
}

func TestBadListSendsNothing(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "bad.csv")
	require.NoError(t, os.WriteFile(path, []byte("id,from,to,text\na,+447700900101,+447700900001,Hi\nb,+447700900101,x,Hi\n"), 0o600))
	dir := jobs(t)
	p := start(t, dir, "--csv", path)
	p.end(t, 1)
	assert.Contains(t, p.fail.String(), `row 2 (line 3): to is "x"; want a number`)
	assert.Empty(t, p.out.String())
	made, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Empty(t, made)
}

// Not in parallel: a process that is being started holds the lock of a closed
// file for a moment.
func TestJobIsOneListToOneProvider(t *testing.T) {
	dir := t.TempDir()
	j, err := openJob(dir, "j", []byte("a"), "", false)
	require.NoError(t, err)
	_, err = openJob(dir, "j", []byte("a"), "", false)
	require.ErrorIs(t, err, errLocked)
	j.close()
	for _, c := range []struct {
		list, to string
		naive    bool
		want     string
	}{
		{"b", "", false, `job "j" was begun with another list; give it another --job`},
		{"a", "http://x", false, `job "j" was begun with --to ""; give it another --job`},
		{"a", "", true, `job "j" was begun with --naive or without; give it another --job`},
	} {
		_, err = openJob(dir, "j", []byte(c.list), c.to, c.naive)
		require.EqualError(t, err, c.want)
	}
	_, err = openJob(dir, "../j", nil, "", false)
	require.ErrorContains(t, err, "--job is")
	j, err = openJob(dir, "j", []byte("a"), "", false)
	require.NoError(t, err, "and a refused one holds no lock")
	j.close()
}

func numberIn(t *testing.T, table map[string]string, name string) float64 {
	n, err := strconv.ParseFloat(strings.TrimSuffix(table[name], " s"), 64)
	require.NoError(t, err, "%s in %v", name, table)
	return n
}
