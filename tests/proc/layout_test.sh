#!/bin/sh
# The layout's rules: who may include what. See CONTRIBUTING.md.
set -u
cd "$SRC" || exit 1
found=$(mktemp)
trap 'rm -f "$found"' EXIT
bad() { # TEXT, offending lines on stdin
	lines=$(cat)
	[ -z "$lines" ] || printf '%s:\n%s\n' "$1" "$lines" | tee -a "$found"
}
sources() { find "$@" -name '*.[ch]' 2>/dev/null | sort; }
programs="watcher queue workers apiserver metrics ctl"

for p in $programs; do
	[ -d "$p" ] || continue
	for o in $programs; do
		[ "$p" = "$o" ] || sources "$p" | xargs -r grep -nE "#include \"($o/|\.\./)" | bad "$p includes another program's header"
	done
	for h in $(sources "$p" | xargs -r sed -nE 's/^#include "([^"]+)".*/\1/p' | sort -u); do
		[ -e "common/$h" ] || [ -n "$(find "$p" -name "$(basename "$h")")" ] || echo "$h"
	done | bad "$p includes a header that is neither its own nor of common/"
done
sources common | xargs grep -nE '#include "[^"]*/' | bad "common includes a header from elsewhere"
for h in $(sources common | xargs sed -nE 's/^#include "([^"]+)".*/\1/p' | sort -u); do
	[ -e "common/$h" ] || echo "$h"
done | bad "common includes a header from elsewhere"

# One file for each third-party header (tests and examples apart).
for h in nng/ msgpack curl/ cjson/ yaml.h openssl/ssl seccomp.h microhttpd.h; do
	files=$(sources common $programs | xargs grep -lE "#include <$h" | sort -u)
	[ "$(echo "$files" | wc -w)" -le 1 ] || echo "$files" | bad "<$h...> is included by more than one file"
done
sources common $programs | xargs grep -nE '\b(cJSON_GetObjectItem|strcpy|strcat|sprintf|atoi|atol|gets|strtok)\(' | bad "a function that is banned here"
grep -rnE 'RuntimeDirectory=' systemd | grep -vE '#|no RuntimeDirectory' | bad "a unit names a shared folder"
for u in systemd/*.service.in; do grep -q '^RemoveIPC=no' "$u" || echo "$u"; done | bad "RemoveIPC=no is missing"
git ls-files '*.c' '*.h' 2>/dev/null | while read -r f; do n=$(wc -l <"$f"); [ "$n" -le 700 ] || echo "$n $f"; done | bad "a long file: it has two subjects"
[ ! -s "$found" ] || exit 1
echo "1 passed, 0 failed"
