/* Base64 (RFC 4648, with padding), for the data of Secrets and for kubeconfigs. Pure. */
#pragma once
#include "buf.h"

void base64_encode(struct buf *out, struct span bytes);
bool base64_valid(struct span text);
/* Bytes that a valid text stands for. */
size_t base64_size(struct span text);
