/* Controller files that are broken at random: no crash, no leak (under the sanitizers), and always either a
 * controller or an error that has a text and a place inside the file. */
#include "config_internal.h"
#include <criterion/criterion.h>
#include <stdio.h>
#include <unistd.h>

static const char *const seeds[] = {
    "apiVersion: reconciled.dev/v1alpha1\nkind: Controller\nmetadata: {name: website}\nspec:\n"
    "  for: {apiVersion: v1, kind: ConfigMap, namespaces: [a, b], labelSelector: {matchLabels: {a: b}, "
    "matchExpressions: "
    "[{key: c, operator: In, values: [d]}]}, predicates: [{or: [LabelChanged, {not: {Field: {path: "
    "\"spec['a'][*].b\", in: [1, "
    "x]}}}]}]}\n"
    "  owns:\n  - &x {apiVersion: apps/v1, kind: Deployment, metadataOnly: true}\n  - *x\n"
    "  watches: [{apiVersion: v1, kind: Pod, mapTo: {owner: {apiVersion: apps/v1, kind: ReplicaSet}}}]\n"
    "  reconciler:\n    coprocess: {command: [python3, \"a\\tb\"], startupTimeout: 3s, maxMemory: 256Mi}\n"
    "    env: {A: b}\n    sandbox: {readOnlyPaths: [./data], limits: {cpu: 1s}, without: [seccomp]}\n"
    "  workers: 4\n  rateLimiter: {baseDelay: 5ms, jitter: 0.5}\n  finalizer: a.b/c\n",
    "{\"apiVersion\": \"reconciled.dev/v1alpha1\", \"kind\": \"Controller\", \"metadata\": {\"name\": "
    "\"a\"}, \"spec\": {\"for\": "
    "{\"apiVersion\": \"v1\", \"kind\": \"Pod\"}, \"reconciler\": {\"exec\": {\"command\": [\"x\"]}}}}\n",
};

/* One to four edits: a byte changed, a part taken out, doubled, or replaced by a piece that means
 * something. */
static size_t mutate(char *text, size_t len, size_t room)
{
	static const char *const pieces[] = {
	    "{",	   "}",	 "[", "]",  ": ",    ",",   "\n",    "&x ", "*x",   "<<: ",	    "!!int ",
	    "\"",	   "'",	 "~", "\t", "---\n", "|\n", "1e999", "010", "\xC3", "\xEF\xBB\xBF", "-1s",
	    "%YAML 1.1\n", "? ", "@"};
	for (uint64_t edits = 1 + random_below(4); edits && len; edits--) {
		size_t at = random_below(len), wish = 1 + random_below(12), n = MIN(len - at, wish);
		const char *piece = pieces[random_below(ARRAY_SIZE(pieces))];
		size_t piece_len = strlen(piece);
		switch (random_below(4)) {
		case 0:
			text[at] = (char)random_below(256);
			break;
		case 1:
			memmove(text + at, text + at + n, len - at - n);
			len -= n;
			break;
		case 2:
			if (len + n > room)
				break;
			memmove(text + at + n, text + at, len - at);
			len += n;
			break;
		default:
			if (len + piece_len > room)
				break;
			memmove(text + at + piece_len, text + at, len - at);
			memcpy(text + at, piece, piece_len);
			len += piece_len;
		}
	}
	return len;
}

static void check_one(const char *path, const char *text, size_t len)
{
	struct config c;
	struct err err = {0};
	size_t lines = 2; /* an error may stand behind the last line */
	FILE *f = fopen(path, "w");
	cr_assert_not_null(f);
	cr_assert_eq(fwrite(text, 1, len, f), len);
	fclose(f);
	for (size_t i = 0; i < len; i++)
		lines += text[i] == '\n' || text[i] == '\r';
	cr_assert_eq(config_load(path, &c, &err), 0, "%s", err.text);
	cr_expect(c.count || c.errors.fatal, "neither a controller nor an error: %.*s", (int)len, text);
	for (size_t i = 0; i < c.errors.count; i++) {
		const struct config_error *e = &c.errors.at[i];
		/* NEL and the Unicode separators are line ends for YAML, too: they are rare enough here. */
		cr_expect(*e->text && e->line <= lines + 4, "%zu:%zu: %s", e->line, e->column, e->text);
	}
	for (size_t i = 0; i < c.count; i++) {
		char *table = config_table_name(&c.controllers[i].watches[0].kind);
		cr_expect(*table && strlen(c.controllers[i].digest) == 64 &&
			  c.controllers[i].reconciler.command[0]);
		free(table);
	}
	config_done(&c);
}

Test(config_robust, files_broken_at_random)
{
	enum { ROUNDS = 3000, ROOM = 4096 };
	char folder[] = "/tmp/config_robust.XXXXXX", path[64], text[ROOM];
	cr_assert_not_null(mkdtemp(folder));
	snprintf(path, sizeof(path), "%s/c.yaml", folder);
	for (size_t s = 0; s < ARRAY_SIZE(seeds); s++)
		check_one(path, seeds[s], strlen(seeds[s]));
	for (int i = 0; i < ROUNDS; i++) {
		const char *seed = seeds[random_below(ARRAY_SIZE(seeds))];
		size_t len = strlen(seed);
		memcpy(text, seed, len);
		check_one(path, text, mutate(text, len, ROOM));
	}
	unlink(path);
	rmdir(folder);
}

Test(config_robust, scalars_broken_at_random)
{
	static const char alphabet[] = "0123456789.eE+-hmsuKMGi_ \xC2\xB5";
	for (int i = 0; i < 200000; i++) {
		char text[24];
		size_t len = random_below(sizeof(text) - 1);
		int64_t ns = -1;
		uint64_t bytes = UINT64_MAX;
		for (size_t k = 0; k < len; k++)
			text[k] = alphabet[random_below(sizeof(alphabet) - 1)];
		text[len] = 0;
		int rc = parse_duration(text, &ns);
		cr_assert(rc == 0 ? ns >= 0 : ns == -1, "%s", text);
		rc = parse_quantity(text, &bytes);
		cr_assert(rc == 0 ? bytes <= INT64_MAX : bytes == UINT64_MAX, "%s", text);
	}
}
