#!/bin/sh
# workers: {min, max} and reconcilectl scale with real workers: the program of one that sleeps is stopped.
. "$SRC/tests/lib/ctl.sh"
of() { r status -o json 2>/dev/null | jq -r "$1"; } # FILTER
is() { [ "$(of "$1")" = "$2" ]; }
mark="lazy-$$"
# Programs in their jails, by their arguments; those of other runs have another mark.
programs_are() { [ "$(pgrep -c -f "^sh ./lazy.sh $mark")" = "$1" ]; }
asleep_are() { is '.controllers[0].workers.asleep' "$1"; }
object() { # NAME
	printf '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"%s"}}' "$1" |
		r raw PATCH "/api/v1/namespaces/default/configmaps/$1?fieldManager=test" -f - --type apply >/dev/null
}
mkdir -m 755 "$FOLDER/c"
mkdir -m 1777 "$FOLDER/go"
cat >"$FOLDER/c/lazy.yaml" <<YAML
apiVersion: reconciled.dev/v1alpha1
kind: Controller
metadata: {name: lazy}
spec:
  for: {apiVersion: v1, kind: ConfigMap, namespaces: [default]}
  workers: {min: 1, max: 3}
  reconciler:
    coprocess: {command: [sh, ./lazy.sh, $mark]}
    sandbox: {readWritePaths: [$FOLDER/go]}
YAML
cat >"$FOLDER/c/lazy.sh" <<SH
IFS= read -r hello
echo '{"kind":"Hello","apiVersion":"reconciled.dev/v1"}'
while IFS= read -r line; do
	case \$line in
	*'"kind":"Shutdown"'*) exit 0 ;;
	*'"kind":"ReconcileRequest"'*)
		until [ -e "$FOLDER/go/on" ]; do sleep 0.05; done
		echo "{\"uid\":\"\$(printf '%s' "\$line" | jq -r .uid)\"}"
		;;
	esac
done
SH
chmod 755 "$FOLDER"
# shellcheck disable=SC2086
RECONCILED_TEST_IDLE_MS=2000 "$ctl" up -f "$FOLDER/c" $here >"$FOLDER/up.out" 2>"$FOLDER/up.err" &
UP=$!
check "up starts as many as may be wanted" within 60 says "$FOLDER/up.out" "1 controller, 3 worker processes"
check "the first sweep is over" within 60 swept
check "two of three sleep" within 60 asleep_are 2
check "and have no program" within 60 programs_are 1
check "status, for people" status_is 0 r status
check "shows who sleeps" [ "$(grep -c '^worker .* asleep ' "$FOLDER/out")" = 2 ]

# ---- keys wait: as many wake up as are needed ----
object a
check "one key takes no second worker" within 60 is '.controllers[0].running' 1
check "nobody was woken" asleep_are 2
object b
check "a second key wakes one" within 60 is '.controllers[0].running' 2
check "one sleeps" asleep_are 1
object c
object d
check "all are awake" within 60 is '.controllers[0].running' 3
check "with their programs" within 60 programs_are 3
check "and the fourth key waits" within 60 is '.controllers[0].ready' 1
: >"$FOLDER/go/on"
check "all keys run" within 60 is '.controllers[0].results.success' 4
if grep -q "^RECONCILED_FAULTS:BOOL=ON" "$BIN/../CMakeCache.txt"; then # else it takes 30 s
	check "who is not needed sleeps again" within 60 asleep_are 2
	check "without its program" within 60 programs_are 1
fi

# ---- scale ----
check "scale to 3" status_is 0 r scale lazy 3
check "says so" says "$FOLDER/out" "lazy: 3 of 3 workers"
check "all are awake" within 60 asleep_are 0
check "with their programs, without a key" within 60 programs_are 3
check "scale to 0" status_is 0 r scale lazy 0 -o json
check "in JSON" [ "$(jq -c . "$FOLDER/out")" = '{"controller":"lazy","scale":0,"connected":3}' ]
check "all sleep" within 60 asleep_are 3
check "no program is left" within 60 programs_are 0
object e
check "a key waits" within 60 is '.controllers[0].ready' 1
kill -9 "$(pgrep -P $UP -f reconciled-queue)"
check "another broker keeps to it" within 60 asleep_are 3
check "and the key waits" within 60 is '.controllers[0].ready' 1
check "the same processes still sleep" [ "$(of '[.processes[] | select(.state == "asleep") | .pid] | length')" = 3 ]
check "scale to auto" status_is 0 r scale lazy auto
check "the key runs" within 60 is '.controllers[0].ready' 0
check "scale to more than there are" status_is 1 r scale lazy 4
check "says what to do" says "$FOLDER/err" "3 workers of lazy are connected: start more of them"
r scale lazy 2 >/dev/null
sed -i 's/max: 3/max: 2/' "$FOLDER/c/lazy.yaml"
kill -HUP $UP
check "a changed file ends it" within 60 is '.controllers[0].scale' null
check "and its own numbers count" within 60 is '.controllers[0].workers | [.least, .most, .connected] | tostring' "[1,2,2]"

# ---- the ways to end while one sleeps ----
check "one sleeps" within 60 asleep_are 1
check "a reload does not wake it" within 60 programs_are 1
kill $UP
check "up ends" within 60 gone $UP
wait $UP
check "with success" [ $? = 0 ]
UP=
check "scale needs a number" status_is 2 r scale lazy
check "scale takes no other word" status_is 2 r scale lazy many
check_result
