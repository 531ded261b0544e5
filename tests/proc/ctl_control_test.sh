#!/bin/sh
# reconcilectl pause, resume, drain, quarantine and requeue on a system that runs.
. "$SRC/tests/lib/ctl.sh"
state() { [ "$(r explain "$1" -o json 2>/dev/null | jq -r '.key.state // "none"')" = "$2" ]; } # KEY STATE
of() { r status -o json 2>/dev/null | jq -r ".controllers[] | select(.name == \"$1\") | $2"; } # CONTROLLER FILTER
is() { [ "$(of "$1" "$2")" = "$3" ]; }
object() { # NAME DATA
	printf '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"%s"},"data":{"n":"%s"}}' "$1" "$2" |
		r raw PATCH "/api/v1/namespaces/default/configmaps/$1?fieldManager=test" -f - --type apply >/dev/null
}
broker() { pgrep -P $UP -f reconciled-queue; }
replaced() { # PID: another broker has its place
	new=$(broker)
	[ -n "$new" ] && [ "$new" != "$1" ] && r status >/dev/null 2>&1
}
file() { # LINE
	cat >"$FOLDER/c/moody.yaml" <<-YAML
		apiVersion: reconciled.dev/v1alpha1
		kind: Controller
		metadata: {name: moody}
		spec:
		  for: {apiVersion: v1, kind: ConfigMap, namespaces: [default]}
		  reconciler:
		    exec: {command: [./moody.sh]}
		    sandbox: {readWritePaths: [$FOLDER/go]}
		  rateLimiter: {baseDelay: 1ms, maxDelay: 1ms, jitter: 0, qps: 0}
		  $1
	YAML
}
quarantine="quarantine: {crashes: 2, within: 10m, for: 1h}"
mkdir -m 755 "$FOLDER/c"
mkdir -m 1777 "$FOLDER/go"
file "$quarantine"
cat >"$FOLDER/c/moody.sh" <<SH
#!/bin/sh
case \$(jq -r .object.data.n) in
crash) kill -SEGV \$\$ ;;
long) until [ -e "$FOLDER/go/on" ]; do sleep 0.05; done ;;
esac
SH
chmod 755 "$FOLDER" "$FOLDER/c/moody.sh"
# shellcheck disable=SC2086
"$ctl" up -f "$FOLDER/c" $here >"$FOLDER/up.out" 2>"$FOLDER/up.err" &
UP=$!
check "it starts" within 60 says "$FOLDER/up.out" running:
check "the controller is there" within 60 is moody .configured true
check "the first sweep is over" within 60 swept

# ---- pause and resume ----
object one 1
check "a key runs" within 60 is moody .results.success 1
check "pause" status_is 0 r pause moody
check "says so" says "$FOLDER/out" "moody paused"
object one 2
check "a key waits" within 60 state moody/default/one READY
check "status has it" within 60 is moody '.held != null' true
check "and keeps it apart from pauses of the queue's own" is moody .paused null
check "status, for people" status_is 0 r status
check "says who" says "$FOLDER/out" "by an operator, "
check "queue has it" [ "$(r queue -o json | jq -c .paused)" = '["moody"]' ]
check "queue, for people" sh -c "\"$ctl\" queue $here | grep -q 'moody is paused by an operator'"
check "explain" status_is 0 r explain moody/default/one
check "says what the key waits for" says "$FOLDER/out" "paused:     by an operator since "
before=$(broker)
kill -9 "$before"
check "another broker" within 60 replaced "$before"
check "it knows the pause" within 60 is moody '.held != null' true
agreed=$(grep -c 'controller agreed' "$FOLDER/up.err")
file "$quarantine
  workers: 2"
kill -HUP $UP
check "the file was read" within 60 says "$FOLDER/up.err" "reloaded"
check "the changed file is agreed on" within 60 sh -c "[ \$(grep -c 'controller agreed' '$FOLDER/up.err') -gt $agreed ]"
check "a reload does not end the pause" is moody '.held != null' true
check "and nothing was started" state moody/default/one READY
check "pause again, in JSON" status_is 0 r pause moody -o json
check "is the same" [ "$(jq -c . "$FOLDER/out")" = '{"controller":"moody","paused":true,"running":0}' ]
check "resume" status_is 0 r resume moody
check "the key runs" within 60 is moody .results.success 2
check "nothing is paused" is moody .held null

# ---- drain ----
object slow long
check "a key takes long" within 60 state moody/default/slow RUNNING
r queue >"$FOLDER/out"
check "queue says who has it" grep -q "default/slow *RUNNING *for .* in moody\.[0-9]*, process [0-9]" "$FOLDER/out"
check "in JSON, too" [ "$(r queue -o json | jq -r '.keys[] | select(.name == "slow").lease.instance | startswith("moody.")')" = true ]
check "drain waits" status_is 1 r drain moody --timeout 300ms
check "shows who runs" says "$FOLDER/err" "moody: 1 key runs: default/slow (moody."
check "and why it ends" says "$FOLDER/err" "moody is paused, but still runs after this time: default/slow"
r drain moody -o json >"$FOLDER/drain.out" 2>"$FOLDER/drain.err" &
drain=$!
object other 1
check "nothing new is started" within 60 state moody/default/other READY
check "drain is not over" kill -0 $drain
: >"$FOLDER/go/on"
check "drain ends" within 60 gone $drain
wait $drain
check "with success" [ $? = 0 ]
check "and says so" [ "$(jq -c . "$FOLDER/drain.out")" = '{"controller":"moody","drained":true,"paused":true,"running":0}' ]
check "it stays paused" state moody/default/other READY
check "drain of what is idle" status_is 0 r drain moody
check "is over at once" says "$FOLDER/out" "moody drained: it stays paused until"
rm "$FOLDER/go/on"
r resume moody >/dev/null
object slow2 long
check "another long one" within 60 state moody/default/slow2 RUNNING
r drain moody >"$FOLDER/drain.out" 2>"$FOLDER/drain.err" &
drain=$!
check "drain has begun" within 60 says "$FOLDER/drain.err" "1 key runs"
r resume moody >/dev/null
check "a resume ends the drain" within 60 gone $drain
wait $drain
check "with status 1" [ $? = 1 ]
check "and the cause" says "$FOLDER/drain.err" "somebody has resumed moody"
: >"$FOLDER/go/on"

# ---- quarantine: the ways out ----
parked() { # NAME
	object "$1" crash
	within 60 state "moody/default/$1" QUARANTINED
}
check "list of nothing" status_is 0 r quarantine list
check "says so" says "$FOLDER/out" "no key is in quarantine"
check "a key is parked" parked a
check "and another" parked b
check "list" status_is 0 r quarantine list moody
check "has it" grep -q "^moody *default/a .* 2 *Crashed *.*SIGSEGV" "$FOLDER/out"
check "in JSON" [ "$(r quarantine list -o json | jq -r 'map(.name) | join(" ")')" = "a b" ]
check "list of a controller that is not there" status_is 1 r quarantine list other
check "an operator clears a key" status_is 0 r quarantine clear moody/default/a
check "says so" says "$FOLDER/out" "moody/default/a: 1 key left quarantine"
check "it runs again and crashes again" within 60 sh -c "\"$ctl\" explain moody/default/a $here | grep -q 'quarantine left'"
check "it is parked again" within 60 state moody/default/a QUARANTINED
check "a key that is not parked" status_is 1 r quarantine clear moody/default/one
check "is said" says "$FOLDER/err" "moody/default/one is not in quarantine"
r pause moody >/dev/null
check "all of a controller" status_is 0 r quarantine clear moody -o json
check "says how many" [ "$(jq .cleared "$FOLDER/out")" = 2 ]
check "they are ready" state moody/default/b READY
r resume moody >/dev/null
check "and parked again" within 60 state moody/default/b QUARANTINED
object b 1
check "its own object's change lets a key out" within 60 state moody/default/b none
file "quarantine: {crashes: 2, within: 11m, for: 1h}"
check "a is still parked" state moody/default/a QUARANTINED
object a 1 # without a change of the file that alone would let it out
check "a is out" within 60 state moody/default/a none
check "c is parked" parked c
r pause moody >/dev/null
kill -HUP $UP
check "a changed file lets it out" within 60 state moody/default/c READY
file "quarantine: {crashes: 2, within: 11m, for: 2s}"
kill -HUP $UP
r resume moody >/dev/null
left_quarantine() { [ "$(r explain moody/default/c -o json | jq "[.history[] | select(.happened == \"quarantine left\" and .from == \"QUARANTINED\")] | length")" -ge "$1" ]; }
check "c is parked for a short time, and leaves it" within 60 left_quarantine 3

# ---- pauses that the queue makes ----
object c 1
check "c is well" within 60 state moody/default/c none
for n in 0 1 2 3 4 5 6 7 8 9; do object "k$n" crash; done
check "ten different keys that crash pause the controller" within 60 is moody '.paused // "" | startswith("ten different keys crashed")' true
crashed=$(of moody .outcomes.Crashed)
more_crashed() { [ "$(of moody .outcomes.Crashed)" -gt "$crashed" ]; }
r resume moody >/dev/null
check "resume ends that pause" within 60 more_crashed
for n in 0 1 2 3 4 5 6 7 8 9; do object "k$n" 1; done
r resume moody >/dev/null
check "all are well again" within 60 sh -c "[ \"\$($ctl queue moody $here -o json | jq '.keys | length')\" = 0 ]"
check "and it is not paused" is moody .paused null
cat >"$FOLDER/c/absent.yaml" <<YAML
apiVersion: reconciled.dev/v1alpha1
kind: Controller
metadata: {name: absent}
spec:
  for: {apiVersion: v1, kind: Secret, namespaces: [default]}
  reconciler: {exec: {command: [./absent.sh]}}
YAML
kill -HUP $UP
r raw POST /api/v1/namespaces/default/secrets -f - >/dev/null <<'JSON'
{"apiVersion":"v1","kind":"Secret","metadata":{"name":"s"}}
JSON
check "a program that is not there pauses its controller" within 60 is absent '.paused // "" | startswith("its program cannot be started")' true
check "it is tried again" within 60 sh -c "[ \$($ctl status $here -o json | jq '.controllers[] | select(.name == \"absent\").outcomes.ExecFailed') -ge 2 ]"
check "no key is charged" [ "$(r explain absent/default/s -o json | jq .key.attempt)" = 0 ]
printf '#!/bin/sh\n' >"$FOLDER/c/absent.sh"
chmod 755 "$FOLDER/c/absent.sh"
check "the probe finds it well, and it goes on" within 60 is absent '[.results.success, .paused] | tostring' '[1,null]'

# ---- requeue ----
r pause moody >/dev/null
object d 1
object e 1
check "two wait" within 60 sh -c "[ \"\$($ctl queue moody $here -o json | jq .counts.ready)\" = 2 ]"
check "requeue of a key" status_is 0 r requeue moody/default/d
check "of all keys that are in the queue" status_is 0 r requeue moody -o json
check "says how many" [ "$(jq -c 'map([.key, .requeued, .count])' "$FOLDER/out")" = '[["moody",true,2]]' ]
check "an operator's add" sh -c "\"$ctl\" explain moody/default/e $here | grep -q 'OPERATOR'"
check "requeue of a controller that is not there" status_is 1 r requeue other
check "says so" says "$FOLDER/err" "the queue has no controller other"
r resume moody >/dev/null
check "both run" within 60 sh -c "[ \"\$($ctl queue moody $here -o json | jq '.keys | length')\" = 0 ]"

# ---- wrong use ----
for command in pause resume drain; do
	check "$command needs a controller" status_is 2 r $command
	check "$command takes one" status_is 2 r $command a b
	check "$command of an unknown one" status_is 1 r $command nobody
	check "$command says what is there" says "$FOLDER/err" "there is no controller nobody"
	check "$command of no name" status_is 2 r $command a/b
done
check "quarantine needs a word" status_is 2 r quarantine
check "quarantine clear needs a name" status_is 2 r quarantine clear
check "a wrong key" status_is 2 r quarantine clear a/b
check "a wrong --timeout" status_is 2 r drain moody --timeout soon
kill $UP
wait $UP
check "the end" [ $? = 0 ]
UP=
check "without a broker" status_is 1 r pause moody
check "pause says so" says "$FOLDER/err" "no broker listens"
check_result
