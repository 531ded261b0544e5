/* What looks at many bytes at once: over the plain bytes of a string, and over containers in text that was checked before,
 * where only quotes, backslashes and brackets count: 64 bytes at a time become bit masks (the way of Langdale and Lemire,
 * "Parsing Gigabytes of JSON per Second"). By SSE2 where there is such a thing, the same in plain C elsewhere. Measured by
 * bench_scan. */
#include "json_machine.h"
#ifdef __SSE2__
#include <emmintrin.h>
#endif

size_t json_plain_bytes(const char *at, size_t n)
{
	size_t i = 0;
#ifdef __SSE2__
	const __m128i quote = _mm_set1_epi8('"'), backslash = _mm_set1_epi8('\\'), last = _mm_set1_epi8(0x1f);
	for (; i + 16 <= n; i += 16) {
		__m128i x = _mm_loadu_si128((const __m128i *)(const void *)(at + i));
		__m128i control = _mm_cmpeq_epi8(_mm_min_epu8(x, last), x); /* x <= 0x1f, unsigned */
		__m128i found = _mm_or_si128(
		    control, _mm_or_si128(_mm_cmpeq_epi8(x, quote), _mm_cmpeq_epi8(x, backslash)));
		unsigned mask = (unsigned)_mm_movemask_epi8(found);
		if (mask)
			return i + (size_t)__builtin_ctz(mask);
	}
#endif
	while (i < n && at[i] != '"' && at[i] != '\\' && (unsigned char)at[i] >= 0x20)
		i++;
	return i;
}

/* ---- containers ---- */

enum { BLOCK = 64 };

/* One bit per byte of a block, the first byte's lowest. */
struct masks {
	uint64_t quote, backslash, open, close;
};

#ifdef __SSE2__
static uint64_t equal(const __m128i part[static 4], char c)
{
	uint64_t mask = 0;
	const __m128i all = _mm_set1_epi8(c);
	for (int i = 0; i < 4; i++)
		mask |= (uint64_t)(uint16_t)_mm_movemask_epi8(_mm_cmpeq_epi8(part[i], all)) << (16 * i);
	return mask;
}

static struct masks masks_of(const char *at)
{
	__m128i part[4], lower[4];
	for (int i = 0; i < 4; i++) {
		part[i] = _mm_loadu_si128((const __m128i *)(const void *)(at + 16 * i));
		lower[i] =
		    _mm_or_si128(part[i], _mm_set1_epi8(0x20)); /* [ and { differ by that bit, ] and } too */
	}
	return (struct masks){equal(part, '"'), equal(part, '\\'), equal(lower, '{'), equal(lower, '}')};
}
#else
static struct masks masks_of(const char *at)
{
	struct masks m = {0};
	for (int i = 0; i < BLOCK; i++) {
		uint64_t bit = UINT64_C(1) << i;
		char c = at[i];
		m.quote |= c == '"' ? bit : 0;
		m.backslash |= c == '\\' ? bit : 0;
		m.open |= c == '{' || c == '[' ? bit : 0;
		m.close |= c == '}' || c == ']' ? bit : 0;
	}
	return m;
}
#endif

/* Bytes that stand behind an odd number of backslashes. *carry: the block before ended with one. */
static uint64_t escaped(uint64_t backslash, bool *carry)
{
	uint64_t found = *carry;
	backslash &= ~found;
	while (backslash) { /* rare: once for each escape */
		uint64_t first = backslash & -backslash, next = first << 1;
		found |= next;
		backslash &= ~(first | next);
		*carry = !next;
		if (!next)
			return found;
	}
	*carry = false;
	return found;
}

/* Each bit is the parity of those up to it: from quotes to what they enclose. */
static uint64_t prefix_xor(uint64_t x)
{
	for (int shift = 1; shift < BLOCK; shift *= 2)
		x ^= x << shift;
	return x;
}

size_t json_skip_container(struct span text, size_t at)
{
	size_t depth = 0;
	uint64_t inside = 0; /* all ones: the block before ended in a string */
	bool carry = false;
	for (; at < text.len; at += BLOCK) {
		char rest[BLOCK];
		const char *block = text.at + at;
		if (text.len - at < BLOCK) {
			memset(rest, ' ', sizeof rest);
			memcpy(rest, block, text.len - at);
			block = rest;
		}
		struct masks m = masks_of(block);
		if (m.backslash | carry)
			m.quote &= ~escaped(m.backslash, &carry);
		uint64_t in_string = prefix_xor(m.quote) ^ inside;
		inside = (uint64_t)((int64_t)in_string >> 63);
		for (uint64_t brackets = (m.open | m.close) & ~in_string; brackets;
		     brackets &= brackets - 1) {
			if (m.open & brackets & -brackets)
				depth++;
			else if (--depth == 0)
				return at + (size_t)__builtin_ctzll(brackets) + 1;
		}
	}
	return text.len;
}
