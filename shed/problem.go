package shed

import (
	"io"
	"net/http"
	"strconv"
)

// misleading are fields about a representation that a refusal is not, which a
// handler outside may have set.
var misleading = []string{
	"Age", "Cdn-Cache-Control", "Content-Length", "Content-Range", "Content-Disposition",
	"Etag", "Expires", "Last-Modified", "Pragma", "Surrogate-Control",
}

// said is what the body of a refusal says, in words.
var said = map[Reason]string{
	Full:      "The server is at work on as much as it can bear, and as many more are waiting as can be served in time.",
	Displaced: "The server is at work on as much as it can bear, and others took this request's place in the queue.",
	OverShare: "The server is at work on as much as it can bear, and this caller has more than its share of that already.",
	WouldMiss: "The server could not answer before the time that this request allows is over.",
	Waited:    "The server is at work on as much as it can bear, and this request has waited as long as it is useful to.",
	Gone:      "The request ended while it waited its turn.",
	Shut:      "The server takes no requests at the moment.",
}

// status is that of a refusal's answer. It is the server that is short of room,
// so 503; only who has more than its share is told that it is about its own
// doing.
func (why Reason) status() int {
	if why == OverShare {
		return http.StatusTooManyRequests
	}
	return http.StatusServiceUnavailable
}

// smallBody is what net/http reads of a body to use the connection again; of a
// longer one it closes it.
const smallBody = 256 << 10

// sentFirst reports whether the answer to a request of HTTP/1 can be sent before
// its body has come, and the connection be used again: for that the body, which is
// known to be short and will come, is read after it. For others the connection is
// closed: who was to be asked for the body (Expect) does not send it.
func sentFirst(w http.ResponseWriter, r *http.Request) bool {
	return 0 < r.ContentLength && r.ContentLength < smallBody && r.Header["Expect"] == nil &&
		http.NewResponseController(w).EnableFullDuplex() == nil
}

// answer refuses a request. It does not wait for its body.
func answer(w http.ResponseWriter, r *http.Request, why Reason, retryAfter int64) {
	h := w.Header()
	if len(h) > 0 {
		for _, name := range misleading {
			delete(h, name)
		}
	}
	values := [...]string{"no-store", "application/problem+json", "", "close"}
	h["Cache-Control"] = values[0:1:1]
	h["Content-Type"] = values[1:2:2]
	if retryAfter > 0 {
		values[2] = strconv.FormatInt(retryAfter, 10)
		h["Retry-After"] = values[2:3:3]
	} else {
		delete(h, "Retry-After")
	}
	body := r.ContentLength != 0 && r.ProtoMajor == 1
	readLater := body && sentFirst(w, r)
	if body && !readLater {
		h["Connection"] = values[3:4:4]
	}
	text := appendProblem(make([]byte, 0, 320), why, retryAfter)
	if readLater {
		h["Content-Length"] = []string{strconv.Itoa(len(text))}
	}
	w.WriteHeader(why.status())
	if r.Method != http.MethodHead {
		_, _ = w.Write(text) // the client may be gone
	}
	if readLater { // to its end, or net/http cannot use the connection again
		_ = http.NewResponseController(w).Flush()
		_, _ = io.CopyN(io.Discard, r.Body, smallBody)
	}
}

// appendProblem appends the body of a refusal: a problem (RFC 9457) with the
// members reason and, if coming back helps, retry_after beyond the common ones.
func appendProblem(text []byte, why Reason, retryAfter int64) []byte {
	text = append(text, `{"type":"about:blank","title":"`...)
	text = append(text, http.StatusText(why.status())...)
	text = append(text, `","status":`...)
	text = strconv.AppendInt(text, int64(why.status()), 10)
	text = append(text, `,"detail":"`...)
	text = append(text, said[why]...)
	if retryAfter > 0 {
		text = append(text, " Try again in "...)
		text = strconv.AppendInt(text, retryAfter, 10)
		text = append(text, " second"...)
		if retryAfter > 1 {
			text = append(text, 's')
		}
		text = append(text, '.')
	}
	text = append(text, `","reason":"`...)
	text = append(text, why...)
	text = append(text, '"')
	if retryAfter > 0 {
		text = append(text, `,"retry_after":`...)
		text = strconv.AppendInt(text, retryAfter, 10)
	}
	return append(text, '}')
}
