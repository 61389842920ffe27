package quota

import "os"

type batch struct{}

// FileStore is a Store in a file.
type FileStore struct{ file *os.File }
