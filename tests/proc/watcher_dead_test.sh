#!/bin/sh
# A connection whose packets are dropped, both ways, without a word: the watcher notices within seconds and goes on where it was.
# The API server has a network of its own; a blackhole route in it is the cut.
if [ "${1:-}" != inside ]; then
	user=
	[ "$(id -u)" = 0 ] || user="--user --map-root-user"
	# shellcheck disable=SC2086
	unshare $user --net --mount true 2>/dev/null || { echo "no network namespaces for this user: left out"; exit 77; }
	# shellcheck disable=SC2086
	exec unshare $user --net --mount sh "$0" inside
fi
. "$SRC/tests/lib/check.sh"
WATCHER='' QUEUE='' SERVER=''
check_end() { # shellcheck disable=SC2086
	kill -9 $WATCHER $QUEUE $SERVER 2>/dev/null
}

there() { nsenter -t "$SERVER" -n "$@"; }
order() { there curl -sf -m 30 -d "$1" "http://10.98.0.2:$PORT/control"; }
put() { order "{\"op\":\"put\",\"kind\":\"ConfigMap\",\"namespace\":\"shop\",\"name\":\"$1\"}" >"$FOLDER/answer"; }
listed() { order '{"op":"look"}' | jq -r '[.requests[] | select(.verb == "list")] | length'; }
queued() { "$BIN/reconcilectl" queue maps -o json --runtime-dir "$FOLDER/run" --region-dir "$FOLDER/shm" 2>/dev/null | grep -qF "$1"; }
told() { [ "$(grep -cF -- "$1" "$FOLDER/log")" -ge "$2" ]; }

unshare --net python3 "$SRC/tests/lib/watch_server.py" "$FOLDER" 0.0.0.0 >"$FOLDER/server.log" 2>&1 &
SERVER=$!
check "it has a network of its own" within 60 sh -c "[ \"\$(readlink /proc/$SERVER/ns/net)\" != \"\$(readlink /proc/self/ns/net)\" ]"
ip link add rt0 type veth peer name rt1 netns $SERVER
ip addr add 10.98.0.1/24 dev rt0
ip link set rt0 up
ip link set lo up
there ip addr add 10.98.0.2/24 dev rt1
there ip link set rt1 up
there ip link set lo up
check "the API server runs" within 60 [ -e "$FOLDER/port" ]
PORT=$(cat "$FOLDER/port")
mkdir -m 700 "$FOLDER/c" "$FOLDER/run" "$FOLDER/shm"
cat >"$FOLDER/kubeconfig" <<EOF
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "http://10.98.0.2:$PORT"}}]
users: [{name: u, user: {}}]
contexts: [{name: c, context: {cluster: c, user: u}}]
current-context: c
EOF
cat >"$FOLDER/c/maps.yaml" <<EOF
apiVersion: reconciled.dev/v1alpha1
kind: Controller
metadata: {name: maps}
spec:
  for: {apiVersion: v1, kind: ConfigMap}
  reconciler:
    exec: {command: [/bin/true]}
EOF
"$BIN/reconciled-watcher" --kubeconfig "$FOLDER/kubeconfig" --runtime-dir "$FOLDER/run" --region-dir "$FOLDER/shm" \
	--config-dir "$FOLDER/c" --log-level debug >"$FOLDER/log" 2>&1 &
WATCHER=$!
"$BIN/reconciled-queue" --runtime-dir "$FOLDER/run" --region-dir "$FOLDER/shm" --config-dir "$FOLDER/c" >"$FOLDER/queue.log" 2>&1 &
QUEUE=$!
check "it watches" within 60 told "watch started" 1
put first
check "an event comes" within 60 queued first
lists=$(listed)

from=$(date +%s)
there ip route add blackhole 10.98.0.1/32
check "a dead connection is noticed" within 120 told "watch lost" 1
echo "noticed after $(($(date +%s) - from)) s"
put meanwhile
check "that there is no other either is told" within 120 says "$FOLDER/log" "no connection to the API server"
there ip route del blackhole 10.98.0.1/32
check "it comes back" within 120 told "watch healed" 1
check "and goes on where it was" [ "$(listed)" = "$lists" ]
check "with what happened meanwhile" within 60 queued meanwhile
check_result
