# The pipeline for shell tests: everything real, API server, broker, watcher, and one worker for each of many small controllers. To be read in
# with `.`; BIN: the programs. With KUBE_SERVER, KUBE_CA, KUBE_ADMIN_TOKEN and KUBECONFIG set (the `env` of tests/kube/kube-up) that API server
# is used instead of the built-in one. A test names its controllers, calls `everything`, does things, and ends with `result`.
set -u
. "${SRC:?}/tests/lib/within.sh"
BIN=${BIN:?}
dir=$(mktemp -d "${TMPDIR:-/tmp}/worker_test.XXXXXX")
chmod 755 "$dir" # the jail's user comes in here
mkdir "$dir/config" "$dir/run" "$dir/region" "$dir/secret" "$dir/log"
chmod 755 "$dir/config"
pids= passed=0 failed=0

stop() { # NAME...: what was started last goes first
	for p in $pids; do ! grep -qsF "$dir" "/proc/$p/cmdline" || kill -9 "$p"; done # of one that has ended another may have the number
	if [ "$failed" = 0 ]; then rm -rf "$dir"; else echo "kept: $dir"; fi
}
trap stop EXIT
mark=$$ # in the arguments of processes that are looked for: other runs have another

start() { # NAME PROGRAM ARGUMENT...: the log is $dir/log/NAME, the pid in $dir/run/NAME.pid
	name=$1; shift
	"$BIN/$@" --runtime-dir "$dir/run" --region-dir "$dir/region" --log-level debug >>"$dir/log/$name" 2>&1 &
	echo $! >"$dir/run/$name.pid"
	pids="$! $pids"
}
pid_of() { cat "$dir/run/$1.pid"; }
slay() { # NAME...: kill -9, until they are gone
	for name in "$@"; do
		kill -9 "$(pid_of "$name")"
		wait "$(pid_of "$name")" 2>/dev/null
	done
}
worker() { start "$1" reconciled-worker --config-dir "$dir/config" --kubeconfig "$dir/secret/kubeconfig" "$1.1"; }

ok() { # WHAT COMMAND...
	what=$1; shift
	if "$@" >/dev/null 2>&1; then
		passed=$((passed + 1))
		return
	fi
	failed=$((failed + 1))
	echo "not ok: $what"
	[ "$failed" -lt "${FAILURES_MOST:-6}" ] || { echo "$passed passed, $failed failed; given up"; exit 1; }
}
logged() { grep -q -- "$2" "$dir/log/$1"; } # NAME PATTERN
says() { ok "$1: logs \"$2\"" within 60 logged "$1" "$2"; }
count() { grep -c -- "$2" "$dir/log/$1"; }
api() { # METHOD PATH [BODY [TYPE]]
	curl -sS -m 30 ${KUBE_SERVER:+--cacert "$KUBE_CA" -H "Authorization: Bearer $KUBE_ADMIN_TOKEN"} -X "$1" "$server$2" ${3:+-H "Content-Type: ${4:-application/json}" --data-binary "$3"}
}
field() { api GET "$1" | jq -er "$2"; } # PATH FILTER
has() { api GET "$1" | jq -e "$2"; } # PATH FILTER: is it true?
is() { [ "$(field "$1" "$2" 2>/dev/null)" = "$3" ]; }
map() { # NAMESPACE NAME: a ConfigMap
	api POST "/api/v1/namespaces/$1/configmaps" "{\"metadata\":{\"name\":\"$2\"},\"data\":{\"n\":\"${3:-0}\"}}" >/dev/null
}

# NAME, then the reconciler's lines of YAML on stdin, with MARK for this run's mark; each has a namespace of its own.
controller() {
	{
		printf 'apiVersion: reconciled.dev/v1alpha1\nkind: Controller\nmetadata: {name: %s}\nspec:\n' "$1"
		printf '  for: {apiVersion: v1, kind: ConfigMap, namespaces: [%s]}\n' "$1"
		sed "s/MARK/$mark/g"
	} >"$dir/config/$1.yaml"
	names="${names:-} $1"
}
script() { # NAME; content on stdin
	cat >"$dir/config/$1"
	chmod 755 "$dir/config/$1"
}

namespaces() { for n in $names; do api POST /api/v1/namespaces "{\"metadata\":{\"name\":\"$n\"}}" >/dev/null; done; }
api_server() { # the API server, with the namespaces
	if [ "${KUBE_SERVER:-}" ]; then
		cp "$KUBECONFIG" "$dir/secret/kubeconfig"
		server=$KUBE_SERVER
	else
		start api reconciled-apiserver --listen 127.0.0.1:0 --write-kubeconfig "$dir/secret/kubeconfig"
		ok "the API server listens" within 60 test -s "$dir/secret/kubeconfig"
		server=$(sed -n 's/.*server: "\(.*\)"/\1/p' "$dir/secret/kubeconfig")
	fi
	ok "the API server answers" within 60 api GET /version
	namespaces
}
broker() { start broker reconciled-queue --config-dir "$dir/config"; }
watcher() { start watcher reconciled-watcher --config-dir "$dir/config" --kubeconfig "$dir/secret/kubeconfig"; }
# After it nothing runs again but for what the test does: the first sweep adds each key once more.
swept() { for n in $names; do ok "$n is swept" within 60 logged watcher "sweep complete controller=$n\$"; done; }
everything() { # broker, watcher and a worker each, ready
	broker
	watcher
	for n in $names; do worker "$n"; done
	for n in $names; do ok "$n is ready" within 60 logged "$n" 'worker is ready'; done
	swept
}
result() {
	echo "$passed passed, $failed failed"
	[ "$failed" = 0 ]
}
