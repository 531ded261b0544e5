#!/bin/sh
# Informers against writers on the built-in API server, with a short history: see apiserver_informer.py.
set -u
. "$SRC/tests/lib/within.sh"
DIR=$(mktemp -d "${TMPDIR:-/tmp}/apiserver-informer.XXXXXX")
PID=''
trap '[ -z "$PID" ] || kill -9 "$PID" 2>/dev/null; rm -rf "$DIR"' EXIT
trap 'exit 1' INT TERM
"$BIN/reconciled-apiserver" --listen 127.0.0.1:0 --history 500 --bookmark-interval 1 --write-kubeconfig "$DIR/kubeconfig" 2>"$DIR/log" &
PID=$!
within 60 [ -s "$DIR/kubeconfig" ] || { echo "the server does not start"; cat "$DIR/log"; exit 1; }
python3 "$SRC/tests/proc/apiserver_informer.py" "$(sed -n 's/^ *server: "\(.*\)"/\1/p' "$DIR/kubeconfig")" 12 || exit 1
kill "$PID"
wait "$PID" || { echo "the server ended with status $?"; cat "$DIR/log"; exit 1; }
PID=''
