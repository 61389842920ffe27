package quota

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"strconv"
	"time"
)

// A log is text, so that people can read it:
//
//	polite quota 1
//	6ae8c9b1 42 2026-11-30T00:00:00Z 2026-12-01T00:00:00Z "segments" "acme"
//	└ sum    └ used after this       └ next period         └ quota    └ key
//
// A line tells the whole count, so the last one of a count holds, and is told
// before the next line is begun. Its sum is a CRC-32C over what follows the sum,
// continued from the line before: no line can change, go missing, move or come
// twice unnoticed. A crash can only leave the file's end without its line feed.
const logHeader = "polite quota 1"

const (
	sumLen  = 8
	maxLine = 64 << 10 // two names of maxName bytes, quoted, fit
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// CorruptError reports a file store that does not say what was written to it.
// Nothing can be granted by it, since what was spent is not known: restore the
// file, or delete it to start from zero.
type CorruptError struct {
	Path string
	Line int // from 1
	Why  string
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf("quota: file store %q: line %d is corrupt: %s: restore the file, or delete it to start from zero", e.Path, e.Line, e.Why)
}

func appendHeader(dst []byte) (lines []byte, sum uint32) {
	return append(append(dst, logHeader...), '\n'), crc32.Checksum([]byte(logHeader), castagnoli)
}

func appendLine(dst []byte, c *count, sum uint32) (lines []byte, next uint32) {
	at := len(dst)
	dst = append(dst, "........ "...)
	text := len(dst)
	dst = strconv.AppendInt(dst, c.used, 10)
	dst = appendInstant(append(dst, ' '), c.start)
	dst = appendInstant(append(dst, ' '), c.end)
	dst = strconv.AppendQuote(append(dst, ' '), c.quota)
	dst = strconv.AppendQuote(append(dst, ' '), c.key)
	next = crc32.Update(sum, castagnoli, dst[text:])
	hexSum(dst[at:at:text], next)
	return append(dst, '\n'), next
}

// readLog reads a whole log into a book. What a crash left of the last line is
// not counted, for nobody was told that it had been; if only its line feed is
// missing or wrong, it is.
func readLog(r io.Reader, path string) (book, error) {
	var b book
	in := bufio.NewReaderSize(r, maxLine)
	sum := uint32(0)
	for n := 1; ; n++ {
		line, err := in.ReadSlice('\n')
		torn := errors.Is(err, io.EOF)
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			return b, &CorruptError{path, n, "it is too long"}
		case err != nil && !torn:
			return b, fmt.Errorf("quota: file store %q: %w", path, err)
		case n == 1:
			if string(line) != logHeader+"\n" {
				return b, &CorruptError{path, n, "it is not " + strconv.Quote(logHeader)}
			}
			sum = crc32.Checksum([]byte(logHeader), castagnoli)
			continue
		}
		c, next, why := parseLine(bytes.TrimSuffix(line, []byte("\n")), sum)
		if why != "" && torn && len(line) > 0 {
			c, _, why = parseLine(line[:len(line)-1], sum)
		}
		switch {
		case why == "":
			b.put(&c)
			sum = next
		case !torn:
			return b, &CorruptError{path, n, why}
		}
		if torn {
			return b, nil
		}
	}
}

// parseLine reads a line without its line feed; why says what is wrong with it.
func parseLine(line []byte, sum uint32) (c count, next uint32, why string) {
	if len(line) <= sumLen || line[sumLen] != ' ' {
		return c, 0, "it does not begin with a checksum"
	}
	text := line[sumLen+1:]
	next = crc32.Update(sum, castagnoli, text)
	if !bytes.Equal(line[:sumLen], hexSum(nil, next)) {
		return c, 0, "the checksum does not match"
	}
	fields := bytes.SplitN(text, []byte(" "), 4)
	if len(fields) != 4 {
		return c, 0, "fields are missing"
	}
	var errs [5]error
	var rest string
	c.used, errs[0] = strconv.ParseInt(string(fields[0]), 10, 64)
	c.start, errs[1] = parseInstant(string(fields[1]), math.MinInt64)
	c.end, errs[2] = parseInstant(string(fields[2]), math.MaxInt64)
	c.quota, rest, errs[3] = unquote(string(fields[3]))
	if len(rest) > 0 {
		c.key, rest, errs[4] = unquote(rest[1:])
	}
	if err := errors.Join(errs[:]...); err != nil || rest != "" || c.used < 0 {
		return c, 0, "a field cannot be read"
	}
	return c, next, ""
}

func hexSum(dst []byte, sum uint32) []byte {
	const digits = "0123456789abcdef"
	for shift := 28; shift >= 0; shift -= 4 {
		dst = append(dst, digits[sum>>shift&15])
	}
	return dst
}

func unquote(s string) (value, rest string, err error) {
	quoted, err := strconv.QuotedPrefix(s)
	if err != nil {
		return "", "", err
	}
	value, err = strconv.Unquote(quoted)
	return value, s[len(quoted):], err
}

func appendInstant(dst []byte, nano int64) []byte {
	t := timeOf(nano)
	if t.IsZero() {
		return append(dst, '-')
	}
	return t.AppendFormat(dst, time.RFC3339Nano)
}

func parseInstant(s string, none int64) (int64, error) {
	if s == "-" {
		return none, nil
	}
	t, err := time.Parse(time.RFC3339Nano, s)
	return t.UnixNano(), err
}
