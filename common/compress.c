#include "compress.h"
#include <zdict.h>
#include <zstd.h>

/* Measured with tests/bench/objects.c and a dictionary of 32 KB: level 3 packs a twentieth better than level 1 and takes a third longer,
 * 5 is no better; a dictionary of 110 KB or one of ten times the samples packs a fortieth better. */
enum { LEVEL = 1 };

/* Our names for the library's types, which are pointers to the same. */
static ZSTD_CCtx *cctx(struct compress *c)
{
	return (ZSTD_CCtx *)c;
}
static ZSTD_DCtx *dctx(struct decompress *d)
{
	return (ZSTD_DCtx *)d;
}

static void *must(void *p)
{
	if (!p)
		abort(); /* no memory: as xmalloc */
	return p;
}

struct compress *compress_new(void)
{
	ZSTD_CCtx *c = must(ZSTD_createCCtx());
	ZSTD_CCtx_setParameter(c, ZSTD_c_compressionLevel, LEVEL);
	/* The record says all of that. */
	ZSTD_CCtx_setParameter(c, ZSTD_c_contentSizeFlag, 0);
	ZSTD_CCtx_setParameter(c, ZSTD_c_dictIDFlag, 0);
	ZSTD_CCtx_setParameter(c, ZSTD_c_checksumFlag, 0);
	return (struct compress *)c;
}
void compress_free(struct compress *c)
{
	ZSTD_freeCCtx(cctx(c));
}

/* Those of ZDICT begin with this; other bytes would be taken as they are. */
static bool is_dictionary(struct span bytes)
{
	return bytes.len >= 8 && ZDICT_getDictID(bytes.at, bytes.len) != 0;
}

struct compress_dictionary *compress_dictionary_new(struct span bytes)
{
	return is_dictionary(bytes)
		   ? (struct compress_dictionary *)ZSTD_createCDict(bytes.at, bytes.len, LEVEL)
		   : NULL;
}
void compress_dictionary_free(struct compress_dictionary *d)
{
	ZSTD_freeCDict((ZSTD_CDict *)d);
}

ssize_t compress_pack(struct compress *c, const struct compress_dictionary *d, struct span text, char *out,
		      size_t room)
{
	ZSTD_CCtx_refCDict(cctx(c), (const ZSTD_CDict *)d);
	size_t n = ZSTD_compress2(cctx(c), out, room, text.at, text.len);
	return ZSTD_isError(n) ? -ENOSPC : (ssize_t)n;
}

ssize_t compress_train(struct span text, const size_t *lengths, size_t n, char *out, size_t room)
{
	size_t len = ZDICT_trainFromBuffer(out, room, text.at, lengths, (unsigned)n);
	return ZDICT_isError(len) ? -EINVAL : (ssize_t)len;
}

struct decompress *decompress_new(void)
{
	return must(ZSTD_createDCtx());
}
void decompress_free(struct decompress *d)
{
	ZSTD_freeDCtx(dctx(d));
}

struct decompress_dictionary *decompress_dictionary_new(struct span bytes)
{
	return is_dictionary(bytes) ? (struct decompress_dictionary *)ZSTD_createDDict(bytes.at, bytes.len)
				    : NULL;
}
void decompress_dictionary_free(struct decompress_dictionary *d)
{
	ZSTD_freeDDict((ZSTD_DDict *)d);
}

int decompress_unpack(struct decompress *d, const struct decompress_dictionary *dictionary,
		      struct span packed, char *out, size_t len)
{
	size_t n = ZSTD_decompress_usingDDict(dctx(d), out, len, packed.at, packed.len,
					      (const ZSTD_DDict *)dictionary);
	return n == len ? 0 : -EPROTO;
}
