/* zstd behind one face: short texts that are alike, each by itself, with a dictionary of what they share. Contexts and dictionaries are
 * made once and used again; one thread per handle. */
#pragma once
#include "base.h"
#include <sys/types.h>

/* Packing. */
struct compress;
struct compress *compress_new(void);
void compress_free(struct compress *c);
/* A dictionary made ready for packing (about 80 KB, with a copy of the bytes). NULL: they are no dictionary. */
struct compress_dictionary;
struct compress_dictionary *compress_dictionary_new(struct span bytes);
void compress_dictionary_free(struct compress_dictionary *d);
/* Packs text into out, with d or (NULL) without; returns the length, or -ENOSPC if it would be more than room. */
ssize_t compress_pack(struct compress *c, const struct compress_dictionary *d, struct span text, char *out,
		      size_t room);
/* Makes a dictionary of at most room bytes from n samples that lie one after the other in text. Takes a tenth of a second for a MB.
 * Returns its length; -EINVAL: they have too little in common, or are too few. */
ssize_t compress_train(struct span text, const size_t *lengths, size_t n, char *out, size_t room);

/* Unpacking: of bytes that nobody vouches for. */
struct decompress;
struct decompress *decompress_new(void);
void decompress_free(struct decompress *d);
/* As above (about 60 KB). */
struct decompress_dictionary;
struct decompress_dictionary *decompress_dictionary_new(struct span bytes);
void decompress_dictionary_free(struct decompress_dictionary *d);
/* Writes exactly len bytes to out; -EPROTO: it is damaged, or is not so long. */
int decompress_unpack(struct decompress *d, const struct decompress_dictionary *dictionary,
		      struct span packed, char *out, size_t len);
