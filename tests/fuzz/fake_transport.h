/* common/transport.h's server in memory: what the broker answers is heard here. */
#pragma once
#include "transport.h"

struct fake_answers {
	/* The answer to a token; drops have none. Called at once. */
	void (*heard)(void *ctx, uint32_t pipe, struct span bytes);
	void (*closed)(void *ctx, uint32_t pipe);
	void *ctx;
	size_t tokens; /* given out and not yet used up */
};
extern struct fake_answers fake_answers;

/* For one request of that connection; the broker must use it up exactly once (a sanitizer sees it when it is used twice). */
void *fake_token(uint32_t pipe);
