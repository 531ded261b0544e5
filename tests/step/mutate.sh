#!/bin/sh
# mutate.sh FOLDER COPY FILE EXPRESSION: copies queue/ or watcher/ and takes a rule out of FILE with a sed expression. Fails when there is nothing
# to take out any more.
set -eu
mkdir -p "$2"
find "$1" -maxdepth 1 -name '*.[ch]' -o -maxdepth 1 -name '*.def' | xargs -I{} cp {} "$2"
sed "$4" "$1/$3" >"$2/$3"
! cmp -s "$1/$3" "$2/$3" || { echo "${1##*/}/$3 no longer has what '$4' takes out: adapt tests/step/CMakeLists.txt" >&2; rm -rf "$2"; exit 1; }
