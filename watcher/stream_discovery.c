/* Is the kind served, and where it is not: is it under another version, or gone with all its objects?
 *
 *   GET /apis/GROUP/VERSION    it is in there: served
 *   GET /apis                  which other versions its group has
 *   GET /apis/GROUP/OTHER      one after the other: the kind's objects live on where it is in one of them
 *
 * Gone is only what well-formed answers to all of these do not have: 404 is also what proxies say. */
#include "log.h"
#include "stream_internal.h"

/* Servers that just started do not serve all of their kinds yet, and custom kinds are away for a moment when their
 * definition changes: gone is what nobody served for so long. */
#define GONE_NS (30 * NS_PER_S)

/* Of several namespaces one asks for all. */
bool stream_waits_for_discovery(const struct stream *s)
{
	const struct informer *i = s->informer;
	for (const struct stream *o = i->streams; o < s; o++)
		if (!o->dormant && o->reflector.phase == REFLECTOR_DISCOVER)
			return !i->served;
	return false;
}

void stream_discovery_path(const struct stream *s, struct buf *path)
{
	const struct exchange *x = s->exchange;
	const char *version = x->question ? x->question : s->informer->kind->api_version;
	if (x->in_group && !x->question)
		buf_puts(path, "/apis");
	else if (kube_discovery_path(version, path, NULL) < 0)
		buf_puts(path,
			 "/api"); /* the configuration refuses such a thing; the kind is not found there */
}

static void served(struct informer *i)
{
	struct cache_table *t = store_table_entry(i->watcher->store, i->table);
	i->served = true;
	i->absent_ns = 0;
	t->scope = i->resource.namespaced ? CACHE_SCOPE_NAMESPACED : CACHE_SCOPE_CLUSTER;
	t->custom = i->resource.custom;
	for (size_t n = 0; n < i->n_streams; n++) {
		struct stream *s = &i->streams[n];
		s->dormant = n > 0 && !i->resource.namespaced;
		if (!s->exchange && s->reflector.phase == REFLECTOR_DISCOVER)
			s->due_ns = 0;
	}
	for (size_t n = 0; n < i->n_subs; n++) {
		struct sub *u = i->subs[n];
		bool primary = u->mapping.type == MAP_SELF;
		if (u->default_predicate) {
			predicate_done(&u->predicate);
			predicate_init_default(&u->predicate, primary && i->resource.custom);
		}
		if (primary && i->resource.custom && !i->resource.has_status)
			log_warning("the kind has no status subresource: writing its status counts as a "
				    "change of the object",
				    LOG_S("controller", u->controller->config->name),
				    LOG_S("table", i->name));
	}
	if (i->kind->namespaces && !i->resource.namespaced)
		log_warning("the kind is cluster-scoped: its namespaces are ignored",
			    LOG_S("table", i->name));
}

/* No version of its group has it. Its objects went with it, told or not. */
static void absent(struct stream *s)
{
	struct informer *i = s->informer;
	struct exchange *x = s->exchange;
	struct counts counts = {0};
	int64_t now = clock_boottime_ns();
	if (!i->absent_ns)
		i->absent_ns = now;
	uint64_t objects = atomic_load(&store_table_entry(i->watcher->store, i->table)->objects);
	if (objects && now - i->absent_ns >= GONE_NS) {
		struct err err = {0};
		if (informer_sweep(i, (struct span){0}, watcher_next_epoch(i->watcher), &counts, &err) < 0) {
			stream_end_exchange(s, REFLECTOR_OUTBOX_FULL, -1, &err);
			return;
		}
		for (size_t n = 0; n < i->n_streams; n++) /* should one be served all the same */
			if (i->streams[n].reflector.phase != REFLECTOR_DISCOVER)
				stream_relist(&i->streams[n]);
		log_info("the kind is gone, and its objects with it", LOG_S("table", i->name),
			 LOG_I("deleted", counts.deleted));
	}
	stream_end_exchange(s, REFLECTOR_NOT_SERVED, -1, &x->err);
}

/* It is not where it was looked for. Whether it is gone is not known. */
static void not_served(struct stream *s)
{
	s->informer->absent_ns = 0;
	stream_end_exchange(s, REFLECTOR_NOT_SERVED, -1, &s->exchange->err);
}

/* The next one of the group's other versions. */
static void ask_other_version(struct stream *s)
{
	struct exchange *x = s->exchange;
	if (x->version_at >= x->versions.len) {
		absent(s);
		return;
	}
	x->question = buf_str(&x->versions) + x->version_at;
	x->version_at += strlen(x->question) + 1;
	stream_start_request(s);
}

static void own_version_told(struct stream *s, bool there)
{
	struct informer *i = s->informer;
	struct exchange *x = s->exchange;
	int rc = there ? kube_discovery_find(i->kind->api_version, i->kind->kind, buf_span(&x->body),
					     &i->resource, &x->err)
		       : err_set(&x->err, -ENOENT, "%s is not served", i->kind->api_version);
	if (rc == 0)
		served(i);
	if (rc != -ENOENT) {
		stream_end_exchange(s, rc ? REFLECTOR_NONSENSE : REFLECTOR_SERVED, -1, &x->err);
	} else if (!strchr(i->kind->api_version, '/')) {
		not_served(s); /* the core group has one version, and does not go */
	} else {
		x->in_group = true;
		x->told_apart = there;
		stream_start_request(s);
	}
}

static void groups_told(struct stream *s)
{
	struct exchange *x = s->exchange;
	bool listed;
	int rc = kube_discovery_versions(s->informer->kind->api_version, buf_span(&x->body), &x->versions,
					 &listed);
	if (rc < 0 || (listed && !x->told_apart))
		not_served(s); /* it should be there */
	else
		ask_other_version(s);
}

static void other_version_told(struct stream *s)
{
	struct informer *i = s->informer;
	struct exchange *x = s->exchange;
	struct kube_resource r;
	struct err err;
	int rc = kube_discovery_find(x->question, i->kind->kind, buf_span(&x->body), &r, &err);
	if (rc == -ENOENT) {
		ask_other_version(s);
		return;
	}
	if (rc == 0)
		err_set(&x->err, -ENOENT,
			"%s is served as %s, not as %s: that is what the controller's file has to say",
			i->kind->kind, x->question, i->kind->api_version);
	not_served(s);
}

void stream_discovered(struct stream *s, int status)
{
	struct exchange *x = s->exchange;
	if (!x->in_group)
		own_version_told(s, status == 200);
	else if (status != 200)
		not_served(s);
	else if (!x->question)
		groups_told(s);
	else
		other_version_told(s);
}
