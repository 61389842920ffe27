package quota

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var errDisk = errors.New("no space left on device")

// faultyDisk is the disk, with steps that can be made to fail and to wait.
type faultyDisk struct {
	osDisk
	failAt  atomic.Int64 // fails from the step of this number on; zero: never
	steps   atomic.Int64
	syncs   atomic.Int64
	noNew   atomic.Bool        // no file can be created
	syncing chan chan struct{} // non-nil: each sync of an appended file waits until what it sends is closed
}

func (d *faultyDisk) step() error {
	n, at := d.steps.Add(1), d.failAt.Load()
	if at > 0 && n >= at {
		return errDisk
	}
	return nil
}

func (d *faultyDisk) create(name string) (file, error) {
	if err := d.step(); err != nil || d.noNew.Load() {
		return nil, errDisk
	}
	f, err := d.osDisk.create(name)
	return faultyFile{f, d, false}, err
}

func (d *faultyDisk) append(name string) (file, error) {
	if err := d.step(); err != nil {
		return nil, err
	}
	f, err := d.osDisk.append(name)
	return faultyFile{f, d, true}, err
}

func (d *faultyDisk) rename(from, to string) error {
	if err := d.step(); err != nil {
		return err
	}
	return d.osDisk.rename(from, to)
}

func (d *faultyDisk) syncDir(string) error {
	return d.step()
}

type faultyFile struct {
	file
	d        *faultyDisk
	appended bool
}

// Write fails in the middle.
func (f faultyFile) Write(p []byte) (int, error) {
	if err := f.d.step(); err != nil {
		n, _ := f.file.Write(p[:len(p)/2])
		return n, err
	}
	return f.file.Write(p)
}

func (f faultyFile) Sync() error {
	f.d.syncs.Add(1)
	if f.appended && f.d.syncing != nil {
		finish := make(chan struct{})
		f.d.syncing <- finish
		<-finish
	}
	return f.d.step() // the machine goes on, so there is no need to wait for the disk
}

// The disk fails at any step, for good or for a while: nothing that was granted
// is lost, nothing is granted that is not on disk, and the store comes back by
// itself. At each failure the files are as a crash at that step leaves them.
func TestFailuresAtEveryStep(t *testing.T) {
	for at := int64(1); at < 60; at++ {
		for _, forGood := range []bool{true, false} {
			synctest.Test(t, func(t *testing.T) {
				path := filepath.Join(t.TempDir(), "quota")
				s, err := openFile(path, &faultyDisk{}, rewriteOver)
				require.NoError(t, err)
				spend(t, s, "a", 100)
				require.NoError(t, s.Close())

				d := &faultyDisk{}
				d.failAt.Store(at)
				s, err = openFile(path, d, 300) // written anew every few lines
				granted, asked := int64(100), int64(100)
				if err != nil {
					require.ErrorIs(t, err, errDisk)
				} else {
					for i := range 15 {
						_, ok, err := s.Spend(t.Context(), tally("a"), 1)
						asked++
						if err == nil {
							require.True(t, ok)
							granted++
							continue
						}
						require.ErrorIs(t, err, errDisk)
						if !forGood {
							d.failAt.Store(0)
							_, _, err = s.Spend(t.Context(), tally("a"), 1)
							require.ErrorIs(t, err, errDisk, "it rests for a second")
							time.Sleep(retryFailed)
							require.Equal(t, granted, used(t, s, "a"), "what failed is taken back (%d)", i)
						}
					}
					if !forGood {
						require.GreaterOrEqual(t, granted, int64(114))
					}
					_ = s.Close()
				}
				s, err = openFile(path, &faultyDisk{}, rewriteOver)
				require.NoError(t, err, "step %d", at)
				require.GreaterOrEqual(t, used(t, s, "a"), granted, "step %d", at)
				require.LessOrEqual(t, used(t, s, "a"), asked, "step %d", at)
				require.NoError(t, s.Close())
			})
		}
	}
}

// Those who wait behind a write that failed are refused without another try.
func TestAFailureIsNotTriedForEachCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &faultyDisk{}
		s, err := openFile(filepath.Join(t.TempDir(), "quota"), d, rewriteOver)
		require.NoError(t, err)
		d.syncing = make(chan chan struct{})
		var wg sync.WaitGroup
		refused := func() {
			_, _, err := s.Spend(t.Context(), tally("a"), 1)
			assert.ErrorIs(t, err, errDisk)
		}
		wg.Go(refused)
		first := <-d.syncing
		for range 5 {
			wg.Go(refused)
		}
		synctest.Wait()
		d.failAt.Store(1)
		before := d.steps.Load()
		close(first)
		wg.Wait()
		assert.EqualValues(t, 1, d.steps.Load()-before)
		assert.Zero(t, s.book.counts[idOf(tally("a"))].used)
		require.NoError(t, s.Close())
	})
}

// A log that cannot be written anew grows, and goes on.
func TestTheOldFileStaysGood(t *testing.T) {
	path := filepath.Join(t.TempDir(), "quota")
	d := &faultyDisk{}
	s, err := openFile(path, d, 300)
	require.NoError(t, err)
	d.noNew.Store(true)
	for range 20 {
		spend(t, s, "a", 1)
	}
	before := s.log.size
	d.noNew.Store(false)
	for range 20 {
		spend(t, s, "a", 1)
	}
	assert.Less(t, s.log.size, before, "until it can")
	require.NoError(t, s.Close())
	assert.EqualValues(t, 40, used(t, open(t, path), "a"))
}

func TestWhatACrashLeavesBesideTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "quota")
	require.NoError(t, os.WriteFile(path+".tmp", []byte("half a"), 0o600))
	s := open(t, path)
	spend(t, s, "a", 7)
	require.NoError(t, s.Close())
	require.NoError(t, os.WriteFile(path+".tmp", []byte(logHeader+"\n"), 0o600))
	require.EqualValues(t, 7, used(t, open(t, path), "a"))
	require.NoFileExists(t, path+".tmp")
}

// Many goroutines, keys and rewrites; then the file says what memory said.
func TestManyWriters(t *testing.T) {
	path := filepath.Join(t.TempDir(), "quota")
	s, err := openFile(path, osDisk{}, 4000)
	require.NoError(t, err)
	var sums [5]atomic.Int64
	var wg sync.WaitGroup
	for g := range 16 {
		wg.Go(func() {
			random := rand.New(rand.NewPCG(3, uint64(g)))
			for range 40 {
				k, n := random.IntN(len(sums)), random.Int64N(4)
				_, ok, err := s.Spend(t.Context(), tally(fmt.Sprint(k)), n)
				if err != nil || !ok {
					t.Error(ok, err)
				}
				sums[k].Add(n)
				if n > 1 {
					if _, err := s.Settle(t.Context(), tally(fmt.Sprint(k)), -1, 0); err != nil {
						t.Error(err)
					}
					sums[k].Add(-1)
				}
			}
		})
	}
	wg.Wait()
	require.NoError(t, s.Close())
	info, err := os.Stat(path)
	require.NoError(t, err)
	assert.Less(t, info.Size(), int64(6000), "it was written anew")
	s = open(t, path)
	for k := range sums {
		assert.Equal(t, sums[k].Load(), used(t, s, fmt.Sprint(k)))
	}
}
