#!/bin/sh
# The examples of docs/reconciler-protocol.md and docs/program-protocol.md are programs that work: each is cut out of the page, run, and answers as the page says.
# Those in languages that are not installed here are named.
set -eu
T=$(mktemp -d)
trap 'rm -rf "$T"' EXIT
passed=0 failed=0
cut_out() { awk -v fence="\`\`\`$1" '$0 == fence {on = 1; next} $0 == "```" {on = 0} on' "$SRC/docs/$page"; }
page=reconciler-protocol.md
object='{"metadata":{"name":"blog"},"spec":{"text":"it'"'"'s \"me\""}}'
request() { printf '{"apiVersion":"reconciled.dev/v1","kind":"ReconcileRequest","uid":"%s","request":{"namespace":"shop","name":"blog"},"object":%s}\n' "$1" "$2"; }
check() { # NAME FILE JQ
	if jq -es "$3" "$2" >/dev/null 2>&1; then passed=$((passed + 1)); else
		failed=$((failed + 1))
		echo "failed: $1: $(cat "$2" "$T/err" 2>/dev/null)" >&2
	fi
}
answers='.children[0].data.text == "it'"'"'s \"me\"" and .children[0].metadata.name == "blog-text" and .conditions[0].status == "True"'

cut_out sh >"$T/exec.sh"
request u1 "$object" | RECONCILE_NAMESPACE=shop RECONCILE_NAME=blog sh "$T/exec.sh" >"$T/out" 2>"$T/err"
check "sh" "$T/out" "length == 1 and (.[0] | $answers)"
request u1 null | RECONCILE_NAMESPACE=shop RECONCILE_NAME=blog sh "$T/exec.sh" >"$T/out" 2>"$T/err"
check "sh, object gone" "$T/out" '. == [{}]'

coprocess() { # NAME COMMAND...
	name=$1
	shift
	{
		echo '{"kind":"Hello","apiVersion":"reconciled.dev/v1","controller":"c","capabilities":["cancel","read"]}'
		request u1 "$object"
		echo '{"kind":"Cancel","uid":"u1"}'
		request u2 null
		echo '{"kind":"Shutdown"}'
	} | "$@" >"$T/out" 2>"$T/err" || { failed=$((failed + 1)); echo "failed: $name: exit status $?" >&2; }
	check "$name" "$T/out" "length == 3 and .[0] == {kind: \"Hello\", apiVersion: \"reconciled.dev/v1\"} and .[1].uid == \"u1\" and (.[1] | $answers) and .[2] == {uid: \"u2\"}"
}
cut_out python >"$T/reconciler.py"
coprocess Python python3 "$T/reconciler.py"
if command -v node >/dev/null; then
	cut_out js >"$T/reconciler.js"
	coprocess Node node "$T/reconciler.js"
else echo "node is not installed: its example was not run"; fi
if command -v go >/dev/null; then
	cut_out go >"$T/main.go"
	(cd "$T" && HOME=$T GOFLAGS=-mod=mod go build -o reconciler main.go) >"$T/err" 2>&1 || cat "$T/err"
	coprocess Go "$T/reconciler"
else echo "go is not installed: its example was not built"; fi
page=program-protocol.md
questions() { # KIND
	echo '{"kind":"Hello","apiVersion":"reconciled.dev/v1","controller":"c","capabilities":[]}'
	echo "{\"apiVersion\":\"reconciled.dev/v1\",\"kind\":\"$1\",\"uid\":\"1\",\"old\":null,\"new\":{\"metadata\":{\"namespace\":\"shop\",\"name\":\"s\"},\"spec\":{\"selector\":{\"website\":\"blog\"}}}}"
	echo "{\"apiVersion\":\"reconciled.dev/v1\",\"kind\":\"$1\",\"uid\":\"2\",\"old\":{\"metadata\":{\"namespace\":\"shop\",\"name\":\"s\",\"annotations\":{\"paused\":\"true\"}},\"spec\":{}},\"new\":null}"
	echo '{"kind":"Shutdown"}'
}
hello='.[0] == {kind: "Hello", apiVersion: "reconciled.dev/v1"} and length == 3'
cut_out python >"$T/map.py"
questions MapRequest | python3 "$T/map.py" >"$T/out" 2>"$T/err"
check "map in Python" "$T/out" "$hello"' and .[1] == {kind: "MapResponse", uid: "1", requests: [{namespace: "shop", name: "blog"}]} and .[2].requests == []'
cut_out sh >"$T/predicate.sh"
questions PredicateRequest | sh "$T/predicate.sh" >"$T/out" 2>"$T/err"
check "predicate with jq" "$T/out" "$hello"' and .[1] == {kind: "PredicateResponse", uid: "1", pass: true} and .[2].pass == false'
echo "$passed passed, $failed failed"
[ $failed = 0 ]
