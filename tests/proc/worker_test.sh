#!/bin/sh
# Reconcilers that do one thing well or badly, each under a worker of its own: what the worker makes of it.
. "${SRC:?}/tests/lib/pipeline.sh"

# ---- the controllers ----

controller hello <<'E'
  reconciler: {exec: {command: [./hello.sh]}, env: {GREETING: hello}, envFile: vars, network: host}
E
script hello.sh <<'E'
#!/bin/sh
echo "file says $FROM_FILE; network $(readlink /proc/self/ns/net)" >&2
echo "$GREETING $RECONCILE_NAMESPACE/$RECONCILE_NAME attempt $RECONCILE_ATTEMPT secret=${KUBECONFIG:-none}" >&2
ls -A "$(dirname "$0")/../secret" /etc/reconciled >&2
true
E
printf '# a comment\nGREETING=not this one\nFROM_FILE="as it is" $HOME\n' >"$dir/config/vars"
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
  reconciler: {coprocess: {command: [sh, -c, "echo cannot go on >&2; exit 5"], startupTimeout: 1m}}
E
controller silent <<'E'
  reconciler: {coprocess: {command: [sleep, "765"], startupTimeout: 1s}}
E
controller greeter <<'E'
  reconciler: {coprocess: {command: [echo, "Hello, I am a script"], startupTimeout: 1m}}
E
controller slowreader <<'E'
  reconciler: {coprocess: {command: [./slowreader.py], startupTimeout: 1m}}
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
    if name.startswith("many"): # asks all before it listens, then leaves with its answer
        ids = range(300)
        for i in ids: say(kind="Get", uid=r["uid"], id=i, apiVersion="v1", objectKind="Secret", namespace="steady", name="s")
        assert [line()["id"] for i in ids] == list(ids)
        sys.stdout.write("\n" * 1000)
        say(uid=r["uid"])
        sys.exit(0)
    if name == "babble": print("thinking aloud", flush=True)
    a = ask(r, kind="Get", id=1, apiVersion="v1", objectKind="Secret", namespace="steady", name="s")
    b = ask(r, kind="Get", id="two", apiVersion="v1", objectKind="Secret", namespace="steady", name="s", live=True)
    c = ask(r, kind="List", id=3, apiVersion="v1", objectKind="ConfigMap", namespace="steady")
    d = ask(r, kind="Get", id=4, apiVersion="v1", objectKind="Node", name="x")
    e = ask(r, kind="Get", id=5, apiVersion="v1", objectKind="Secret", namespace="kube-system", name="s", live=True)
    f = ask(r, kind="Get", id=6, apiVersion="v1", objectKind="Secret", namespace="steady", name="..", live=True)
    g = ask(r, kind="List", id=7, apiVersion="v1", objectKind="ConfigMap", namespace="steady", live=True)
    h = ask(r, kind="List", id=8, apiVersion="v1", objectKind="ConfigMap", namespace="steady", labelSelector="a=b", live=True)
    assert len(g["items"]) >= len(c["items"]) > 0 and not h["items"] and g["items"][0]["kind"] == "ConfigMap", (g, h)
    assert e["error"]["reason"] == "Forbidden" and f["error"]["reason"] == "Invalid", (e, f)
    print("read", name, a["object"] and a["object"]["data"], b["object"] and b["object"]["kind"], len(c["items"]), d["error"]["reason"], file=sys.stderr)
    say(kind="ReconcileResponse", uid=r["uid"])
E
controller relating <<'E'
  watches:
  - {apiVersion: v1, kind: Secret, namespaces: [relating], mapTo: {index: data.secret}}
  - {apiVersion: v1, kind: Service, namespaces: [relating], mapTo: {label: example.com/map}}
  - {apiVersion: apps/v1, kind: Deployment, namespaces: [relating], mapTo: {annotation: example.com/map}}
  - {apiVersion: v1, kind: Pod, namespaces: [relating], mapTo: {program: {command: [./map.sh]}}}
  input: {related: true, reasons: true}
  reconciler: {exec: {command: [jq, -r, '"of " + (.related | keys | tostring) + " keys " + ([.related[] | keys[]] | tostring) + " secret " + (.related["Secret.v1"]["relating/s"].data.k // "hidden") + " because " + ([.reasons[] | .kind // .event] | tostring) | halt_error']}}
E
script map.sh <<'E'
#!/bin/sh
echo '{"kind":"Hello","apiVersion":"reconciled.dev/v1"}'
exec jq -c --unbuffered 'select(.uid) | {kind: "MapResponse", uid, requests: [{namespace: "relating", name: "m"}]}'
E
controller hungry <<'E'
  reconciler: {coprocess: {command: [./hungry.py], maxMemory: 64Mi}}
E
script hungry.py <<'E'
#!/usr/bin/python3
import json, sys
sys.stdin.readline()
print('{"kind":"Hello","apiVersion":"reconciled.dev/v1"}', flush=True)
kept = []
for line in sys.stdin:
    r = json.loads(line)
    if r["kind"] != "ReconcileRequest": continue
    name = r["request"]["name"]
    if name == "some": kept.append(b"x" * (48 << 20))
    while name == "all": kept.append(b"x" * (1 << 20))
    print(json.dumps({"uid": r["uid"]}), flush=True)
E
controller busy <<'E'
  reconciler: {coprocess: {command: [./busy.py]}, sandbox: {limits: {cpu: 1s}}}
  reconciliationTimeout: 2m
E
script busy.py <<'E'
#!/usr/bin/python3
import sys
sys.stdin.readline()
print('{"kind":"Hello","apiVersion":"reconciled.dev/v1"}', flush=True)
sys.stdin.readline()
while True: pass
E

api_server
everything

for n in hello garbage deaf leftover plainfile crlf noisy flood nohello silent greeter slowreader; do map "$n" one; done
for n in 0 1 65 75 78 126 139 200; do map codes "code-$n"; done
map codes segv
map codes answer
head -c 1000000 /dev/zero | tr '\0' 'y' >"$dir/big"
{ printf '{"metadata":{"name":"one"},"data":{"big":"'; cat "$dir/big"; printf '"}}'; } >"$dir/big.json"
curl -sS -m 60 -H 'Content-Type: application/json' --data-binary "@$dir/big.json" "$server/api/v1/namespaces/big/configmaps" >/dev/null

# ---- what each must have done ----

says hello 'line="hello hello/one attempt 0 secret=none"'
says hello 'outcome=Success'
ok "hello: envFile is taken as it is written, network: host is the host's" within 60 grep -qF "line=\"file says \\\"as it is\\\" \$HOME; network $(readlink /proc/self/ns/net)\"" "$dir/log/hello"
says hello 'line=.*secret.*No such file'
says garbage 'outcome=ProtocolError.*stdout is not the JSON of an answer.*hello world.*stderr'
says deaf 'outcome=Timeout.*not finished after reconciliationTimeout (1 s)'
gone() { ! pgrep -f "$1"; }
ok "deaf: nothing of it is left" within 60 gone "^sleep 9$mark\$"
says leftover 'outlived.*count=2 names='
says leftover 'outcome=Success'
ok "leftover: nothing of it is left" within 60 gone "^sleep 8$mark\$"
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

# ---- what relates to a key ----

api POST /api/v1/namespaces/relating/secrets '{"metadata":{"name":"s"},"data":{"k":"dg=="}}' >/dev/null
api POST /api/v1/namespaces/relating/secrets '{"metadata":{"name":"unrelated"},"data":{"k":"dg=="}}' >/dev/null
api POST /apis/apps/v1/namespaces/relating/deployments '{"metadata":{"name":"d","annotations":{"example.com/map":"relating/m"}},"spec":{
"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}' >/dev/null
api POST /api/v1/namespaces/relating/configmaps '{"metadata":{"name":"m"},"data":{"secret":"s"}}' >/dev/null
says relating 'line="of \[\\"Deployment.apps/v1\\",\\"Secret.v1\\",\\"Service.v1\\"\] keys \[\\"relating/s\\",\\"relating/d\\"\] secret hidden because'
api POST /api/v1/namespaces/relating/services '{"metadata":{"name":"v","labels":{"example.com/map":"m"}},"spec":{"ports":[{"port":80}]}}' >/dev/null
says relating 'keys \[\\"relating/s\\",\\"relating/v\\",\\"relating/d\\"\] secret hidden because \[.*\\"Service\\"'
api POST /api/v1/namespaces/relating/pods '{"metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"i"}]}}' >/dev/null
says relating 'of \[\\"Deployment.apps/v1\\",\\"Secret.v1\\",\\"Service.v1\\"\] .*because \[.*\\"Pod\\"'

# ---- a coprocess: reads, recycling, crashes ----

api POST /api/v1/namespaces/steady/secrets '{"metadata":{"name":"s"},"data":{"k":"dg=="}}' >/dev/null
for n in a b c d e; do map steady "$n"; done
for n in a b c d e; do says steady "line=\"read $n {'k': 'dg=='} Secret [0-9] Forbidden\""; done
says steady 'reconciler is recycled'
says steady 'line=bye'
map steady crash
says steady 'key=steady/crash .*outcome=Crashed.*SIGABRT'
map steady many
says steady 'key=steady/many .*outcome=Success'
# One that ends after its answer, while the next key is granted already, is started again at once.
for i in 1 2 3 4 5 6 7 8; do map steady many-$i; done
says steady 'key=steady/many-8 .*outcome=Success'
map steady babble
says steady 'key=steady/babble .*outcome=ProtocolError.*thinking aloud'
map steady f
says steady 'line="read f '
kill_idle() { victim=$(pgrep -f "steady.py $mark\$") && kill -9 "$victim"; } # between requests
within 60 kill_idle
map steady g
says steady 'line="read g '

# ---- a coprocess: limits ----

map hungry some
says hungry 'reconciler is recycled.*requests=1'
ok "hungry: its answer counted" within 60 logged hungry 'key=hungry/some .*outcome=Success'
map hungry all
says hungry 'key=hungry/all .*outcome=OOMKilled'
map busy one
says busy 'outcome=Crashed.*reason=CPULimit'

result
