#include "call.h"
#include "table.h"

/* core/v1 Event and events.k8s.io/v1 Event are one object with other field names. */
static const struct {
	const char *stored, *shown;
} alias_names[] = {
    {"involvedObject", "regarding"},
    {"message", "note"},
    {"source", "deprecatedSource"},
    {"firstTimestamp", "deprecatedFirstTimestamp"},
    {"lastTimestamp", "deprecatedLastTimestamp"},
    {"count", "deprecatedCount"},
    {"reportingComponent", "reportingController"},
};

void alias_to_stored(struct doc_node *root)
{
	doc_each (n, root)
		for (size_t i = 0; i < ARRAY_SIZE(alias_names); i++)
			if (span_is(n->key, alias_names[i].shown))
				n->key = span_of(alias_names[i].stored);
}

void alias_to_shown(struct doc_node *root)
{
	doc_each (n, root)
		for (size_t i = 0; i < ARRAY_SIZE(alias_names); i++)
			if (span_is(n->key, alias_names[i].stored))
				n->key = span_of(alias_names[i].shown);
}

static void kind_and_version(struct buf *out, const char *kind, const char *api_version)
{
	buf_printf(out, "\"kind\":\"%s\",\"apiVersion\":\"%s\"", kind, api_version);
}

/* The members of a stored text after its brace, with a comma before if there are any. */
static void rest_of(struct buf *out, struct span text)
{
	if (text.len > 2)
		buf_putc(out, ',');
	buf_add(out, text.at + 1, text.len - 1);
}

static void members(struct buf *out, const struct view *v, const struct object *o, bool typed)
{
	char version[API_VERSION_MAX];
	_cleanup_(doc_free_ptr) struct doc *d = NULL;
	_cleanup_(buf_done) struct buf renamed = {0};
	struct span text = o->text;
	if (v->def->flags & ALIAS) {
		struct doc_node *root;
		d = doc_new();
		if (doc_parse(d, text, &root, NULL) == 0) {
			alias_to_shown(root);
			doc_print(root, &renamed);
			text = buf_span(&renamed);
		}
	}
	if (!typed) {
		buf_span_add(out, text);
		return;
	}
	buf_putc(out, '{');
	kind_and_version(out, v->def->kind, view_api_version(v, version));
	rest_of(out, text);
}

void encode_object(struct buf *out, const struct view *v, const struct object *o)
{
	members(out, v, o, true);
}

static void partial_metadata(struct buf *out, const struct object *o)
{
	buf_puts(out, "{\"kind\":\"PartialObjectMetadata\",\"apiVersion\":\"meta.k8s.io/v1\",\"metadata\":");
	buf_span_add(out, o->metadata);
	buf_putc(out, '}');
}

void encode_as(struct buf *out, const struct view *v, enum form form, const struct object *o, bool head,
	       int64_t now)
{
	switch (form) {
	case FORM_OBJECT:
		members(out, v, o, true);
		break;
	case FORM_METADATA:
		partial_metadata(out, o);
		break;
	case FORM_TABLE:
		buf_printf(out,
			   "{\"kind\":\"Table\",\"apiVersion\":\"meta.k8s.io/"
			   "v1\",\"metadata\":{\"resourceVersion\":\"%llu\"},",
			   (unsigned long long)o->rv);
		if (head)
			table_columns(out, v);
		else
			buf_puts(out, "\"columnDefinitions\":null");
		buf_puts(out, ",\"rows\":[");
		table_row(out, v, o, now);
		buf_puts(out, "]}");
		break;
	}
}

void encode_list_head(struct buf *out, const struct view *v, enum form form, const struct list_meta *meta)
{
	char version[API_VERSION_MAX];
	buf_putc(out, '{');
	if (form == FORM_OBJECT)
		kind_and_version(out, v->def->list_kind, view_api_version(v, version));
	else
		kind_and_version(out, form == FORM_TABLE ? "Table" : "PartialObjectMetadataList",
				 "meta.k8s.io/v1");
	buf_printf(out, ",\"metadata\":{\"resourceVersion\":\"%llu\"", (unsigned long long)meta->rv);
	if (meta->continue_token) {
		buf_puts(out, ",\"continue\":");
		buf_json_string(out, span_of(meta->continue_token));
	}
	if (meta->continue_token && meta->remaining >= 0)
		buf_printf(out, ",\"remainingItemCount\":%lld", (long long)meta->remaining);
	buf_puts(out, "},");
	if (form == FORM_TABLE)
		table_columns(out, v);
	buf_puts(out, form == FORM_TABLE ? ",\"rows\":[" : "\"items\":[");
}

void encode_item(struct buf *out, const struct view *v, enum form form, const struct object *o, int64_t now)
{
	switch (form) {
	/* items of built-in kinds carry no kind and version of their own, those of custom kinds do */
	case FORM_OBJECT:
		members(out, v, o, !v->def->builtin);
		break;
	case FORM_METADATA:
		partial_metadata(out, o);
		break;
	case FORM_TABLE:
		table_row(out, v, o, now);
		break;
	}
}
