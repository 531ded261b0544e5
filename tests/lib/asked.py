#!/usr/bin/env python3
"""asked.py NAME: a program of a predicate or a map for process tests. At each question it does what the file NAME.mode beside it says:

  (nothing)   answers. A map: an object's data.sites, joined by commas, in its namespace. A predicate: no where the newest object has data.pass: "no"
  hang        starts a child that sleeps for the seconds that the file `seconds` beside it says, and sleeps itself
  crash       ends by SIGSEGV
  exit        ends with 3
  nonsense    writes what is no JSON
  uid         answers a question that it was not asked
  many        a map: 2000 keys
  hang-WORD, crash-WORD   the same, but only for an object whose name begins with WORD
"""
import json
import os
import signal
import subprocess
import sys
import time

name = sys.argv[1]


def mode(q):
    try:
        how = open(name + ".mode").read().strip()
    except FileNotFoundError:
        return ""
    how, _, word = how.partition("-")
    about = ((q["new"] or q["old"])["metadata"]["name"]).startswith(word)
    return how if about else ""


def say(answer):
    print(json.dumps(answer), flush=True)


def keys(o):
    sites = (o or {}).get("data", {}).get("sites", "")
    return [{"namespace": o["metadata"]["namespace"], "name": s} for s in sites.split(",") if s]


json.loads(sys.stdin.readline())
say({"kind": "Hello", "apiVersion": "reconciled.dev/v1"})
print("here is " + name, file=sys.stderr)
for line in sys.stdin:
    q = json.loads(line)
    if q["kind"] == "Shutdown":
        sys.exit(0)
    how = mode(q)
    if how == "hang":
        subprocess.Popen(["sleep", open("seconds").read()])
        time.sleep(98765)
    elif how == "crash":
        os.kill(os.getpid(), signal.SIGSEGV)
    elif how == "exit":
        sys.exit(3)
    elif how == "nonsense":
        print("Good morning", flush=True)
    elif how == "uid":
        q["uid"] = "1234567"
    if not q["new"]:
        print("deleted: " + q["old"]["metadata"]["name"], file=sys.stderr, flush=True)
    if q["kind"] == "MapRequest":
        found = [{"namespace": "shop", "name": "many%d" % i} for i in range(2000)] if how == "many" else keys(q["old"]) + keys(q["new"])
        say({"kind": "MapResponse", "uid": q["uid"], "requests": found})
    else:
        say({"kind": "PredicateResponse", "uid": q["uid"], "pass": (q["new"] or q["old"]).get("data", {}).get("pass") != "no"})
