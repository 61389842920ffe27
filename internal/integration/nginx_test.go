package integration

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/politehttp/polite"
	"github.com/politehttp/polite/pacer"
)

// nginxConfig serves a small file under a limiter for each test, so that tests
// run side by side. One process: its loop ends one request before it begins
// the next, so that limit_conn counts as the client does.
const nginxConfig = `
daemon off;
master_process off;
pid DIR/nginx.pid;
error_log DIR/error.log;
events { worker_connections 512; }
http {
	access_log off;
	client_body_temp_path DIR/body;
	proxy_temp_path DIR/proxy;
	fastcgi_temp_path DIR/fastcgi;
	uwsgi_temp_path DIR/uwsgi;
	scgi_temp_path DIR/scgi;
	keepalive_requests 100000;
	limit_req_zone $server_port zone=paced503:1m rate=20r/s;
	limit_req_zone $server_port zone=paced429:1m rate=20r/s;
	limit_req_zone $server_port zone=learnt503:1m rate=20r/s;
	limit_req_zone $server_port zone=learnt429:1m rate=20r/s;
	limit_conn_zone $server_port zone=atonce:1m;
	limit_conn_zone $server_port zone=learntatonce:1m;
	server {
		listen ADDR;
		root DIR/www;
		location /paced503/ { limit_req zone=paced503 burst=5 nodelay; limit_req_status 503; }
		location /paced429/ { limit_req zone=paced429 burst=5 nodelay; limit_req_status 429; }
		location /learnt503/ { limit_req zone=learnt503 burst=5 nodelay; limit_req_status 503; }
		location /learnt429/ { limit_req zone=learnt429 burst=5 nodelay; limit_req_status 429; }
		location /atonce/ { limit_conn atonce 4; limit_rate 200k; }
		location /learntatonce/ { limit_conn learntatonce 4; limit_conn_status 429; limit_rate 200k; }
	}
}
`

// nginx starts one on a free loopback port and returns its URL.
func nginx(t *testing.T) string {
	t.Helper()
	bin := program(t, "nginx", "apt-get install nginx-light")
	dir := t.TempDir()
	for _, location := range []string{"paced503", "paced429", "learnt503", "learnt429", "atonce", "learntatonce"} {
		require.NoError(t, os.MkdirAll(filepath.Join(dir, "www", location), 0o755))
		// 60 KiB at limit_rate 200k: the answer takes a while, where that matters.
		content := strings.Repeat("x", 100)
		if strings.HasSuffix(location, "atonce") {
			content = strings.Repeat("x", 60<<10)
		}
		require.NoError(t, os.WriteFile(filepath.Join(dir, "www", location, "index.html"), []byte(content), 0o644))
	}

	for range 5 { // another process may take the port between the look and nginx
		if addr := freePort(t); serveNginx(t, bin, dir, addr) {
			return "http://" + addr
		}
	}
	log, _ := os.ReadFile(filepath.Join(dir, "error.log"))
	require.Fail(t, "nginx does not start", "it said: %s", log)
	return ""
}

// serveNginx tells whether nginx came up at addr, where it stays until the test ends.
func serveNginx(t *testing.T, bin, dir, addr string) bool {
	t.Helper()
	config := filepath.Join(dir, "nginx.conf")
	require.NoError(t, os.WriteFile(config, []byte(strings.NewReplacer("DIR", dir, "ADDR", addr).Replace(nginxConfig)), 0o644))
	cmd := exec.Command(bin, "-p", dir, "-c", config)
	gone := start(t, cmd)
	for {
		if c, err := net.Dial("tcp", addr); err == nil {
			return c.Close() == nil
		}
		select {
		case <-gone:
			return false
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// freePort is an address nobody listened on a moment ago.
func freePort(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, ln.Close())
	return ln.Addr().String()
}

// A fixed pace under the limit is never refused: the burst is below nginx's, and
// no sooner does a call leave than the one before it has made room.
func TestNginxRefusesNothingAtAFixedPace(t *testing.T) {
	t.Parallel()
	url := nginx(t)
	for _, location := range []string{"/paced503/", "/paced429/"} {
		t.Run(location, func(t *testing.T) {
			t.Parallel()
			base := newBase(t)
			getAll(t, base, url+"/favicon", 16, 16) // connections, so that no dial delays a call
			for {
				w := newWatch()
				rt := &polite.Transport{
					Base:  base,
					Pacer: &pacer.Pacer{Rate: pacer.Per(20, time.Second), Burst: 3},
					Hooks: w.hooks(),
				}
				served := getAll(t, rt, url+location, 16, 200)
				refused, all := w.refused(0)
				if refused > 0 && w.stalled() && !t.Failed() {
					t.Logf("the machine stood still, and what had left on time arrived in a clump; once more. %v", w)
					time.Sleep(time.Second) // nginx's bucket runs empty
					continue
				}
				elapsed := time.Since(w.began)
				assert.Equal(t, 200, served, "calls answered 200")
				assert.Equal(t, 200, all, "attempts")
				assert.Zero(t, refused, "attempts refused")
				assert.GreaterOrEqual(t, elapsed, 9800*time.Millisecond, "197 calls after the burst, at 20/s")
				assert.Less(t, elapsed, 15*time.Second, "197 calls after the burst, at 20/s")
				t.Log(w)
				return
			}
		})
	}
}

// Nobody told the client the rate, nor does nginx: its refusals bear no field
// that says how long to wait. The client finds the rate by itself.
func TestNginxRefusesLittleOnceItsRateIsLearnt(t *testing.T) {
	t.Parallel()
	url := nginx(t)
	for _, location := range []string{"/learnt503/", "/learnt429/"} {
		t.Run(location, func(t *testing.T) {
			t.Parallel()
			w := newWatch()
			rt := patientTransport(newBase(t))
			rt.Hooks = w.hooks()
			assert.Equal(t, 200, getAll(t, rt, url+location, 16, 200), "calls answered 200")
			refused, all := w.refused(2 * time.Second)
			assert.LessOrEqual(t, 10*refused, all, "refused after the second second: %d of %d attempts", refused, all)
			t.Logf("refused after the second second: %d of %d, in %v; %v", refused, all, time.Since(w.began), w)
		})
	}
}

// limit_conn counts requests at once, as MaxInFlight does.
func TestNginxRefusesNothingWithinItsConnections(t *testing.T) {
	t.Parallel()
	url := nginx(t)
	t.Run("bounded", func(t *testing.T) {
		t.Parallel()
		w := newWatch()
		rt := &polite.Transport{Base: newBase(t), Pacer: &pacer.Pacer{MaxInFlight: 4}, Hooks: w.hooks()}
		assert.Equal(t, 60, getAll(t, rt, url+"/atonce/", 16, 60), "calls answered 200")
		refused, all := w.refused(0)
		assert.Equal(t, 60, all, "attempts")
		assert.Zero(t, refused, "attempts refused")
		t.Log(w)
	})
	t.Run("learnt", func(t *testing.T) {
		t.Parallel()
		w := newWatch()
		rt := patientTransport(newBase(t))
		rt.Hooks = w.hooks()
		assert.Equal(t, 60, getAll(t, rt, url+"/learntatonce/", 16, 60), "calls answered 200")
		t.Log(w)
	})
}
