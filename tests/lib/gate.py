#!/usr/bin/env python3
"""A gate before an API server that speaks plain HTTP: what a line of FOLDER/deny names in a request is answered with 403; what the API server
answers to a request that a line of FOLDER/hold names is held back while the line stands there.

gate.py FOLDER UPSTREAM_PORT [PREFIX]

With PREFIX ("/k8s/c1") it takes that off each path; one without it is answered with 403.
A line is a text of the path ("/services"), or a method and a text ("PATCH /status"). The files are read again and again.
Writes its port to FOLDER/port, and what it refused to FOLDER/refused. One request per connection."""
import json
import os
import socket
import sys
import threading
import time

folder, upstream = sys.argv[1], int(sys.argv[2])
prefix = sys.argv[3] if len(sys.argv) > 3 else ""


def named(where, method, path):
    try:
        with open(os.path.join(folder, where)) as f:
            rules = [line.split() for line in f if line.strip()]
    except FileNotFoundError:
        return False
    return any(rule[-1] in path and (len(rule) == 1 or rule[0] == method) for rule in rules)


def relay(source, sink, may_pass=lambda: True):
    try:
        while data := source.recv(65536):
            while not may_pass():
                time.sleep(0.01)
            sink.sendall(data)
    except OSError:
        pass
    finally:
        for s in (source, sink):
            try:
                s.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


def refuse(client, method, path):
    message = "%s %s is forbidden: User \"test\" lacks the right" % (method, path.split("?")[0])
    body = json.dumps({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Forbidden", "code": 403,
                       "message": message}).encode()
    client.sendall(b"HTTP/1.1 403 Forbidden\r\nContent-Type: application/json\r\nConnection: close\r\n"
                   b"Content-Length: %d\r\n\r\n" % len(body) + body)


def serve(client):
    with client:
        head = b""
        while b"\r\n\r\n" not in head:
            data = client.recv(65536)
            if not data or len(head) > 1 << 20:
                return
            head += data
        head, rest = head.split(b"\r\n\r\n", 1)
        lines = head.split(b"\r\n")
        method, path = lines[0].decode().split(" ")[:2]
        if prefix:
            lines[0] = lines[0].replace(b" %s/" % prefix.encode(), b" /", 1)
        if named("deny", method, path) or not path.startswith(prefix + "/"):
            length = next((int(line.split(b":")[1]) for line in lines if line.lower().startswith(b"content-length:")), 0)
            while len(rest) < length and (data := client.recv(65536)):
                rest += data
            with open(os.path.join(folder, "refused"), "a") as f:
                f.write("%s %s\n" % (method, path))
            refuse(client, method, path)
            return
        lines = [line for line in lines if not line.lower().startswith(b"connection:")] + [b"Connection: close"]
        with socket.create_connection(("127.0.0.1", upstream)) as server:
            server.sendall(b"\r\n".join(lines) + b"\r\n\r\n" + rest)
            threading.Thread(target=relay, args=(client, server), daemon=True).start()
            relay(server, client, lambda: not named("hold", method, path))


def quietly(client):
    try:
        serve(client)
    except OSError:
        pass


listener = socket.create_server(("127.0.0.1", 0), backlog=128)
with open(os.path.join(folder, "port.new"), "w") as f:
    f.write("%d\n" % listener.getsockname()[1])
os.rename(os.path.join(folder, "port.new"), os.path.join(folder, "port"))
while True:
    threading.Thread(target=quietly, args=(listener.accept()[0],), daemon=True).start()
