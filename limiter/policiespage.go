package limiter

import (
	"html"
	"strings"
)

// page is the HTML page of the policies. It is one file: no script, no font, no
// picture, and every text that is not from here is escaped.
func (t toldPolicies) page(url string) []byte {
	if url = strings.TrimRight(url, "/"); url == "" {
		url = "https://api.example.com"
	}
	p := &pageWriter{}
	p.raw(`<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>`).text(t.Title).raw("</title>\n<style>" + pageStyle + "</style>\n</head>\n<body>\n<main>\n<header>\n<h1>").text(t.Title).raw("</h1>\n")
	p.raw("<p class=\"lead\">Every answer says what is left and, when nothing is, when to come back. A client that listens is seldom refused.</p>\n</header>\n")

	p.raw("<h2>What is allowed</h2>\n")
	for _, r := range t.Rules {
		p.rule(r)
	}
	p.raw(pageFields)
	example := t.example()
	p.raw("<h2>A client that listens</h2>\n<p>In Go, with <code>github.com/politehttp/polite</code>: it spaces its requests by what the answers say, waits as long as it is told and no longer, and tries again only where that is safe.</p>\n<pre><code>")
	p.text(`client := &http.Client{Transport: polite.NewTransport(nil)}
resp, err := client.Get("` + url + example + `")`)
	p.raw("</code></pre>\n<p>On the command line, <code>--retry</code> obeys <code>Retry-After</code>, and <code>-i</code> shows the fields:</p>\n<pre><code>")
	p.text("curl -i --retry 5 '" + url + example + "'")
	p.raw("</code></pre>\n")
	if t.Contact != "" {
		p.raw("<h2>Need more?</h2>\n<p>Ask ")
		p.contact(t.Contact)
		p.raw(".</p>\n")
	}
	p.raw("<footer>This page is also served as JSON, to programs that ask for <code>application/json</code>.</footer>\n</main>\n</body>\n</html>\n")
	return []byte(p.b.String())
}

// example is a path that may be asked for, of the first pattern that has one.
func (t toldPolicies) example() string {
	for _, r := range t.Rules {
		method, p, found := strings.Cut(r.Pattern, " ")
		if !found {
			p = method
		}
		if p = strings.TrimSpace(p); found && method != "GET" || !strings.HasPrefix(p, "/") || strings.ContainsAny(p, "{'\"\\`$") {
			continue
		}
		return p
	}
	return "/"
}

type pageWriter struct{ b strings.Builder }

func (p *pageWriter) raw(s string) *pageWriter {
	p.b.WriteString(s)
	return p
}

func (p *pageWriter) text(s string) *pageWriter {
	p.b.WriteString(html.EscapeString(s))
	return p
}

func (p *pageWriter) rule(r toldRule) {
	p.raw("<section class=\"rule\">\n<h3>")
	pattern := r.Pattern
	if pattern == "" {
		pattern = "every request"
	}
	if r.Title != "" {
		p.text(r.Title).raw(" ")
	}
	p.raw("<code>").text(pattern).raw("</code></h3>\n")
	if r.Weighed {
		p.raw("<p>Requests differ in what they cost: one may count as several, or as none.</p>\n")
	}
	if len(r.Limits) > 0 {
		p.limits(r.Limits)
	}
	if r.ByPlan {
		p.raw("<p>It depends on your plan")
		if len(r.Plans) == 0 {
			p.raw("; the answers tell which limits are yours")
		}
		p.raw(".</p>\n")
	}
	for _, plan := range r.Plans {
		p.raw("<h4>").text(plan.Name).raw("</h4>\n")
		p.limits(plan.Limits)
	}
	p.raw("</section>\n")
}

func (p *pageWriter) limits(limits []toldLimit) {
	p.raw("<table>\n<thead><tr><th scope=\"col\">Limit</th><th scope=\"col\">Allows</th></tr></thead>\n<tbody>\n")
	for _, l := range limits {
		p.raw("<tr><th scope=\"row\"><code>").text(l.Name).raw("</code></th><td>").text(l.Summary).raw("</td></tr>\n")
	}
	p.raw("</tbody>\n</table>\n")
}

// contact is a link if it is an address that a browser can safely open.
func (p *pageWriter) contact(s string) {
	lower := strings.ToLower(s)
	switch {
	case strings.HasPrefix(lower, "https://"), strings.HasPrefix(lower, "http://"), strings.HasPrefix(lower, "mailto:"):
		p.raw("<a href=\"").text(s).raw("\">").text(strings.TrimPrefix(strings.TrimPrefix(s, "https://"), "mailto:")).raw("</a>")
	case strings.Count(s, "@") == 1 && !strings.ContainsAny(s, " :/?&"):
		p.raw("<a href=\"mailto:").text(s).raw("\">").text(s).raw("</a>")
	default:
		p.text(s)
	}
}

const pageFields = `<h2>What the answers say</h2>
<pre><code>RateLimit-Policy: "reads";q=100;w=60
RateLimit: "reads";r=87;t=42</code></pre>
<dl>
<dt><code>q</code> <code>w</code></dt><dd>The limit of that name: at most <code>q</code> units in <code>w</code> seconds. Of a limit that refills bit by bit, <code>q</code> may be used at once, and is back after <code>w</code> seconds. A request is one unit unless this page says otherwise.</dd>
<dt><code>r</code></dt><dd>Units that are left to you.</dd>
<dt><code>t</code></dt><dd>Seconds until there may be more.</dd>
</dl>
<p>A request that does not fit is answered <code>429 Too Many Requests</code>:</p>
<pre><code>Retry-After: 3
Content-Type: application/problem+json</code></pre>
<p>Wait as many seconds as <code>Retry-After</code> says, and a random bit more if there are many of you. The body says in words which limit it was. Without <code>Retry-After</code> the request is too large for the limit, and waiting does not help.</p>
`

const pageStyle = `
:root{--ink:#1c2330;--soft:#5a6577;--line:#dfe3ea;--card:#fff;--ground:#f5f6f9;--code:#eef0f5;--accent:#2456c5}
@media (prefers-color-scheme:dark){:root{--ink:#e4e8f0;--soft:#9aa5b8;--line:#2c3442;--card:#191e28;--ground:#10141b;--code:#222936;--accent:#8ab0ff}}
*{box-sizing:border-box}
body{margin:0;background:var(--ground);color:var(--ink);font:16px/1.6 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif}
main{max-width:46rem;margin:0 auto;padding:3rem 1.25rem 4rem}
header{border-bottom:1px solid var(--line);padding-bottom:1rem}
h1{font-size:2rem;line-height:1.2;margin:0 0 .5rem;letter-spacing:-.01em}
h2{font-size:1.3rem;margin:2.75rem 0 .75rem}
h3{font-size:1.05rem;margin:0 0 .5rem;display:flex;flex-wrap:wrap;gap:.25rem .75rem;align-items:baseline}
h4{font-size:.8rem;margin:1.1rem 0 .2rem;color:var(--soft);text-transform:uppercase;letter-spacing:.06em}
p{margin:.6rem 0}
a{color:var(--accent)}
.lead,footer{color:var(--soft)}
.lead{font-size:1.1rem;margin:0}
footer{margin-top:3rem;padding-top:1rem;border-top:1px solid var(--line);font-size:.875rem}
.rule{background:var(--card);border:1px solid var(--line);border-radius:.75rem;padding:1.1rem 1.25rem;margin:.9rem 0}
table{border-collapse:collapse;width:100%}
th,td{text-align:left;padding:.45rem .75rem .45rem 0;border-top:1px solid var(--line);vertical-align:baseline}
thead th{border:0;font-size:.8rem;font-weight:600;color:var(--soft)}
tbody th{font-weight:400;width:35%}
code{font:.875em/1.5 ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;background:var(--code);border-radius:.3rem;padding:.12em .4em;overflow-wrap:anywhere}
pre{background:var(--code);border:1px solid var(--line);border-radius:.75rem;padding:.9rem 1.1rem;overflow-x:auto;margin:.8rem 0}
pre code{background:none;padding:0;overflow-wrap:normal}
dl{display:grid;grid-template-columns:max-content 1fr;gap:.5rem 1rem;margin:1rem 0}
dd{margin:0}
@media (max-width:30rem){dl{grid-template-columns:1fr}dd{margin-bottom:.5rem}main{padding-top:1.75rem}}
`
