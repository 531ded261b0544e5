/* Base64 (RFC 4648, with padding): the data of Secrets, certificates in kubeconfigs, passwords. Pure. */
#pragma once
#include "buf.h"

void base64_encode(struct buf *out, struct span bytes);
bool base64_valid(struct span text);
/* Bytes that a valid text stands for. */
size_t base64_size(struct span text);
/* White space is skipped anywhere. Owned by the caller, a NUL behind its bytes; NULL: it is no base64. */
char *base64_decode(struct span text, size_t *ret_len);
