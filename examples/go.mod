module github.com/politehttp/polite/examples

go 1.26.0

require github.com/politehttp/polite v0.0.0

replace github.com/politehttp/polite => ../
