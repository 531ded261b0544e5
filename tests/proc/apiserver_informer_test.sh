#!/bin/sh
# Informers against writers on the built-in API server, with a short history: see apiserver_informer.py.
set -u
DIR=$(mktemp -d "${TMPDIR:-/tmp}/apiserver-informer.XXXXXX")
PID=''
trap '[ -z "$PID" ] || kill -9 "$PID" 2>/dev/null; rm -rf "$DIR"' EXIT
trap 'exit 1' INT TERM
"$BIN/reconciled-apiserver" --listen 127.0.0.1:0 --history 500 --bookmark-interval 1 --write-kubeconfig "$DIR/kubeconfig" 2>"$DIR/log" &
PID=$!
n=0
until [ -s "$DIR/kubeconfig" ]; do
	n=$((n + 1))
	[ $n -lt 1000 ] || { cat "$DIR/log"; exit 1; }
	sleep 0.02
done
python3 "$SRC/tests/proc/apiserver_informer.py" "$(sed -n 's/^ *server: "\(.*\)"/\1/p' "$DIR/kubeconfig")" 12 || exit 1
kill "$PID"
wait "$PID" || { echo "the server ended with status $?"; cat "$DIR/log"; exit 1; }
PID=''
