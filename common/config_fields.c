/* spec.cache.fields: the paths that are kept of objects. One list per controller, for the kinds of `for` and `watches`:
 * what a controller owns is compared with what it wants, and so is kept whole. */
#include "config_internal.h"
#include "path.h"

/* Kept always. */
static const char *const always[] = {"apiVersion", "kind", "metadata", "status"};

/* Is there a path among the first n of list that the path lies at or below? */
static bool covered(const char *path, const char *const *list, size_t n)
{
	struct path p, q;
	bool yes = false;
	if (path_parse(path, &p, NULL) < 0)
		return false;
	for (size_t i = 0; i < n && !yes; i++) {
		if (path_parse(list[i], &q, NULL) < 0)
			continue;
		yes = path_covers(&q, &p);
		path_done(&q);
	}
	path_done(&p);
	return yes;
}

static bool kept(const char *path, char *const *fields)
{
	return covered(path, always, ARRAY_SIZE(always)) ||
	       covered(path, (const char *const *)fields, texts_count(fields));
}

static char *canonical(const char *text)
{
	struct path p;
	struct buf b = {0};
	if (path_parse(text, &p, NULL) == 0) {
		path_print(&p, &b);
		path_done(&p);
	}
	return buf_steal(&b);
}

/* Sorted, without what another path or the rule covers: equal projections are equal texts. A path's text begins
 * with that of each path above it, so those come first. */
static void reduce(char **list)
{
	size_t n = 0, count = texts_count(list);
	texts_sort(list);
	for (size_t i = 0; i < count; i++) {
		char *path = list[i];
		list[i] = NULL;
		if (kept(path, list))
			free(path);
		else
			list[n++] = path;
	}
}

void config_read_fields(struct config_reader *r, const struct config_key *k, const struct yaml_doc_node *n,
			void *base)
{
	(void)k;
	struct config_controller *c = base;
	char **given = NULL;
	if (!config_texts(r, n, 0, config_check_path, "a path, as in spec.title or spec.nodes[*].name",
			  &given))
		return;
	size_t count = texts_count(given);
	if (count > CONFIG_FIELDS_MAX)
		config_complain(r, n, "found %zu paths; allowed: at most %d", count, CONFIG_FIELDS_MAX);
	if (count && count <= CONFIG_FIELDS_MAX) { /* an empty list is as none: all is kept */
		c->cache_fields = xcalloc(count + 1, sizeof(char *));
		for (size_t i = 0; i < count; i++)
			c->cache_fields[i] = canonical(given[i]);
		reduce(c->cache_fields);
	}
	texts_free(given);
}

/* The first path that a predicate looks at and that is not kept. */
static const char *left_out(const struct config_predicate *p, char *const *fields)
{
	if (p->type == PREDICATE_FIELD)
		return p->text && !kept(p->text, fields) ? p->text : NULL;
	for (size_t i = 0; i < p->count; i++) {
		const char *path = left_out(&p->children[i], fields);
		if (path)
			return path;
	}
	return NULL;
}

void config_fields_share(struct config_reader *r, const struct yaml_doc_node *root,
			 struct config_controller *c)
{
	const struct yaml_doc_node *at =
	    yaml_doc_get(yaml_doc_get(yaml_doc_get(root, "spec"), "cache"), "fields");
	for (size_t i = 0; c->cache_fields && i < c->watch_count; i++) {
		struct config_watch *w = &c->watches[i];
		if (w->map == MAP_INDEX && !c->watches[0].kind.metadata_only &&
		    !kept(w->map_key, c->cache_fields))
			config_complain(
			    r, at, "spec.cache.fields: mapTo.index reads %.100s, which is left out: add it",
			    w->map_key);
		if (w->is_owns || w->kind.metadata_only)
			continue;
		const char *path = left_out(&w->predicates, c->cache_fields);
		if (path)
			config_complain(
			    r, at,
			    "spec.cache.fields: a predicate looks at %.100s, which is left out: add it",
			    path);
		w->kind.fields = xcalloc(texts_count(c->cache_fields) + 1, sizeof(char *));
		for (size_t n = 0; c->cache_fields[n]; n++)
			w->kind.fields[n] = xstrdup(c->cache_fields[n]);
	}
}
