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
sources() { find "$@" -name '*.[ch]' -o -name '*.def' 2>/dev/null | sort; }
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

# What users link needs of ours only what is compiled in; what they include is for them and for examples/ alone.
sources workers/sdk | xargs grep -nE '#include "' | grep -vE '"(sdk|reconcile|base|buf|json_scan)\.h"' | bad "libreconcile takes more than is compiled in"
sources workers/*.c workers/*.h | xargs grep -nE '#include "(sdk/|reconcile\.h)' | bad "the worker includes libreconcile"
sources common $programs | grep -v '^workers/sdk/' | xargs grep -nE '#include <reconcile\.h>' | bad "libreconcile's header is for users"
sources examples | xargs grep -nE '#include "' | bad "an example includes what a user does not have"

# One file for each third-party header (tests and examples apart), and no header that is not known here.
for h in nng/ msgpack curl/ cjson/ yaml.h openssl/evp.h openssl/ssl.h openssl/x509v3.h openssl/pem.h zstd.h zdict.h systemd/sd-daemon.h systemd/sd-journal.h \
	seccomp.h xxhash.h microhttpd.h gnutls/gnutls.h gnutls/x509.h gnutls/crypto.h; do
	files=$(sources common $programs | xargs grep -lE "#include <$h" | sort -u)
	[ "$(echo "$files" | wc -w)" -le 1 ] || echo "$files" | bad "<$h...> is included by more than one file"
	known="${known:-reconcile.h}|$h"
done
sources common $programs | xargs sed -nE 's/^#include <([^>]+)>.*/\1/p' | sort -u | grep -vE "^($known)" | while read -r h; do
	ls -d /usr/include/"$h" /usr/include/"$(uname -m)"-linux-gnu/"$h" /usr/lib/gcc/*/*/include/"$h" 2>/dev/null
done | xargs dpkg-query -S 2>/dev/null |
	grep -vE '^(libc6-dev|linux-libc-dev|libgcc-[0-9]+-dev|libclang|libstdc|libcrypt-dev|linux-headers|musl)' |
	bad "a third-party header that is not named in this test: see docs/dependencies.md"
sources common $programs | xargs grep -nE '\b(cJSON_GetObjectItem|strcpy|strcat|sprintf|atoi|atol|gets|strtok)\(' | bad "a function that is banned here"
grep -rnE 'RuntimeDirectory=' systemd | grep -vE '#|no RuntimeDirectory' | bad "a unit names a shared folder"
for u in systemd/*.service.in; do grep -q '^RemoveIPC=no' "$u" || echo "$u"; done | bad "RemoveIPC=no is missing"
git ls-files '*.c' '*.h' 2>/dev/null | while read -r f; do n=$(wc -l <"$f"); [ "$n" -le 700 ] || echo "$n $f"; done | bad "a long file: it has two subjects"
[ ! -s "$found" ] || exit 1
echo "1 passed, 0 failed"
