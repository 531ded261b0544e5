/* What a parsed controller is, in one text: two processes that have the same text run the same controller. */
#include "config_internal.h"
#include <inttypes.h>
#include <openssl/evp.h>

/* Every text with its length, so that no two controllers print alike. */
static void put(struct buf *b, const char *text)
{
	if (text)
		buf_printf(b, "%zu:%s;", strlen(text), text);
	else
		buf_puts(b, "-;");
}

static void put_number(struct buf *b, uint64_t v)
{
	buf_printf(b, "%" PRIu64 ";", v);
}

static void put_list(struct buf *b, char *const *list)
{
	buf_puts(b, list ? "[" : "-");
	for (size_t i = 0; list && list[i]; i++)
		put(b, list[i]);
	buf_putc(b, ']');
}

static void put_program(struct buf *b, const struct config_program *p)
{
	put_list(b, p->command);
	put_number(b, (uint64_t)p->startup_timeout_ns);
	put_number(b, (uint64_t)p->timeout_ns);
	put_number(b, p->max_memory);
}

static void put_predicate(struct buf *b, const struct config_predicate *p)
{
	put_number(b, p->type);
	put_number(b, p->op);
	put_number(b, p->wanted);
	put(b, p->text);
	put_list(b, p->values);
	if (p->program)
		put_program(b, p->program);
	put_number(b, p->count);
	for (size_t i = 0; i < p->count; i++)
		put_predicate(b, &p->children[i]);
}

static void put_watch(struct buf *b, const struct config_watch *w)
{
	put(b, w->kind.api_version);
	put(b, w->kind.kind);
	put_list(b, w->kind.namespaces);
	put(b, w->kind.label_selector);
	put(b, w->kind.field_selector);
	put_number(b, w->kind.metadata_only);
	put_list(b, w->kind.fields);
	put_predicate(b, &w->predicates);
	put_number(b, w->predicates_given);
	put_number(b, w->map);
	put_number(b, w->match_every_owner);
	put(b, w->map_key);
	put(b, w->owner_api_version);
	put(b, w->owner_kind);
	if (w->map == MAP_PROGRAM)
		put_program(b, &w->program);
	put_number(b, w->is_owns);
}

static void put_reconciler(struct buf *b, const struct config_reconciler *r)
{
	put_number(b, r->coprocess);
	put_list(b, r->command);
	put_number(b, (uint64_t)r->startup_timeout_ns);
	put_number(b, r->max_requests);
	put_number(b, r->max_memory);
	put_number(b, r->network_host);
	put_number(b, r->kubeconfig);
	put_list(b, r->env);
	put_list(b, r->read_only_paths);
	put_list(b, r->read_write_paths);
	put_number(b, (uint64_t)r->limit_cpu_ns);
	put_number(b, r->limit_files);
	put_number(b, r->limit_processes);
	put_list(b, r->without);
}

static void put_controller(struct buf *b, const struct config_controller *c)
{
	put(b, c->name);
	put(b, c->folder);
	put_number(b, c->watch_count);
	for (size_t i = 0; i < c->watch_count; i++)
		put_watch(b, &c->watches[i]);
	put_number(b, c->input_children);
	put_number(b, c->input_related);
	put_number(b, c->input_reasons);
	put_reconciler(b, &c->reconciler);
	put_number(b, c->workers);
	put_number(b, c->workers_elastic ? c->workers_min : UINT32_MAX);
	put_number(b, c->max_concurrent);
	put_number(b, (uint64_t)c->reconciliation_timeout_ns);
	put_number(b, (uint64_t)c->base_delay_ns);
	put_number(b, (uint64_t)c->max_delay_ns);
	buf_printf(b, "%.17g;%.17g;", c->jitter, c->qps);
	put_number(b, c->burst);
	put_number(b, (uint64_t)c->resync_period_ns);
	put_number(b, c->storm_keys);
	put_number(b, c->storm_qps);
	put(b, c->finalizer);
	put_number(b, c->prune);
	put_number(b, c->quarantine_crashes);
	put_number(b, (uint64_t)c->quarantine_within_ns);
	put_number(b, (uint64_t)c->quarantine_for_ns);
	put_number(b, (uint64_t)c->cache_sync_timeout_ns);
	put_number(b, c->strip_managed_fields);
}

void config_controller_digest(struct config_controller *c)
{
	static const char hex[] = "0123456789abcdef";
	_cleanup_(buf_done) struct buf b = {0};
	unsigned char sha[EVP_MAX_MD_SIZE];
	unsigned n = 0;
	put_controller(&b, c);
	if (buf_failed(&b) || !EVP_Digest(b.data, b.len, sha, &n, EVP_sha256(), NULL) || n != 32)
		abort(); /* no memory, or an OpenSSL without SHA-256 */
	for (unsigned i = 0; i < n; i++) {
		c->digest[2 * i] = hex[sha[i] >> 4];
		c->digest[2 * i + 1] = hex[sha[i] & 15];
	}
	c->digest[64] = 0;
}
