# The tables of docs/wire.md, from common/wire.def:   awk -f docs/wire.awk common/wire.def
# A row's comment is the description of its field, the comment before a #define that of the record or message.

function clean(text) {
	gsub(/\/\*|\*\//, "", text)
	gsub(/[ \t]+/, " ", text)
	sub(/^ /, "", text)
	sub(/ $/, "", text)
	gsub(/\|/, "\\|", text)
	gsub(/enum wire_role/, "one of the roles", text)
	gsub(/enum wire_cause/, "one of the causes", text)
	gsub(/enum wire_outcome/, "one of the outcomes", text)
	gsub(/enum wire_wish/, "one of the wishes", text)
	gsub(/enum wire_timer/, "one of the timers", text)
	gsub(/enum wire_state/, "one of the states", text)
	gsub(/enum wire_refusal/, "one of the refusals", text)
	return text
}

# Prints the fields in one line of a definition; what the comment says goes to the last of them.
function fields(line,    comment, field, kind, arguments, part, n) {
	comment = ""
	if (match(line, /\/\*.*\*\//)) {
		comment = clean(substr(line, RSTART, RLENGTH))
		line = substr(line, 1, RSTART - 1)
	}
	while (match(line, /(U32|U64|I64|BOOL|TEXT|LIST)\([^)]*\)/)) {
		field = substr(line, RSTART, RLENGTH)
		line = substr(line, RSTART + RLENGTH)
		kind = substr(field, 1, index(field, "(") - 1)
		arguments = substr(field, index(field, "(") + 1)
		sub(/\)$/, "", arguments)
		n = split(arguments, part, /, */)
		type = kind == "U32" ? "unsigned, 32 bits" : kind == "U64" ? "unsigned, 64 bits" : \
		       kind == "I64" ? "signed, 64 bits" : kind == "BOOL" ? "boolean" : \
		       kind == "TEXT" ? "text, at most " limit(part[2]) " bytes" : "list of " part[2] ", at most " part[3]
		printf "| `%s` | %s | %s |\n", part[1], type, line ~ /\(/ ? "" : comment
	}
}

function limit(word) {
	return word == "NAMESPACE_MAX_LEN" ? 63 : word == "NAME_MAX_LEN" ? 253 : word
}

# Remembers or prints the entries of one X() list.
function entries(line,    entry, part, n, i) {
	sub(/\/\*.*\*\//, "", line)
	while (match(line, /X\([^)]*\)/)) {
		entry = substr(line, RSTART + 2, RLENGTH - 3)
		line = substr(line, RSTART + RLENGTH)
		n = split(entry, part, /, */)
		if (list == "MESSAGES") {
			number[part[1]] = ++messages
			continue
		}
		gsub(/"/, "", part[2])
		values = values sprintf("| %d | %s | %s |\n", value++, part[2], \
			list != "OUTCOMES" ? part[1] : part[1] ", " (part[3] == "true" ? "a failure" : "no failure") \
			(part[4] == "true" ? ", counts to quarantine" : ""))
	}
}

# The first pass only numbers the messages.
FNR == 1 { pass++ }

/^\/\* ----/ { next } # a heading in the table
/^\/\*/ { comment = ""; in_comment = 1 }
in_comment {
	line = $0
	sub(/^ \* ?/, "", line)
	comment = comment " " line
	if (/\*\//)
		in_comment = 0
	next
}

/^#define WIRE_[A-Z_]+\(U32/ {
	name = $0
	sub(/^#define WIRE_/, "", name)
	sub(/\(.*/, "", name)
	if (pass == 2) {
		printf "\n%s %s\n\n", name in number ? "##" : "## Record", name in number ? name " (" number[name] ")" : tolower(name)
		if (clean(comment) != "")
			printf "%s\n\n", clean(comment)
		print "| field | type | meaning |\n|---|---|---|"
	}
	definition = 1
	sub(/^#define WIRE_[A-Z_]+\([^)]*\)/, "")
}
definition {
	if (pass == 2)
		fields($0)
	if (!/\\$/)
		definition = 0
	comment = ""
	next
}

/^#define WIRE_[A-Z]+\(X\)/ {
	list = $0
	sub(/^#define WIRE_/, "", list)
	sub(/\(.*/, "", list)
	about = clean(comment)
	values = ""
	value = 0
	in_list = 1
	sub(/^#define WIRE_[A-Z]+\(X\)/, "")
}
in_list {
	if (list != "RECORDS" && (pass == 1 || list != "MESSAGES"))
		entries($0)
	if (!/\\$/) {
		in_list = 0
		if (pass == 2 && values != "")
			printf "\n## Values: %s\n\n%s| number | name | |\n|---|---|---|\n%s", tolower(list), about == "" ? "" : about "\n\n", values
		comment = ""
	}
}
