/* What the fuzz targets share. A target is a file NAME_fuzz.c with LLVMFuzzerTestOneInput; it is built twice: with
 * libFuzzer (clang, RECONCILED_FUZZ=ON; ./dev fuzz), and with replay.c, which runs the inputs of a folder once and
 * needs no clang. A broken property ends the process: FUZZ_CHECK. */
#pragma once
#include "buf.h"
#include "wire.h"
#include <stdio.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);
/* Inputs that are made from the tables instead of being kept as files; put() copies. May do nothing. */
void fuzz_seeds(void (*put)(const char *name, struct span bytes));

#define FUZZ_CHECK(cond, ...)                                                                                \
	do {                                                                                                 \
		if (!(cond)) {                                                                               \
			fprintf(stderr, "%s:%d: %s: ", __FILE__, __LINE__, #cond);                           \
			fprintf(stderr, __VA_ARGS__);                                                        \
			fprintf(stderr, "\n");                                                               \
			abort();                                                                             \
		}                                                                                            \
	} while (0)

/* The input as a source of choices; behind its end come zeros. */
struct fuzz_input {
	const uint8_t *at;
	size_t len;
};
static inline uint8_t fuzz_u8(struct fuzz_input *in)
{
	if (!in->len)
		return 0;
	in->len--;
	return *in->at++;
}
uint64_t fuzz_u64(struct fuzz_input *in);			 /* 8 bytes */
struct fuzz_input fuzz_part(struct fuzz_input *in, size_t most); /* a length byte, then so many bytes */

/* A message of that type whose fields are chosen by the input, one field after the other as wire.def has them. Zeros choose the
 * most usual value, so that no choices at all make a message that is accepted where it fits. */
enum { FUZZ_TEXT_MAX = 2048 };
struct fuzz_filler {
	struct fuzz_input *in;
	void *ctx;
	/* What the target knows about a number of that name; false: a number that is interesting in itself. */
	bool (*number)(void *ctx, const char *field, struct fuzz_input *in, uint64_t *ret);
	bool (*text)(void *ctx, const char *field, struct fuzz_input *in, struct span *ret);
	void *lists[64];
	size_t n_lists;
	size_t used;
	char texts[64 * FUZZ_TEXT_MAX]; /* of fields */
};
void fuzz_fill(struct fuzz_filler *f, enum wire_type type, struct wire *ret);
void fuzz_filler_done(struct fuzz_filler *f);
