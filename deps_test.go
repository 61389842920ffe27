package polite_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const module = "github.com/politehttp/polite"

// mayImport is the import graph of the root module: for each package what it
// may import beside the standard library and internal packages that are leaves.
// Rooms never import each other; only the root knows them all. Do not change it
// to make a build pass.
var mayImport = map[string][]string{
	".":           {"breaker", "headerparse", "idempotency", "observe", "pacer", "quota", "retry", "internal/origin"},
	"headerparse": {},
	"observe":     {"internal/origin"},
	"pacer":       {"headerparse", "observe", "internal/cubic", "golang.org/x/time/rate"},
	"retry":       {"headerparse", "observe", "internal/origin", "github.com/hashicorp/go-retryablehttp"},
	"idempotency": {},
	"breaker":     {},
	"quota":       {"headerparse", "observe", "internal/period"},

	"limiter":          {"limiter/clientip", "internal/period", "internal/rule"},
	"limiter/clientip": {},

	"shed": {"internal/admission", "internal/gradient"},

	"internal/admission":   {},
	"internal/cubic":       {},
	"internal/gradient":    {},
	"internal/origin":      {},
	"internal/pipenet":     {},
	"internal/rttest":      {"internal/pipenet", "github.com/stretchr/testify/assert", "github.com/stretchr/testify/require"},
	"internal/integration": {},
	"internal/period":      {},
	"internal/provider":    {},
	"internal/rule":        {"internal/period"},
	"internal/sim":         {},
	"internal/vectors":     {"limiter", "github.com/stretchr/testify/require"},
}

func TestImports(t *testing.T) {
	found := map[string][]string{}
	nested := func(dir string) bool { // modules of their own
		return slices.Contains([]string{"examples", "bench", "redisstore", "cmd/polite", "observe/promobserve", "observe/otelobserve"}, dir)
	}
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if nested(filepath.ToSlash(name)) || d.Name() == "testdata" || len(d.Name()) > 1 && d.Name()[0] == '.' {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		dir := path.Dir(filepath.ToSlash(name))
		found[dir] = append(found[dir], "")
		for _, spec := range file.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			if strings.Contains(imported, ".") {
				found[dir] = append(found[dir], strings.TrimPrefix(imported, module+"/"))
			}
		}
		return nil
	})
	require.NoError(t, err)
	require.Contains(t, found, ".", "the walk found no package")
	for dir, imports := range found {
		allowed, known := mayImport[dir]
		assert.True(t, known, "package %s is not in the import graph", dir)
		for _, imported := range imports {
			if imported != "" {
				assert.Contains(t, allowed, imported, "package %s imports %s", dir, imported)
			}
		}
	}
}
