# queue/state.def, its events and rows one a line, as Promela: states.pml gets the names of the states,
# stdout an inline move_EVENT(k) for each event.
$1 == "event" { events[++n] = $2 }
$1 == "row" {
	states[++m] = $2
	if (NF - 2 != n) { print "row " $2 " has " NF - 2 " cells for " n " events" >"/dev/stderr"; exit 1 }
	for (i = 1; i <= n; i++) to[m, i] = $(i + 2)
}
END {
	printf "mtype = { " >"states.pml"
	for (s = 1; s <= m; s++) printf "%s, ", states[s] >"states.pml"
	print "BUG };" >"states.pml"
	for (i = 1; i <= n; i++) {
		print "inline move_" events[i] "(k)\n{\n\tif"
		for (s = 1; s <= m; s++) {
			t = to[s, i]
			if (states[s] == "RUNNING" && t == "DIRTY") {
				print "#ifdef NO_DIRTY\n\t:: slot[k].state == RUNNING -> slot[k].state = RUNNING\n#else"
				print "\t:: slot[k].state == " states[s] " -> slot[k].state = " t "\n#endif"
			} else
				print "\t:: slot[k].state == " states[s] " -> slot[k].state = " t
		}
		print "\tfi;\n\tassert(slot[k].state != BUG)\n}"
	}
}
