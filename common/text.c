#include "text.h"
#include <string.h>

size_t text_cut(struct span text, size_t max)
{
	if (text.len <= max)
		return text.len;
	size_t n = max;
	while (n && ((unsigned char)text.at[n] & 0xc0) == 0x80)
		n--;
	return n;
}

size_t text_ends(struct span text, size_t max, char *out)
{
	static const char gap[] = " ... ";
	size_t head = text.len, from = text.len;
	if (text.len == 0)
		return 0;
	if (text.len > max) {
		head = text_cut(text, (max - strlen(gap)) / 2);
		from = text.len - (max - strlen(gap) - head);
		while (from < text.len && ((unsigned char)text.at[from] & 0xc0) == 0x80)
			from++;
	}
	memcpy(out, text.at, head);
	if (head == text.len)
		return head;
	memcpy(out + head, gap, strlen(gap));
	memcpy(out + head + strlen(gap), text.at + from, text.len - from);
	return head + strlen(gap) + text.len - from;
}
