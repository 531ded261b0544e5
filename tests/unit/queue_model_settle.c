/* What an attempt wrote: which events are its own, and how long its key is held. */
#include "queue_model.h"

/* ---- own events ---- */

void model_hear(struct model_key *k, const struct model_event *event)
{
	bool known = event->version && event->stream != MODEL_NOBODY;
	if (!known || k->n_events == MODEL_EVENTS_KEPT)
		k->news = true;
	else
		k->events[k->n_events++] = *event;
}

static bool can_be_waited_for(const struct model_event *write)
{
	return write->version && write->stream != MODEL_NOBODY;
}

bool model_is_own(const struct model_event *writes, int n, const struct model_event *event)
{
	for (int i = 0; i < n; i++)
		if (can_be_waited_for(event) && writes[i].own && writes[i].version == event->version &&
		    writes[i].stream == event->stream)
			return true;
	return false;
}

bool model_forget_own(struct model_key *k, const struct model_done *done)
{
	if (k->state != MODEL_DIRTY || k->news)
		return false;
	for (int i = 0; i < k->n_events; i++)
		if (!model_is_own(done->writes, done->n_writes, &k->events[i]))
			return false;
	if (k->later) { /* the add for a later time stays, with all that is pending */
		k->state = MODEL_TIMED;
		k->at = k->later;
	} else {
		k->state = MODEL_RUNNING;
		k->pending = (struct model_pending){.priority = k->pending.priority};
	}
	return true;
}

/* ---- the hold ---- */

bool model_wrote(const struct model_done *done)
{
	for (int i = 0; i < done->n_writes; i++)
		if (can_be_waited_for(&done->writes[i]))
			return true;
	return false;
}

void model_hold_begin(struct model *m, int key, const struct model_done *done, int64_t now)
{
	struct model_key *k = &m->keys[key];
	k->lease_end = now + MODEL_HELD_AT_MOST;
	k->n_writes = 0;
	for (int i = 0; i < done->n_writes; i++)
		if (can_be_waited_for(&done->writes[i]))
			k->writes[k->n_writes++] = done->writes[i];
	model_controller(m, key)->holds++;
}

void model_hold_end(struct model *m, int key, bool in_vain, int64_t now)
{
	struct model_key *k = &m->keys[key];
	bool now_ready = k->state == MODEL_SETTLING_DIRTY && k->wait != MODEL_WAIT_THROTTLED;
	if (k->state == MODEL_SETTLING && k->later && k->wait != MODEL_WAIT_THROTTLED &&
	    (k->wait == MODEL_WAIT_NONE || k->later < k->at)) {
		k->at = k->later;
		if (k->wait == MODEL_WAIT_NONE || k->wait == MODEL_WAIT_REQUEUE_AFTER)
			k->wait = MODEL_WAIT_ADD_AFTER;
	}
	k->lease_end = k->later = 0;
	k->n_writes = 0;
	model_controller(m, key)->holds_in_vain += in_vain;
	if (now_ready || (k->wait != MODEL_WAIT_NONE && k->at <= now))
		model_make_ready(m, k, now);
	else if (k->wait != MODEL_WAIT_NONE)
		k->state = MODEL_WAITING;
	else
		*k = (struct model_key){0};
	model_turns_update(m, model_controller_of(m, key));
	model_forget_told(m);
}

/* The highest version of the stream that the key still waits for; 0: none. */
static uint64_t waits_for(const struct model_key *k, int stream)
{
	uint64_t highest = 0;
	for (int i = 0; model_settles(k) && i < k->n_writes; i++)
		if (k->writes[i].stream == stream && !k->writes[i].passed)
			highest = MAX(highest, k->writes[i].version);
	return highest;
}

/* Those that wait for the least come first. */
void model_passed(struct model *m, int stream, uint64_t version, int64_t now)
{
	for (;;) {
		int first = MODEL_NOBODY;
		for (int i = 0; i < m->n_keys; i++) {
			uint64_t v = waits_for(&m->keys[i], stream);
			if (v && v <= version &&
			    (first == MODEL_NOBODY || v < waits_for(&m->keys[first], stream)))
				first = i;
		}
		if (first == MODEL_NOBODY)
			break;
		struct model_key *k = &m->keys[first];
		bool all = true;
		for (int i = 0; i < k->n_writes; i++) {
			k->writes[i].passed |= k->writes[i].stream == stream;
			all = all && k->writes[i].passed;
		}
		if (all)
			model_hold_end(m, first, false, now);
	}
	model_forget_told(m);
}

/* ---- what the watcher is told ---- */

static uint64_t highest_wait(const struct model *m, int stream)
{
	uint64_t highest = 0;
	for (int i = 0; i < m->n_keys; i++)
		highest = MAX(highest, waits_for(&m->keys[i], stream));
	return highest;
}

uint64_t model_awaited(const struct model *m, int stream)
{
	uint64_t highest = highest_wait(m, stream);
	return highest > m->told[stream] ? highest : 0;
}

void model_tell(struct model *m, int stream)
{
	m->told[stream] = highest_wait(m, stream);
}

void model_untell(struct model *m)
{
	memset(m->told, 0, sizeof(m->told));
}

void model_forget_told(struct model *m)
{
	for (int s = 0; s < MODEL_STREAMS; s++)
		if (!highest_wait(m, s))
			m->told[s] = 0;
}
