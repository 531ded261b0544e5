#!/usr/bin/python3
"""A proxy before an API server that refuses what a file of rules says.

usage: refusing_proxy.py SERVER RULES PORT_FILE
Rules, one a line, read anew for each request: METHOD TEXT STATUS [Header:value]
The first rule whose method and text (a part of the path) fit answers with that status (0: never); without one the request goes on to SERVER.
"""
import http.client, http.server, json, os, sys, time, urllib.parse

server, rules, port_file = sys.argv[1:]
target = urllib.parse.urlparse(server).netloc


class Proxy(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def rule(self):
        for line in open(rules):
            words = line.split()
            if len(words) >= 3 and words[0] == self.command and words[1] in self.path:
                return int(words[2]), [w.split(":", 1) for w in words[3:]]
        return None

    def answer(self, status, headers, body):
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def any(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        rule = self.rule()
        if rule and rule[0] == 0:
            time.sleep(600)
        if rule:
            reasons = {403: "Forbidden", 409: "Conflict", 422: "Invalid", 429: "TooManyRequests", 500: "InternalError"}
            status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": rule[0],
                      "reason": reasons.get(rule[0], "Unknown"), "message": "refused on purpose"}
            return self.answer(rule[0], rule[1] + [("Content-Type", "application/json")], json.dumps(status).encode())
        up = http.client.HTTPConnection(target)
        keep = ("content-type", "accept", "authorization")
        up.request(self.command, self.path, body or None, {k: v for k, v in self.headers.items() if k.lower() in keep})
        got = up.getresponse()
        text = got.read()
        self.answer(got.status, [("Content-Type", got.getheader("Content-Type") or "application/json")], text)

    do_GET = do_POST = do_PATCH = do_DELETE = do_PUT = any

    def log_message(self, *_):
        pass


httpd = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Proxy)
httpd.daemon_threads = True
with open(port_file + ".new", "w") as f:
    f.write(str(httpd.server_port))
os.rename(port_file + ".new", port_file)
httpd.serve_forever()
