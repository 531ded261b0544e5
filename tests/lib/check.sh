# Sourced by process tests in shell: checks that print, waiting with a bound, a folder that goes at the end.
#
#   . "$SRC/tests/lib/check.sh"; check "two is two" [ 2 = 2 ]; ...; check_result
. "$SRC/tests/lib/within.sh"
passed=0 failed=0
FOLDER=$(mktemp -d)
check_end() { :; } # a test that starts something redefines it
trap 'check_end; [ "$failed" = 0 ] && rm -rf "$FOLDER"' EXIT

check() { # WHAT COMMAND...
	what=$1
	shift
	if "$@"; then
		passed=$((passed + 1))
	else
		failed=$((failed + 1))
		echo "FAILED: $what ($*)"
		[ "$failed" -lt "${FAILURES_MOST:-6}" ] || { check_result; exit 1; }
	fi
}

says() { grep -qF -- "$2" "$1" 2>/dev/null; } # FILE TEXT

# status_is N COMMAND...: its exit status; output goes to $FOLDER/out and $FOLDER/err
status_is() {
	want=$1
	shift
	"$@" >"$FOLDER/out" 2>"$FOLDER/err"
	have=$?
	[ $have = "$want" ] || echo "exit status $have instead of $want: $(tail -n 3 "$FOLDER/err")"
	[ $have = "$want" ]
}

check_result() {
	echo "$passed passed, $failed failed"
	[ "$failed" = 0 ] || echo "kept: $FOLDER"
	[ "$failed" = 0 ]
}
