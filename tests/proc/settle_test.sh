#!/bin/sh
# Read-your-writes, with everything real: no reconcile sees a world older than its own last write, although the watch is behind; an attempt's own
# writes do not run its key again; somebody else's change does, once.
unset KUBE_SERVER # the watcher speaks to the API server through a gate of the test
. "${SRC:?}/tests/lib/pipeline.sh"

mkdir "$dir/records" "$dir/gate"
chmod 777 "$dir/records"
# Built-in kinds and ResourceVersionChanged: each write is an event that concerns the controller.
cat >"$dir/config/site.yaml" <<E
apiVersion: reconciled.dev/v1alpha1
kind: Controller
metadata: {name: site}
spec:
  for: {apiVersion: example.com/v1, kind: Site, namespaces: [other, site], predicates: [ResourceVersionChanged]}
  owns: [{apiVersion: v1, kind: ConfigMap, labelSelector: {matchLabels: {of: site}}}]
  reconciler:
    exec: {command: [./site.py]}
    sandbox: {readWritePaths: [$dir/records]}
E
names="site other"
# Run N of a key writes N into status and child, and says which N it sees there before.
script site.py <<E
#!/usr/bin/python3
import json, os, sys, time
r = json.load(sys.stdin)
name, o = r["request"]["name"], r["object"]
if o is None: sys.exit(0)
record = "$dir/records/" + name
runs = open(record).read().splitlines() if os.path.exists(record) else []
child = r["children"]["ConfigMap.v1"].get("site/" + name, {}).get("data", {}).get("n", "0")
status = str(o.get("status", {}).get("n", 0))
note = o["metadata"].get("annotations", {}).get("note", "-")
fresh = status == child == str(len(runs))
with open(record, "a") as f:
    print("status=%s child=%s note=%s %s" % (status, child, note, "fresh" if fresh else "STALE"), file=f)
end = time.monotonic() + 30
while os.path.exists("$dir/records/wait." + name) and time.monotonic() < end:
    time.sleep(0.01)
n = len(runs) + 1
print(json.dumps({"status": {"n": n}, "children": [{"apiVersion": "v1", "kind": "ConfigMap",
    "metadata": {"name": name, "labels": {"of": "site"}}, "data": {"n": str(n)}}]}))
E

api_server
api POST /apis/apiextensions.k8s.io/v1/customresourcedefinitions '{"metadata":{"name":"sites.example.com"},"spec":{"group":"example.com",
"scope":"Namespaced","names":{"plural":"sites","singular":"site","kind":"Site"},"versions":[{"name":"v1","served":true,"storage":true,
"subresources":{"status":{}},"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}]}}' >/dev/null
python3 "$SRC/tests/lib/gate.py" "$dir/gate" "$(echo "$server" | sed 's/.*://')" &
pids="$! $pids"
ok "the gate opens" within 60 test -s "$dir/gate/port"
sed "s#server:.*#server: http://127.0.0.1:$(cat "$dir/gate/port")#" "$dir/secret/kubeconfig" >"$dir/secret/gated"
watch() { start watcher reconciled-watcher --config-dir "$dir/config" --kubeconfig "$dir/secret/gated"; }
broker
watch
worker site
ok "site is ready" within 60 logged site 'worker is ready'
ok "site is swept" within 60 logged watcher 'sweep complete controller=site'

sites=/apis/example.com/v1/namespaces/site/sites
site() { api POST $sites "{\"apiVersion\":\"example.com/v1\",\"kind\":\"Site\",\"metadata\":{\"name\":\"$1\"}}" >/dev/null; }
note() { api PATCH "$sites/$1" "{\"metadata\":{\"annotations\":{\"note\":\"$2\"}}}" application/merge-patch+json >/dev/null; }
runs() { wc -l <"$dir/records/$1"; } # NAME
ran() { [ "$(runs "$1")" -ge "$2" ]; } # NAME TIMES
ctl() { "$BIN/reconcilectl" "$@" --runtime-dir "$dir/run" --region-dir "$dir/region"; }
status() { ctl status -o json | jq -r ".controllers[] | select(.name == \"site\") | .$1"; } # MEMBER
is_settled() { [ "$(status settling)" = 0 ]; }
state() { ctl queue site -o json | jq -r ".keys[] | select(.name == \"$1\") | .state"; } # NAME
is_state() { [ "$(state "$1")" = "$2" ]; }
in_vain() { [ "$(status settledInVain)" -gt "$1" ]; } # MORE THAN
# A machine that is busy for 5 s ends a hold in vain: then its own writes may run a key again.
not_again() { [ "$(runs "$1")" = "$2" ] || in_vain 0; } # NAME RUNS
requeue() { ctl requeue "site/site/$1" >/dev/null; }
hold() { echo 'watch=true' >"$dir/gate/hold"; }
release() { rm "$dir/gate/hold"; }
fresh() { sed -n "${2}p" "$dir/records/$1" | grep -q fresh; } # NAME RUN
# What happened before it is over when a new key has run: its event came last.
barrier=0
barrier() {
	barrier=$((barrier + 1))
	site "barrier$barrier"
	ok "barrier $barrier" within 60 ran "barrier$barrier" 1
	ok "nothing settles for long" within 60 is_settled
}

# ---- own writes are no news ----
site own
ok "own: runs" within 60 ran own 1
ok "own: wrote its status" within 60 is $sites/own .status.n 1
barrier
ok "own: its writes do not run it again" not_again own 1
ok "own: it was held" test "$(status settled)" -ge 1
requeue own
ok "own: runs again when asked" within 60 ran own 2
ok "own: and sees what it wrote" fresh own 2
barrier
ok "own: a changed child and a changed status do not run it again" not_again own 2

# ---- somebody else's change in the middle ----
touch "$dir/records/wait.mixed"
site mixed
ok "mixed: runs" within 60 ran mixed 1
note mixed hello
rm "$dir/records/wait.mixed"
ok "mixed: runs once more" within 60 ran mixed 2
ok "mixed: sees its own writes and the change" grep -q 'status=1 child=1 note=hello fresh' "$dir/records/mixed"
barrier
ok "mixed: exactly once more" not_again mixed 2

# ---- the watch is behind ----
# On a machine that is busy for 5 s the hold may end in vain: then it is tried again.
behind() { # RUN COMMAND: the watch shows nothing until the key is held and asked for again
	before=$(status settledInVain)
	hold
	requeue late
	within 60 ran late "$1"
	within 60 is "$sites/late" .status.n "$1"
	within 3 is_state late SETTLING
	requeue late
	seen=$(state late) granted=$(runs late)
	"$2"
	release
	ok "late: runs again" within 60 ran late $(($1 + 1))
	! in_vain "$before" || return 1
	ok "late: was held" test "$seen,$granted" = "SETTLING,$1"
}
tries() { # WHAT COMMAND
	for try in 1 2 3 4 5 6 7 8; do
		n=$(runs late)
		! behind $((n + 1)) "$2" || break
		barrier
	done
	ok "late: $1: not in vain" test "$try" -lt 8
	ok "late: $1: sees its own last write" fresh late $((n + 2))
	barrier
}
restart_broker() { slay broker; broker; within 3 ctl status; }
restart_watcher() { slay watcher; watch; }
site late
ok "late: runs" within 60 ran late 1
barrier
tries "a watch that hangs" true
tries "a broker that died meanwhile" restart_broker
tries "a watcher that died meanwhile" restart_watcher

# ---- the bound ----
before=$(status settledInVain) n=$(runs late)
hold
requeue late
ok "bound: runs" within 60 ran late $((n + 1))
requeue late
ok "bound: runs again although the watch shows nothing" within 60 ran late $((n + 2))
ok "bound: it is counted" in_vain "$before"
says broker 'the watch did not show in time'
ctl explain site/site/late -o json >"$dir/explain"
# Whole seconds: the end of the hold that was in vain is 5 s after the end of its attempt.
ok "bound: after 5 s" jq -e '[.history[] | select(.happened == "settled" and (.text | test("in time")))][-1].time as $last |
	[.history[] | select(.to == "SETTLING" and .happened == "done" and .time < $last)][-1].time as $first |
	($last | fromdate) - ($first | fromdate) >= 4' "$dir/explain"
release
barrier
result
