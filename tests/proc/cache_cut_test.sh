#!/bin/sh
# Objects that the cache has no room for: their keys come back, and keep no worker from the other keys of the controller.
. "${SRC:?}/tests/lib/pipeline.sh"

controller cut <<'Y'
  reconciler: {exec: {command: [sh, -c, "echo ran $RECONCILE_NAME >&2"]}}
Y
echo 'budgets: {queue: 16Mi, cache: 8Mi}' >"$dir/config/reconciled.yaml"
big() { # NAME: a ConfigMap that cannot be packed
	base64 -w0 /dev/urandom | head -c 200000 | jq -Rc --arg n "$1" '{metadata: {name: $n}, data: {x: .}}' >"$dir/big"
	curl -sS -m 30 -o /dev/null -H "Content-Type: application/json" --data-binary "@$dir/big" "$server/api/v1/namespaces/cut/configmaps"
}
ctl() { "$BIN/reconcilectl" "$@" --runtime-dir "$dir/run" --region-dir "$dir/region"; }

api_server
everything
map cut small
says cut 'ran small'
for i in $(seq 60); do big "big-$i"; done
says watcher 'the cache is full'
says cut 'only for its metadata'
waits() { [ "$(ctl queue -o json | jq '[.keys[] | select(.state == "WAITING")] | length')" -gt 5 ]; }
ok "the keys of what was cut wait, without a worker" within 60 waits
before=$(count cut 'ran small')
ok "an operator asks for a whole object" ctl requeue cut/cut/small
again() { [ "$(count cut 'ran small')" -gt "$before" ]; }
ok "it runs, though those before it were cut" within 60 again

for i in $(seq 60); do api DELETE "/api/v1/namespaces/cut/configmaps/big-$i" >/dev/null; done
none() { [ "$(ctl queue -o json | jq '.keys | length')" = 0 ]; }
ok "when there is room nothing waits" within 60 none
result
