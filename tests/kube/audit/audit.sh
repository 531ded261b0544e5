#!/bin/sh
# Takes a second, holding a lock on its key's file, so that two runs of one key at once would show; then notes the counter it saw.
cd "$AUDIT" || exit 1
exec 9>"$RECONCILE_NAME.lock"
flock -n 9 || echo "$RECONCILE_NAME" >>double
counter=$(jq -r '.object.data.counter // ""')
sleep 1
echo "$counter" >"$RECONCILE_NAME.new" && mv "$RECONCILE_NAME.new" "$RECONCILE_NAME.last"
