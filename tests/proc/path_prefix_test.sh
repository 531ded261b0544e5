#!/bin/sh
# An API server below a path, as a management server's proxy has its clusters: watches, the Lease, writes and reconcilectl go there.
unset KUBE_SERVER # needs an API server behind a proxy of its own
. "${SRC:?}/tests/lib/pipeline.sh"
prefix=/k8s/clusters/c-x1

cat >"$dir/config/reconciled.yaml" <<'E'
ha: {mode: leader, namespace: site, name: lock}
E
cat >"$dir/config/site.yaml" <<'E'
apiVersion: reconciled.dev/v1alpha1
kind: Controller
metadata: {name: site}
spec:
  for: {apiVersion: example.com/v1, kind: Site}
  owns: [{apiVersion: v1, kind: ConfigMap}]
  finalizer: example.com/site
  reconciler: {coprocess: {command: [python3, site.py]}}
E
names=site
script site.py <<'E'
import json, sys
def say(**m): print(json.dumps(m), flush=True)
for line in sys.stdin:
    m = json.loads(line)
    if m["kind"] == "Hello":
        say(kind="Hello", apiVersion="reconciled.dev/v1")
    elif m["kind"] == "ReconcileRequest":
        if m["finalizing"]:
            say(uid=m["uid"], finalized=True)
            continue
        say(kind="Get", id=1, uid=m["uid"], apiVersion="example.com/v1", objectKind="Site", namespace="site", name="s", live=True)
        live = json.loads(sys.stdin.readline())["object"]
        say(uid=m["uid"], status={"read": live["metadata"]["name"]}, events=[{"reason": "Seen", "message": "s"}],
            children=[{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "child"}}])
E

api_server
api POST /apis/apiextensions.k8s.io/v1/customresourcedefinitions '{"metadata":{"name":"sites.example.com"},"spec":{"group":"example.com",
"scope":"Namespaced","names":{"plural":"sites","singular":"site","kind":"Site"},"versions":[{"name":"v1","served":true,"storage":true,
"subresources":{"status":{}},"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}]}}' >/dev/null
mkdir "$dir/gate"
python3 "$SRC/tests/lib/gate.py" "$dir/gate" "$(echo "$server" | sed 's/.*://')" $prefix &
pids="$! $pids"
ok "the proxy listens" within 60 test -s "$dir/gate/port"
sed -i "s#server:.*#server: http://127.0.0.1:$(cat "$dir/gate/port")$prefix/#" "$dir/secret/kubeconfig"
everything

sites=/apis/example.com/v1/namespaces/site/sites
ctl() { verb=$1; shift; "$BIN/reconcilectl" "$verb" --kubeconfig "$dir/secret/kubeconfig" "$@"; }
echo '{"apiVersion":"example.com/v1","kind":"Site","metadata":{"name":"s"}}' >"$dir/s.json"
ok "reconcilectl raw goes there" ctl raw POST $sites -f "$dir/s.json"
sed "s#$prefix/#$prefix#" "$dir/secret/kubeconfig" >"$dir/secret/without-slash"
ok "without the slash, too" "$BIN/reconcilectl" raw GET $sites/s --kubeconfig "$dir/secret/without-slash"
ok "reconcilectl wait sees the status, of what was read live" ctl wait example.com/v1/Site site/s --for status.read=s --timeout 60s
ok "the child is written" has /api/v1/namespaces/site/configmaps/child '.metadata.ownerReferences[0].name == "s"'
ok "so is the event" within 60 has /apis/events.k8s.io/v1/namespaces/site/events 'any(.items[]; .reason == "Seen")'
ok "this host has the Lease" has /apis/coordination.k8s.io/v1/namespaces/site/leases/lock '.spec.holderIdentity != ""'
ok "and renews it" within 60 has /apis/coordination.k8s.io/v1/namespaces/site/leases/lock '.spec.renewTime > .spec.acquireTime'
api DELETE $sites/s >/dev/null
ok "the finalizer goes" ctl wait example.com/v1/Site site/s --for delete --timeout 60s
ok "no request went past it" [ ! -e "$dir/gate/refused" ]
sed "s#$prefix/##" "$dir/secret/kubeconfig" >"$dir/secret/past"
ctl raw GET /version --kubeconfig "$dir/secret/past" >/dev/null 2>&1
ok "which the proxy would have noted" grep -qx "GET /version" "$dir/gate/refused"
result
