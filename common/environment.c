#include "environment.h"

static size_t name_len(const char *entry)
{
	const char *eq = strchr(entry, '=');
	return eq ? (size_t)(eq - entry) : strlen(entry);
}

/* Takes the entry over. Most programs find the first of two equal names, so there must not be two. */
static void put(struct environment *e, char *entry)
{
	size_t n = name_len(entry);
	for (size_t i = 0; i < e->count; i++)
		if (name_len(e->at[i]) == n && memcmp(e->at[i], entry, n) == 0) {
			free(e->at[i]);
			e->at[i] = entry;
			return;
		}
	e->at = xrealloc(e->at, (e->count + 2) * sizeof(*e->at));
	e->at[e->count++] = entry;
	e->at[e->count] = NULL;
}

static void put_span(struct environment *e, const char *name, struct span value)
{
	put(e, xasprintf("%s=%.*s", name, SPAN_ARG(value)));
}

void environment_build(struct environment *e, const struct config_controller *c,
		       const struct environment_key *key, char *const *given)
{
	*e = (struct environment){0};
	put(e, xstrdup("PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"));
	put(e, xstrdup("HOME=/tmp"));
	put(e, xstrdup("TMPDIR=/tmp"));
	put(e, xstrdup("LANG=C.UTF-8"));
	put(e, xstrdup("PYTHONUNBUFFERED=1"));
	put_span(e, "RECONCILE_CONTROLLER", span_of(c->name));
	if (key) {
		char deadline[21];
		put_span(e, "RECONCILE_NAMESPACE", key->namespace.at ? key->namespace : span_of(""));
		put_span(e, "RECONCILE_NAME", key->name);
		put_span(e, "RECONCILE_UID", key->uid);
		put(e, xasprintf("RECONCILE_ATTEMPT=%u", key->attempt));
		put_span(e, "RECONCILE_DEADLINE", span_of(format_rfc3339(key->deadline_unix_s, deadline)));
	}
	for (; given && *given; given++)
		put(e, xstrdup(*given));
	for (char **own = c->reconciler.env; own && *own; own++)
		put(e, xstrdup(*own));
}

const char *environment_get(const struct environment *e, const char *name)
{
	size_t n = strlen(name);
	for (size_t i = 0; i < e->count; i++)
		if (name_len(e->at[i]) == n && memcmp(e->at[i], name, n) == 0)
			return e->at[i] + n + 1;
	return NULL;
}

void environment_done(struct environment *e)
{
	for (size_t i = 0; i < e->count; i++)
		free(e->at[i]);
	free(e->at);
	*e = (struct environment){0};
}
