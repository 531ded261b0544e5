#!/usr/bin/env python3
"""A server that misbehaves on demand: the path says how. For the process tests of common/http.h.

http_server.py FOLDER [CERT KEY [CLIENT_CA]]

Listens on $ADDRESS, 127.0.0.1 without it, at $PORT, any free one without it. Writes its port to FOLDER/port and one JSON line for every request to FOLDER/requests."""
import gzip
import http.server
import json
import os
import socket
import ssl
import struct
import sys
import threading
import time
import urllib.parse

folder = sys.argv[1]
lock = threading.Lock()
names = {}  # the server name that a connection asked for, by its port


def resource(name, kind, namespaced=True):
    return {"name": name, "kind": kind, "namespaced": namespaced, "verbs": ["get"]}


DISCOVERY = {
    "/api/v1": [resource("nodes", "Node", False), resource("pods", "Pod"), resource("pods/status", "Pod")],
    "/apis/apps/v1": [resource("deployments", "Deployment"), resource("deployments/scale", "Scale"),
                      resource("deployments/status", "Deployment")],
    "/apis/example.com/v1": [resource("websites", "Website")],
}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def note(self, body):
        line = {"method": self.command, "path": self.path, "port": self.client_address[1], "body": len(body),
                "server_name": names.get(id(self.connection)), "peer": self.peer(), "lines": ["%s: %s" % line for line in self.headers.items()], "headers": {k.lower(): v for k, v in self.headers.items()}}
        with lock, open(os.path.join(folder, "requests"), "a") as f:
            f.write(json.dumps(line) + "\n")

    def peer(self):
        """The common name of the client's certificate."""
        certificate = getattr(self.connection, "getpeercert", lambda: None)() or {}
        return dict(field for part in certificate.get("subject", ()) for field in part).get("commonName")

    def answer(self, status, body, **headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def status(self, code, reason, **headers):
        body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason, "message": "because"}
        self.answer(code, json.dumps(body).encode(), Content_Type="application/json", **headers)

    def chunk(self, data):
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()

    def stream(self):
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.wfile.flush()

    def cut(self):
        """Ends the connection with a reset."""
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close_connection = True
        self.connection.close()

    def until_closed(self):
        """Says nothing until the client leaves."""
        self.connection.settimeout(600)
        try:
            self.connection.recv(1)
        except OSError:
            pass
        self.close_connection = True

    def serve(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.note(body)
        url = urllib.parse.urlsplit(self.path)
        q = dict(urllib.parse.parse_qsl(url.query))
        act = url.path.rsplit("/", 1)[-1]
        if url.path in DISCOVERY:
            self.answer(200, json.dumps({"kind": "APIResourceList", "resources": DISCOVERY[url.path]}).encode())
        elif act == "hello":
            self.answer(200, b'{"hello":1}')
        elif act == "status":
            extra = {"Retry_After": q["after"]} if "after" in q else {}
            self.status(int(q["code"]), q.get("reason", "Whatever"), **extra)
        elif act == "late":  # Retry-After as a date
            self.status(503, "ServiceUnavailable", Retry_After=self.date_time_string(time.time() + int(q["in"])))
        elif act == "warned":
            self.answer(200, b"{}", Warning='299 - "deprecated"')
        elif act == "leave":  # answers as if the connection stayed, and ends it
            self.answer(200, b"{}")
            self.close_connection = True
        elif act == "redirect":
            self.answer(302, b"", Location=q.get("to", "/hello"))
        elif act == "page":
            self.answer(200, b"<html>please log in</html>", Content_Type="text/html; charset=utf-8")
        elif act == "token":
            good = self.headers.get("Authorization") == "Bearer " + q["want"]
            if good:
                self.answer(200, b"welcome")
            else:
                self.status(401, "Unauthorized")
        elif act in ("who", "who-watch"):  # those whose token is the one in FOLDER/token now
            with open(os.path.join(folder, "token")) as f:
                want = f.read().strip()
            if self.headers.get("Authorization") != "Bearer " + want:
                self.status(401, "Unauthorized")
            elif act == "who":
                self.answer(200, b"welcome")
            else:
                self.stream()
                self.chunk(b"open\n")
                self.until_closed()
        elif act == "gzip":
            packed = "unasked" in q or "gzip" in self.headers.get("Accept-Encoding", "")
            data = b"x" * 100000
            if packed:
                self.answer(int(q.get("code", 200)), gzip.compress(data), Content_Encoding="gzip")
            else:
                self.answer(200, data)
        elif act == "slow":
            self.stream()
            for i in range(int(q["n"])):
                self.chunk(b"%d\n" % i)
                time.sleep(int(q["ms"]) / 1000)
            self.chunk(b"")
        elif act == "quiet":
            self.stream()
            self.until_closed()
        elif act == "never":
            self.until_closed()
        elif act == "cut":
            self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nonly this")
            self.wfile.flush()
            self.close_connection = True
        elif act == "cut-chunk":
            self.stream()
            self.chunk(b"one\n")
            self.wfile.write(b"ff\r\nhalf of")
            self.wfile.flush()
            self.close_connection = True
        elif act == "reset":
            self.cut()
        elif act == "garbage":
            self.wfile.write(b"this is no HTTP at all\n")
            self.close_connection = True
        else:
            self.status(404, "NotFound")

    def do_CONNECT(self):
        """A proxy for TLS."""
        self.note(b"")
        host, port = self.path.rsplit(":", 1)
        with socket.create_connection((host, int(port))) as there:
            self.send_response(200)
            self.end_headers()
            self.wfile.flush()
            back = threading.Thread(target=self.pump, args=(there, self.connection), daemon=True)
            back.start()
            self.pump(self.connection, there)
        self.close_connection = True

    @staticmethod
    def pump(source, sink):
        try:
            while data := source.recv(65536):
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = serve


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def __init__(self, tls):
        address = os.environ.get("ADDRESS", "127.0.0.1")
        self.address_family = socket.AF_INET6 if ":" in address else socket.AF_INET
        super().__init__((address, int(os.environ.get("PORT", 0))), Handler)
        self.tls = tls

    def finish_request(self, request, client_address):
        if self.tls:
            try:
                request.settimeout(60)
                request = self.tls.wrap_socket(request, server_side=True)
                request.settimeout(None)
            except OSError:
                return
        try:
            super().finish_request(request, client_address)
        except OSError:
            pass
        finally:
            request.close()

    def handle_error(self, request, client_address):
        pass


def main():
    tls = None
    if len(sys.argv) > 2:
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(sys.argv[2], sys.argv[3])
        if len(sys.argv) > 4:
            tls.load_verify_locations(sys.argv[4])
            tls.verify_mode = ssl.CERT_REQUIRED

        def asked(connection, name, context):
            names[id(connection)] = name

        tls.sni_callback = asked
    server = Server(tls)
    with open(os.path.join(folder, "port.new"), "w") as f:
        f.write(str(server.server_address[1]))
    os.rename(os.path.join(folder, "port.new"), os.path.join(folder, "port"))
    server.serve_forever()


main()
