#!/bin/sh
# Names, kinds and values that need care, from the cache to the write and back: names with colons, a kind of one name in two groups, numbers of 64
# bits, empty values in a child, an object that leaves its selector.
. "${SRC:?}/tests/lib/pipeline.sh"

# NAME SPEC SCRIPT: a controller whose program notes each run
own() {
	printf 'apiVersion: reconciled.dev/v1alpha1\nkind: Controller\nmetadata: {name: %s}\nspec:\n%s\n  reconciler: {exec: {command: [./%s.sh]}}\n' "$1" "$2" "$1" >"$dir/config/$1.yaml"
	script "$1.sh"
	names="${names:-} $1"
}
own roles '  for: {apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, labelSelector: {matchLabels: {names: "yes"}}}
  owns: [{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding}]' <<'E2'
#!/bin/sh
jq -r '"run \(.request.name)"' >&2
cat <<E3
{"children": [{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "$RECONCILE_NAME.bind"},
  "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "$RECONCILE_NAME"}, "subjects": []}]}
E3
E2
own routes '  for: {apiVersion: networking.k8s.io/v1, kind: Ingress, namespaces: [routes]}
  owns: [{apiVersion: v1, kind: ConfigMap}]' <<'E2'
#!/bin/sh
jq -r '"run \(.request.name), \(.object.apiVersion)"' >&2
E2
own clusters '  for: {apiVersion: db.example.com/v1, kind: Cluster, namespaces: [clusters]}
  owns:
  - {apiVersion: v1, kind: ConfigMap}
  - {apiVersion: compute.example.com/v1, kind: Cluster}' <<'E2'
#!/bin/sh
jq -r '"run \(.request.name), \(.children | keys | join(" and "))"' >&2
E2
# It says what it reads and wants it back, every second.
own digits '  for: {apiVersion: db.example.com/v1, kind: Cluster, namespaces: [digits]}
  owns: [{apiVersion: compute.example.com/v1, kind: Cluster}]' <<'E2'
#!/usr/bin/python3
import re, sys
spec = re.search(r'"spec": ?(\{[^}]*\})', sys.stdin.read()).group(1)
print("run", spec, file=sys.stderr)
print('{"result": {"requeueAfter": "1s"}, "status": %s, "children": [{"apiVersion": "compute.example.com/v1", "kind": "Cluster", "metadata": {"name": "d"}, "spec": %s}]}' % (spec, spec))
E2
# It runs every second; what it wants never changes.
own nothing '  for: {apiVersion: v1, kind: ConfigMap, namespaces: [nothing], labelSelector: {matchLabels: {names: "yes"}}}
  owns: [{apiVersion: apps/v1, kind: Deployment}]' <<'E2'
#!/bin/sh
echo "run $RECONCILE_NAME" >&2
cat >/dev/null
cat <<E3
{"result": {"requeueAfter": "1s"}, "children": [{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "$RECONCILE_NAME", "creationTimestamp": null},
 "spec": {"selector": {"matchLabels": {"app": "x"}}, "template": {"metadata": {"creationTimestamp": null, "annotations": {}, "labels": {"app": "x"}},
 "spec": {"volumes": [], "nodeSelector": null, "containers": [{"name": "c", "image": "i", "env": []}]}}}}]}
E3
E2
own leaves '  for: {apiVersion: v1, kind: ConfigMap, namespaces: [leaves], labelSelector: {matchLabels: {tier: web}}}
  owns: [{apiVersion: v1, kind: Secret}]
  prune: true' <<'E2'
#!/bin/sh
jq -r '"run \(.request.name), there: \(.object != null), finalizing: \(.finalizing)"' >&2
[ "$RECONCILE_NAME" != stays ] || echo '{"children":[{"apiVersion":"v1","kind":"Secret","metadata":{"name":"of-stays"}}]}'
E2
api_server
definition() { # GROUP PLURAL KIND
	api POST /apis/apiextensions.k8s.io/v1/customresourcedefinitions '{"metadata":{"name":"'$2.$1'"},"spec":{"group":"'$1'","scope":"Namespaced","names":{"plural":"'$2'","kind":"'$3'","listKind":"'$3'List"},"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}]}}' >/dev/null
	ok "$1's $2 are served" within 60 api GET /apis/$1/v1/namespaces/names/$2
}
definition db.example.com clusters Cluster
definition compute.example.com clusters Cluster
definition edge.example.com ingresses Ingress
for ns in clusters routes digits nothing leaves; do api POST /api/v1/namespaces '{"metadata":{"name":"'$ns'"}}' >/dev/null; done
everything

# ---- names with colons ----
rbac=/apis/rbac.authorization.k8s.io/v1
api POST $rbac/clusterroles '{"metadata":{"name":"acme:site:reader","labels":{"names":"yes"}},"rules":[]}' >/dev/null
says roles 'run acme:site:reader'
ok "the child has its name" within 60 is $rbac/clusterrolebindings/acme:site:reader.bind .metadata.name acme:site:reader.bind
ok "both forms of the path find one object" is $rbac/clusterroles/acme%3Asite%3Areader .metadata.name acme:site:reader
version=$(field $rbac/clusterrolebindings/acme:site:reader.bind .metadata.resourceVersion)
runs=$(count roles 'run acme:site:reader')
api PATCH $rbac/clusterroles/acme:site:reader '{"metadata":{"annotations":{"touched":"1"}}}' application/merge-patch+json >/dev/null
again() { [ "$(count roles 'run acme:site:reader')" -gt "$runs" ]; }
ok "it runs again" within 60 again
explain() { "$BIN/reconcilectl" explain "$1" --runtime-dir "$dir/run" --region-dir "$dir/region" | grep -q "$2"; }
ok "explain finds the key" within 60 explain roles//acme:site:reader acme:site:reader
ok "the second run wrote nothing" is $rbac/clusterrolebindings/acme:site:reader.bind .metadata.resourceVersion "$version"

# ---- one kind, two groups ----
for group in db compute; do api POST /apis/$group.example.com/v1/namespaces/clusters/clusters '{"apiVersion":"'$group'.example.com/v1","kind":"Cluster","metadata":{"name":"a"}}' >/dev/null; done
says clusters 'run a, Cluster.compute.example.com/v1 and ConfigMap.v1'
ok "both are there" has /apis/db.example.com/v1/namespaces/clusters/clusters/a '.metadata.uid != null'
uid=$(field /apis/compute.example.com/v1/namespaces/clusters/clusters/a .metadata.uid)
mine=$(field /apis/db.example.com/v1/namespaces/clusters/clusters/a .metadata.uid)
runs=$(count clusters 'run a,')
owned() { # NAMESPACE NAME GROUP KIND UID [OWNER]
	api POST /api/v1/namespaces/$1/configmaps '{"metadata":{"name":"'$2'","ownerReferences":[{"apiVersion":"'$3'/v1","kind":"'$4'","name":"'${6:-a}'","uid":"'$5'","controller":true}]}}' >/dev/null
}
owned clusters of-compute compute.example.com Cluster "$uid"
owned clusters of-db db.example.com Cluster "$mine"
more() { [ "$(count clusters 'run a,')" = $((runs + 1)) ]; }
ok "what the one of its group owns reconciles it, what the other owns does not" within 60 more
ok "by the right one" explain clusters/clusters/a of-db
ok "and not by the other" sh -c '! "$0" explain clusters/clusters/a --runtime-dir "$1/run" --region-dir "$1/region" | grep -q of-compute' "$BIN/reconcilectl" "$dir"

# The same beside a kind of the API server's own.
routes=networking.k8s.io/v1/namespaces/routes/ingresses edges=edge.example.com/v1/namespaces/routes/ingresses
api POST /apis/$routes '{"apiVersion":"networking.k8s.io/v1","kind":"Ingress","metadata":{"name":"a"},"spec":{"defaultBackend":{"service":{"name":"s","port":{"number":80}}}}}' >/dev/null
api POST /apis/$edges '{"apiVersion":"edge.example.com/v1","kind":"Ingress","metadata":{"name":"a"}}' >/dev/null
says routes 'run a, networking.k8s.io/v1'
runs=$(count routes 'run a,')
owned routes of-solo edge.example.com Ingress 0 solo # whose name no route has
owned routes of-edge edge.example.com Ingress "$(field /apis/$edges/a .metadata.uid)"
owned routes of-route networking.k8s.io Ingress "$(field /apis/$routes/a .metadata.uid)"
more() { [ "$(count routes 'run a,')" = $((runs + 1)) ]; }
ok "an Ingress of another group owns nothing of ours" within 60 more
ok "it was the right one" explain routes/routes/a of-route
ok "and nothing ran for the other" [ "$(count routes 'line="run')" = $((runs + 1)) ]

# ---- numbers of 64 bits ----
numbers='"id":9007199254740993,"big":9223372036854775807,"ratio":0.1'
parent=/apis/db.example.com/v1/namespaces/digits/clusters/d child=/apis/compute.example.com/v1/namespaces/digits/clusters/d
api POST /apis/db.example.com/v1/namespaces/digits/clusters '{"apiVersion":"db.example.com/v1","kind":"Cluster","metadata":{"name":"d"},"spec":{'"$numbers"'}}' >/dev/null
exact() { api GET "$1" | tr -d ' \n' | grep -qF "\"$2\":{$numbers}"; }
ok "its digits are in the status" within 60 exact $parent status
ok "and in the child" within 60 exact $child spec
said() { tr -d '\\' <"$dir/log/digits" | grep -qF "run {$numbers}"; }
ok "as in the request" said
versions() { echo "$(field $parent .metadata.resourceVersion) $(field $child .metadata.resourceVersion)"; }
quiet() { grep 'attempt ended' "$dir/log/$1" | tail -n 1 | grep -q 'requests=0'; } # the last run asked the API server for nothing
ok "then it has nothing to write" within 60 quiet digits
version=$(versions)
runs=$(count digits 'line="run')
three() { [ "$(count digits 'line="run')" -ge $((runs + 3)) ]; }
ok "it ran three times more" within 60 three
ok "and wrote nothing" [ "$(versions)" = "$version" ]

# ---- empty values in a child ----
api POST /api/v1/namespaces/nothing/configmaps '{"metadata":{"name":"n","labels":{"names":"yes"}}}' >/dev/null
child=/apis/apps/v1/namespaces/nothing/deployments/n
ok "the child is there" within 60 has $child '.metadata.name == "n"'
version=$(field $child .metadata.resourceVersion)
ten() { [ "$(count nothing 'run n')" -ge 6 ]; }
ok "it ran again and again" within 60 ten
ok "and wrote once" is $child .metadata.resourceVersion "$version"

# ---- an object leaves the selector ----
for name in stays; do api POST /api/v1/namespaces/leaves/configmaps '{"metadata":{"name":"'$name'","labels":{"tier":"web"}}}' >/dev/null; done
ok "the child is there" within 60 has /api/v1/namespaces/leaves/secrets/of-stays '.metadata.name == "of-stays"'
api PATCH /api/v1/namespaces/leaves/configmaps/stays '{"metadata":{"labels":{"tier":null}}}' application/merge-patch+json >/dev/null
says leaves 'run stays, there: false, finalizing: false'
ok "it ran once for that" [ "$(count leaves 'there: false')" = 1 ]
ok "the child lives" has /api/v1/namespaces/leaves/secrets/of-stays '.metadata.deletionTimestamp == null'
ok "the object, too" has /api/v1/namespaces/leaves/configmaps/stays '.metadata.deletionTimestamp == null'
result
