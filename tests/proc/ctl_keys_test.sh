#!/bin/sh
# reconcilectl status, queue, explain, requeue, wait and raw on a system that runs, and on what it leaves.
. "$SRC/tests/lib/ctl.sh"
state() { [ "$(r explain "$1" -o json 2>/dev/null | jq -r '.key.state // "none"')" = "$2" ]; } # KEY STATE
counted() { [ "$(r queue -o json | jq -r ".counts.$1")" = "$2" ]; }
succeeded() { [ "$(r status -o json | jq '.controllers[0].results.success')" -ge "$1" ]; }
object() { # NAME DATA
	printf '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"%s"},"data":{"n":"%s"}}' "$1" "$2" |
		r raw PATCH "/api/v1/namespaces/default/configmaps/$1?fieldManager=test" -f - --type apply >/dev/null
}

mkdir "$FOLDER/c"
cat >"$FOLDER/c/moody.yaml" <<'YAML'
apiVersion: reconciled.dev/v1alpha1
kind: Controller
metadata: {name: moody}
spec:
  for: {apiVersion: v1, kind: ConfigMap, namespaces: [default]}
  reconciler: {exec: {command: [./moody.sh]}}
  quarantine: {crashes: 2, within: 10m, for: 1h}
  rateLimiter: {baseDelay: 10m, maxDelay: 10m, jitter: 0}
YAML
cat >"$FOLDER/c/moody.sh" <<'SH'
#!/bin/sh
n=$(jq -r .object.data.n)
printf 'trying\033[2J %s\n' "$RECONCILE_NAME" >&2
case $n in
crash) kill -SEGV $$ ;;
fail) exit 3 ;;
later) echo '{"result":{"requeueAfter":"1h"}}' ;;
esac
SH
chmod 755 "$FOLDER" "$FOLDER/c" "$FOLDER/c/moody.sh"
# shellcheck disable=SC2086
"$ctl" up -f "$FOLDER/c" $here >"$FOLDER/up.out" 2>"$FOLDER/up.err" &
UP=$!
check "it starts" within 60 says "$FOLDER/up.out" running:
check "the first sweep is over" within 60 swept

# ---- wait ----
object fine 1
check "a value that is there" status_is 0 r wait v1/ConfigMap default/fine --for data.n=1
check "a value that is not" status_is 1 r wait v1/ConfigMap default/fine --for data.n=2 --timeout 300ms
check "says what is there instead" says "$FOLDER/err" "is not as wanted (data.n=2) after 300ms; there: 1"
check "the same in JSON" status_is 1 r wait v1/ConfigMap default/fine --for data.n=2 --timeout 300ms -o json
check "has what was seen" [ "$(jq -r '[.holds, .seen] | join(" ")' "$FOLDER/out")" = "false 1" ]
check "a good end in JSON" status_is 0 r wait v1/ConfigMap default/fine --for data.n=1 -o json
check "holds" [ "$(jq -r .holds "$FOLDER/out")" = true ]
check "an object that is not there" status_is 1 r wait v1/ConfigMap default/none --for data.n --timeout 300ms
check "is said" says "$FOLDER/err" "no such object"
check "is deleted" status_is 0 r wait ConfigMap.v1 default/none --for delete --timeout 60s
check "a kind that is not served" status_is 1 r wait example.com/v1/Nothing default/a --for delete --timeout 300ms
check "is named" says "$FOLDER/err" "example.com/v1"

# ---- keys ----
check "success leaves no key" within 60 succeeded 1
object later later
check "requeueAfter waits" within 60 state moody/default/later WAITING
check "and says for what" [ "$(r explain moody/default/later -o json | jq -r .key.wait)" = requeueAfter ]
object fail fail
check "a failure waits" within 60 state moody/default/fail WAITING
check "explain, for people" status_is 0 r explain moody/default/fail
check "has the backoff" says "$FOLDER/out" "WAITING, backoff, due in 9m"
check "and the outcome" says "$FOLDER/out" "last:       Transient"
check "and why it ran" says "$FOLDER/out" "added ADDED"
check "and no terminal codes of the program" [ "$(tr -d '\12\40-\176' <"$FOLDER/out" | wc -c)" = 0 ]
object crash crash
check "a crash waits" within 60 state moody/default/crash WAITING
r requeue moody/default/crash >/dev/null
check "the second one parks it" within 60 state moody/default/crash QUARANTINED
check "queue counts them" counted quarantined 1
check "queue, for people" status_is 0 r queue moody
check "has every key" says "$FOLDER/out" "3 keys: 0 running, 0 ready, 0 settling, 2 waiting, 1 quarantined"
check "queue of a controller that is not there" status_is 1 r queue nobody
check "says so" says "$FOLDER/err" 'the queue has no controller nobody: `reconcilectl status` shows them'
check "queue --limit" status_is 0 r queue --limit 1
check "says what it leaves out" says "$FOLDER/out" "2 are not shown"
check "status shows what fails" status_is 0 r status
check "the parked key first" says "$FOLDER/out" "default/crash  QUARANTINED"
failing() { [ "$("$ctl" status --runtime-dir "$FOLDER/run" --region-dir "$1" -o json 2>/dev/null | jq -r '.failing.total')" = "$2" ]; }
check "status has it in JSON" failing "$region" 2
mkdir "$FOLDER/older"
cp "$region/queue.shm" "$FOLDER/older"
kill -9 "$(pgrep -P $UP -f reconciled-queue)"
check "the next broker's keys fail as before" within 60 failing "$region" 2
check "those of another broker's region are not shown" failing "$FOLDER/older" 0
object crash 1
check "a change lets it out" within 60 state moody/default/crash none
object fail 1
check "an event ends the backoff" within 60 state moody/default/fail none
r requeue moody/default/later >/dev/null
check "requeue runs it now" within 60 sh -c "\"$ctl\" explain moody/default/later $here | grep -q 'added OPERATOR\|merged OPERATOR'"
check "requeue --after" status_is 0 r requeue moody/default/late --after 1h
check "waits" state moody/default/late WAITING
check "for that" [ "$(r explain moody/default/late -o json | jq -r .key.wait)" = addAfter ]
check "requeue --cancel" status_is 0 r requeue moody/default/late --cancel
check "takes it back" state moody/default/late none
check "--after and --cancel at once are wrong" status_is 2 r requeue moody/default/late --after 1h --cancel
check "--after wants a duration" status_is 2 r requeue moody/default/late --after soon
check "of at most 100 years" status_is 2 r requeue moody/default/late --after 876001h
check "requeue of an unknown controller fails" status_is 1 r requeue nobody/default/a
check "in JSON, too" status_is 1 r requeue nobody/default/a moody/default/later -o json
check "key by key" [ "$(jq -c 'map(.requeued)' "$FOLDER/out")" = "[false,true]" ]
check "explain of an unknown key fails" status_is 1 r explain moody/default/nothing
check "and says so" says "$FOLDER/err" "nothing is known about moody/default/nothing"
check "of an unknown controller, too" status_is 1 r explain nobody/default/a
check "and says that it is unknown" says "$FOLDER/err" "the queue has no controller"
check "a folder too long for a socket is wrong usage" status_is 2 "$BIN/reconcilectl" status --runtime-dir "/tmp/$(printf '%0100d' 0)"
check "back to waiting" within 60 state moody/default/later WAITING

# ---- a broker that hangs, a broker that is gone ----
broker=$(pgrep -P $UP -f reconciled-queue)
kill -STOP "$broker"
check "status of a hung broker fails" status_is 1 r status
check "and shows the region" says "$FOLDER/out" "The broker lives but does not answer. Its region holds:"
check "queue goes on" status_is 0 r queue
check "explain goes on" status_is 0 r explain moody/default/later
check "with its history" says "$FOLDER/out" "complete since the region was made"
check "to which process it was granted" says "$FOLDER/out" "granted to process "
check "in JSON" [ "$(r explain moody/default/later -o json | jq -c '[.historyComplete, .historyCompleteSince, .historyGaps]')" = "[true,null,0]" ]
instances() { r explain moody/default/later -o json 2>/dev/null | jq -c '[.history[] | select(.happened == "granted").instance] | unique'; }
check "whose name is not known then" [ "$(instances)" = "[null]" ]
check "what is left of it when nobody runs" sh -c "\"$ctl\" explain moody/default/fail --region-dir $FOLDER/older --runtime-dir $FOLDER/run 2>&1 | grep -q 'done Transient'"
kill -CONT "$broker"
named() { [ "$(instances)" = '["moody.1"]' ]; }
check "the broker knows to whom" within 60 named
r explain moody/default/later >"$FOLDER/out"
check "which people see" says "$FOLDER/out" "granted to moody.1, process "
kill $UP
wait $UP
UP=
check "status without a broker fails" status_is 1 r status
check "and shows what is left" says "$FOLDER/out" "There is no broker. The region of the last one holds:"
check "with the key" grep -q "^moody *0 *1 *0 *0" "$FOLDER/out"
check "explain reads what is left" status_is 0 r explain moody/default/later
check "to nobody that is known" [ "$(instances)" = "[null]" ]
check "and says that nobody has it" says "$FOLDER/err" "no broker has this region now"
check "status -o json is JSON all the same" sh -c "\"$ctl\" status -o json $here 2>/dev/null | jq -e '.broker == false' >/dev/null"
check_result
