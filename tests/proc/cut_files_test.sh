#!/bin/sh
# A file of the cache that is cut under everybody: who touches what is gone says so and ends, and nothing is lost by those that follow.
. "${SRC:?}/tests/lib/pipeline.sh"

controller held <<'Y'
  reconciler: {exec: {command: [sh, -c, "jq -r '\"saw \" + .object.metadata.name + \" \" + .object.data.n' >&2"]}}
Y

alive() { kill -0 "$(pid_of "$1")" 2>/dev/null; }
killed= # who was ended by a signal, though nobody sent one
follow() { # NAME COMMAND...: starts another one if it has ended
	alive "$1" && return
	wait "$(pid_of "$1")"
	[ $? -lt 128 ] || killed="$killed $1"
	shift
	"$@"
}
restart() {
	follow broker broker
	follow watcher watcher
	follow held worker held
}
ended_saying_why() { ! alive "$1" && logged "$1" 'was cut while it is in use'; }

api_server
everything
map held first 1
says held 'saw first 1'
for cut in cache.shm 'cache-*.seg'; do
	n=$((${n:-1} + 1))
	for file in "$dir"/region/$cut; do ok "$cut is cut" truncate -s 0 "$file"; done
	api PUT /api/v1/namespaces/held/configmaps/first "{\"metadata\":{\"name\":\"first\"},\"data\":{\"n\":\"$n\"}}" >/dev/null
	one_ended() { for p in broker watcher held; do ended_saying_why $p && return; done; false; }
	[ "$cut" != cache.shm ] || ok "$cut: somebody ends, and says why" within 60 one_ended
	saw() { restart; logged held "saw first $n"; }
	ok "$cut: the change is seen by those that follow" within 90 saw
done
ok "nobody is ended by SIGBUS alone:$killed" [ -z "$killed" ]
result
