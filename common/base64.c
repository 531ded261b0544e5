#include "base64.h"
#include <ctype.h>

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void base64_encode(struct buf *out, struct span s)
{
	for (size_t i = 0; i < s.len; i += 3) {
		size_t n = MIN(s.len - i, (size_t)3);
		uint32_t bits = 0;
		for (size_t k = 0; k < 3; k++)
			bits = bits << 8 | (k < n ? (unsigned char)s.at[i + k] : 0);
		for (size_t k = 0; k < 4; k++)
			buf_putc(out, k <= n ? alphabet[bits >> (18 - 6 * k) & 63] : '=');
	}
}

bool base64_valid(struct span s)
{
	if (s.len % 4)
		return false;
	size_t padding = 0;
	for (size_t i = 0; i < s.len; i++) {
		bool pad = s.at[i] == '=';
		if (pad ? i + 2 < s.len : padding || !s.at[i] || !strchr(alphabet, s.at[i]))
			return false;
		padding += pad;
	}
	return true;
}

size_t base64_size(struct span s)
{
	size_t padding = 0;
	while (padding < s.len && padding < 2 && s.at[s.len - 1 - padding] == '=')
		padding++;
	return s.len / 4 * 3 - padding;
}

char *base64_decode(struct span text, size_t *ret_len)
{
	_cleanup_(free_ptr) char *compact = xmalloc(text.len + 1);
	struct span s = {compact, 0};
	for (size_t i = 0; i < text.len; i++)
		if (!isspace((unsigned char)text.at[i]))
			compact[s.len++] = text.at[i];
	if (!base64_valid(s))
		return NULL;
	size_t len = base64_size(s);
	char *out = xmalloc(len + 1);
	uint32_t bits = 0;
	for (size_t i = 0, n = 0; i < s.len; i++) {
		const char *digit = strchr(alphabet, s.at[i]); /* of padding: none */
		bits = bits << 6 | (digit ? (uint32_t)(digit - alphabet) : 0);
		for (int k = 16; i % 4 == 3 && k >= 0 && n < len; k -= 8)
			out[n++] = (char)(bits >> k & 255);
	}
	out[len] = 0;
	*ret_len = len;
	return out;
}
