#include "fake_transport.h"
#include "wire.h"

struct fake_answers fake_answers;

struct token {
	uint32_t pipe;
};

void *fake_token(uint32_t pipe)
{
	struct token *t = xcalloc(1, sizeof(*t));
	t->pipe = pipe;
	fake_answers.tokens++;
	return t;
}

int transport_answer(struct transport_server *s, void *token, struct span bytes)
{
	uint32_t pipe = ((struct token *)token)->pipe;
	transport_drop(s, token);
	if (bytes.len > WIRE_MAX_BYTES || !bytes.len)
		return bytes.len ? -EMSGSIZE : -EINVAL;
	fake_answers.heard(fake_answers.ctx, pipe, bytes);
	return 0;
}

void transport_drop(struct transport_server *s _unused_, void *token)
{
	if (!token)
		return;
	fake_answers.tokens--;
	free(token);
}

void transport_close_peer(struct transport_server *s _unused_, uint32_t pipe)
{
	fake_answers.closed(fake_answers.ctx, pipe);
}
