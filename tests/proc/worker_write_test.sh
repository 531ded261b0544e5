#!/bin/sh
# What the worker writes, and what it does when the API server says no: children, status, conditions, events, finalizer.
. "${SRC:?}/tests/lib/pipeline.sh"

cat >"$dir/config/site.yaml" <<'E'
apiVersion: reconciled.dev/v1alpha1
kind: Controller
metadata: {name: site}
spec:
  for: {apiVersion: example.com/v1, kind: Site, namespaces: [site]}
  owns:
  - {apiVersion: v1, kind: ConfigMap}
  prune: true
  finalizer: example.com/site
  reconciler: {exec: {command: [./site.py]}}
E
names=site
script site.py <<'E'
#!/usr/bin/python3
import json, sys
r = json.load(sys.stdin)
o = r["object"]
name = r["request"]["name"]
print("site", name, "finalizing" if r["finalizing"] else "running", sorted(r["children"]["ConfigMap.v1"]), file=sys.stderr)
if o is None: sys.exit(0)
if "example.com/site" not in o["metadata"].get("finalizers", []) and not r["finalizing"]:
    sys.exit("the finalizer is not there")
if r["finalizing"]:
    print(json.dumps({"finalized": True, "events": [{"reason": "CleanedUp", "message": "bye"}]}))
    sys.exit(0)
if o["spec"].get("bad"):
    print(json.dumps({"conditions": [{"type": "Ready", "status": "True", "reason": "not one word"}]}))
    sys.exit(0)
children = [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "%s-%d" % (name, i)}, "data": {"title": o["spec"]["title"]}}
            for i in range(o["spec"]["pages"])]
print(json.dumps({"children": children, "status": {"pages": len(children), "big": 9007199254740993},
    "conditions": [{"type": "Ready", "status": "True", "reason": "Deployed", "message": o["spec"]["title"]}],
    "events": [{"reason": "Deployed", "message": "pages: %d" % len(children)}]}))
E

# Waits in the middle, when the test changes the object under it.
mkdir -m 1777 "$dir/go"
cat >"$dir/config/late.yaml" <<E
apiVersion: reconciled.dev/v1alpha1
kind: Controller
metadata: {name: late}
spec:
  for: {apiVersion: example.com/v1, kind: Site, namespaces: [late]}
  owns:
  - {apiVersion: v1, kind: Secret}
  reconciler:
    exec: {command: [./late.sh]}
    sandbox: {readWritePaths: [$dir/go]}
E
names="$names late"
script late.sh <<E
#!/bin/sh
until [ -e "$dir/go/\$RECONCILE_NAME" ]; do sleep 0.05; done
cat >/dev/null
echo '{"conditions":[{"type":"Ready","status":"True","reason":"Late"}],"children":[{"apiVersion":"v1","kind":"Secret","metadata":{"name":"x-'"\$RECONCILE_NAME"'"}}]}'
E
# Cluster-scoped, and without a status subresource.
cat >"$dir/config/zone.yaml" <<'E'
apiVersion: reconciled.dev/v1alpha1
kind: Controller
metadata: {name: zone}
spec:
  for: {apiVersion: example.com/v1, kind: Zone}
  owns: [{apiVersion: v1, kind: ConfigMap, namespaces: [zone]}]
  reconciler: {exec: {command: [./zone.sh]}}
E
names="$names zone"
script zone.sh <<'E'
#!/bin/sh
cat >/dev/null
case $RECONCILE_NAME in lost) ns= ;; *) ns='"namespace":"zone",' ;; esac
echo '{"status":{"phase":"Up"},"events":[{"reason":"Seen"}],"children":[{"apiVersion":"v1","kind":"ConfigMap","metadata":{'"$ns"'"name":"of-'"$RECONCILE_NAME"'"}}]}'
E

# Takes only what has a label, and has a finalizer on it: what loses the label is let go of.
cat >"$dir/config/picky.yaml" <<'E'
apiVersion: reconciled.dev/v1alpha1
kind: Controller
metadata: {name: picky}
spec:
  for: {apiVersion: example.com/v1, kind: Site, namespaces: [picky], labelSelector: {matchLabels: {tier: web}}}
  finalizer: example.com/picky
  reconciler: {exec: {command: [./picky.py]}}
E
names="$names picky"
script picky.py <<'E'
#!/usr/bin/python3
import json, sys
r = json.load(sys.stdin)
o = r["object"]
print("picky", r["request"]["name"], "finalizing" if r["finalizing"] else "running" if o else "gone", o and o["spec"]["title"], file=sys.stderr)
print(json.dumps({"finalized": True} if r["finalizing"] else {}))
E

api_server
api POST /apis/apiextensions.k8s.io/v1/customresourcedefinitions '{"metadata":{"name":"zones.example.com"},"spec":{"group":"example.com",
"scope":"Cluster","names":{"plural":"zones","singular":"zone","kind":"Zone"},"versions":[{"name":"v1","served":true,"storage":true,
"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}]}}' >/dev/null
api POST /apis/apiextensions.k8s.io/v1/customresourcedefinitions '{"metadata":{"name":"sites.example.com"},"spec":{"group":"example.com",
"scope":"Namespaced","names":{"plural":"sites","singular":"site","kind":"Site"},"versions":[{"name":"v1","served":true,"storage":true,
"subresources":{"status":{}},"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}]}}' >/dev/null
everything

# ---- the good case ----

sites=/apis/example.com/v1/namespaces/site/sites maps=/api/v1/namespaces/site/configmaps
api POST $sites '{"apiVersion":"example.com/v1","kind":"Site","metadata":{"name":"blog"},"spec":{"pages":2,"title":"one"}}' >/dev/null
ok "site: a child" within 60 is "$maps/blog-1" .data.title one
ok "site: its owner" is "$maps/blog-0" '.metadata.ownerReferences[0].kind + (.metadata.ownerReferences[0].controller|tostring)' Sitetrue
ok "site: status" within 60 is "$sites/blog" .status.pages 2
big_number() { api GET "$sites/blog" | grep -q 9007199254740993; }
ok "site: large numbers survive" big_number
ok "site: condition" is "$sites/blog" '.status.conditions[0] | .type + .status + .message + (.observedGeneration|tostring)' ReadyTrueone1
ok "site: finalizer" is "$sites/blog" '.metadata.finalizers[0]' example.com/site
ok "site: an event" within 60 has /apis/events.k8s.io/v1/namespaces/site/events '[.items[]|select(.reason=="Deployed")]|length > 0'

touched=0
settled() { # one of several attempts wrote nothing
	touched=$((touched + 1))
	api PATCH "$sites/blog" '{"metadata":{"annotations":{"x":"'$touched'"}}}' application/merge-patch+json >/dev/null
	[ "$(grep 'attempt ended' "$dir/log/site" | tail -n 1 | grep -c 'requests=0')" = 1 ]
}
ok "site: an answer that changes nothing writes nothing" within 60 settled
since=$(field "$sites/blog" '.status.conditions[0].lastTransitionTime')

api PATCH "$maps/blog-0" '{"data":{"title":"edited by hand"}}' application/merge-patch+json >/dev/null
ok "site: a child edited by hand is put back" within 60 is "$maps/blog-0" .data.title one
api DELETE "$maps/blog-0" >/dev/null
ok "site: a deleted child comes back" within 60 is "$maps/blog-0" .data.title one
api PATCH "$sites/blog" '{"spec":{"pages":1,"title":"two"}}' application/merge-patch+json >/dev/null
ok "site: a change reaches the children" within 60 is "$maps/blog-0" .data.title two
ok "site: what is no longer wanted is pruned" within 60 is "$maps/blog-1" .code 404
ok "site: observedGeneration follows" within 60 is "$sites/blog" '.status.conditions[0].observedGeneration' 2
ok "site: lastTransitionTime stays" is "$sites/blog" '.status.conditions[0].lastTransitionTime' "$since"
api PATCH "$sites/blog" '{"spec":{"bad":true}}' application/merge-patch+json >/dev/null
says site 'outcome=ProtocolError.*conditions\[0\].reason'
ok "site: nothing of a refused answer is written" is "$sites/blog" '.status.conditions[0].reason' Deployed
api PATCH "$sites/blog" '{"spec":{"bad":null}}' application/merge-patch+json >/dev/null
api DELETE "$sites/blog" >/dev/null
ok "site: finalizer released" within 60 is "$sites/blog" .code 404
says site 'line="site blog finalizing'

# ---- cluster scope, and a kind without the status subresource ----

zones=/apis/example.com/v1/zones
api POST $zones '{"apiVersion":"example.com/v1","kind":"Zone","metadata":{"name":"west"}}' >/dev/null
ok "zone: status in the object" within 60 is $zones/west .status.phase Up
ok "zone: owns a child in a namespace" within 60 is /api/v1/namespaces/zone/configmaps/of-west '.metadata.ownerReferences[0].name' west
event_of() { # in one of the two namespaces that an API server takes for them
	has /apis/events.k8s.io/v1/namespaces/default/events "[.items[]|select(.regarding.name==\"$1\")]|length > 0" ||
		has /apis/events.k8s.io/v1/namespaces/kube-system/events "[.items[]|select(.regarding.name==\"$1\")]|length > 0"
}
ok "zone: its event" within 60 event_of west
api POST $zones '{"apiVersion":"example.com/v1","kind":"Zone","metadata":{"name":"lost"}}' >/dev/null
says zone 'key=lost .*outcome=ProtocolError.*children\[0\].metadata.namespace: missing'
ok "zone: nothing of a refused answer is written" is $zones/lost .status null

# ---- a finalizer and a selector ----

picks=/apis/example.com/v1/namespaces/picky/sites
for n in leaver goer; do
	api POST $picks '{"apiVersion":"example.com/v1","kind":"Site","metadata":{"name":"'$n'","labels":{"tier":"web"}},"spec":{"title":"'$n'"}}' >/dev/null
	says picky "line=\"picky $n running $n"
	ok "picky: $n has the finalizer" is $picks/$n '.metadata.finalizers[0]' example.com/picky
done
api PATCH $picks/leaver '{"metadata":{"labels":{"tier":"db"}},"spec":{"title":"left"}}' application/merge-patch+json >/dev/null
says picky 'line="picky leaver finalizing left"'
ok "picky: what left the selector is let go of" within 60 is $picks/leaver '.metadata.finalizers' null
ok "picky: and stays" is $picks/leaver '.metadata.deletionTimestamp' null
api PATCH $picks/leaver '{"metadata":{"labels":{"tier":"web"}},"spec":{"title":"back"}}' application/merge-patch+json >/dev/null
says picky 'line="picky leaver running back'
ok "picky: what comes back has the finalizer again" is $picks/leaver '.metadata.finalizers[0]' example.com/picky
api DELETE $picks/goer >/dev/null
says picky 'line="picky goer finalizing goer"'
ok "picky: a deleted one goes" within 60 is $picks/goer .code 404
says picky 'line="picky goer gone None"'

# ---- the object changes, or is replaced, while the reconciler is at it ----

lates=/apis/example.com/v1/namespaces/late/sites
site() { api POST $lates "{\"apiVersion\":\"example.com/v1\",\"kind\":\"Site\",\"metadata\":{\"name\":\"$1\"},\"spec\":{}}"; }
site changed >/dev/null
ok "late: running" within 60 logged late 'attempt started.*late/changed'
first=$(field $lates/changed .metadata.uid)
api PATCH $lates/changed '{"spec":{"x":1}}' application/merge-patch+json >/dev/null
touch "$dir/go/changed"
ok "late: written over the change" within 60 is $lates/changed '.status.conditions[0].reason' Late
ok "late: with the child" within 60 is /api/v1/namespaces/late/secrets/x-changed '.metadata.ownerReferences[0].uid' "$first"

site replaced >/dev/null
ok "late: running again" within 60 logged late 'attempt started.*late/replaced'
api DELETE $lates/replaced >/dev/null
site replaced >/dev/null
second=$(field $lates/replaced .metadata.uid)
touch "$dir/go/replaced"
says late 'key=late/replaced .*outcome=Conflict .*reason=ObjectReplaced'
ok "late: the new object has its own child" within 60 is /api/v1/namespaces/late/secrets/x-replaced '.metadata.ownerReferences[0].uid' "$second"

# ---- the API server goes away in the middle ----

if [ -z "${KUBE_SERVER:-}" ]; then
	site cut >/dev/null
	ok "late: running a third time" within 60 logged late 'attempt started.*late/cut'
	slay api
	touch "$dir/go/cut"
	says late 'key=late/cut .*outcome=Transient .*reason=WriteFailed cause="children: GET.*Connection refused'
fi

result
