/* What an operator wants of a controller: pause, resume, clear, scale. */
#include "broker.h"

/* Hosts of the controller whose HELLO stands. */
static uint32_t connected(const struct broker *b, const char *controller)
{
	uint32_t n = 0;
	for (const struct peer *p = b->peers.list; p; p = p->next)
		n += p->known && p->role == WIRE_ROLE_HOST && strcmp(p->controller, controller) == 0;
	return n;
}

static void acknowledge(struct broker *b, void *token, uint32_t count)
{
	broker_answer(b, token, &(struct wire){.type = WIRE_TYPE_CONTROL_ACK, .control_ack = {count}});
}

static void scale(struct broker *b, struct peer *p, uint16_t row, uint32_t wanted, void *token)
{
	const char *name = store_controller(&b->store, row)->name;
	uint32_t hosts = connected(b, name);
	if (wanted != WIRE_SCALE_AUTO && wanted > hosts) {
		char text[256];
		snprintf(text, sizeof(text),
			 "%u workers of %s are connected: start more of them (`up --workers`, or further "
			 "reconciled-worker@%s.N units)",
			 hosts, name, name);
		broker_refuse(b, p, token, WIRE_REFUSAL_MALFORMED, text);
		return;
	}
	workqueue_scale(&b->wq, row, wanted);
	acknowledge(b, token, hosts);
}

void broker_control(struct broker *b, struct peer *p, const struct wire_control *c, void *token, int64_t now)
{
	uint16_t row;
	char text[200] = "";
	if (p->role != WIRE_ROLE_CTL || c->what >= WIRE_WISH_COUNT) {
		broker_refuse(b, p, token, WIRE_REFUSAL_MALFORMED,
			      "CONTROL comes from reconcilectl and names what the broker knows");
		return;
	}
	if (workqueue_find(&b->wq, c->controller, &row) < 0) {
		snprintf(text, sizeof(text),
			 "there is no controller " SPAN_FMT ": `reconcilectl status` shows them",
			 SPAN_ARG(c->controller));
		broker_refuse(b, p, token, WIRE_REFUSAL_UNKNOWN_CONTROLLER, text);
		return;
	}
	log_info("an operator's wish", LOG_S("what", wire_wish_name(c->what)),
		 LOG_SP("controller", c->controller), LOG_SP("namespace", c->namespace),
		 LOG_SP("name", c->name), LOG_I("number", c->number), LOG_I("pid", p->pid));
	switch ((enum wire_wish)c->what) {
	case WIRE_WISH_PAUSE:
		workqueue_hold(&b->wq, row, now);
		acknowledge(b, token, b->wq.controllers[row].running);
		return;
	case WIRE_WISH_RESUME:
		workqueue_resume(&b->wq, row);
		acknowledge(b, token, b->wq.controllers[row].running);
		return;
	case WIRE_WISH_CLEAR:
		acknowledge(b, token, workqueue_clear(&b->wq, row, c->namespace, c->name, now));
		return;
	case WIRE_WISH_SCALE:
		scale(b, p, row, c->number, token);
		return;
	case WIRE_WISH_COUNT:
		return;
	}
}
