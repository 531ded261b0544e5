/* One request while it is answered: what api.c hands to those who read and write. */
#pragma once
#include "api.h"
#include "failure.h"
#include "kinds.h"
#include "selector.h"

enum form { FORM_OBJECT, FORM_METADATA, FORM_TABLE };

struct params {
	char *field_manager, *label_selector, *field_selector, *resource_version, *resource_version_match,
	    *continue_token;
	char *propagation_policy, *include_object;
	char *send_initial_events; /* NULL: not said; "true" or "false" */
	bool force, dry_run, watch, bookmarks;
	int64_t limit, timeout_seconds; /* 0: none; -1: absent */
};

struct call {
	struct storage *store;
	const struct api_request *in;
	struct api_response *out;
	struct failure f;
	struct doc *doc; /* for everything that this request parses */

	/* /apis/GROUP/VERSION/namespaces/NAMESPACE/PLURAL/NAME/SUBRESOURCE; NULL: not in the path */
	char *group, *version, *namespace, *plural, *name, *subresource;
	struct params params;
	struct view view;
	enum form form;
};

/* ---- uri.c ---- */
enum { SEGMENTS_MAX = 8 };
struct uri {
	char *segments[SEGMENTS_MAX]; /* decoded */
	size_t n;
	bool trailing_slash;
};
/* Splits and decodes. 400 for what is no path, 404 for too many segments. */
int uri_path(struct span uri, struct uri *ret, struct failure *f);
void uri_done(struct uri *u);
int uri_params(struct span uri, struct params *ret, struct failure *f);
void params_done(struct params *p);
/* "application/json;as=Table;v=v1;g=meta.k8s.io,application/json": the first that we can serve. 406 if there
 * is none. */
int accept_form(const char *accept, enum form *ret, struct failure *f);

static inline struct span ns_span(const struct call *c)
{
	return span_of(c->namespace ? c->namespace : "");
}

/* ---- encode.c: any thread, no lock ---- */
void encode_object(struct buf *out, const struct view *v, const struct object *o);
/* As the form wants it; for tables one with one row. head: with the column definitions. */
void encode_as(struct buf *out, const struct view *v, enum form form, const struct object *o, bool head,
	       int64_t now);
struct list_meta {
	uint64_t rv;
	const char *continue_token; /* NULL: complete */
	int64_t remaining;	    /* < 0: not said */
};
/* A list up to its first item, and one item; between items goes a comma, after them ]}. */
void encode_list_head(struct buf *out, const struct view *v, enum form form, const struct list_meta *meta);
void encode_item(struct buf *out, const struct view *v, enum form form, const struct object *o, int64_t now);
/* Field names of the ALIAS kinds: to what is stored, and back. */
void alias_to_stored(struct doc_node *root);
void alias_to_shown(struct doc_node *root);

/* ---- body.c ---- */
/* The body as a tree of c->doc: JSON, or YAML where the content type says so. */
int body_parse(struct call *c, struct doc_node **ret);
/* Media type without parameters. */
struct span media_type(const char *content_type);

/* ---- read.c, watch.h, write.c, remove.c: answer with c->out or fail in c->f ---- */
int call_get(struct call *c);
int call_list(struct call *c);
int call_watch(struct call *c);
int call_create(struct call *c);
int call_update(struct call *c);
int call_patch(struct call *c);
int call_delete(struct call *c);
int call_delete_collection(struct call *c);
int call_discovery(struct call *c, const struct uri *u);

/* Puts object o as answer, in the form asked for. */
void answer_object(struct call *c, int code, const struct object *o);
/* Puts a list as answer, and takes what snap holds. */
void answer_list(struct call *c, struct snapshot *snap, const struct list_meta *meta);
