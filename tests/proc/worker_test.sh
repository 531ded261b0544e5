#!/bin/sh
# The worker with everything around it real: API server, broker, watcher, one worker for each of many small controllers, each of which does
# one thing well or badly. BIN: the programs.
set -u
BIN=${BIN:?}
dir=$(mktemp -d "${TMPDIR:-/tmp}/worker_test.XXXXXX")
chmod 755 "$dir" # the jail's user comes in here
mkdir "$dir/config" "$dir/run" "$dir/region" "$dir/secret" "$dir/log"
chmod 755 "$dir/config"
pids= passed=0 failed=0

stop() { # NAME...: what was started last goes first
	for p in $pids; do kill -9 "$p" 2>/dev/null; done
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
worker() { start "$1" reconciled-worker --config-dir "$dir/config" --kubeconfig "$dir/secret/kubeconfig" "$1.1"; }

within() { # SECONDS COMMAND...: until it succeeds
	end=$(($(date +%s) + $1)); shift
	until "$@" >/dev/null 2>&1; do
		[ "$(date +%s)" -lt "$end" ] || return 1
		sleep 0.05
	done
}
ok() { # WHAT COMMAND...
	what=$1; shift
	if "$@" >/dev/null 2>&1; then
		passed=$((passed + 1))
		return
	fi
	failed=$((failed + 1))
	echo "not ok: $what"
	[ "$failed" -lt 6 ] || { echo "$passed passed, $failed failed; given up"; exit 1; }
}
logged() { grep -q -- "$2" "$dir/log/$1"; } # NAME PATTERN
says() { ok "$1: logs \"$2\"" within 30 logged "$1" "$2"; }
count() { grep -c -- "$2" "$dir/log/$1"; }
api() { # METHOD PATH [BODY [TYPE]]
	curl -sS -m 10 -X "$1" "$server$2" ${3:+-H "Content-Type: ${4:-application/json}" --data-binary "$3"}
}
field() { api GET "$1" | jq -er "$2"; } # PATH FILTER
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

# ---- the controllers ----

controller hello <<'E'
  reconciler: {exec: {command: [./hello.sh]}, env: {GREETING: hello}}
E
script hello.sh <<'E'
#!/bin/sh
echo "$GREETING $RECONCILE_NAMESPACE/$RECONCILE_NAME attempt $RECONCILE_ATTEMPT secret=${KUBECONFIG:-none}" >&2
ls -A "$(dirname "$0")/../secret" /etc/reconciled >&2
true
E
controller garbage <<'E'
  reconciler: {exec: {command: [echo, hello world]}}
E
controller deaf <<'E'
  reconciler: {exec: {command: [./deaf.sh, "9MARK"]}}
  reconciliationTimeout: 1s
E
script deaf.sh <<'E'
#!/bin/sh
trap '' TERM
sleep "$1" & # as deaf as its parent
wait
while :; do sleep "$1"; done
E
controller leftover <<'E'
  reconciler: {exec: {command: [sh, -c, "sleep 8MARK & setsid sleep 8MARK & exit 0"]}}
E
controller plainfile <<'E'
  reconciler: {exec: {command: [./plainfile]}}
E
echo 'echo hi' >"$dir/config/plainfile"
controller crlf <<'E'
  reconciler: {exec: {command: [./crlf.sh]}}
E
printf '#!/bin/sh\r\nexit 0\r\n' | script crlf.sh
controller codes <<'E'
  reconciler: {exec: {command: [./codes.sh]}}
E
script codes.sh <<'E'
#!/bin/sh
echo "ending as $RECONCILE_NAME" >&2
case $RECONCILE_NAME in
segv) kill -SEGV $$ ;;
answer) echo '{"error":{"type":"NotReady","reason":"Wait","message":"not yet","retryAfter":"1h"}}'; exit 3 ;;
*) exit "${RECONCILE_NAME#code-}" ;;
esac
E
controller big <<'E'
  reconciler: {exec: {command: ["true"]}}
E
controller noisy <<'E'
  reconciler: {exec: {command: [sh, -c, "head -c 3000000 /dev/zero | tr '\\0' 'x' >&2; cat >/dev/null; echo '{}'"]}}
E
controller flood <<'E'
  reconciler: {exec: {command: [sh, -c, "head -c 6000000 /dev/zero | tr '\\0' ' '; echo unseen >&2"]}}
E
controller nohello <<'E'
  reconciler: {coprocess: {command: [sh, -c, "echo cannot go on >&2; exit 5"], startupTimeout: 2s}}
E
controller silent <<'E'
  reconciler: {coprocess: {command: [sleep, "765"], startupTimeout: 1s}}
E
controller greeter <<'E'
  reconciler: {coprocess: {command: [echo, "Hello, I am a script"], startupTimeout: 2s}}
E
controller slowreader <<'E'
  reconciler: {coprocess: {command: [./slowreader.py], startupTimeout: 10s}}
  reconciliationTimeout: 2s
E
script slowreader.py <<'E'
#!/usr/bin/python3
import os, sys, time
sys.stdin.readline()
print('{"kind":"Hello","apiVersion":"reconciled.dev/v1"}', flush=True)
while True:
    os.read(0, 1)
    time.sleep(1)
E
controller steady <<'E'
  watches:
  - {apiVersion: v1, kind: Secret, metadataOnly: false, namespaces: [steady], mapTo: {all: true}}
  reconciler: {coprocess: {command: [./steady.py, "MARK"], maxRequests: 3}}
E
script steady.py <<'E'
#!/usr/bin/python3
import json, os, sys
def line(): return json.loads(sys.stdin.readline() or sys.exit(0))
def say(**k): print(json.dumps(k), flush=True)
def ask(r, **k):
    say(uid=r["uid"], **k)
    return line()
line()
say(kind="Hello", apiVersion="reconciled.dev/v1")
while True:
    r = line()
    if r["kind"] == "Shutdown":
        print("bye", file=sys.stderr)
        sys.exit(0)
    name = r["request"]["name"]
    if name == "crash": os.abort()
    if name == "babble": print("thinking aloud", flush=True)
    a = ask(r, kind="Get", id=1, apiVersion="v1", objectKind="Secret", namespace="steady", name="s")
    b = ask(r, kind="Get", id="two", apiVersion="v1", objectKind="Secret", namespace="steady", name="s", live=True)
    c = ask(r, kind="List", id=3, apiVersion="v1", objectKind="ConfigMap", namespace="steady")
    d = ask(r, kind="Get", id=4, apiVersion="v1", objectKind="Node", name="x")
    print("read", name, a["object"] and a["object"]["data"], b["object"] and b["object"]["kind"], len(c["items"]), d["error"]["reason"], file=sys.stderr)
    say(kind="ReconcileResponse", uid=r["uid"])
E
controller slow <<'E'
  reconciler: {exec: {command: [sh, -c, "sleep 2; echo slept >&2"]}}
E
cat >"$dir/config/site.yaml" <<'E'
apiVersion: reconciled.dev/v1alpha1
kind: Controller
metadata: {name: site}
spec:
  for: {apiVersion: example.com/v1, kind: Site}
  owns:
  - {apiVersion: v1, kind: ConfigMap}
  prune: true
  finalizer: example.com/site
  reconciler: {exec: {command: [./site.py]}}
E
names="$names site"
script site.py <<'E'
#!/usr/bin/python3
import json, sys
r = json.load(sys.stdin)
o = r["object"]
name = r["request"]["name"]
print("site", name, "finalizing" if r["finalizing"] else "running", sorted(r["children"]["ConfigMap.v1"]), file=sys.stderr)
if o is None: sys.exit(0)
if "example.com/site" not in o["metadata"].get("finalizers", []) and not r["finalizing"]:
    sys.exit("the finalizer is not there")
if r["finalizing"]:
    print(json.dumps({"finalized": True, "events": [{"reason": "CleanedUp", "message": "bye"}]}))
    sys.exit(0)
if o["spec"].get("bad"):
    print(json.dumps({"conditions": [{"type": "Ready", "status": "True", "reason": "not one word"}]}))
    sys.exit(0)
children = [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "%s-%d" % (name, i)}, "data": {"title": o["spec"]["title"]}}
            for i in range(o["spec"]["pages"])]
print(json.dumps({"children": children, "status": {"pages": len(children), "big": 9007199254740993},
    "conditions": [{"type": "Ready", "status": "True", "reason": "Deployed", "message": o["spec"]["title"]}],
    "events": [{"reason": "Deployed", "message": "pages: %d" % len(children)}]}))
E

# ---- everything starts ----

start api reconciled-apiserver --listen 127.0.0.1:0 --write-kubeconfig "$dir/secret/kubeconfig"
ok "the API server listens" within 20 test -s "$dir/secret/kubeconfig"
server=$(sed -n 's/.*server: "\(.*\)"/\1/p' "$dir/secret/kubeconfig")
api POST /apis/apiextensions.k8s.io/v1/customresourcedefinitions '{"metadata":{"name":"sites.example.com"},"spec":{"group":"example.com",
"scope":"Namespaced","names":{"plural":"sites","singular":"site","kind":"Site"},"versions":[{"name":"v1","served":true,"storage":true,
"subresources":{"status":{}},"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}]}}' >/dev/null
for n in $names; do
	api POST /api/v1/namespaces "{\"metadata\":{\"name\":\"$n\"}}" >/dev/null
done
start broker reconciled-queue --config-dir "$dir/config"
start watcher reconciled-watcher --config-dir "$dir/config" --kubeconfig "$dir/secret/kubeconfig"
for n in $names; do worker "$n"; done
for n in $names; do
	ok "$n is ready" within 60 logged "$n" 'worker is ready'
done

for n in hello garbage deaf leftover plainfile crlf noisy flood nohello silent greeter slowreader; do map "$n" one; done
for n in 0 1 65 75 78 126 139 200; do map codes "code-$n"; done
map codes segv
map codes answer
head -c 1000000 /dev/zero | tr '\0' 'y' >"$dir/big"
{ printf '{"metadata":{"name":"one"},"data":{"big":"'; cat "$dir/big"; printf '"}}'; } >"$dir/big.json"
curl -sS -m 20 -H 'Content-Type: application/json' --data-binary "@$dir/big.json" "$server/api/v1/namespaces/big/configmaps" >/dev/null

# ---- what each must have done ----

says hello 'line="hello hello/one attempt 0 secret=none"'
says hello 'outcome=Success'
says hello 'line=.*secret.*No such file'
says garbage 'outcome=ProtocolError.*stdout is not the JSON of an answer.*hello world.*stderr'
says deaf 'outcome=Timeout.*not finished after reconciliationTimeout (1 s)'
gone() { ! pgrep -f "$1"; }
ok "deaf: nothing of it is left" within 10 gone "^sleep 9$mark"
says leftover 'outlived.*count=2 names='
says leftover 'outcome=Success'
ok "leftover: nothing of it is left" within 10 gone "^sleep 8$mark"
says plainfile 'outcome=ExecFailed.*plainfile is not executable; chmod +x it'
says crlf 'outcome=ExecFailed.*has Windows line ends'
says codes 'key=codes/code-0 .*outcome=Success'
says codes 'key=codes/code-1 .*outcome=Transient.*exit status 1; last lines: ending as code-1'
says codes 'key=codes/code-65 .*outcome=Terminal'
says codes 'key=codes/code-75 .*outcome=NotReady'
says codes 'key=codes/code-78 .*outcome=Terminal'
says codes 'key=codes/code-126 .*outcome=ExecFailed'
says codes 'key=codes/code-139 .*outcome=Crashed.*reason=SIGSEGV'
says codes 'key=codes/code-200 .*outcome=Transient'
says codes 'key=codes/segv .*outcome=Crashed.*exit=.*SIGSEGV'
says codes 'key=codes/answer .*outcome=NotReady.*reason=Wait cause="not yet"'
says big 'outcome=Success'
says noisy 'outcome=Success'
says noisy 'more bytes'
says flood 'outcome=ProtocolError.*stdout: more than 4 MiB'
says nohello 'start failed.*ended before its Hello (exit status 5).*cannot go on'
says silent 'start failed.*sent no Hello within startupTimeout (1 s)'
says greeter 'start failed.*first line is not a Hello but .*Hello, I am a script.*exec:'
for n in nohello silent greeter; do
	ok "$n: no key was charged" sh -c "! grep -q 'key granted controller=$n ' '$dir/log/broker'"
done
says slowreader 'outcome=Timeout'

# ---- a coprocess: reads, recycling, crashes ----

api POST /api/v1/namespaces/steady/secrets '{"metadata":{"name":"s"},"data":{"k":"dg=="}}' >/dev/null
for n in a b c d e; do map steady "$n"; done
for n in a b c d e; do says steady "line=\"read $n {'k': 'dg=='} Secret [0-9] Forbidden\""; done
says steady 'reconciler is recycled'
says steady 'line=bye'
map steady crash
says steady 'key=steady/crash .*outcome=Crashed.*SIGABRT'
map steady babble
says steady 'key=steady/babble .*outcome=ProtocolError.*thinking aloud'
map steady f
says steady 'line="read f '
kill_idle() { victim=$(pgrep -f "steady.py $mark") && kill -9 "$victim"; } # between requests
within 10 kill_idle
map steady g
says steady 'line="read g '

# ---- children, status, conditions, events, finalizer ----

sites=/apis/example.com/v1/namespaces/site/sites maps=/api/v1/namespaces/site/configmaps
api POST $sites '{"apiVersion":"example.com/v1","kind":"Site","metadata":{"name":"blog"},"spec":{"pages":2,"title":"one"}}' >/dev/null
ok "site: a child" within 20 is "$maps/blog-1" .data.title one
ok "site: its owner" is "$maps/blog-0" '.metadata.ownerReferences[0].kind + (.metadata.ownerReferences[0].controller|tostring)' Sitetrue
ok "site: status" within 20 is "$sites/blog" .status.pages 2
ok "site: large numbers survive" sh -c "curl -sS '$server$sites/blog' | grep -q 9007199254740993"
ok "site: condition" is "$sites/blog" '.status.conditions[0] | .type + .status + .message + (.observedGeneration|tostring)' ReadyTrueone1
ok "site: finalizer" is "$sites/blog" '.metadata.finalizers[0]' example.com/site
ok "site: an event" within 20 sh -c "curl -sS '$server/apis/events.k8s.io/v1/namespaces/site/events' | jq -e '[.items[]|select(.reason==\"Deployed\")]|length > 0'"

api PATCH "$sites/blog" '{"metadata":{"annotations":{"x":"1"}}}' application/merge-patch+json >/dev/null
settled() { # the last attempt wrote nothing
	[ "$(grep 'attempt ended' "$dir/log/site" | tail -n 1 | grep -c 'requests=0')" = 1 ]
}
ok "site: an answer that changes nothing writes nothing" within 20 settled
since=$(field "$sites/blog" '.status.conditions[0].lastTransitionTime')

api PATCH "$maps/blog-0" '{"data":{"title":"edited by hand"}}' application/merge-patch+json >/dev/null
ok "site: a child edited by hand is put back" within 20 is "$maps/blog-0" .data.title one
api DELETE "$maps/blog-0" >/dev/null
ok "site: a deleted child comes back" within 20 is "$maps/blog-0" .data.title one
api PATCH "$sites/blog" '{"spec":{"pages":1,"title":"two"}}' application/merge-patch+json >/dev/null
ok "site: a change reaches the children" within 20 is "$maps/blog-0" .data.title two
ok "site: what is no longer wanted is pruned" within 20 is "$maps/blog-1" .code 404
ok "site: observedGeneration follows" within 20 is "$sites/blog" '.status.conditions[0].observedGeneration' 2
ok "site: lastTransitionTime stays" is "$sites/blog" '.status.conditions[0].lastTransitionTime' "$since"
api PATCH "$sites/blog" '{"spec":{"bad":true}}' application/merge-patch+json >/dev/null
says site 'outcome=ProtocolError.*conditions\[0\].reason'
ok "site: nothing of a refused answer is written" is "$sites/blog" '.status.conditions[0].reason' Deployed
api PATCH "$sites/blog" '{"spec":{"bad":null}}' application/merge-patch+json >/dev/null
api DELETE "$sites/blog" >/dev/null
ok "site: finalizer released" within 20 is "$sites/blog" .code 404
says site 'line="site blog finalizing'

# ---- the broker goes and comes back, the jail dies, a drain ----

map slow first
ok "slow: running" within 20 logged slow 'attempt started'
kill -9 "$(pid_of broker)"
start broker reconciled-queue --config-dir "$dir/config"
says slow 'line=slept'
says slow 'key=slow/first .*outcome=Success'
ok "slow: the new broker takes the result" within 20 sh -c "grep 'done controller=slow key=slow/first' '$dir/log/broker' | grep -q outcome=Success"
ok "slow: once" [ "$(count slow 'attempt started')" = 1 ]

map slow second
ok "slow: running again" within 20 sh -c "[ \$(grep -c 'attempt started' '$dir/log/slow') = 2 ]"
kill -9 "$(sed -n 's/.*jail started init=\([0-9]*\).*/\1/p' "$dir/log/slow" | tail -n 1)"
says slow 'key=slow/second .*outcome=WorkerLost'
ok "slow: runs in a new jail" within 20 sh -c "grep 'key=slow/second' '$dir/log/slow' | grep -q outcome=Success"

map slow third
ok "slow: running a third time" within 20 sh -c "grep 'attempt started' '$dir/log/slow' | grep -q slow/third"
kill -TERM "$(pid_of slow)"
wait "$(pid_of slow)"
ok "slow: drained with success" [ $? = 0 ]
ok "slow: its attempt was finished" sh -c "grep 'key=slow/third' '$dir/log/slow' | grep -q outcome=Success"
ok "slow: its result was taken" sh -c "grep 'key=slow/third' '$dir/log/broker' | grep -q outcome=Success"

# ---- SIGHUP ----

sed -i 's/GREETING: hello/GREETING: good day/' "$dir/config/hello.yaml"
kill -HUP "$(pid_of watcher)" "$(pid_of broker)" "$(pid_of hello)"
says hello 'reloaded.*changed=yes'
map hello two
says hello 'line="good day hello/two'

echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
