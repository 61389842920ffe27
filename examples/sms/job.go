package main

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"sync"
	"time"

	"github.com/politehttp/polite/examples/sms/journal"
)

// job is a list on its way, with what of it was done. All of it stands in one
// directory, and each file may be cut off by kill -9 at any instant:
//
//	job.json          which list, and where to
//	done.jsonl        a line per row that the provider has accepted or rejected
//	lock              held by the process that works on it
//	quota             segments spent today
//	provider/         the provider's own: its ledger, attempts, address
type job struct {
	name string
	dir  string
	log  *journal.Journal
	held *os.File  // the lock: one process at a time
	last time.Time // when an earlier run did a row; zero: none did

	mu   sync.Mutex
	done map[int]outcome // by row
}

// facts are what a job must not change from one run to the next, or the keys of
// its rows would stand for other messages.
type facts struct {
	List  string `json:"list"` // a hash of it
	To    string `json:"to,omitempty"`
	Naive bool   `json:"naive,omitempty"`
}

// outcome says how a row ended.
type outcome struct {
	Row      int    `json:"row"`
	Rejected string `json:"rejected,omitempty"` // why; empty: accepted
}

var jobName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// freshJob is a name that no other run has.
func freshJob() string { return time.Now().Format("20060102-150405-") + rand.Text()[:4] }

func openJob(jobs, name string, list []byte, to string, naive bool) (*job, error) {
	if !jobName.MatchString(name) {
		return nil, fmt.Errorf("--job is %q; want up to 64 letters, digits, dots, dashes and underscores", name)
	}
	j := &job{name: name, dir: filepath.Join(jobs, name), done: map[int]outcome{}}
	if err := os.MkdirAll(j.dir, 0o700); err != nil {
		return nil, err
	}
	var err error
	if j.held, err = lock(filepath.Join(j.dir, lockFile)); err != nil {
		return nil, err
	}
	sum := sha256.Sum256(list)
	err = j.claim(facts{List: hex.EncodeToString(sum[:]), To: to, Naive: naive})
	if err == nil {
		path := filepath.Join(j.dir, "done.jsonl")
		if info, err := os.Stat(path); err == nil {
			j.last = info.ModTime()
		}
		j.log, err = journal.Open(path, true, func(o outcome) { j.done[o.Row] = o })
	}
	if err != nil {
		j.held.Close()
		return nil, err
	}
	return j, nil
}

func (j *job) close() {
	j.log.Close()
	j.held.Close()
}

// claim writes down what the job is, or compares.
func (j *job) claim(now facts) error {
	path := filepath.Join(j.dir, "job.json")
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		text, err = json.Marshal(now)
		if err != nil {
			return err
		}
		return replace(path, text)
	}
	if err != nil {
		return err
	}
	var then facts
	if err := json.Unmarshal(text, &then); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if then == now {
		return nil
	}
	what := "with another list"
	switch {
	case then.Naive != now.Naive:
		what = "with --naive or without"
	case then.To != now.To:
		what = fmt.Sprintf("with --to %q", then.To)
	}
	return fmt.Errorf("job %q was begun %s; give it another --job", j.name, what)
}

// finish notes that a row is done.
func (j *job) finish(o outcome) error {
	j.mu.Lock()
	j.done[o.Row] = o
	j.mu.Unlock()
	return j.log.Append(o)
}

// pending are the rows that are left to do.
func (j *job) pending(rows []row) (left []row) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, r := range rows {
		if _, done := j.done[r.N]; !done {
			left = append(left, r)
		}
	}
	return left
}

// outcomes are the rows that are done.
func (j *job) outcomes() map[int]outcome {
	j.mu.Lock()
	defer j.mu.Unlock()
	return maps.Clone(j.done)
}

func (j *job) providerDir() string { return filepath.Join(j.dir, "provider") }
func (j *job) quotaFile() string   { return filepath.Join(j.dir, "quota") }

// jobsDir is where jobs are kept unless --jobs says otherwise.
func jobsDir() string {
	dir, err := os.UserCacheDir()
	if err != nil {
		dir = os.TempDir()
	}
	return filepath.Join(dir, "polite-sms")
}
