// decode CASES: what Go's decoder makes of each case, compared with the table. Built as sigs.k8s.io/json where that is installed
// (golang-k8s-sigs-json-dev), else with decode_std.go.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
)

var deep = regexp.MustCompile(`deep\((\d+)\)`)

func unescape(s string) string {
	var out []byte
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] != '\\':
			out = append(out, s[i])
		case s[i+1] == 'x':
			n, err := strconv.ParseUint(s[i+2:i+4], 16, 8)
			if err != nil {
				panic(err)
			}
			out = append(out, byte(n))
			i += 3
		default:
			out = append(out, '\\')
			i++
		}
	}
	return string(out)
}

func tell(v interface{}, there bool) string {
	switch t := v.(type) {
	case nil:
		if there {
			return "null"
		}
		return "absent"
	case int64:
		return "number " + strconv.FormatInt(t, 10)
	case float64:
		return "number " + strconv.FormatFloat(t, 'g', -1, 64)
	case string:
		return "string " + t
	case []interface{}:
		return "deep"
	case map[string]interface{}:
		b, _ := json.Marshal(t)
		return "object " + string(b)
	}
	return fmt.Sprintf("%T", v)
}

func main() {
	f, err := os.Open(os.Args[1])
	if err != nil {
		panic(err)
	}
	passed, failed := 0, 0
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		line := lines.Text()
		if line == "" || line[0] == '#' {
			continue
		}
		columns := strings.Split(line, "\t")
		text := deep.ReplaceAllStringFunc(columns[0], func(m string) string {
			n, _ := strconv.Atoi(deep.FindStringSubmatch(m)[1])
			return strings.Repeat("[", n) + "1" + strings.Repeat("]", n)
		})
		var m map[string]interface{}
		got := "refused"
		if decode([]byte(unescape(text)), &m) == nil {
			v, there := m["v"]
			got = tell(v, there)
		}
		want := unescape(columns[1])
		if got != want {
			fmt.Printf("%s: Go makes of it %q, the table says %q\n", columns[0], got, want)
			failed++
		} else {
			passed++
		}
	}
	fmt.Printf("%d passed, %d failed\n", passed, failed)
	if failed > 0 || passed == 0 {
		os.Exit(1)
	}
}
