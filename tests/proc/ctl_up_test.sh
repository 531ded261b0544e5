#!/bin/sh
# reconcilectl up with real processes: starting, restarting, reloading, the ways to end, and being process 1.
. "$SRC/tests/lib/ctl.sh"

controller() { # FILE NAME [LINE]
	cat >"$FOLDER/c/$1" <<-YAML
		apiVersion: reconciled.dev/v1alpha1
		kind: Controller
		metadata: {name: $2}
		spec:
		  for: {apiVersion: v1, kind: ConfigMap}
		  reconciler: {exec: {command: ["true"]}}
		  ${3:-workers: 1}
	YAML
}
up() { # OPTION...
	rm -f "$FOLDER/up.out"
	# shellcheck disable=SC2086
	"$ctl" up -f "$FOLDER/c" $here "$@" >"$FOLDER/up.out" 2>"$FOLDER/up.err" &
	UP=$!
}
# Children of $UP whose command line has the word.
children() { pgrep -P "$UP" -f -- "$1"; }
one() { children "$1" | head -n 1; }
count_is() { [ "$(children "$1" | wc -l)" = "$2" ]; }
status() { # FILTER: of the status' JSON
	# shellcheck disable=SC2086
	"$ctl" status $here -o json 2>/dev/null | jq -r "$1" 2>/dev/null
}
status_says() { [ "$(status "$1")" = "$2" ]; }
replaced() { # OLD WORD: another process has its place
	new=$(one "$2")
	[ -n "$new" ] && [ "$new" != "$1" ]
}
mkdir "$FOLDER/c"
controller a.yaml one "workers: 2"

# ---- start ----
KUBECONFIG=/nowhere/else up # the environment does not count
check "it starts" within 60 says "$FOLDER/up.out" "running: 1 controller, 2 worker processes"
# kubectl sends no token over plain HTTP.
first_names_server() { head -n 1 "$FOLDER/up.out" | grep -q "^server: https://127.0.0.1:[0-9]* (built in;"; }
check "the first line names the server, with HTTPS" first_names_server
check "its kubeconfig has the certificate" grep -q "certificate-authority-data: ." "$FOLDER/run/kubeconfig"
check "the key is ours alone" [ "$(stat -c %a "$FOLDER/run/apiserver.pem")" = 600 ]
check "the kubeconfig is ours alone" [ "$(stat -c %a "$FOLDER/run/kubeconfig")" = 600 ]
check "so is the token" [ "$(stat -c %a "$FOLDER/run/token")" = 600 ]
check "everybody is connected" within 60 status_says '[.processes[].role] | sort | join(" ")' "queue watcher worker worker"
check "the table says so, too" status_is 0 "$ctl" status $here
check "with the controller" says "$FOLDER/out" one
check "a second one is refused" status_is 1 "$ctl" up -f "$FOLDER/c" $here
check "and told by whom" says "$FOLDER/err" "up.lock is locked by process $UP"

# ---- what dies is started again ----
for word in "--instance one.1" reconciled-watcher reconciled-queue reconciled-apiserver; do
	old=$(one "$word")
	kill -9 "$old"
	check "$word is started again" within 60 replaced "$old" "$word"
	check "$word: its end is said" within 60 says "$FOLDER/up.err" "pid=$old reason=\"killed by SIGKILL\""
done
check "all are back" within 60 status_says '[.processes[].role] | sort | join(" ")' "queue watcher worker worker"

# ---- reload ----
controller b.yaml two
controller a.yaml one "workers: 1"
kill -HUP $UP
check "a new controller gets workers" within 60 count_is "--instance two.1" 1
two=$(one "--instance two.1")
check "a reload during its start finds SIGHUP blocked" grep -q '^SigBlk:.*[13579bdf]$' "/proc/$two/status"
check "one too many ends" within 60 count_is "--instance one.2" 0
check "the other stays" count_is "--instance one.1" 1
controller b.yaml two "workers: many"
kill -HUP $UP
check "a wrong file is said" within 60 says "$FOLDER/up.err" "spec.workers: found many"
check "a wrong file is said to have a place" says "$FOLDER/up.err" "c/b.yaml:7:12"
check "and ends nothing" [ "$(one "--instance two.1")" = "$two" ]
rm "$FOLDER/c/b.yaml"
kill -HUP $UP
check "a removed controller's workers end" within 60 count_is "--instance two.1" 0

# ---- a drain ----
kids=$(children .)
kill $UP
check "it ends" within 60 gone $UP
wait $UP
check "with success" [ $? = 0 ]
for pid in $kids; do check "child $pid has ended" gone "$pid"; done
check "the broker ended after the watcher" sh -c "grep ' ended ' '$FOLDER/up.err' | tail -n 3 | tr '\n' ' ' | grep -q 'watcher.*queue.*apiserver'"
check "the token is gone" [ ! -e "$FOLDER/run/token" ]

# ---- killed: everything goes with it, and the next one recovers ----
up --workers 3
check "--workers wins" within 60 says "$FOLDER/up.out" "running: 1 controller, 3 worker processes"
check "connected again" within 60 status_says '[.processes[].role] | length' 5
kids=$(children .)
kill -9 $UP
wait $UP 2>/dev/null
for pid in $kids; do check "child $pid dies with it" within 60 gone "$pid"; done

# ---- a second signal ----
up
check "it starts again" within 60 says "$FOLDER/up.out" running:
kids=$(children .)
worker=$(one "--instance one.1")
kill -STOP "$worker" # so that it cannot drain
kill -INT $UP
check "it waits for the stopped worker" within 60 says "$FOLDER/up.err" "stopping: workers first"
check "and has not ended" kill -0 $UP
kill -INT $UP
check "the second signal ends it" within 60 gone $UP
wait $UP
check "with status 1" [ $? = 1 ]
for pid in $kids; do check "child $pid is killed" within 60 gone "$pid"; done

# ---- wrong configuration, wrong use ----
mkdir "$FOLDER/empty"
check "no controller is 78" status_is 78 "$ctl" up -f "$FOLDER/empty" $here
check "and said" says "$FOLDER/err" "holds no controller"
check "no such file" status_is 78 "$ctl" up -f "$FOLDER/nowhere" $here
check "--workers must be a number" status_is 2 "$ctl" up -f "$FOLDER/c" $here --workers many
check "a kubeconfig that is not there" status_is 1 "$ctl" up -f "$FOLDER/c" $here --kubeconfig "$FOLDER/nowhere"
controller c.yaml broken "workers: 0"
up
check "a wrong controller beside a right one" within 60 says "$FOLDER/up.out" "running: 1 controller,"
check "is said" says "$FOLDER/up.err" "spec.workers: found 0"
kill $UP
wait $UP
UP=
rm "$FOLDER/c/c.yaml"

# ---- process 1: orphans are reaped ----
rm "$FOLDER/up.out"
namespace=--pid
[ "$(id -u)" = 0 ] || namespace="--pid --user --map-current-user"
# shellcheck disable=SC2086
unshare $namespace --fork --kill-child --mount-proc sh -c '
	sh -c "sleep 0.2 & sleep 0.1 & :" # two that will be left to process 1
	exec "$@"' sh "$ctl" up -f "$FOLDER/c" $here >"$FOLDER/up.out" 2>"$FOLDER/up.err" &
outer=$!
check "as process 1 it starts" within 60 says "$FOLDER/up.out" running:
UP=$(pgrep -P $outer)
check "as process 1 it is alone below unshare" [ -n "$UP" ]
check "as process 1 it has no zombies" within 60 sh -c "! ps -o stat= --ppid $UP | grep -q Z"
[ -z "$UP" ] || kill "$UP"
check "as process 1 it ends" within 60 gone $outer
kill -9 $outer 2>/dev/null
wait $outer
check "as process 1 it ends with success" [ $? = 0 ]
UP=
check_result
