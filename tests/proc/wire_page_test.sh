#!/bin/sh
# docs/wire.md shows the table that is compiled, not an older one.
set -eu
made=$(mktemp)
trap 'rm -f "$made"' EXIT
{
	sed '/^<!-- From here on:/q' "$SRC/docs/wire.md"
	awk -f "$SRC/docs/wire.awk" "$SRC/common/wire.def" "$SRC/common/wire.def"
} >"$made"
grep -q '^## STATUS_REPLY' "$made"
diff -u "$SRC/docs/wire.md" "$made" || {
	echo "docs/wire.md is not what docs/wire.awk makes of common/wire.def: put the lines with + into it" >&2
	exit 1
}
