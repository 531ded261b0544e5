# Sourced by what downloads.
#
# again WHAT COMMAND...: what asks a network fails now and then: four times in all, with longer and longer pauses.
again() {
	again_what=$1
	shift
	for again_pause in 5 20 60 0; do
		"$@" && return
		[ $again_pause = 0 ] || {
			echo "$again_what failed; once more in $again_pause s" >&2
			sleep $again_pause
		}
	done
	echo "$again_what failed four times: given up" >&2
	return 1
}
