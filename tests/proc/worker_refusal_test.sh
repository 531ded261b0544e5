#!/bin/sh
# What becomes of an attempt when the API server refuses a write: the rest is written, the attempt is tried again, and the message names what and why.
unset KUBE_SERVER # needs an API server behind a proxy of its own
. "${SRC:?}/tests/lib/pipeline.sh"

cat >"$dir/config/site.yaml" <<'E'
apiVersion: reconciled.dev/v1alpha1
kind: Controller
metadata: {name: site}
spec:
  for: {apiVersion: example.com/v1, kind: Site}
  owns: [{apiVersion: v1, kind: ConfigMap}]
  reconciler: {exec: {command: [./site.sh]}}
E
names=site
script site.sh <<'E'
#!/bin/sh
cat >/dev/null
n=$RECONCILE_NAME
child() { echo '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"'"$n-$1"'"}}'; }
echo '{"children":['"$(child a),$(child b)"'],"status":{"phase":"Up"},"events":[{"reason":"Seen","message":"'"$n"'"}]}'
E

api_server
api POST /apis/apiextensions.k8s.io/v1/customresourcedefinitions '{"metadata":{"name":"sites.example.com"},"spec":{"group":"example.com",
"scope":"Namespaced","names":{"plural":"sites","singular":"site","kind":"Site"},"versions":[{"name":"v1","served":true,"storage":true,
"subresources":{"status":{}},"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}]}}' >/dev/null
: >"$dir/rules"
python3 "$SRC/tests/lib/refusing_proxy.py" "$server" "$dir/rules" "$dir/port" &
pids="$! $pids"
ok "the proxy listens" within 60 test -s "$dir/port"
broker
watcher
sed "s#server:.*#server: http://127.0.0.1:$(cat "$dir/port")#" "$dir/secret/kubeconfig" >"$dir/secret/proxied"
start site reconciled-worker --config-dir "$dir/config" --kubeconfig "$dir/secret/proxied" site.1
ok "site is ready" within 60 logged site 'worker is ready'

sites=/apis/example.com/v1/namespaces/site/sites maps=/api/v1/namespaces/site/configmaps
site() { api POST $sites "{\"apiVersion\":\"example.com/v1\",\"kind\":\"Site\",\"metadata\":{\"name\":\"$1\"}}" >/dev/null; }
refuse() { printf '%s\n' "$@" >"$dir/rules.new" && mv "$dir/rules.new" "$dir/rules"; }

site good
says site 'key=site/good .*outcome=Success'

refuse 'PATCH one-a 500'
site one
says site 'key=site/one .*outcome=Transient .*reason=WriteFailed cause="child ConfigMap.v1 site/one-a: PATCH .*500 .*refused on purpose'
ok "one: the other child is written" is $maps/one-b .metadata.name one-b
ok "one: status too" is $sites/one .status.phase Up
refuse
ok "one: all is well again" within 60 is $maps/one-a .metadata.name one-a

refuse 'PATCH busy/status 429 Retry-After:7'
site busy
says site 'key=site/busy .*outcome=Transient .*cause="status: PATCH .*429'
ok "busy: not before the time that the API server named" within 60 logged broker 'retry scheduled .*key=site/busy .*delay_ms=[789][0-9][0-9][0-9] '
ok "busy: the children are written" is $maps/busy-b .metadata.name busy-b

refuse 'PATCH changing/status 409'
site changing
says site 'key=site/changing .*outcome=Transient .*cause="status: PATCH .*changed by others 4 times'
refuse
ok "changing: all is well again" within 60 is $sites/changing .status.phase Up

refuse 'POST events 403'
site quiet
says site 'event not written .*name=quiet .*403'
ok "quiet: that is no failure" within 60 logged site 'key=site/quiet .*outcome=Success'

refuse 'GET sites/unread 401'
site unread
says site 'key=site/unread .*outcome=Transient .*cause="children: .*GET .*401'
ok "unread: nothing is written unseen" is $maps/unread-a .code 404
refuse
ok "unread: all is well again" within 60 is $maps/unread-a .metadata.name unread-a

refuse 'PATCH hanging/status 0'
site hanging
says site 'key=site/hanging .*outcome=Transient .*cause="status: PATCH .*'
ok "hanging: the children are written" is $maps/hanging-b .metadata.name hanging-b
ok "hanging: again" within 60 sh -c "[ \$(grep -c 'attempt started.*site/hanging' '$dir/log/site') -ge 2 ]"
kill -TERM "$(pid_of site)"
says site 'draining.*state=running'
kill -TERM "$(pid_of site)"
wait "$(pid_of site)"
ok "hanging: a second signal ends it, though its attempt has not ended" [ $? = 1 ]

result
