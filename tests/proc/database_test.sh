#!/bin/sh
# The database example's reconciler and kubelet, asked as the worker asks them.
set -u
T=$(mktemp -d)
trap 'rm -rf "$T"' EXIT
passed=0 failed=0
example=$(dirname "$BIN")/examples/database

# Everything that the worker would say goes in at once; what comes out is in $T/out, the exit status in $T/status.
hello='{"kind":"Hello","apiVersion":"reconciled.dev/v1","controller":"database"}'
request() { # OBJECT FINALIZING CHILDREN
	printf '{"apiVersion":"reconciled.dev/v1","kind":"ReconcileRequest","uid":"u","controller":"database","request":{"namespace":"demo","name":"a"},"object":%s,"finalizing":%s,"children":%s,"timeoutSeconds":30}\n' "$1" "$2" "$3"
}
ask() {
	{ echo "$hello"; cat; } | { "$example/database" >"$T/out" 2>"$T/err"; echo $? >"$T/status"; }
}
# holds TEXT JQ: of the answer (the last line)
holds() {
	if tail -n 1 "$T/out" | jq -e "$2" >/dev/null 2>&1; then passed=$((passed + 1)); else
		failed=$((failed + 1))
		echo "failed: $1: $(cat "$T/out" "$T/err")" >&2
	fi
}
settings='{"kind":"Object","id":1,"object":{"data":{"maxConnections":"100"}}}'
no_secret='{"kind":"Object","id":2,"object":null}'
password=$(printf 'abcdefghijklmnopqr' | base64)
secret='{"demo/a-password":{"data":{"password":"'$password'"}}}'
cluster='{"metadata":{"name":"a"},"spec":{"replicas":3,"configMapName":"settings"}}'
# status of the cluster, status.readyReplicas of a StatefulSet that is as it should be
config=
set_of() { printf '{"Secret.v1":%s,"StatefulSet.apps/v1":{"demo/a":{"metadata":{"generation":4},"spec":{"replicas":3,"template":{"metadata":{"annotations":{"database.example.com/config":"%s"}}}},"status":{"readyReplicas":%d,"observedGeneration":4}}}}' "$secret" "$config" "$1"; }
with_status() { printf '%s' "$cluster" | jq -c --argjson s "$1" '. + {status: $s}'; }

{ request "$cluster" false '{"Secret.v1":{},"StatefulSet.apps/v1":{}}'; echo "$settings"; echo "$no_secret"; } | ask
holds "the first answer has all children, in order" '[.children[].kind] == ["Secret", "ConfigMap", "StatefulSet", "Service"]'
holds "a password is made" '(.children[0].data.password | length) == 24 and .events[0].reason == "PasswordGenerated"'
holds "it waits for the first replica without an error" '.result.requeueAfter == "10000ms" and (has("error") | not) and ([.conditions[] | .type + .status] | sort == ["DegradedFalse", "ProgressingTrue", "ReadyFalse"])'
config=$(tail -n 1 "$T/out" | jq -r '.children[2].spec.template.metadata.annotations["database.example.com/config"]')
first=$(tail -n 1 "$T/out" | jq -r '.children[0].data.password')
{ request "$cluster" false '{}'; echo "$settings"; echo "$no_secret"; } | ask
holds "another one is another" '.children[0].data.password != "'"$first"'"'
{ request "$cluster" false '{}'; echo "$settings"; echo '{"kind":"Object","id":2,"object":{"data":{"password":"'"$password"'"}}}'; } | ask
holds "a password that the cache does not know yet is kept" '.children[0].data.password == "'"$password"'" and (has("events") | not)'
{ request "$cluster" false '{}'; echo "$settings"; echo '{"kind":"Object","id":2,"object":null,"error":{"type":"Transient","message":"no route"}}'; } | ask
holds "none is made when the API server cannot be asked" '.error.type == "Transient" and (.error.message | test("no route")) and (has("children") | not)'

{ request "$cluster" false "$(set_of 1)"; echo "$settings"; } | ask
holds "the first ready replica is the primary" '.status == {bootstrapped: true, readyReplicas: 1, primary: "a-0"} and .children[0].data.password == "'"$password"'"'
holds "it is degraded until all are" '[.conditions[] | .type + .status] | sort == ["DegradedTrue", "ProgressingTrue", "ReadyFalse"]'
{ request "$(with_status '{"bootstrapped":true,"primary":"a-1"}')" false "$(set_of 3)"; echo "$settings"; } | ask
holds "a primary that is ready stays" '.status == {readyReplicas: 3} and ([.conditions[] | .type + .status] | sort == ["DegradedFalse", "ProgressingFalse", "ReadyTrue"])'
{ request "$(with_status '{"bootstrapped":true,"primary":"a-2"}')" false "$(set_of 2)"; echo "$settings"; } | ask
holds "one that is not is replaced by the lowest that is" '.status.primary == "a-0" and .events[0].reason == "PrimaryElected"'
{ request "$(with_status '{"bootstrapped":true,"primary":"a-2"}')" false "$(set_of 0)"; echo "$settings"; } | ask
holds "without a ready one there is none" '.status | has("primary") and .primary == null'
{ request "$cluster" false "$(set_of 3)"; echo '{"kind":"Object","id":1,"object":{"data":{"maxConnections":"101"}}}'; } | ask
holds "other settings are rolled out" '(.children[1].data["settings.json"] | test("101")) and (.conditions[] | select(.type == "Progressing") | .status == "True")'

{ request "$cluster" false '{}'; echo '{"kind":"Object","id":1,"object":null}'; } | ask
holds "missing settings are waited for" '.error.type == "NotReady" and (has("children") | not)'
request '{"spec":{"replicas":0}}' false '{}' | ask
holds "a specification that cannot be is Terminal" '.error.type == "Terminal" and .conditions[0].reason == "InvalidSpec"'
request "$cluster" true '{}' | ask
holds "finalizing gives up everything" '.finalized == true and .children == []'
request null false '{}' | ask
holds "gone is gone" 'has("children") or has("error") | not'
holds "it ends well" "$(cat "$T/status") == 0"
request '{"spec":{"crash":true}}' false '{}' | ask
holds "spec.crash is a segmentation fault" "$(cat "$T/status") == 139"

kubelet() { printf '{"object":%s}' "$1" | "$example/kubelet.sh" >"$T/out" 2>"$T/err"; }
kubelet '{"metadata":{"generation":3},"spec":{"replicas":3},"status":{"readyReplicas":1}}'
holds "one replica more is ready" '. == {status: {replicas: 3, readyReplicas: 2, observedGeneration: 3}, result: {requeueAfter: "500ms"}}'
kubelet '{"metadata":{"generation":3},"spec":{"replicas":2},"status":{"readyReplicas":5}}'
holds "too many are fewer at once" '. == {status: {replicas: 2, readyReplicas: 2, observedGeneration: 3}}'
kubelet null
holds "no StatefulSet, nothing to do" '. == {}'
echo "$passed passed, $failed failed"
[ $failed = 0 ]
