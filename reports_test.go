package polite_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/politehttp/polite"
	"github.com/politehttp/polite/observe"
	"github.com/politehttp/polite/retry"
)

// report is what users of another client reported, or asked for.
type report struct {
	name   string
	test   func(*testing.T) // in a bubble of its own
	real   func(*testing.T) // instead of test: by the real clock
	reason string           // instead of both: why it does not apply
}

var reports = []report{
	{name: "hashicorp/go-retryablehttp#247 #295 PR #283, Azure/azure-sdk-for-go PR #19118: Retry-After over the cap returns now", test: toldOverTheCap},
	{name: "hashicorp/go-retryablehttp PR #297, openclaw/clawscan PR #58, urllib3/urllib3 PR #3743: a Retry-After that overflows never fires at once", test: toldOverflows},
	{name: "apify/crawlee-python PR #1995, anomalyco/opencode#41424: a negative wait is none", test: toldNegative},
	{name: "hashicorp/go-retryablehttp#272 PR #284 #292, temporalio/temporal PR #4403: a wait past the deadline is not begun", test: waitPastDeadline},
	{name: "dotnet/extensions#7701, linkerd/linkerd#2369, hashicorp/go-retryablehttp#236: the time limit covers the waits", test: waitPastMaxElapsed},
	{name: "hashicorp/go-retryablehttp#46 #156, sigstore/rekor#2640 PR #2796, manicminer/hamilton PR #100: exhausted tries return the last answer", test: exhaustedAnswer},
	{name: "hashicorp/go-retryablehttp#179, hashicorp/go-azure-sdk PR #420: a response or an error", test: eitherOr},
	{name: "hashicorp/go-retryablehttp#145, dart-lang/http#919: a gigabyte goes through and stays nowhere", real: gigabyte},
	{name: "databricks/databricks-sdk-java PR #872, stripe/stripe-go#647, gojek/heimdall#127: a stream is sent once", test: streamOnce},
	{name: "hashicorp/go-retryablehttp#94 PR #29, aws/aws-sdk-go#569: the next try begins while the last one uploads", test: slowUpload},
	{name: "hashicorp/go-retryablehttp#98 #85 #237: one host's failures leave another's connections alone", test: healthyConnections},
	{name: "alpacax/alpacon-cli PR #298, hashicorp/go-retryablehttp#82: a body that dribbles holds no retry up", test: dribble},
	{name: "hashicorp/go-retryablehttp#215: Check may look into the body", test: peek},
	{name: "hashicorp/go-retryablehttp#114 #118 #169: Check knows the request of a connection that failed", test: checkSeesRequest},
	{name: "go-resty/resty#777, microsoft/aspire#4631, hashicorp/go-retryablehttp#169: a POST that failed is not repeated", test: postOnce},
	{name: "hashicorp/go-retryablehttp#114, urllib3/urllib3 retry.py: a POST is repeated if it was never sent", test: postUnsent},
	{name: "googleapis/google-cloud-go PR #5165, pingcap/tidb#56127, acronis/go-appkit PR #48: the caller vouches for a repeat", test: vouched},
	{name: "golang/go#81671: QUERY is repeated as GET is", test: query},
	{name: "hashicorp/go-retryablehttp PR #128, confluentinc/cli PR #2231: redirects are the client's business", test: redirect},
	{name: "hashicorp/go-retryablehttp#127, PuerkitoBio/rehttp#1: a try that hangs makes room for the next", test: hangs},
	{name: "Azure/azure-sdk-for-go#17780, failsafe-go/failsafe-go#123 #65, cristalhq/hedgedhttp PR #1: the attempt timeout ends with the header", test: slowDownload},
	{name: "gojek/heimdall#145, stripe/stripe-go PR #1187: cancelling ends a wait", test: cancelledWait},
	{name: "cenkalti/backoff#181 PR #182 #184, hetznercloud/hcloud-go PR #814: an ended call tells its last answer too", test: endedTellsBoth},
	{name: "openai/openai-go#495, JetBrains/teamcity-cli PR #345, SolaceProducts/solace-broker-mcp PR #90: every dropped body is closed", test: droppedBodies},
	{name: "open-telemetry/opentelemetry-go-contrib#3543, elastic/apm-agent-go#455: CloseIdleConnections reaches the base", test: closeIdle},
	{name: "open-telemetry/opentelemetry-go-contrib#1329 PR #1628, unkeyed/unkey PR #6091: a WebSocket's tunnel", test: tunnel},
	{name: "prometheus/common#981, asecurityteam/transport PR #34: a request sent twice", test: sameRequestTwice},
	{name: "golang/go#54541, kubernetes/kubernetes PR #137694: the pacer refuses by the deadline", test: paceRefuses},
	{name: "openai/openai-python#957, productdevbook/misina#61: milliseconds before seconds, and a veto", test: millisecondsAndVeto},
	{name: "withcoral/coral PR #89, zalando/restful-api-guidelines#379, utksh1/SecuScan#1838: what a reset means", test: resets},
	{name: "stripe/stripe-go#651 #642, beam-community/stripity-stripe#564: a key in progress", test: keyInProgress},
	{name: "resilience4j/resilience4j#920 #1065 #1653: the circuit opens between two tries", test: opensBetweenTries},
	{name: "alexfalkowski/go-service PR #3019, tinfoilsh/confidential-model-router PR #278: callers who leave open nothing", test: callersLeave},
	{name: "go-resty/resty PR #1197: a hedged GET", reason: "nothing here sends a call twice at a time: there is no hedging"},
	{name: "envoyproxy/gateway PR #2769, Finagle minRetriesPerSec: an idle client may retry", test: idleMayRetry},
	{name: "aws/aws-sdk-go-v2#1665, hashicorp/aws-sdk-go-base#915: one host's budget is not another's", test: budgetPerHost},
	{name: "hashicorp/go-retryablehttp#104: a policy for one call", test: policyForOneCall},
	{name: "hashicorp/go-retryablehttp#159, prometheus/prometheus PR #12676: the number of tries shows", test: triesShow},
	{name: "gofri/go-github-ratelimit#29, google/go-github PR #3438: limited without a hint", test: limitedWithoutHint},

	{name: "App-vNext/Polly#216 #217 PR #223, Netflix/Hystrix#1350: late results change nothing", test: late},
	{name: "resilience4j/resilience4j#935 #903 #2028: a probe that never reports", test: lostProbe},
	{name: "resilience4j/resilience4j#1432, failsafe-lib/failsafe#391: a thousand callers when it may probe", test: thousandProbe},
	{name: "nodeshift/opossum#119: one failed probe reopens", test: failedProbe},
	{name: "App-vNext/Polly#311 #717, smallrye/smallrye-fault-tolerance#320: what is no failure fails no probe", test: neutralProbe},
	{name: "alibaba/sentinel-golang#315, alibaba/Sentinel#1769: a share is reached when it is met", test: exactShare},
	{name: "sony/gobreaker#105 PR #107: cancelled by a sibling", test: siblingCancelled},
	{name: "alexfalkowski/go-service#3173: a deadline before and after the sending", test: deadlineBeforeAndAfter},
	{name: "envoyproxy/envoy#16392 #33739: hardly any traffic", test: hardlyAnyTraffic},
	{name: "fabfuel/circuitbreaker#31, exaring/hoglet#25: the wall clock steps", real: wallClockSteps},
	{name: "fedify-dev/fedify#916, vert-x3/vertx-circuit-breaker#58: more hosts than are remembered", real: hostsWithoutEnd},
	{name: "safe-global/safe-client-gateway#3442: the provider hangs", test: providerHangs},
	{name: "resilience4j/resilience4j#1597: slow calls count while they last", test: slowWhileTheyLast},
	{name: "sony/gobreaker PR #52, Polly RetryAfter: a refusal says for how long", test: refusalSaysHowLong},
	{name: "afex/hystrix-go#95 #67: no goroutine, and no place lost", test: noGoroutineNoPlaceLost},
	{name: "alexfalkowski/go-service#2571, linkerd/linkerd2#11580: a refusal is at once and closes the body", test: refusedAtOnce},

	{name: "envoyproxy/envoy-mobile#811: all calls in flight fail at once", test: allFailAtOnce},
	{name: "envoyproxy/gateway#2769, failsafe-go/failsafe-go#139: a floor of retries counts retries", test: floorOfRetries},
	{name: "grpc/proposal#27, grpc/grpc-go#7539: a good day pays for no outage, and the worst case is documented", test: worstCase},
	{name: "aws/aws-sdk-go-v2#3550: success fills the budget again", test: successRefills},
	{name: "failsafe-go/failsafe-go#141: a spent budget costs the retry, not the answer", test: spentBudgetKeepsAnswer},
	{name: "hashicorp/go-retryablehttp#297, go-resty/resty#1178, urllib3/urllib3#3743, openai/openai-java#853: no told wait is negative", test: noNegativeWait},
	{name: "kubernetes/kubernetes#34938, linkerd docs: a retry is paced, and a fast 429 is no success", test: retriesArePaced},
}

// What users of other clients reported, each as a test.
func TestReports(t *testing.T) {
	require.Len(t, reports, 39+23)
	names, skipped := map[string]bool{}, 0
	for _, r := range reports {
		require.False(t, names[r.name], "twice: %s", r.name)
		names[r.name] = true
		t.Run(r.name, func(t *testing.T) {
			switch {
			case r.reason != "":
				skipped++
				t.Log("does not apply:", r.reason)
			case r.real != nil:
				r.real(t)
			default:
				synctest.Test(t, r.test)
			}
		})
	}
	if len(names) == len(reports) {
		assert.LessOrEqual(t, skipped, 1, "entries that do not apply")
	}
}

// tries is a Transport of retries alone. It waits exactly 1, 2, 4 s.
func tries(base http.RoundTripper, change ...func(*retry.Policy)) *polite.Transport {
	p := &retry.Policy{Base: time.Second, Jitter: retry.NoJitter}
	for _, f := range change {
		f(p)
	}
	return &polite.Transport{Base: base, Retry: p}
}

// atOnce retries without a wait.
func atOnce(p *retry.Policy) { p.Base = -1 }

const api = "http://api.test/"

func seconds(n ...float64) []time.Duration {
	d := make([]time.Duration, len(n))
	for i := range n {
		d[i] = time.Duration(n[i] * float64(time.Second))
	}
	return d
}

// do sends a request and holds the transport to a response or an error.
func do(t *testing.T, tr http.RoundTripper, r *http.Request) (*http.Response, error) {
	t.Helper()
	resp, err := tr.RoundTrip(r)
	if (resp == nil) == (err == nil) {
		t.Errorf("response %v and error %v", resp, err)
	}
	return resp, err
}

func get(t *testing.T, tr http.RoundTripper) (*http.Response, error) {
	t.Helper()
	return do(t, tr, request(t, "GET", api, ""))
}

// status gets, and is -1 for an error.
func status(t *testing.T, tr http.RoundTripper) int {
	t.Helper()
	resp, err := get(t, tr)
	if err != nil {
		return -1
	}
	resp.Body.Close()
	return resp.StatusCode
}

func read(t *testing.T, resp *http.Response) string {
	t.Helper()
	b, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	return string(b)
}

// says answers with a status and header fields, always the same.
func says(status int, header ...string) func(int, *http.Request) (*http.Response, error) {
	return func(_ int, r *http.Request) (*http.Response, error) { return reply(r, status, header...), nil }
}

// inTurn gives one answer after the other, and the last one for ever.
func inTurn(answers ...func(int, *http.Request) (*http.Response, error)) func(int, *http.Request) (*http.Response, error) {
	return func(n int, r *http.Request) (*http.Response, error) { return answers[min(n, len(answers))-1](n, r) }
}

func fails(err error) func(int, *http.Request) (*http.Response, error) {
	return func(int, *http.Request) (*http.Response, error) { return nil, err }
}

// hang answers when the context ends.
func hang(_ int, r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

// body counts what is done to it.
type body struct {
	io.Reader
	reads, closes atomic.Int64
}

func (b *body) Read(p []byte) (int, error) { b.reads.Add(1); return b.Reader.Read(p) }
func (b *body) Close() error               { b.closes.Add(1); return nil }

func newBody(text string) *body { return &body{Reader: strings.NewReader(text)} }

// heard is what hooks said.
type heard struct {
	mu      sync.Mutex
	sent    []observe.Attempt
	answers []observe.Answer
	retried []observe.Retry
	gaveUp  []observe.GaveUp
}

func listen(tr *polite.Transport) *heard {
	h := &heard{}
	tr.Hooks = &observe.Hooks{
		Attempted: func(_ context.Context, e observe.Attempt) { note(h, &h.sent, e) },
		Answered:  func(_ context.Context, e observe.Answer) { note(h, &h.answers, e) },
		Retried:   func(_ context.Context, e observe.Retry) { note(h, &h.retried, e) },
		GaveUp:    func(_ context.Context, e observe.GaveUp) { note(h, &h.gaveUp, e) },
	}
	return h
}

func note[E any](h *heard, to *[]E, e E) {
	h.mu.Lock()
	defer h.mu.Unlock()
	*to = append(*to, e)
}

func (h *heard) why() (reasons []observe.Reason) {
	for _, g := range h.gaveUp {
		reasons = append(reasons, g.Reason)
	}
	return reasons
}
