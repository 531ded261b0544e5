#!/bin/sh
# A worker whose broker or jail dies, that is told to end, or to load its file again.
. "${SRC:?}/tests/lib/pipeline.sh"

mkdir -m 1777 "$dir/go"
controller slow <<E
  reconciler:
    exec: {command: [sh, -c, "until [ -e $dir/go/\$RECONCILE_NAME ]; do sleep 0.05; done; echo slept >&2"]}
    sandbox: {readWritePaths: [$dir/go]}
E
controller hello <<'E'
  reconciler: {exec: {command: [sh, -c, "echo $GREETING $RECONCILE_NAME >&2"]}, env: {GREETING: hello}}
E
controller long <<'E'
  reconciler: {exec: {command: [sh, -c, "sleep 7MARK"]}}
E
controller steady <<'E'
  reconciler: {coprocess: {command: [./steady.sh]}}
E
script steady.sh <<'E'
#!/bin/sh
read -r hello
echo '{"kind":"Hello","apiVersion":"reconciled.dev/v1"}'
while read -r line; do
	case $line in
	*Shutdown*) echo "told to end" >&2; exit 0 ;;
	*) uid=${line#*\"uid\":\"}; echo "{\"uid\":\"${uid%%\"*}\"}" ;;
	esac
done
E

api_server
everything

# ---- what is refused before anything runs ----

refused() { # STATUS PATTERN ARGUMENT...
	want=$1 pattern=$2
	shift 2
	"$BIN/reconciled-worker" --config-dir "$dir/config" --runtime-dir "$dir/run" --region-dir "$dir/region" "$@" >"$dir/refused" 2>&1
	[ $? = "$want" ] && grep -q -- "$pattern" "$dir/refused"
}
ok "no argument is wrong usage" refused 2 'CONTROLLER.N'
ok "an instance has a number" refused 2 'CONTROLLER.N' hello
ok "an instance has one dot" refused 2 'CONTROLLER.N' a.b.1
ok "a controller that is in no file" refused 78 'no such controller.*nobody' nobody.1
ok "a kubeconfig that is not there" refused 78 'kubeconfig cannot be used' --kubeconfig "$dir/nothing" hello.1
cp "$dir/secret/kubeconfig" "$dir/config/access"
ok "a kubeconfig where the reconciler looks" refused 78 "folder holds a kubeconfig" --kubeconfig "$dir/config/access" hello.1
rm "$dir/config/access"

# ---- the broker goes and comes back ----

map slow first
ok "slow: running" within 60 logged slow 'attempt started'
slay broker
broker
touch "$dir/go/first"
says slow 'line=slept'
says slow 'key=slow/first .*outcome=Success'
ok "slow: the new broker takes the result" within 60 sh -c "grep 'done controller=slow key=slow/first' '$dir/log/broker' | grep -q outcome=Success"
ok "slow: once" [ "$(count slow 'attempt started')" = 1 ]

map slow second
ok "slow: running again" within 60 sh -c "[ \$(grep -c 'attempt started' '$dir/log/slow') = 2 ]"
kill -9 "$(sed -n 's/.*jail started init=\([0-9]*\).*/\1/p' "$dir/log/slow" | tail -n 1)"
says slow 'key=slow/second .*outcome=WorkerLost'
touch "$dir/go/second"
ok "slow: runs in a new jail" within 60 sh -c "grep 'key=slow/second' '$dir/log/slow' | grep -q outcome=Success"

map slow third
ok "slow: running a third time" within 60 sh -c "grep 'attempt started' '$dir/log/slow' | grep -q slow/third"
kill -TERM "$(pid_of slow)"
says slow 'draining.*state=running'
touch "$dir/go/third"
wait "$(pid_of slow)"
ok "slow: drained with success" [ $? = 0 ]
ok "slow: its attempt was finished" sh -c "grep 'key=slow/third' '$dir/log/slow' | grep -q outcome=Success"
ok "slow: its result was taken" sh -c "grep 'key=slow/third' '$dir/log/broker' | grep -q outcome=Success"

# ---- the broker comes back without its memory: the lease is unknown, the attempt is dropped, and the key runs again ----

map long one
ok "long: running" within 60 logged long 'attempt started'
slay broker
rm "$dir/region/queue.shm"
broker
says long 'the lease is gone: the attempt is dropped'
ok "long: granted again, after that" within 60 sh -c "[ \$(grep -c 'attempt started' '$dir/log/long') = 2 ]"
only_one() { [ "$(pgrep -fc "^sleep 7$mark\$")" = 1 ]; }
ok "long: one at a time" within 60 only_one

# ---- two signals end it at once, with everything in its jail ----

kill -TERM "$(pid_of long)"
says long 'draining.*state=running'
kill -TERM "$(pid_of long)"
wait "$(pid_of long)"
ok "long: ended with failure" [ $? = 1 ]
none_left() { ! pgrep -f "^sleep 7$mark\$"; }
ok "long: nothing is left" within 60 none_left

# ---- a coprocess is told to end ----

map steady one
says steady 'outcome=Success'
kill -TERM "$(pid_of steady)"
wait "$(pid_of steady)"
ok "steady: drained" [ $? = 0 ]
ok "steady: in peace" logged steady 'line="told to end"'



# ---- SIGHUP: the file is loaded again, between keys ----

map hello one
says hello 'line="hello one"'
sed -i 's/GREETING: hello/GREETING: good day/' "$dir/config/hello.yaml"
kill -HUP "$(pid_of watcher)" "$(pid_of broker)" "$(pid_of hello)"
says hello 'reloaded.*changed=yes'
map hello two
says hello 'line="good day two"'
cp "$dir/config/hello.yaml" "$dir/good"
echo '  unknown: 1' >>"$dir/config/hello.yaml"
kill -HUP "$(pid_of hello)"
says hello 'controller file cannot be used; the loaded one stays.*unknown'
map hello three
says hello 'line="good day three"'
mv "$dir/good" "$dir/config/hello.yaml"
# The program may be another although its file is the same.
worker steady
ok "steady: back" within 60 sh -c "[ \$(grep -c 'reconciler is ready' '$dir/log/steady') = 2 ]"
sed -i '2i echo "a second edition" >&2' "$dir/config/steady.sh"
kill -HUP "$(pid_of steady)"
says steady 'line="a second edition"'
map steady two
says steady 'key=steady/two .*outcome=Success'

# ---- started before anything else is there ----

slay hello broker watcher
rm -f "$dir/region"/*
: >"$dir/log/hello"
worker hello
ok "hello: waits for the broker" within 60 logged hello 'jail started'
broker
watcher
says hello 'worker is ready'
says hello 'line="good day one"'

result
