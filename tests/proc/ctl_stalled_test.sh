#!/bin/sh
# What stands still, and why, is seen: a reconciler, a map and a predicate that say no Hello; a kind whose first list does not come.
. "$SRC/tests/lib/ctl.sh"
of() { r status -o json 2>/dev/null | jq -r ".controllers[] | select(.name == \"$1\") | $2"; } # CONTROLLER FILTER
holds() { [ "$(of "$1" "$2")" = true ]; }
report() { r status -o json 2>/dev/null | jq -e ".reports[] | select(.controller == \"$1\" and .state == \"$2\")" >/dev/null; } # CONTROLLER STATE
shown() { r status 2>/dev/null | grep -q -- "$1"; }                                                                  # PATTERN
file() { # NAME, the rest of spec on stdin
	{
		printf 'apiVersion: reconciled.dev/v1alpha1\nkind: Controller\nmetadata: {name: %s}\nspec:\n' "$1"
		cat
	} >"$FOLDER/c/$1.yaml"
}
mkdir -m 755 "$FOLDER/c"
chmod 755 "$FOLDER"
cat >"$FOLDER/c/program" <<'SH'
#!/bin/sh
[ "$1" = silent ] && exec sleep 1000
echo '{"kind":"Hello","apiVersion":"reconciled.dev/v1"}'
exec jq -c --unbuffered 'select(.uid) | {uid}'
SH
chmod 755 "$FOLDER/c/program"
reconciler() { # WORD TIMEOUT WORKERS
	file reconciler <<-YAML
		  for: {apiVersion: v1, kind: ConfigMap}
		  workers: $3
		  reconciler: {coprocess: {command: [./program, $1], startupTimeout: $2}}
	YAML
}
programs() { # TIMEOUT
	file map <<-YAML
		  for: {apiVersion: v1, kind: ConfigMap}
		  watches:
		  - {apiVersion: v1, kind: Service, mapTo: {program: {command: [./program, silent], startupTimeout: $1}}}
		  reconciler: {exec: {command: ["true"]}}
	YAML
	file predicate <<-YAML
		  for: {apiVersion: v1, kind: ConfigMap, predicates: [{program: {command: [./program, silent], startupTimeout: $1}}]}
		  reconciler: {exec: {command: ["true"]}}
	YAML
}
reconciler silent 1h 2
programs 1h
# shellcheck disable=SC2086
"$ctl" up -f "$FOLDER/c" $here >"$FOLDER/up.out" 2>"$FOLDER/up.err" &
UP=$!
check "it starts" within 60 says "$FOLDER/up.out" running:
echo '{"metadata": {"name": "one"}}' >"$FOLDER/one.json"
check "a key" within 60 status_is 0 r raw POST /api/v1/namespaces/default/configmaps -f "$FOLDER/one.json"

# ---- they have time ----
slow='has not said Hello yet; its startupTimeout is 1h'
check "the reconciler is waited for" within 60 holds reconciler "(.paused // \"\") == \"Starting: ./program $slow\""
check "status, for people" within 60 shown "^reconciler .*Starting: ./program $slow"
check "explain tells it of the key that waits" within 60 sh -c "\"$ctl\" explain reconciler/default/one $here | grep -q '^paused: *Starting: ./program'"
check "the map is waited for" within 60 holds map '.stalled == ["spec.watches[0].mapTo.program (./program)"]'
check "but nothing else of it" holds map '.paused == null'
check "and why is said" report map waiting
check "status, for people" shown '^map .*in part: spec.watches.0..mapTo.program'
check "events wait for a predicate that starts" within 60 holds predicate '.stalled == ["spec.for.predicates program 1 (./program)"]'

# ---- their time is over ----
reconciler silent 100ms 2
programs 100ms
kill -HUP $UP
none='./program sent no Hello within startupTimeout (0.1 s)'
check "the reconciler has failed" within 60 holds reconciler "(.paused // \"\") | startswith(\"StartFailed: $none\")"
check "status, for people" within 60 shown "^reconciler .*StartFailed: ./program sent no Hello"
check "the map has failed" within 60 report map failed
check "its events wait" within 60 holds map '.stalled == ["spec.watches[0].mapTo.program (./program)"]'
check "events pass a predicate that failed" within 60 report predicate degraded
check "so nothing of it stands still" within 60 holds predicate '.stalled == []'
check "its key runs" within 60 holds predicate '.results.success >= 1'

# ---- it works ----
reconciler well 10s 2
kill -HUP $UP
check "it goes on" within 60 holds reconciler '.paused == null'
check "the key runs" within 60 holds reconciler '.results.success >= 1'
check "as status shows" shown '^reconciler .* -$'

# ---- nothing runs before the first lists of its kinds are complete ----
file lists <<YAML
  for: {apiVersion: v1, kind: ConfigMap}
  owns: [{apiVersion: example.com/v1, kind: Site}]
  cacheSyncTimeout: 1s
  reconciler: {exec: {command: ["true"]}}
YAML
kill -HUP $UP
told() { "$ctl" explain lists/default/one $here 2>/dev/null | grep -q "$1"; }
check "a key is given back after cacheSyncTimeout" within 60 told 'last: *NotReady'
check "with what it waits for" told 'said: *CacheNotReady: .*first list of example.com/v1 Site is not complete'
check "as status says" within 60 shown 'first list of example.com/v1 Site is not complete'
check "it did not run, and did not fail" holds lists '.results.success == 0 and .results.error == 0'
echo '{"metadata":{"name":"sites.example.com"},"spec":{"group":"example.com","scope":"Namespaced","names":{"plural":"sites","singular":"site","kind":"Site"},"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object"}}}]}}' >"$FOLDER/sites.json"
check "the kind comes" status_is 0 r raw POST /apis/apiextensions.k8s.io/v1/customresourcedefinitions -f "$FOLDER/sites.json"
check "it runs" within 60 holds lists '.results.success >= 1'
check_result
