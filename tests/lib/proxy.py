#!/usr/bin/env python3
"""A proxy that believes every name to be this machine, for tests. usage: proxy.py FOLDER http|https|socks5 [USER:PASSWORD]

https: with the certificate $PKI/both.crt, its key beside it.
Writes its port to FOLDER/port and one line for every connection that was asked for, HOST:PORT, to FOLDER/asked. While there is a file
FOLDER/refuse, what it holds (an HTTP status, or a SOCKS5 reply) is the answer to all."""
import base64
import os
import select
import socket
import socketserver
import ssl
import struct
import sys

folder, kind = sys.argv[1:3]
account = sys.argv[3] if len(sys.argv) > 3 else None


def refusal():
    try:
        with open(os.path.join(folder, "refuse")) as f:
            return int(f.read())
    except FileNotFoundError:
        return None


def note(host, port):
    with open(os.path.join(folder, "asked"), "a") as f:
        f.write("%s:%d\n" % (host, port))


def join(a, b):
    """Until one of them ends; in one thread, as a TLS socket wants it."""
    while True:
        ready = [a] if getattr(a, "pending", int)() else select.select([a, b], [], [])[0]
        for s in ready:
            data = s.recv(65536)
            if not data:
                return
            (b if s is a else a).sendall(data)


class Http(socketserver.StreamRequestHandler):
    def handle(self):
        method, target, _ = self.rfile.readline().decode().split()
        headers = {}
        while (line := self.rfile.readline().decode().strip()):
            name, value = line.split(":", 1)
            headers[name.lower()] = value.strip()
        host, port = target.rsplit(":", 1)
        note(host.strip("[]"), int(port))
        want = account and "Basic " + base64.b64encode(account.encode()).decode()
        status = refusal() or (405 if method != "CONNECT" else 407 if headers.get("proxy-authorization") != want else 200)
        self.wfile.write(b"HTTP/1.1 %d Whatever\r\n%s\r\n" % (status, b"" if status == 200 else b"Content-Length: 0\r\n"))
        if status == 200:
            with socket.create_connection(("127.0.0.1", int(port))) as there:
                join(self.connection, there)


class Socks5(socketserver.StreamRequestHandler):
    def handle(self):
        _, n = self.rfile.read(2)
        methods = self.rfile.read(n)
        method = 2 if account else 0
        self.wfile.write(bytes([5, method if method in methods else 255]))
        if method not in methods:
            return
        if account:
            _, n = self.rfile.read(2)
            user = self.rfile.read(n)
            password = self.rfile.read(self.rfile.read(1)[0])
            good = b"%s:%s" % (user, password) == account.encode()
            self.wfile.write(bytes([1, 0 if good else 1]))
            if not good:
                return
        _, _, _, form = self.rfile.read(4)
        if form == 3:
            host = self.rfile.read(self.rfile.read(1)[0]).decode()
        else:
            host = socket.inet_ntop(socket.AF_INET if form == 1 else socket.AF_INET6, self.rfile.read(4 if form == 1 else 16))
        port, = struct.unpack(">H", self.rfile.read(2))
        note(host, port)
        reply = refusal() or 0
        self.wfile.write(bytes([5, reply, 0, 1, 127, 0, 0, 1]) + struct.pack(">H", port))
        if reply == 0:
            with socket.create_connection(("127.0.0.1", port)) as there:
                join(self.connection, there)


class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = daemon_threads = True

    def get_request(self):
        connection, address = super().get_request()
        if tls:
            connection = tls.wrap_socket(connection, server_side=True, do_handshake_on_connect=False)
        return connection, address

    def handle_error(self, request, client_address):
        pass


tls = None
if kind == "https":
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(os.path.join(os.environ["PKI"], "both.crt"), os.path.join(os.environ["PKI"], "both.key"))
server = Server(("127.0.0.1", 0), Socks5 if kind == "socks5" else Http)
with open(os.path.join(folder, "port.new"), "w") as f:
    f.write(str(server.server_address[1]))
os.rename(os.path.join(folder, "port.new"), os.path.join(folder, "port"))
server.serve_forever()
