#!/usr/bin/env python3
"""An API server that lists and watches, and misbehaves on demand. For the process tests of the watcher.

watch_server.py FOLDER [ADDRESS]

Writes its port to FOLDER/port. Holds ConfigMaps, Secrets and Websites (all namespaced). The test speaks to it by
POST /control with one JSON object:

  {"op": "put", "kind": K, "namespace": N, "name": X, ...}    more members go into the object; "uid": another uid
  {"op": "put", "count": 1000, ...}                           X0, X1, ...
  {"op": "put", "noise": 20000, ...}                          with so many bytes that nothing packs, as base64
  {"op": "delete", "kind": K, "namespace": N, "name": X}      "data": a change and the delete in one
  {"op": "fail", "kind": K, "verb": "list"|"watch"|"discover"|"page2"|"whole", "status": S, "times": T, "retryAfter": R, "retryDate": R}
                                 page2: a list's second page; whole: a list with a resourceVersion
                                 S: an HTTP status, or "html", "empty", "object", "success" (200 with nonsense), "close" (no answer),
                                 "gzip" (compressed, which nobody asked for)
  {"op": "watches", "kind": K, "how": "end"|"cut"|"reset"|"error410"|"error500"|"garbage"|"bookmark"|"silent"|"speak"}
  {"op": "watches", "kind": K, "how": "drip"}                 white space, every 0.2 s, and nothing else any more
  {"op": "greet", "kind": K, "text": T}                       with which each new watch begins; "": none
  {"op": "send", "kind": K, "before": T, "text": T, "repeat": N, "after": T}   into its watches, as it is
  {"op": "chunks", "bytes": N}                                what its watches send comes in chunks of so many bytes; 0: each event in one
  {"op": "streaming", "how": "refuse"|"serve"|"ignore"|"unmarked"|"cut"|"end"}
                                 a watch with sendInitialEvents: 422 (as it begins); served; as if it had not been asked for; with a
                                 bookmark that says nothing of an end; cut or ended after half of it. Its verb is "stream"; what is to fail a "list" fails it, too
  {"op": "lag", "behind": N, "admitted": true|false}   lists with a resourceVersion are answered from a cache that is so many versions
                                 behind: 504 where that is too old, unless it is not admitted
  {"op": "compact"}                                           what happened before is forgotten: resume gets 410
  {"op": "serve", "kind": K, "served": true|false, "elsewhere": V}    V: the version that discovery has it under instead
  {"op": "token", "want": T}                                  everything else is 401
  {"op": "log"}                                               answers with the requests since the last one
"""
import base64
import bisect
import gzip
import http.server
import json
import os
import random
import socket
import struct
import sys
import threading
import time
import urllib.parse

folder = sys.argv[1]
lock = threading.Condition()
version = 1000
compacted = 0
expired = {}      # how an expired watch is told: kind -> "http" or "stream"
PLURAL = {"ConfigMap": "configmaps", "Secret": "secrets", "Website": "websites"}
GROUP = {"ConfigMap": "v1", "Secret": "v1", "Website": "example.com/v1"}
objects = {k: {} for k in PLURAL}
served = {"ConfigMap": True, "Secret": True, "Website": True}
elsewhere = {}
history = []      # (version, kind, type, text)
fails = []
requests = []
streaming = "refuse"
lag, lag_admitted = 0, True
token = None
greetings = {}
chunks = 0
watches = {k: [] for k in PLURAL}


def status(code, reason, message):
    return json.dumps({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason,
                       "message": message})


def change(kind, what, obj):
    global version
    version += 1
    obj["metadata"]["resourceVersion"] = str(version)
    history.append((version, kind, what, json.dumps(obj)))
    lock.notify_all()


def put(c):
    kind, space, name = c["kind"], c["namespace"], c["name"]
    old = objects[kind].get((space, name))
    meta = {"namespace": space, "name": name}
    meta.update(c.get("metadata", {}))
    meta["uid"] = c.get("uid", old["metadata"]["uid"] if old else "uid-%s-%s" % (space, name))
    meta["managedFields"] = [{"manager": "test", "operation": "Update"}]
    obj = {"apiVersion": GROUP[kind], "kind": kind, "metadata": meta}
    obj.update({k: v for k, v in c.items() if k not in ("op", "kind", "namespace", "name", "uid", "metadata", "count", "noise")})
    if "noise" in c:
        obj["data"] = {"noise": base64.b64encode(random.Random(c["name"]).randbytes(c["noise"])).decode()}
    objects[kind][(space, name)] = obj
    change(kind, "MODIFIED" if old else "ADDED", obj)


def control(c):
    global compacted, streaming, token, lag, lag_admitted, chunks
    op = c["op"]
    if op == "put" and "count" in c:
        for i in range(c["count"]):
            put(dict(c, name=c["name"] + str(i)))
    elif op == "put":
        put(c)
    elif op == "delete":
        gone = dict(objects[c["kind"]].pop((c["namespace"], c["name"])))
        gone.update({k: v for k, v in c.items() if k == "data"})
        change(c["kind"], "DELETED", gone)
    elif op == "forget":  # gone without an event, as in a gap
        objects[c["kind"]].pop((c["namespace"], c["name"]))
    elif op == "fail":
        fails.append(dict(c, times=c.get("times", 1)))
    elif op == "heal":
        fails.clear()
    elif op == "watches":
        for w in watches[c["kind"]]:
            w.append(c["how"])
    elif op == "send":
        for w in watches[c["kind"]]:
            w.append(c)
    elif op == "compact":
        compacted = version
        history.clear()
        for k in PLURAL:
            expired[k] = c.get("how", "http")
    elif op == "greet":
        greetings[c["kind"]] = c["text"]
    elif op == "chunks":
        chunks = c["bytes"]
    elif op == "streaming":
        streaming = c["how"]
    elif op == "lag":
        lag, lag_admitted = c["behind"], c.get("admitted", True)
    elif op == "token":
        token = c["want"]
    elif op == "serve":
        served[c["kind"]] = c["served"]
        elsewhere[c["kind"]] = c.get("elsewhere")
    answer = {"version": version, "requests": list(requests), "watches": {k: len(w) for k, w in watches.items()}}
    if op == "log":
        requests.clear()
    lock.notify_all()
    return answer


def as_of(kind, at):
    """What there was then; nothing may have been compacted since the start."""
    there = {}
    for h in history:
        if h[0] <= at and h[1] == kind:
            obj = json.loads(h[3])
            name = (obj["metadata"]["namespace"], obj["metadata"]["name"])
            there.pop(name, None)
            if h[2] != "DELETED":
                there[name] = obj
    return there


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def answer(self, code, text, extra=(), kind="application/json"):
        body = text if isinstance(text, bytes) else text.encode()
        self.send_response(code)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        for name, value in extra:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with lock:
            answer = control(body)
        self.answer(200, json.dumps(answer))

    def failed(self, kind, verb):
        with lock:
            for f in fails:
                if f["kind"] == kind and f["times"] > 0 and (f["verb"] == verb or f["verb"] == "list" and verb in ("stream", "whole")):
                    f["times"] -= 1
                    break
            else:
                return False
        what = f["status"]
        if what == "html":
            self.answer(200, "<html>please log in</html>", kind="text/html; charset=utf-8")
        elif what == "gzip":
            self.answer(200, gzip.compress(b"{}"), [("Content-Encoding", "gzip")])
        elif what == "empty":
            self.answer(200, "")
        elif what == "object":
            self.answer(200, "{}")
        elif what == "success":
            self.answer(200, '{"kind":"Status","apiVersion":"v1","status":"Success","metadata":{"resourceVersion":"1"}}')
        elif what == "close":
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)
        else:
            extra = [("Retry-After", str(f["retryAfter"]))] if "retryAfter" in f else []
            if "retryDate" in f:
                extra = [("Retry-After", self.date_time_string(time.time() + f["retryDate"]))]
            if what == 302:
                extra = [("Location", "https://login.example.test/start?state=secret")]
            self.answer(what, status(what, f.get("reason", "Test"), "planted by the test"), extra)
        return True

    def do_GET(self):
        url = urllib.parse.urlparse(self.path)
        query = dict(urllib.parse.parse_qsl(url.query))
        if token and self.headers["Authorization"] != "Bearer " + token:
            with lock:
                requests.append({"verb": "refused", "kind": "", "query": query, "time": time.monotonic()})
            return self.answer(401, status(401, "Unauthorized", "Unauthorized"))
        if url.path == "/apis":
            return self.groups()
        for api in [v for v in elsewhere.values() if v]:
            if url.path == "/apis/" + api:
                return self.discover(api)
        for api, path in (("v1", "/api/v1"), ("example.com/v1", "/apis/example.com/v1")):
            if url.path == path:
                return self.discover(api)
            for kind, plural in PLURAL.items():
                if GROUP[kind] != api:
                    continue
                parts = url.path[len(path) + 1:].split("/")
                if url.path == path + "/" + plural:
                    return self.collection(kind, None, query)
                if url.path.startswith(path + "/namespaces/") and len(parts) == 3 and parts[2] == plural:
                    return self.collection(kind, parts[1], query)
        self.answer(404, status(404, "NotFound", "no such path"))

    def groups(self):
        versions = {GROUP[k] for k in PLURAL if served[k]} | {v for v in elsewhere.values() if v}
        versions = sorted(v for v in versions if v.startswith("example.com/"))
        group = {"name": "example.com", "versions": [{"groupVersion": v, "version": v.split("/")[1]} for v in versions]}
        self.answer(200, json.dumps({"kind": "APIGroupList", "apiVersion": "v1", "groups": [group] if versions else []}))

    def discover(self, api):
        kinds = [k for k in PLURAL if GROUP[k] == api or elsewhere.get(k) == api]
        for k in kinds:
            with lock:
                requests.append({"verb": "discover", "kind": k, "query": {}, "time": time.monotonic()})
            if self.failed(k, "discover"):
                return
        kinds = [k for k in kinds if served[k] or elsewhere.get(k) == api]
        if not kinds:
            return self.answer(404, "404 page not found\n")
        self.answer(200, json.dumps({"kind": "APIResourceList", "groupVersion": api, "resources": [
            {"name": PLURAL[k], "kind": k, "namespaced": True, "verbs": ["list", "watch"]} for k in kinds]}))

    def collection(self, kind, space, query):
        verb = "list" if query.get("watch") != "true" else "stream" if query.get("sendInitialEvents") == "true" else "watch"
        with lock:
            requests.append({"verb": verb, "kind": kind, "namespace": space, "query": query,
                             "accept": self.headers["Accept"], "time": time.monotonic()})
        if not served[kind]:
            return self.answer(404, status(404, "NotFound", "the server could not find the requested resource"))
        if self.failed(kind, "page2" if "continue" in query else "whole" if (verb, "resourceVersion" in query) == ("list", True) else verb):
            return
        if verb == "stream" and streaming == "refuse":
            return self.answer(422, status(422, "Invalid", "ListOptions.meta.k8s.io \"\" is invalid: sendInitialEvents: Forbidden: "
                                           "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled"))
        if verb != "list":
            self.watch(kind, space, query)
        else:
            self.list(kind, space, query)

    def list(self, kind, space, query):
        with lock:
            at, now, there = 0, version, objects[kind]
            if "resourceVersion" in query:
                now = version - lag
                if now < int(query["resourceVersion"]) and lag_admitted:
                    message = "Timeout: Too large resource version: %s, current: %d" % (query["resourceVersion"], now)
                    return self.answer(504, status(504, "Timeout", message), [("Retry-After", "1")])
                if lag:
                    there = as_of(kind, now)
            if "continue" in query:
                at, now = (int(x) for x in query["continue"].split("."))
            names = sorted(n for n in there if space is None or n[0] == space)
            page = names[at:at + int(query.get("limit", len(names)))]
            items = [{k: v for k, v in there[n].items() if k not in ("apiVersion", "kind")} for n in page]
            rest = len(names) - at - len(page)
            meta = {"resourceVersion": str(now)}
            if rest > 0:
                meta["continue"] = "%d.%d" % (at + len(page), now)
            text = json.dumps({"kind": kind + "List", "apiVersion": GROUP[kind], "metadata": meta, "items": items})
        self.answer(200, text)

    def send_event(self, what, text, cut=False):
        line = '{"type":"%s","object":%s}\n' % (what, text)
        if cut:
            line = line[:len(line) // 2]
        self.send_bytes(line.encode())

    def send_bytes(self, data):
        size = chunks or len(data)
        for part in (data[at:at + size] for at in range(0, len(data), size)):
            self.wfile.write(b"%x\r\n" % len(part) + part + b"\r\n")

    def send_raw(self, c):
        text, left = c["text"].encode(), c.get("repeat", 1)
        most = max(1, (1 << 20) // max(1, len(text)))
        for part in [c.get("before", "").encode()] + [None] * -(-left // most) + [c.get("after", "").encode()]:
            if part is None:
                part = text * min(left, most)
                left -= most
            if part:
                self.send_bytes(part)

    def watch(self, kind, space, query):
        since = int(query.get("resourceVersion", 0))
        with lock:
            initial = None
            if not since:
                initial = [json.dumps(o) for n, o in sorted(objects[kind].items()) if space is None or n[0] == space]
                since = version
            if since < compacted and expired.get(kind) == "http":
                gone = True
            else:
                gone = False
                orders = []
                watches[kind].append(orders)
        if gone:
            return self.answer(410, status(410, "Expired", "too old resource version: %d (%d)" % (since, compacted)))
        try:
            self.watch_loop(kind, space, since, orders, initial)
        except (BrokenPipeError, ConnectionResetError):
            pass
        finally:
            with lock:
                watches[kind].remove(orders)
            self.close_connection = True

    def bookmark(self, kind, at, marked):
        meta = {"resourceVersion": str(at), "creationTimestamp": None}
        if marked:
            meta["annotations"] = {"k8s.io/initial-events-end": "true"}
        self.send_event("BOOKMARK", json.dumps({"kind": kind, "apiVersion": GROUP[kind], "metadata": meta}))

    def watch_loop(self, kind, space, since, orders, initial):
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.wfile.flush()
        if since < compacted:
            self.send_event("ERROR", status(410, "Expired", "too old resource version"))
            self.wfile.write(b"0\r\n\r\n")
            return
        if initial is not None:
            half = streaming in ("cut", "end")
            for text in initial[:len(initial) // 2] if half else initial:
                self.send_event("ADDED", text)
            if streaming == "cut":
                return self.connection.shutdown(socket.SHUT_RDWR)
            if streaming == "end":
                return self.wfile.write(b"0\r\n\r\n")
            if streaming != "ignore":
                self.bookmark(kind, since, streaming == "serve")
        if greetings.get(kind):
            self.send_raw({"text": greetings[kind]})
        while True:
            with lock:
                later = bisect.bisect_right(history, since, key=lambda h: h[0])
                new = [h for h in history[later:] if h[1] == kind and
                       (space is None or json.loads(h[3])["metadata"]["namespace"] == space)]
                todo = list(orders)
                orders.clear()
                if not new and not todo:
                    lock.wait(0.2)
                    if self.gone():
                        return
                    continue
                now = version
            for h in new:
                self.send_event(h[2], h[3])
                since = h[0]
            for how in todo:
                if isinstance(how, dict):
                    self.send_raw(how)
                elif how == "bookmark":
                    self.bookmark(kind, now, False)
                elif how == "end":
                    self.wfile.write(b"0\r\n\r\n")
                    return
                elif how == "cut":
                    self.send_event("MODIFIED", json.dumps({"metadata": {"name": "half", "namespace": "shop"}}), cut=True)
                    self.connection.shutdown(socket.SHUT_RDWR)
                    return
                elif how == "reset":  # half an event, and then what a firewall says
                    self.send_event("MODIFIED", json.dumps({"metadata": {"name": "half", "namespace": "shop"}}), cut=True)
                    self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    self.connection.close()
                    return
                elif how == "drip":
                    while not self.gone():
                        self.wfile.write(b"2\r\n \n\r\n")
                        time.sleep(0.2)
                    return
                elif how == "garbage":
                    self.wfile.write(b"8\r\nnot json\r\n")
                    return
                elif how.startswith("error"):
                    code = int(how[5:])
                    self.send_event("ERROR", status(code, "Expired" if code == 410 else "InternalError", "planted by the test"))
                    self.wfile.write(b"0\r\n\r\n")
                    return

    def gone(self):
        self.connection.setblocking(False)
        try:
            return self.connection.recv(1) == b""
        except BlockingIOError:
            return False
        except OSError:
            return True
        finally:
            self.connection.setblocking(True)


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128


server = Server((sys.argv[2] if len(sys.argv) > 2 else "127.0.0.1", 0), Handler)
with open(os.path.join(folder, "port.new"), "w") as f:
    f.write(str(server.server_address[1]))
os.rename(os.path.join(folder, "port.new"), os.path.join(folder, "port"))
server.serve_forever()
