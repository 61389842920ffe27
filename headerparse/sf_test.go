package headerparse

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestReadList(t *testing.T) {
	str := func(s string) sfValue { return sfValue{kind: sfString, text: s} }
	num := func(n int64) sfValue { return sfValue{kind: sfInteger, num: n} }
	tok := func(s string) sfValue { return sfValue{kind: sfToken, text: s} }
	for _, c := range []struct {
		in   string
		want []sfValue // nil: no list
	}{
		{``, []sfValue{}},
		{`   `, []sfValue{}},
		{`1`, []sfValue{num(1)}},
		{`-0`, []sfValue{num(0)}},
		{`  1 `, []sfValue{num(1)}},
		{"1 \t,\t 2", []sfValue{num(1), num(2)}},
		{`1,2`, []sfValue{num(1), num(2)}},
		{`999999999999999`, []sfValue{num(999999999999999)}},
		{`-999999999999999`, []sfValue{num(-999999999999999)}},
		{`1000000000000000`, nil},
		{`0000000000000001`, nil},
		{`000000000000001`, []sfValue{num(1)}},
		{`1.5`, []sfValue{{kind: sfDecimal}}},
		{`123456789012.123`, []sfValue{{kind: sfDecimal}}},
		{`1234567890123.1`, nil},
		{`1.1234`, nil},
		{`1.`, nil},
		{`.5`, nil},
		{`-`, nil},
		{`--1`, nil},
		{`+1`, nil},
		{`1 2`, nil},
		{`1,`, nil},
		{`,1`, nil},
		{`1,,2`, nil},
		{`""`, []sfValue{str("")}},
		{`"a, b;c"`, []sfValue{str("a, b;c")}},
		{`"a\"b\\c"`, []sfValue{str(`a"b\c`)}},
		{`"\"`, nil},
		{`"a\n"`, nil},
		{`"a`, nil},
		{`"`, nil},
		{"\"a\tb\"", nil},
		{"\"caf\xc3\xa9\"", nil},
		{"\"\x7f\"", nil},
		{`'a'`, nil},
		{`a`, []sfValue{tok("a")}},
		{`*a/b:c`, []sfValue{tok("*a/b:c")}},
		{`a"b"`, nil},
		{`::`, []sfValue{{kind: sfBytes}}},
		{`:YQ==:`, []sfValue{{kind: sfBytes}}},
		{`:YQ:`, []sfValue{{kind: sfBytes}}},           // without padding
		{`:sdfjLJUOUH==:`, []sfValue{{kind: sfBytes}}}, // pad bits that are not 0
		{`:YQ=:`, nil},
		{`:Y:`, nil},
		{`:YQ==`, nil},
		{`:Y=Q=:`, nil},
		{`:Y-Q_:`, nil},
		{`:`, nil},
		{`?1`, []sfValue{{kind: sfBoolean}}},
		{`?0`, []sfValue{{kind: sfBoolean}}},
		{`?2`, nil},
		{`?`, nil},
		{`@1772366400`, []sfValue{{kind: sfDate, num: 1772366400}}},
		{`@-1`, []sfValue{{kind: sfDate, num: -1}}},
		{`@1.5`, nil},
		{`@`, nil},
		{`@a`, nil},
		{`%"f%c3%a0"`, []sfValue{{kind: sfDisplay}}},
		{`%"\"`, []sfValue{{kind: sfDisplay}}},
		{`%"%00"`, []sfValue{{kind: sfDisplay}}},
		{`%"f%C3%A0"`, nil},
		{`%"f%c3"`, nil},
		{`%"%c3a"`, nil},
		{`%"%ff"`, nil},
		{`%"%ed%a0%80"`, nil}, // half of a surrogate pair
		{`%"%f4%8f%bf%bf"`, []sfValue{{kind: sfDisplay}}},
		{`%"%"`, nil},
		{`%"%4"`, nil},
		{`%"`, nil},
		{`%`, nil},
		{`%a`, nil},
		{`()`, []sfValue{{}}},
		{`(  )`, []sfValue{{}}},
		{`( 1  2 );a`, []sfValue{{}}},
		{`(1;a=2 "b");c=(`, nil},
		{`(1`, nil},
		{`(1,2)`, nil},
		{`(1"a")`, nil},
		{`((1))`, nil},
		{`(`, nil},
		{`)`, nil},
		{`1;a;b=2;*c-d_e.f=g`, []sfValue{num(1)}},
		{`1;  a=2`, []sfValue{num(1)}},
		{`1 ;a`, nil},
		{`1;a =2`, nil},
		{`1;a= 2`, nil},
		{`1;A=2`, nil},
		{`1;"a"`, nil},
		{`1;`, nil},
		{`1;a=`, nil},
		{`1;a=(1)`, nil},
		{"1;\ta", nil},
		{"\t1", nil},
		{"1\x00", nil},
		{"\x00", nil},
	} {
		t.Run(c.in, func(t *testing.T) {
			members, ok := readList(c.in, make([]sfMember, 0, 8))
			require.Equal(t, c.want != nil, ok)
			if ok {
				got := []sfValue{}
				for _, m := range members {
					got = append(got, m.value)
				}
				assert.Equal(t, c.want, got)
			}
		})
	}
}

func TestReadDict(t *testing.T) {
	for _, c := range []struct {
		in   string
		keys string // none: no dictionary
	}{
		{`limit=100, remaining=50, reset=5`, "limit remaining reset"},
		{`a`, "a"},
		{`a;x=1, b=2;y`, "a b"},
		{`a=(1 2)`, "a"},
		{`a=1, a=2`, "a a"},
		{`a =1`, ""},
		{`a= 1`, ""},
		{`A=1`, ""},
		{`"a";r=1`, ""},
		{`a=1,`, ""},
		{`a=`, ""},
	} {
		t.Run(c.in, func(t *testing.T) {
			members, ok := readDict(c.in, make([]sfMember, 0, 8))
			require.Equal(t, c.keys != "", ok)
			if ok {
				var keys []string
				for _, m := range members {
					keys = append(keys, m.key)
				}
				assert.Equal(t, c.keys, strings.Join(keys, " "))
			}
		})
	}
}

func TestParam(t *testing.T) {
	members, ok := readList(`"a";r=1;t="x";r=2;b, "b"`, make([]sfMember, 0, 8))
	require.True(t, ok)
	v, found := members[0].param("r")
	assert.True(t, found)
	assert.Equal(t, sfValue{kind: sfInteger, num: 2}, v)
	v, found = members[0].param("b")
	assert.True(t, found)
	assert.Equal(t, sfBoolean, v.kind)
	_, found = members[0].param("z")
	assert.False(t, found)
	_, found = members[1].param("r")
	assert.False(t, found)
}

// listGrammar is RFC 9651 once more, as one regular expression. It leaves open
// whether a Byte Sequence is base64 and a Display String UTF-8.
var listGrammar = func() *regexp.Regexp {
	const (
		key    = `[a-z*][a-z0-9_\-.*]*`
		bare   = `(?:-?[0-9]{1,12}\.[0-9]{1,3}|-?[0-9]{1,15}|"(?:[ !#-\[\]-~]|\\["\\])*"|[A-Za-z*][!#$%&'*+\-.^_` + "`" + `|~0-9A-Za-z:/]*|:[A-Za-z0-9+/]*=*:|\?[01]|@-?[0-9]{1,15}|%"(?:[ !#$&-~]|%[0-9a-f]{2})*")`
		params = `(?:; *` + key + `(?:=` + bare + `)?)*`
		item   = bare + params
		inner  = `\( *(?:` + item + `(?: +` + item + `)* *)?\)` + params
		member = `(?:` + inner + `|` + item + `)`
	)
	return regexp.MustCompile(`^ *(?:` + member + `(?:[ \t]*,[ \t]*` + member + `)*[ \t]*)?$`)
}()

func FuzzReadList(f *testing.F) {
	for _, c := range corpus(f) {
		for name, lines := range c.Headers {
			if hasPrefixFold(name, "ratelimit") {
				for _, line := range lines {
					f.Add(line, `"a";r=0;t=9`)
				}
			}
		}
	}
	for _, s := range []string{`("a" 1.5;b=?1);c=@5`, `%"f%c3%a0"`, `:YQ==:;a=*b`, `"a\"b\\c"`} {
		f.Add(s, s)
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		if len(a)+len(b) > 500 {
			return // each member takes two bytes, so none is left out below
		}
		inA, okA := readList(a, make([]sfMember, 0, 512))
		inB, okB := readList(b, make([]sfMember, 0, 512))
		open := strings.ContainsAny(a, ":%") // what the grammar leaves open
		if grammar := listGrammar.MatchString(a); okA && !grammar || grammar && !okA && !open {
			t.Fatalf("%q: read %v, by the grammar %v", a, okA, grammar)
		}
		if !okA || !okB || len(inA) == 0 || len(inB) == 0 {
			return
		}
		// Lines of one field combine to one list: RFC 9651 section 4.2.
		both, ok := readList(a+", "+strings.TrimLeft(b, " "), make([]sfMember, 0, 512))
		require.True(t, ok)
		require.Equal(t, append(inA, inB...), both)
		for _, m := range both {
			_, found := m.param("r")
			require.Equal(t, found, found && strings.Contains(m.params, "r"))
		}
		readDict(a, nil)
	})
}
