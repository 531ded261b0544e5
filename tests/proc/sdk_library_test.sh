#!/bin/sh
# libreconcile as somebody gets it who installs it: header, pkg-config file, both libraries; nothing but reconcile_* to be seen; the header's own
# example builds without a warning, also as C++, and answers.
set -eu
T=$(mktemp -d)
trap 'rm -rf "$T"' EXIT
failed=0
ok() { if "$@"; then passed=$((${passed:-0} + 1)); else echo "failed: $*" >&2; failed=$((failed + 1)); fi; }

build=$(dirname "$BIN")
cmake --install "$build/workers/sdk" --prefix "$T/usr" >"$T/log" 2>&1 || { cat "$T/log"; exit 1; }
pc=$(find "$T/usr" -name reconcile.pc)
lib=$(dirname "$(dirname "$pc")")
# As if it had been configured for this prefix.
sed -i "s|^includedir=.*|includedir=$T/usr/include|; s|^libdir=.*|libdir=$lib|" "$pc"
export PKG_CONFIG_PATH=$lib/pkgconfig LD_LIBRARY_PATH=$lib

only_ours() { [ -z "$("$@" | awk 'NF == 3 && $2 ~ /[TDBRVW]/ {print $3}' | grep -v '^reconcile_' | grep -vE '^(_init|_fini|__asan|__odr_asan|__ubsan|__start|__stop|_edata|_end|__bss_start)' | head -n 3 | tee /dev/stderr)" ]; }
ok only_ours nm -D --defined-only "$lib/libreconcile.so"
ok only_ours nm --defined-only "$lib/libreconcile.a"

# The example of the header's comment.
sed -n '/^ \*   #include <reconcile.h>/,/^ \*   }$/p' "$T/usr/include/reconcile.h" | sed 's/^ \*   //; s/^ \*$//' >"$T/part"
awk '/^int main/ {main = 1} {print} main && /^}/ {exit}' "$T/part" >"$T/greet.c"
grep -q 'reconcile_main' "$T/greet.c" ||
	sed -n '/^ \*   #include <reconcile.h>/,/^ \* Build with/p' "$T/usr/include/reconcile.h" | sed '$d; s/^ \*   //; s/^ \*$//' >"$T/greet.c"
sanitize=$(sed -n 's/^RECONCILED_SANITIZE:STRING=\(..*\)/-fsanitize=\1/p' "$build/CMakeCache.txt")
export ASAN_OPTIONS=detect_leaks=0
warnings='-Wall -Wextra -Werror -Wno-unused-parameter -Wconversion -Wformat=2'
# shellcheck disable=SC2046,SC2086
ok cc -std=c11 $warnings $sanitize "$T/greet.c" -o "$T/shared" $(pkg-config --cflags --libs reconcile)
# shellcheck disable=SC2046,SC2086
ok cc -std=c11 $warnings $sanitize "$T/greet.c" -o "$T/static" $(pkg-config --cflags reconcile) "$lib/libreconcile.a"
printf '#include <reconcile.h>\nint main(int c, char **v) { reconcile_handler h = {}; return c > 5 ? reconcile_main(c, v, &h) : 0; }\n' >"$T/plus.cc"
if command -v c++ >/dev/null; then
	# shellcheck disable=SC2046,SC2086
	ok c++ -Wall -Wextra -Werror $sanitize "$T/plus.cc" -o "$T/plus" $(pkg-config --cflags --libs reconcile)
fi
request='{"apiVersion":"reconciled.dev/v1","kind":"ReconcileRequest","uid":"u1","request":{"namespace":"n","name":"x"},"object":{"spec":{"text":"hi"}}}'
for how in shared static; do
	answer=$(echo "$request" | "$T/$how")
	ok test "$(echo "$answer" | jq -r '.children[0].data.text + .children[0].metadata.name + .conditions[0].status')" = hix-textTrue
done
ok sh -c '"$0" --help | grep -q "reconcilectl up -f"' "$T/static"
echo "${passed:-0} passed, $failed failed"
[ $failed = 0 ]
