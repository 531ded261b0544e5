#!/usr/bin/env python3
"""apiserver_informer.py URL SECONDS: informers against writers, for so long, and longer where that was not enough to see something.

Writers create, patch, apply and delete a few objects, their dependents and custom kinds, as fast as they can. Informers list, watch from
there, and apply the events to what they listed. Whenever a watch has ended, what an informer has must be what a list as of the last
version that it was told shows; and no event may tell of a state that cannot follow from the one before."""
import http.client, json, random, sys, threading, time, urllib.parse

URL, SECONDS = urllib.parse.urlparse(sys.argv[1]), float(sys.argv[2])
START = time.monotonic()
CM = "/api/v1/namespaces/default/configmaps"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
wrong, done = [], {"compared": 0, "events": 0, "writes": 0, "left": 0}


def enough():
    return done["compared"] >= 5 and done["events"] >= 100 and done["left"] >= 1


def going():
    seconds = time.monotonic() - START
    return seconds < SECONDS or seconds < 20 * SECONDS and not enough()


def connect():
    return http.client.HTTPConnection(URL.hostname, URL.port, timeout=60)


def call(connection, method, path, body=None, content="application/json"):
    connection.request(method, path, json.dumps(body) if body is not None else None, {"Content-Type": content})
    response = connection.getresponse()
    text = response.read()
    if response.status >= 500:
        wrong.append((method, path, response.status, text[:200]))
    return response.status, json.loads(text)


def write(connection, r):
    name = "n%d" % r.randrange(30)
    part, what = {"part": str(r.randrange(2))}, r.random()
    if what < 0.3:
        finalizers = ["example.com/hold"] if r.random() < 0.2 else []
        call(connection, "POST", CM, {"metadata": {"name": name, "labels": part, "finalizers": finalizers}, "data": {"v": str(r.random())}})
    elif what < 0.5:
        call(connection, "PATCH", CM + "/" + name, {"metadata": {"labels": part, "finalizers": None}, "data": {"v": str(r.random())}},
             "application/merge-patch+json")
    elif what < 0.7:
        call(connection, "PATCH", CM + "/%s?force=true&fieldManager=m%d" % (name, r.randrange(3)),
             {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"v": str(r.random()), "w%d" % r.randrange(3): "x"}},
             "application/apply-patch+yaml")
    elif what < 0.85:
        call(connection, "DELETE", CM + "/" + name)
    elif what < 0.95:
        code, owner = call(connection, "GET", CM + "/" + name)
        if code == 200:
            reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": owner["metadata"]["uid"]}
            call(connection, "POST", CM, {"metadata": {"name": "child-" + name, "labels": part, "ownerReferences": [reference]}})
    else:
        group = "g%d.dev" % r.randrange(3)
        names = {"plural": "xs", "kind": "X"}
        version = {"name": "v1", "served": True, "storage": True}
        call(connection, "POST", CRDS, {"metadata": {"name": "xs." + group}, "spec": {"group": group, "scope": "Namespaced", "names": names, "versions": [version]}})
        call(connection, "POST", "/apis/%s/v1/namespaces/default/xs" % group, {"apiVersion": group + "/v1", "kind": "X", "metadata": {"name": name}})
        call(connection, "GET", "/apis/%s/v1" % group)
        call(connection, "DELETE", CRDS + "/xs." + group)
    done["writes"] += 1


def writer(seed):
    connection, r = connect(), random.Random(seed)
    while going():
        write(connection, r)


def states(items):
    return {i["metadata"]["name"]: i["metadata"]["resourceVersion"] for i in items}


def pages(connection, selector, r):
    """A list in pages: all of one moment."""
    items, token, versions = [], "", set()
    while True:
        code, page = call(connection, "GET", CM + "?limit=%d&continue=%s%s" % (r.randrange(1, 9), urllib.parse.quote(token), selector))
        if code == 410:
            items, token, versions = [], "", set()
            continue
        items += page["items"]
        versions.add(page["metadata"]["resourceVersion"])
        token = page["metadata"].get("continue", "")
        if not token:
            break
    if len(versions) != 1:
        wrong.append(("pages of different moments", versions))
    return states(items), versions.pop()


def follow(connection, state, version, selector, r):
    """Applies a watch to state; the last version, or None if it broke off."""
    leaves = r.random() < 0.2
    seconds = r.randrange(1, 3)
    connection.request("GET", CM + "?watch=1&allowWatchBookmarks=true&timeoutSeconds=%d&resourceVersion=%s%s" % (seconds, version, selector))
    for n, line in enumerate(connection.getresponse()):
        event = json.loads(line)
        kind, meta = event["type"], event["object"].get("metadata", {})
        if kind == "ERROR":
            if event["object"]["code"] != 410:
                wrong.append(event)
            return None
        if int(meta["resourceVersion"]) < int(version):
            wrong.append(("backwards", version, event))
        version = meta["resourceVersion"]
        if kind == "BOOKMARK":
            continue
        done["events"] += 1
        if (meta["name"] in state) == (kind == "ADDED"):
            wrong.append(("cannot follow", state.get(meta["name"]), event))
        if kind == "DELETED":
            state.pop(meta["name"], None)
        else:
            state[meta["name"]] = version
        if leaves and n > 20:
            done["left"] += 1
            return None
    return version


def informer(seed):
    r = random.Random(seed)
    selector = "&labelSelector=part%3D1" if seed % 2 else ""
    while going():
        connection = connect()
        state, version = pages(connection, selector, r)
        last = follow(connection, state, version, selector, r)
        connection.close()
        if last is None:
            continue
        code, page = call(connect(), "GET", CM + "?resourceVersionMatch=Exact&resourceVersion=%s%s" % (last, selector))
        if code == 410:
            continue
        done["compared"] += 1
        if states(page["items"]) != state:
            wrong.append(("differs at", last, states(page["items"]), state))


def guarded(function, seed):
    try:
        function(seed)
    except Exception as error:  # a thread's exception would not fail the run
        wrong.append(repr(error))


threads = [threading.Thread(target=guarded, args=(f, seed)) for f, n in ((writer, 3), (informer, 5)) for seed in range(n)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(done)
for finding in wrong[:10]:
    print("WRONG:", finding)
if not enough():
    print("WRONG: too little was seen")
sys.exit(bool(wrong) or not enough())
