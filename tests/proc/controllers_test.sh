#!/bin/sh
# As many controllers as there may be, everything real: 64 work; one more is refused with its place and hurts nobody; it has a place when
# another one's file goes.
. "${SRC:?}/tests/lib/pipeline.sh"
ctl() { what=$1; shift; "$BIN/reconcilectl" "$what" --runtime-dir "$dir/run" --region-dir "$dir/region" "$@"; }

mkdir "$dir/records"
chmod 777 "$dir/records"
script note.sh <<E
#!/bin/sh
cat >/dev/null
echo "\$RECONCILE_NAME" >>"$dir/records/\$RECONCILE_CONTROLLER"
E
numbered() { # NAME
	controller "$1" <<E
  reconciler:
    exec: {command: [./note.sh]}
    sandbox: {readWritePaths: [$dir/records]}
E
}
for n in $(seq 10 73); do numbered "c$n"; done
ran() { grep -qx "$2" "$dir/records/$1"; } # CONTROLLER KEY
there() { [ "$(ctl status -o json | jq '.controllers | length')" = "$1" ]; }
reload() { kill -HUP "$(pid_of broker)" "$(pid_of watcher)"; }
validate() { "$BIN/reconcilectl" validate "$dir/config"; }

ok "64 are right" validate
api_server
broker
watcher
worker c10
worker c73
ok "all 64 are in the queue" within 60 there 64
map c10 first
map c73 first
ok "the first one's keys run" within 60 ran c10 first
ok "so do the last one's" within 60 ran c73 first

numbered c74
api POST /api/v1/namespaces '{"metadata":{"name":"c74"}}' >/dev/null
wrong() { [ "$(validate | grep -c 'c74.yaml:3:.*error: more than 64 controllers: this one is left out')" = 1 ]; }
ok "the 65th is an error with its place" wrong
reload
ok "the broker says so" within 60 logged broker 'c74.yaml line=3.*more than 64 controllers'
ok "the watcher says so" within 60 logged watcher 'c74.yaml line=3.*more than 64 controllers'
shown() { ctl status | grep -q 'more than 64 controllers'; }
ok "status says so" within 60 shown
ok "it has no row" there 64
worker c74
map c74 second
map c73 second
ok "the others go on" within 60 ran c73 second
ok "its worker says what is wrong" within 60 logged c74 'more than 64 controllers'
ok "its keys do not run" [ ! -e "$dir/records/c74" ]

rm "$dir/config/c11.yaml"
reload
worker c74 # systemd starts it again until its file is right
ok "where another one goes, it has a place" within 60 ran c74 second
ok "64 again" within 60 there 64

# The broker alone reads its files: it has what the watcher does not have yet, then not what the watcher has, then both have it.
hup() { kill -HUP "$(pid_of "$1")"; }
has_row() { ctl status -o json | jq -e ".controllers[] | select(.name == \"$1\")"; }
lacks_row() { ! has_row "$1"; }
rm "$dir/config/c12.yaml"
reload
ok "there is room" within 60 lacks_row c12
numbered c12
hup broker
ok "the broker has it" within 60 has_row c12
hup watcher
worker c12
map c12 third
ok "its keys run" within 60 ran c12 third
mv "$dir/config/c12.yaml" "$dir/c12.yaml"
hup broker
ok "the broker has lost it" within 60 lacks_row c12
mv "$dir/c12.yaml" "$dir/config/c12.yaml"
: >"$dir/records/c12"
hup broker
ok "the watcher is asked for all its keys" within 60 ran c12 third
ok "nobody took the broker for gone" [ "$(cat "$dir/log/"* | grep -c 'the broker is gone')" = 0 ]
result
