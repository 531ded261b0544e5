/* Runs a target's inputs once: replay FOLDER; or writes them where libFuzzer looks for its corpus: replay -w TO FOLDER.
 *
 * An input in the tree is a text, NAME.seed: hexadecimal bytes, "texts", and names of messages (HELLO) for the number
 * of that type; # begins a comment. Every other file is taken as it is. */
#include "fuzz.h"
#include <dirent.h>

static const char *write_to;
static size_t ran;

static void put(const char *name, struct span bytes)
{
	if (write_to) {
		_cleanup_(free_ptr) char *path = xasprintf("%s/%s", write_to, name);
		FILE *f = fopen(path, "we");
		FUZZ_CHECK(f && fwrite(bytes.at, 1, bytes.len, f) == bytes.len && fclose(f) == 0,
			   "cannot write %s", path);
		return;
	}
	/* A copy of its own, so that a sanitizer sees the end of it. */
	uint8_t *copy = malloc(bytes.len);
	if (bytes.len)
		memcpy(copy, bytes.at, bytes.len);
	fprintf(stderr, "%s\n", name);
	LLVMFuzzerTestOneInput(copy, bytes.len);
	free(copy);
	ran++;
}

static bool message_number(struct span word, uint8_t *ret)
{
	for (int t = 1; t < WIRE_TYPE_COUNT; t++) {
		*ret = (uint8_t)t;
		if (span_is(word, wire_type_name((enum wire_type)t)))
			return true;
	}
	return false;
}

static void read_seed(const char *name, const char *text, struct buf *out)
{
	static const char word_bytes[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdef";
	for (const char *at = text; *at;) {
		size_t n = strspn(at, word_bytes);
		uint8_t number;
		unsigned byte;
		if (*at == '#') {
			at += strcspn(at, "\n");
		} else if (*at == '"') {
			n = strcspn(at + 1, "\"");
			buf_add(out, at + 1, n);
			at += n + 1 + (at[n + 1] == '"');
		} else if (!n) {
			at++;
		} else if (message_number((struct span){at, n}, &number)) {
			buf_putc(out, (char)number);
			at += n;
		} else if (n % 2 == 0 && sscanf(at, "%2x", &byte) == 1) {
			buf_putc(out, (char)byte);
			at += 2;
		} else {
			FUZZ_CHECK(false, "%s: what is \"%.*s\"?", name, (int)n, at);
		}
	}
}

static void read_file(const char *folder, const char *name)
{
	_cleanup_(free_ptr) char *path = xasprintf("%s/%s", folder, name);
	_cleanup_(buf_done) struct buf raw = {0}, bytes = {0};
	FILE *f = fopen(path, "re");
	FUZZ_CHECK(f, "cannot read %s", path);
	char part[4096];
	for (size_t n; (n = fread(part, 1, sizeof(part), f)) > 0;)
		buf_add(&raw, part, n);
	fclose(f);
	bool text = strlen(name) > 5 && strcmp(name + strlen(name) - 5, ".seed") == 0;
	if (text)
		read_seed(path, buf_str(&raw), &bytes);
	put(name, text ? buf_span(&bytes) : buf_span(&raw));
}

int main(int argc, char **argv)
{
	int at = 1;
	if (argc == 4 && strcmp(argv[1], "-w") == 0) {
		write_to = argv[2];
		at = 3;
	}
	struct dirent **names;
	int n = at == argc - 1 ? scandir(argv[at], &names, NULL, alphasort) : -1;
	if (n < 0) {
		fprintf(stderr, "usage: %s [-w TO] FOLDER\n", argv[0]);
		return 2;
	}
	fuzz_seeds(put);
	for (int i = 0; i < n; i++) {
		if (names[i]->d_name[0] != '.')
			read_file(argv[at], names[i]->d_name);
		free(names[i]);
	}
	free(names);
	if (!write_to)
		printf("%zu passed, 0 failed\n", ran);
	return !write_to && !ran;
}
