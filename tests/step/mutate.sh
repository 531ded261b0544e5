#!/bin/sh
# mutate.sh QUEUE COPY FILE EXPRESSION: copies queue/ and takes a rule out of FILE with a sed expression. Fails when there is nothing
# to take out any more.
set -eu
mkdir -p "$2"
cp "$1"/*.[ch] "$1"/*.def "$2"
sed "$4" "$1/$3" >"$2/$3"
! cmp -s "$1/$3" "$2/$3" || { echo "queue/$3 no longer has what '$4' takes out: adapt tests/step/CMakeLists.txt" >&2; rm -rf "$2"; exit 1; }
