package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/politehttp/polite/examples/sms/provider"
	"github.com/politehttp/polite/examples/sms/segments"
)

func TestListIsRead(t *testing.T) {
	rows, err := readList("l.csv", strings.NewReader("\ufeffTo,text, ID ,from\r\n"+
		"+447700900001,\"Hi, \"\"you\"\"\nthere\",a-1,+447700900101\r\n"+
		"+447700900002,Łódź,a-2,+447700900101\r\n"))
	require.NoError(t, err)
	assert.Equal(t, []row{
		{provider.Message{ID: "a-1", From: "+447700900101", To: "+447700900001", Text: "Hi, \"you\"\nthere"}, 1, 1},
		{provider.Message{ID: "a-2", From: "+447700900101", To: "+447700900002", Text: "Łódź"}, 2, 1},
	}, rows)
}

func TestWhatIsWrongWithAList(t *testing.T) {
	const good = "a-1,+447700900101,+447700900001,Hello\n"
	for _, c := range []struct{ name, text, want string }{
		{"empty file", "", "l.csv: the file is empty; want a header: id,from,to,text"},
		{"header alone", "id,from,to,text\n", "l.csv: no rows after the header"},
		{"no header", good, `l.csv: header: column "a-1" is unknown; want id,from,to,text`},
		{"a column missing", "id,from,text\n", `l.csv: header: column "to" is missing; want id,from,to,text`},
		{"a column twice", "id,from,to,text,id\n", `l.csv: header: column "id" stands there twice`},
		{"semicolons", "id;from;to;text\n", "l.csv: header: the columns are separated by semicolons; export the list with commas"},
		{"a field missing", "id,from,to,text\n" + good + "a-2,+447700900101,+447700900001\n", "l.csv: row 2 (line 3): 3 fields, want 4: is a comma in the text, without quotes around it?\nl.csv: nothing was sent"},
		{"a field too many", "id,from,to,text\na-1,+447700900101,+447700900001,Hi, you\n", "l.csv: row 1 (line 2): 5 fields, want 4: is a comma in the text, without quotes around it?\nl.csv: nothing was sent"},
		{"an open quote", "id,from,to,text\n" + good + "a-2,+447700900101,+447700900001,\"Hi\n", "l.csv: row 2 (line 3): a quote is never closed, or closed too early: within quotes, \" is written \"\"\nl.csv: nothing was sent"},
		{"an open quote and much after it", "id,from,to,text\n" + good + "a-2,+447700900101,+447700900001,\"Hi\n" + good + good, "l.csv: row 2 (line 3): a quote is never closed, or closed too early: within quotes, \" is written \"\"\nl.csv: nothing was sent"},
		{"a bare quote", "id,from,to,text\na-1,+447700900101,+447700900001,5\" pipe\n", "l.csv: row 1 (line 2): a quote in a text without quotes around it: write \"5\"\" pipe\" for 5\" pipe\nl.csv: nothing was sent"},
		{"no id", "id,from,to,text\n,+447700900101,+447700900001,Hi\n", "l.csv: row 1 (line 2): id is empty\nl.csv: nothing was sent"},
		{"no text", "id,from,to,text\na-1,+447700900101,+447700900001,\" \"\n", "l.csv: row 1 (line 2): text is empty\nl.csv: nothing was sent"},
		{"an id twice", "id,from,to,text\n" + good + good, "l.csv: row 2 (line 3): id \"a-1\" stands in row 1 already\nl.csv: nothing was sent"},
		{"from is no number", "id,from,to,text\na-1,07700900101,+447700900001,Hi\n", "l.csv: row 1 (line 2): from is \"07700900101\"; want a number such as +447700900123\nl.csv: nothing was sent"},
		{"to was eaten by a spreadsheet", "id,from,to,text\na-1,+447700900101,4.477E+11,Hi\n", "l.csv: row 1 (line 2): to is \"4.477E+11\"; want a number such as +447700900123\nl.csv: nothing was sent"},
		{"not UTF-8", "id,from,to,text\na-1,+447700900101,+447700900001,Gr\xfc\xdfe\n", "l.csv: row 1 (line 2): text is not UTF-8; export the list as UTF-8\nl.csv: nothing was sent"},
		{"lines after a text of two", "id,from,to,text\na-1,+447700900101,+447700900001,\"Hello\nyou\"\na-2,+447700900101,+4,Hi\n", "l.csv: row 2 (line 4): to is \"+4\"; want a number such as +447700900123\nl.csv: nothing was sent"},
		{"two problems", "id,from,to,text\n,+447700900101,+447700900001,Hi\n" + good + "a-3,+447700900101,+447700900001,\n", "l.csv: row 1 (line 2): id is empty\nl.csv: row 3 (line 4): text is empty\nl.csv: nothing was sent"},
	} {
		t.Run(c.name, func(t *testing.T) {
			rows, err := readList("l.csv", strings.NewReader(c.text))
			require.EqualError(t, err, c.want)
			assert.Nil(t, rows)
		})
	}
}

func TestManyProblemsAreCutOff(t *testing.T) {
	_, err := readList("l.csv", strings.NewReader("id,from,to,text\n"+strings.Repeat(",,,\n", 1000)))
	require.ErrorContains(t, err, "and perhaps more; nothing was sent")
	assert.Len(t, strings.Split(err.Error(), "\n"), maxProblems+1)
}

func TestTheCommittedList(t *testing.T) {
	rows, err := readList("messages.csv", strings.NewReader(messages))
	require.NoError(t, err)
	assert.GreaterOrEqual(t, len(rows), 300)
	senders := map[string]int{}
	several, unicode := 0, 0
	for _, r := range rows {
		senders[r.From]++
		if r.Segments > 1 {
			several++
		}
		if segments.Of(r.Text) == segments.UCS2 {
			unicode++
		}
	}
	assert.GreaterOrEqual(t, len(senders), 12)
	assert.Greater(t, several, 30, "messages of several segments")
	assert.Greater(t, unicode, 30, "messages with an emoji or a letter outside GSM-7")
}
