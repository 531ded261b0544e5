#include "crd.h"
#include "names.h"
#include <ctype.h>
#include <stdio.h>

static struct span text_at(struct doc *d, const struct doc_node *n, const char *key)
{
	return doc_string(d, doc_get(n, key));
}

/* ---- before a definition is stored ---- */

static void fill_names(struct doc *d, struct doc_node *spec)
{
	struct doc_node *names = doc_ensure_object(d, spec, "names");
	struct span kind = text_at(d, names, "kind");
	if (!text_at(d, names, "singular").len && kind.len) {
		_cleanup_(free_ptr) char *lower = span_dup(kind);
		for (char *p = lower; *p; p++)
			*p = (char)tolower((unsigned char)*p);
		doc_set(d, names, "singular", doc_new_string(d, span_of(lower)));
	}
	if (!text_at(d, names, "listKind").len && kind.len) {
		_cleanup_(free_ptr) char *list = xasprintf(SPAN_FMT "List", SPAN_ARG(kind));
		doc_set(d, names, "listKind", doc_new_string(d, span_of(list)));
	}
	if (!doc_get(spec, "conversion")) {
		struct doc_node *conversion = doc_ensure_object(d, spec, "conversion");
		doc_set(d, conversion, "strategy", doc_new_string(d, span_of("None")));
	}
}

static struct doc_node *condition(struct call *c, const char *type, const char *reason, const char *message)
{
	struct doc *d = c->doc;
	char time[21];
	struct doc_node *n = doc_new_object(d);
	doc_set(d, n, "lastTransitionTime", doc_new_string(d, span_of(format_rfc3339(c->in->now, time))));
	doc_set(d, n, "message", doc_new_string(d, span_of(message)));
	doc_set(d, n, "reason", doc_new_string(d, span_of(reason)));
	doc_set(d, n, "status", doc_new_string(d, span_of("True")));
	doc_set(d, n, "type", doc_new_string(d, span_of(type)));
	return n;
}

static void add_stored_version(struct doc *d, struct doc_node *status, struct span version)
{
	struct doc_node *list = doc_get(status, "storedVersions");
	if (!list || list->type != JSON_ARRAY)
		list = doc_set(d, status, "storedVersions", doc_new_array(d));
	doc_each (n, list)
		if (span_eq(doc_string(d, n), version))
			return;
	doc_append(list, doc_new_string(d, version));
}

static void fill_status(struct call *c, struct doc_node *root)
{
	struct doc *d = c->doc;
	struct doc_node *spec = doc_get(root, "spec"), *status = doc_ensure_object(d, root, "status");
	doc_set(d, status, "acceptedNames", doc_copy(d, doc_get(spec, "names")));
	if (!doc_get(status, "conditions")) {
		struct doc_node *conditions = doc_set(d, status, "conditions", doc_new_array(d));
		doc_append(conditions, condition(c, "NamesAccepted", "NoConflicts", "no conflicts found"));
		doc_append(conditions, condition(c, "Established", "InitialNamesAccepted",
						 "the initial names have been accepted"));
	}
	doc_each (v, doc_get(spec, "versions")) {
		const struct doc_node *storage = doc_get(v, "storage");
		if (storage && storage->type == JSON_BOOL && span_is(storage->text, "true"))
			add_stored_version(d, status, text_at(d, v, "name"));
	}
}

static void add_finalizer(struct doc *d, struct doc_node *root)
{
	struct doc_node *meta = doc_ensure_object(d, root, "metadata"), *list = doc_get(meta, "finalizers");
	if (!list || list->type != JSON_ARRAY)
		list = doc_set(d, meta, "finalizers", doc_new_array(d));
	doc_each (n, list)
		if (doc_is(d, n, CRD_FINALIZER))
			return;
	doc_append(list, doc_new_string(d, span_of(CRD_FINALIZER)));
}

void crd_prepare(struct call *c, const struct doc_node *before, struct doc_node *after)
{
	struct doc_node *spec = doc_get(after, "spec");
	if (!spec || spec->type != JSON_OBJECT)
		return; /* crd_check says so */
	fill_names(c->doc, spec);
	fill_status(c, after);
	if (!before)
		add_finalizer(c->doc, after);
}

static void required(struct call *c, const char *field)
{
	invalid(&c->f, "FieldValueRequired", field, "Required value");
}

static bool is_true(const struct doc_node *n)
{
	return n && n->type == JSON_BOOL && span_is(n->text, "true");
}

static void check_versions(struct call *c, const struct doc_node *versions)
{
	size_t stored = 0, n = 0;
	char field[64];
	doc_each (v, versions) {
		snprintf(field, sizeof(field), "spec.versions[%zu].name", n++);
		if (!kube_is_dns_label(text_at(c->doc, v, "name")))
			invalid(&c->f, "FieldValueInvalid", field,
				"Invalid value: must be a lowercase RFC 1123 label");
		stored += is_true(doc_get(v, "storage"));
	}
	if (!n)
		required(c, "spec.versions");
	else if (n > VERSIONS_MAX)
		invalid(&c->f, "FieldValueTooMany", "spec.versions",
			"Too many: %zu: this server serves at most %d versions of a kind", n, VERSIONS_MAX);
	else if (stored != 1)
		invalid(&c->f, "FieldValueInvalid", "spec.versions",
			"Invalid value: must have exactly one version marked as storage version");
}

static void check_free(struct call *c, struct span group, struct span plural, struct span kind)
{
	struct kind *same = kinds_find(c->store, group, plural);
	if (same && same->served && same->def->builtin)
		invalid(&c->f, "FieldValueInvalid", "spec.names.plural",
			"Invalid value: \"" SPAN_FMT "\": is built in", (int)MIN(plural.len, (size_t)253),
			plural.at);
	struct view v;
	if (view_find_kind(c->store, group, (struct span){0}, kind, &v)) {
		if (!span_is(plural, v.def->plural))
			invalid(&c->f, "FieldValueInvalid", "spec.names.kind",
				"Invalid value: \"" SPAN_FMT "\": is already in use",
				(int)MIN(kind.len, (size_t)253), kind.at);
		view_done(&v);
	}
	if (!same && c->store->n_kinds == KINDS_MAX)
		invalid(&c->f, "FieldValueTooMany", "spec.names",
			"Too many: this server serves at most %d kinds", KINDS_MAX);
}

static bool is_word(struct span s, bool upper)
{
	bool all = s.len > 0 && s.len <= NAMESPACE_MAX_LEN;
	for (size_t i = 0; i < s.len && all; i++)
		all = isalnum((unsigned char)s.at[i]) || s.at[i] == '-';
	return all && (upper || kube_is_dns_label(s));
}

/* Discovery shows these to everybody. */
static void check_words(struct call *c, const struct doc_node *names)
{
	static const char *const single[] = {"kind", "listKind", "singular"}, *const lists[] = {"shortNames",
												"categories"};
	char field[64];
	for (size_t i = 0; i < ARRAY_SIZE(single); i++) {
		struct span word = text_at(c->doc, names, single[i]);
		snprintf(field, sizeof(field), "spec.names.%s", single[i]);
		if (!word.len)
			required(c, field);
		else if (!is_word(word, i < 2))
			invalid(&c->f, "FieldValueInvalid", field,
				"Invalid value: \"" SPAN_FMT "\": letters, digits and '-', at most 63",
				(int)MIN(word.len, (size_t)253), word.at);
	}
	for (size_t i = 0; i < ARRAY_SIZE(lists); i++)
		doc_each (n, doc_get(names, lists[i])) {
			snprintf(field, sizeof(field), "spec.names.%s", lists[i]);
			if (!is_word(doc_string(c->doc, n), false))
				invalid(&c->f, "FieldValueInvalid", field,
					"Invalid value: must be lowercase RFC 1123 labels");
		}
}

int crd_check(struct call *c, const struct doc_node *root)
{
	struct doc *d = c->doc;
	const struct doc_node *spec = doc_get(root, "spec"), *names = doc_get(spec, "names");
	struct span group = text_at(d, spec, "group"), plural = text_at(d, names, "plural"),
		    kind = text_at(d, names, "kind");
	struct span scope = text_at(d, spec, "scope"),
		    name = doc_string(d, doc_path(root, "metadata", "name", NULL));
	if (!kube_is_dns_subdomain(group) || !memchr(group.at, '.', group.len))
		invalid(&c->f, group.len ? "FieldValueInvalid" : "FieldValueRequired", "spec.group",
			"%s: a domain with at least one dot", group.len ? "Invalid value" : "Required value");
	if (!kube_is_dns_label(plural))
		invalid(&c->f, plural.len ? "FieldValueInvalid" : "FieldValueRequired", "spec.names.plural",
			"%s: a lowercase RFC 1123 label", plural.len ? "Invalid value" : "Required value");
	if (!span_is(scope, "Namespaced") && !span_is(scope, "Cluster"))
		invalid(&c->f, "FieldValueNotSupported", "spec.scope",
			"Unsupported value: \"" SPAN_FMT "\": supported values: \"Cluster\", \"Namespaced\"",
			(int)MIN(scope.len, (size_t)64), scope.at ? scope.at : "");
	check_words(c, names);
	_cleanup_(free_ptr) char *wanted =
	    xasprintf(SPAN_FMT "." SPAN_FMT, SPAN_ARG(plural), SPAN_ARG(group));
	if (!span_is(name, wanted))
		invalid(&c->f, "FieldValueInvalid", "metadata.name",
			"Invalid value: \"" SPAN_FMT "\": must be spec.names.plural+\".\"+spec.group",
			(int)MIN(name.len, (size_t)253), name.at);
	check_versions(c, doc_get(spec, "versions"));
	if (!c->f.n_causes)
		check_free(c, group, plural, kind);
	return 0;
}

/* ---- after it was stored ---- */

static char *dup_at(struct doc *d, const struct doc_node *n, const char *key)
{
	struct span s = text_at(d, n, key);
	return span_dup(s.at ? s : span_of(""));
}

static size_t dup_list(struct doc *d, const struct doc_node *list, char **ret)
{
	size_t n = 0;
	doc_each (m, list)
		if (n < SHORT_NAMES_MAX && m->type == JSON_STRING)
			ret[n++] = span_dup(doc_string(d, m));
	return n;
}

static void read_columns(struct doc *d, const struct doc_node *list, struct kind_version *v)
{
	doc_each (n, list) {
		if (v->n_columns == COLUMNS_MAX)
			break;
		struct column *c = &v->columns[v->n_columns++];
		*c = (struct column){dup_at(d, n, "name"), dup_at(d, n, "type"), dup_at(d, n, "jsonPath"),
				     dup_at(d, n, "description"), 0};
		if (doc_int(doc_get(n, "priority"), &c->priority) < 0)
			c->priority = 0;
	}
}

static struct definition *read_definition(struct doc *d, const struct doc_node *spec)
{
	const struct doc_node *names = doc_get(spec, "names");
	struct definition *def = definition_new();
	def->group = dup_at(d, spec, "group");
	def->kind = dup_at(d, names, "kind");
	def->list_kind = dup_at(d, names, "listKind");
	def->plural = dup_at(d, names, "plural");
	def->singular = dup_at(d, names, "singular");
	def->n_short_names = dup_list(d, doc_get(names, "shortNames"), def->short_names);
	def->n_categories = dup_list(d, doc_get(names, "categories"), def->categories);
	def->scope = doc_is(d, doc_get(spec, "scope"), "Namespaced") ? NAMESPACED : CLUSTER;
	def->names = SUBDOMAIN;
	doc_each (n, doc_get(spec, "versions")) {
		if (def->n_versions == VERSIONS_MAX)
			break;
		struct kind_version *v = &def->versions[def->n_versions++];
		v->name = dup_at(d, n, "name");
		v->served = is_true(doc_get(n, "served"));
		v->storage = is_true(doc_get(n, "storage"));
		v->status = doc_path(n, "subresources", "status", NULL) != NULL;
		read_columns(d, doc_get(n, "additionalPrinterColumns"), v);
	}
	return def;
}

void crd_written(struct storage *s, const struct object *o)
{
	_cleanup_(doc_free_ptr) struct doc *d = doc_new();
	struct doc_node *root;
	if (doc_parse(d, o->text, &root, NULL) < 0)
		abort(); /* we wrote it */
	struct definition *def = read_definition(d, doc_get(root, "spec"));
	struct kind *kind = kinds_find(s, span_of(def->group), span_of(def->plural));
	if (!kind)
		kind = storage_add_kind(s);
	if (!kind)
		abort(); /* crd_check looked, under the same lock */
	kinds_define(s, kind, def);
}

struct kind *crd_kind(struct storage *s, const struct object *o)
{
	/* the name is PLURAL.GROUP */
	const char *dot = strchr(o->name, '.');
	return dot ? kinds_find(s, span_of(dot + 1), (struct span){o->name, (size_t)(dot - o->name)}) : NULL;
}
