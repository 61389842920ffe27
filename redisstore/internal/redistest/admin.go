package redistest

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// Try sends one command over a connection of the rig's own and returns the
// reply as text. A nil reply is empty.
func (s *Server) Try(args ...any) (string, error) {
	ctx, cancel := short()
	defer cancel()
	reply, err := s.admin.Do(ctx, args...).Result()
	if err == redis.Nil {
		return "", nil
	}
	return fmt.Sprint(reply), err
}

// Do is Try, and fails the test on an error.
func (s *Server) Do(args ...any) string {
	s.t.Helper()
	reply, err := s.Try(args...)
	if err != nil {
		s.t.Fatalf("%v on %s: %v", args, s.Addr, err)
	}
	return reply
}

var calls = regexp.MustCompile(`cmdstat_([a-z|]+):calls=(\d+)`)

// Calls returns how often each command was called since the start, or since
// ResetCalls, by its name in lower case: what INFO commandstats says.
func (s *Server) Calls() map[string]int {
	s.t.Helper()
	counts := map[string]int{}
	for _, match := range calls.FindAllStringSubmatch(s.Do("INFO", "commandstats"), -1) {
		counts[match[1]], _ = strconv.Atoi(match[2])
	}
	return counts
}

// ResetCalls sets every count of Calls to zero.
func (s *Server) ResetCalls() {
	s.t.Helper()
	s.Do("CONFIG", "RESETSTAT")
}

// Get returns the value under a key, empty if there is none.
func (s *Server) Get(key string) string {
	s.t.Helper()
	return s.Do("GET", key)
}

// Keys returns how many keys there are.
func (s *Server) Keys() int {
	s.t.Helper()
	n, _ := strconv.Atoi(s.Do("DBSIZE"))
	return n
}

// CPU returns how much time of the processors the server has used.
func (s *Server) CPU() time.Duration {
	s.t.Helper()
	var sum float64
	for _, field := range []string{"used_cpu_user", "used_cpu_sys"} {
		seconds, err := strconv.ParseFloat(s.info("cpu", field), 64)
		if err != nil {
			s.t.Fatalf("INFO cpu on %s: %v", s.Addr, err)
		}
		sum += seconds
	}
	return time.Duration(sum * float64(time.Second))
}

// info returns one field of INFO.
func (s *Server) info(section, field string) string {
	reply, _ := s.Try("INFO", section)
	for line := range strings.Lines(reply) {
		if value, ok := strings.CutPrefix(line, field+":"); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

func short() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), 5*time.Second)
}
