#include "answer.h"
#include "condition.h"
#include "json.h"
#include "names.h"
#include <ctype.h>
#include <stdio.h>

/* What one answer is parsed with. */
struct parse {
	const struct answer_rules *rules;
	struct answer *answer;
	struct err *err;
};

#define REFUSE(p, ...) err_set((p)->err, -EPROTO, __VA_ARGS__)

static int refuse_unknown(struct parse *p, const struct json *object, const char *path,
			  const char *const *allowed)
{
	const char *name = json_unknown_member(object, allowed);
	if (!name)
		return 0;
	char quoted[QUOTE_ROOM], list[256] = "";
	for (size_t i = 0; allowed[i]; i++)
		snprintf(list + strlen(list), sizeof(list) - strlen(list), "%s%s", i ? ", " : "", allowed[i]);
	return REFUSE(p, "%s: unknown field %s; allowed are %s", path, text_quote(span_of(name), quoted),
		      list);
}

/* A string member as a span in the answer's arena; absent or null: {NULL, 0}. */
static int text_member(struct parse *p, const struct json *object, const char *path, const char *key,
		       struct span *ret)
{
	const struct json *n = json_member(object, key);
	*ret = (struct span){NULL, 0};
	if (json_is_null(n))
		return 0;
	if (!json_text(n))
		return REFUSE(p, "%s.%s: must be a string", path, key);
	*ret = doc_keep(p->answer->doc, span_of(json_text(n)));
	return 0;
}

static int bool_member(struct parse *p, const struct json *object, const char *path, const char *key,
		       bool *ret)
{
	const struct json *n = json_member(object, key);
	if (json_is_null(n))
		return 0;
	return json_bool(n, ret) < 0 ? REFUSE(p, "%s.%s: must be true or false", path, key) : 0;
}

static int duration_member(struct parse *p, const struct json *object, const char *path, const char *key,
			   int64_t *ret_ms)
{
	const struct json *n = json_member(object, key);
	if (json_is_null(n))
		return 0;
	int64_t ns;
	if (!json_text(n) || parse_duration(json_text(n), &ns) < 0)
		return REFUSE(p,
			      "%s.%s: must be a duration as a string, such as \"30s\", \"1m30s\" or "
			      "\"500ms\", of at most 2562047h",
			      path, key);
	*ret_ms = ns / NS_PER_MS + (ns % NS_PER_MS != 0);
	return 0;
}

static int parse_result(struct parse *p, const struct json *n)
{
	struct answer *a = p->answer;
	int r = refuse_unknown(p, n, "result",
			       (const char *const[]){"requeueAfter", "requeue", "priority", NULL});
	if (r < 0 || (r = duration_member(p, n, "result", "requeueAfter", &a->requeue_after_ms)) < 0 ||
	    (r = bool_member(p, n, "result", "requeue", &a->requeue)) < 0)
		return r;
	if (a->requeue_after_ms == 0) /* "0s" asks for nothing, as in controller-runtime */
		a->requeue_after_ms = -1;
	const struct json *priority = json_member(n, "priority");
	if (json_is_null(priority))
		return 0;
	if (json_integer(priority, &a->priority) < 0 || a->priority > PRIORITY_LIMIT ||
	    a->priority < -PRIORITY_LIMIT)
		return REFUSE(p, "result.priority: must be a whole number from -%d to %d", PRIORITY_LIMIT,
			      PRIORITY_LIMIT);
	a->has_priority = true;
	return 0;
}

static int parse_error(struct parse *p, const struct json *n)
{
	static const struct {
		const char *name;
		enum wire_outcome outcome;
	} types[] = {
	    {"Transient", WIRE_OUTCOME_TRANSIENT}, {"NotReady", WIRE_OUTCOME_NOT_READY},
	    {"Throttled", WIRE_OUTCOME_THROTTLED}, {"Conflict", WIRE_OUTCOME_CONFLICT},
	    {"Terminal", WIRE_OUTCOME_TERMINAL},
	};
	struct answer *a = p->answer;
	struct span type, scope;
	int r = refuse_unknown(
	    p, n, "error", (const char *const[]){"type", "reason", "message", "retryAfter", "scope", NULL});
	if (r < 0 || (r = text_member(p, n, "error", "type", &type)) < 0 ||
	    (r = text_member(p, n, "error", "reason", &a->error_reason)) < 0 ||
	    (r = text_member(p, n, "error", "message", &a->error_message)) < 0 ||
	    (r = text_member(p, n, "error", "scope", &scope)) < 0 ||
	    (r = duration_member(p, n, "error", "retryAfter", &a->retry_after_ms)) < 0)
		return r;
	a->has_error = true;
	a->error_outcome = WIRE_OUTCOME_TRANSIENT;
	bool known = !type.at;
	for (size_t i = 0; i < ARRAY_SIZE(types); i++)
		if (type.at && span_is(type, types[i].name)) {
			a->error_outcome = types[i].outcome;
			known = true;
		}
	if (!known)
		return REFUSE(p, "error.type: must be Transient, NotReady, Throttled, Conflict or Terminal");
	if (a->error_reason.len > REASON_MAX)
		return REFUSE(p, "error.reason: must have at most %d bytes", REASON_MAX);
	if (!scope.at || span_is(scope, "Key"))
		return 0;
	if (!span_is(scope, "Controller"))
		return REFUSE(p, "error.scope: must be Key or Controller");
	if (a->error_outcome != WIRE_OUTCOME_THROTTLED)
		return REFUSE(p, "error.scope: Controller goes with type Throttled only");
	a->pause_controller = true;
	return 0;
}

static int parse_conditions(struct parse *p, const struct json *list)
{
	struct answer *a = p->answer;
	if (!json_is_array(list))
		return REFUSE(p, "conditions: must be a list");
	for (const struct json *n = json_element(list, NULL); n; n = json_element(list, n)) {
		char path[64];
		snprintf(path, sizeof(path), "conditions[%zu]", a->condition_count);
		if (a->condition_count == ANSWER_MAX_CONDITIONS)
			return REFUSE(p, "conditions: at most %d in one answer", ANSWER_MAX_CONDITIONS);
		if (!json_is_object(n))
			return REFUSE(p, "%s: must be an object", path);
		if (json_member(n, "lastTransitionTime") || json_member(n, "observedGeneration"))
			return REFUSE(p,
				      "%s: lastTransitionTime and observedGeneration are set by the worker; "
				      "leave them out",
				      path);
		int r = refuse_unknown(p, n, path,
				       (const char *const[]){"type", "status", "reason", "message", NULL});
		struct condition *c = &a->conditions[a->condition_count];
		if (r < 0 || (r = text_member(p, n, path, "type", &c->type)) < 0 ||
		    (r = text_member(p, n, path, "status", &c->status)) < 0 ||
		    (r = text_member(p, n, path, "reason", &c->reason)) < 0 ||
		    (r = text_member(p, n, path, "message", &c->message)) < 0)
			return r;
		struct err rule = {0};
		if (condition_check(c, &rule) < 0)
			return REFUSE(p, "%s%s", path, rule.text);
		for (size_t i = 0; i < a->condition_count; i++)
			if (c->type.at && span_eq(a->conditions[i].type, c->type))
				return REFUSE(p, "%s.type: %.*s is in the list twice", path,
					      SPAN_ARG(c->type));
		a->condition_count++;
	}
	return 0;
}

static int parse_events(struct parse *p, const struct json *list)
{
	struct answer *a = p->answer;
	if (!json_is_array(list))
		return REFUSE(p, "events: must be a list");
	for (const struct json *n = json_element(list, NULL); n; n = json_element(list, n)) {
		char path[64];
		snprintf(path, sizeof(path), "events[%zu]", a->event_count);
		if (a->event_count == ANSWER_MAX_EVENTS)
			return REFUSE(p, "events: at most %d in one answer", ANSWER_MAX_EVENTS);
		if (!json_is_object(n))
			return REFUSE(p, "%s: must be an object", path);
		struct answer_event *e = &a->events[a->event_count];
		struct span type;
		int r = refuse_unknown(p, n, path, (const char *const[]){"type", "reason", "message", NULL});
		if (r < 0 || (r = text_member(p, n, path, "type", &type)) < 0 ||
		    (r = text_member(p, n, path, "reason", &e->reason)) < 0 ||
		    (r = text_member(p, n, path, "message", &e->message)) < 0)
			return r;
		if (type.at && !span_is(type, "Normal") && !span_is(type, "Warning"))
			return REFUSE(p, "%s.type: must be Normal or Warning", path);
		if (!e->reason.len || e->reason.len > EVENT_MAX_REASON)
			return REFUSE(p, "%s.reason: must have 1 to %d bytes", path, EVENT_MAX_REASON);
		e->warning = type.at && span_is(type, "Warning");
		e->message.len = text_cut(e->message, EVENT_MAX_NOTE);
		a->event_count++;
	}
	return 0;
}

/* The `owns` entry of a child's kind. */
static int child_watch(struct parse *p, const char *path, struct span api_version, struct span kind,
		       size_t *ret)
{
	const struct config_controller *c = p->rules->controller;
	for (size_t i = 0; i < c->watch_count; i++) {
		const struct config_kind *k = &c->watches[i].kind;
		if (c->watches[i].is_owns && span_is(api_version, k->api_version) && span_is(kind, k->kind)) {
			*ret = i;
			return 0;
		}
	}
	return REFUSE(p, "%s: %.*s %.*s is not among spec.owns of this controller; add it there", path,
		      (int)MIN(api_version.len, (size_t)QUOTE_MAX), api_version.at,
		      (int)MIN(kind.len, (size_t)QUOTE_MAX), kind.at);
}

bool answer_is_name(struct span name)
{
	if (!name.len || name.len > NAME_MAX_LEN || span_is(name, ".") || span_is(name, ".."))
		return false;
	return !memchr(name.at, '/', name.len) && !memchr(name.at, '%', name.len);
}

static int parse_child(struct parse *p, const struct doc_node *n, struct child *ret)
{
	struct answer *a = p->answer;
	struct doc *d = a->doc;
	char path[64];
	snprintf(path, sizeof(path), "children[%zu]", a->child_count);
	if (n->type != JSON_OBJECT)
		return REFUSE(p, "%s: must be an object", path);
	struct span api_version = doc_string(d, doc_get(n, "apiVersion")),
		    kind = doc_string(d, doc_get(n, "kind"));
	if (!api_version.len || !kind.len)
		return REFUSE(p, "%s: must have apiVersion and kind", path);
	const struct doc_node *metadata = doc_get(n, "metadata");
	ret->name = doc_string(d, doc_get(metadata, "name"));
	ret->namespace = doc_string(d, doc_get(metadata, "namespace"));
	ret->object = n;
	if (!answer_is_name(ret->name))
		return REFUSE(
		    p, "%s.metadata.name: must be the object's full name (generateName cannot be applied)",
		    path);
	if (ret->namespace.len && !kube_is_dns_label(ret->namespace))
		return REFUSE(p, "%s.metadata.namespace: is no name of a namespace", path);
	struct span key_ns = p->rules->namespace;
	if (key_ns.len && ret->namespace.len && !span_eq(key_ns, ret->namespace))
		return REFUSE(p, "%s.metadata.namespace: an object in namespace %.*s cannot own one in %.*s",
			      path, SPAN_ARG(key_ns), SPAN_ARG(ret->namespace));
	if (doc_get(metadata, "managedFields"))
		return REFUSE(p, "%s.metadata.managedFields: leave it out; the API server keeps it", path);
	int r = child_watch(p, path, api_version, kind, &ret->watch);
	if (r < 0)
		return r;
	for (size_t i = 0; i < a->child_count; i++)
		if (a->children[i].watch == ret->watch && span_eq(a->children[i].name, ret->name) &&
		    span_eq(a->children[i].namespace, ret->namespace))
			return REFUSE(p, "%s: %.*s %.*s is in the list twice", path, SPAN_ARG(kind),
				      SPAN_ARG(ret->name));
	return 0;
}

static int parse_children(struct parse *p, struct span text)
{
	struct answer *a = p->answer;
	struct doc_node *list;
	if (json_type_of(text) != JSON_ARRAY)
		return REFUSE(p, "children: must be a list");
	struct err why = {0};
	if (doc_parse(a->doc, text, &list, &why) < 0)
		return REFUSE(p, "children: %s", why.text);
	if (list->count > ANSWER_MAX_CHILDREN)
		return REFUSE(p, "children: at most %d in one answer", ANSWER_MAX_CHILDREN);
	a->children = xcalloc(list->count ? list->count : 1, sizeof(*a->children));
	a->has_children = true;
	doc_each (n, list) {
		int r = parse_child(p, n, &a->children[a->child_count]);
		if (r < 0)
			return r;
		a->child_count++;
	}
	return 0;
}

static int parse_status(struct parse *p, struct span text)
{
	struct doc_node *n;
	struct err why = {0};
	if (json_type_of(text) != JSON_OBJECT)
		return REFUSE(p, "status: must be an object");
	if (doc_parse(p->answer->doc, text, &n, &why) < 0)
		return REFUSE(p, "status: %s", why.text);
	p->answer->status = n;
	return 0;
}

/* ---- the members at the top, by name ---- */

enum member {
	MEMBER_API_VERSION,
	MEMBER_KIND,
	MEMBER_UID,
	MEMBER_RESULT,
	MEMBER_ERROR,
	MEMBER_STATUS,
	MEMBER_CONDITIONS,
	MEMBER_CHILDREN,
	MEMBER_FINALIZED,
	MEMBER_EVENTS,
	MEMBER_COUNT,
};
static const char *const member_names[MEMBER_COUNT] = {
    "apiVersion", "kind", "uid", "result", "error", "status", "conditions", "children", "finalized", "events",
};

static int expect_text(struct parse *p, const char *name, struct span value, const char *wanted)
{
	if (json_string_is(value, wanted))
		return 0;
	char quoted[QUOTE_ROOM];
	return REFUSE(p, "%s: must be \"%s\", not %s", name, wanted, text_quote(value, quoted));
}

/* A member that we decide on, as a tree. */
static int with_tree(struct parse *p, const char *name, struct span value, bool object,
		     int (*parse)(struct parse *, const struct json *))
{
	_cleanup_(json_free_ptr) struct json *tree = NULL;
	struct err why = {0};
	if (json_parse(value, &tree, &why) < 0)
		return REFUSE(p, "%s: %s", name, why.text);
	if (object && !json_is_object(tree))
		return REFUSE(p, "%s: must be an object", name);
	return parse(p, tree);
}

static int parse_member(struct parse *p, enum member m, struct span value)
{
	const char *name = member_names[m];
	if (json_type_of(value) ==
	    JSON_NULL) /* as if it were not there: what serializers print for an empty list or pointer */
		return 0;
	switch (m) {
	case MEMBER_API_VERSION:
		return expect_text(p, name, value, "reconciled.dev/v1");
	case MEMBER_KIND:
		return expect_text(p, name, value, "ReconcileResponse");
	case MEMBER_UID: {
		_cleanup_(free_ptr) char *uid = span_dup(p->rules->uid);
		return expect_text(p, name, value, uid);
	}
	case MEMBER_RESULT:
		return with_tree(p, name, value, true, parse_result);
	case MEMBER_ERROR:
		return with_tree(p, name, value, true, parse_error);
	case MEMBER_STATUS:
		return parse_status(p, value);
	case MEMBER_CONDITIONS:
		return with_tree(p, name, value, false, parse_conditions);
	case MEMBER_CHILDREN:
		return parse_children(p, value);
	case MEMBER_FINALIZED:
		if (json_type_of(value) != JSON_BOOL)
			return REFUSE(p, "finalized: must be true or false");
		p->answer->finalized = span_is(value, "true");
		return 0;
	case MEMBER_EVENTS:
		return with_tree(p, name, value, false, parse_events);
	case MEMBER_COUNT:
		break;
	}
	abort();
}

/* Rules between members. */
static int check_whole(struct parse *p, const bool seen[MEMBER_COUNT])
{
	const struct answer_rules *rules = p->rules;
	const struct answer *a = p->answer;
	if (rules->uid_required && !seen[MEMBER_UID])
		return REFUSE(p, "uid: missing; a coprocess answers with the uid of the request");
	if (a->has_error && a->requeue_after_ms >= 0)
		return REFUSE(p, "result.requeueAfter: not together with error; use error.retryAfter");
	if (a->condition_count && doc_get(a->status, "conditions"))
		return REFUSE(p, "status.conditions: not together with conditions; use one of the two");
	if (a->finalized && rules->object_present && !rules->finalizing)
		return REFUSE(
		    p, "finalized: the object is not being deleted (the request said finalizing: false)");
	if (a->finalized && a->has_error)
		return REFUSE(p, "finalized: not together with error");
	return 0;
}

static int parse_top(struct parse *p, struct span text)
{
	bool seen[MEMBER_COUNT] = {false};
	struct json_iter it = {0};
	struct span key, value;
	while (json_each(text, &it, &key, &value)) {
		size_t m = 0;
		while (m < MEMBER_COUNT && !json_string_is(key, member_names[m]))
			m++;
		char quoted[QUOTE_ROOM];
		if (m == MEMBER_COUNT)
			return REFUSE(p, "unknown field %s at the top of the answer",
				      text_quote(key, quoted));
		if (seen[m])
			return REFUSE(p, "%s: is there twice", member_names[m]);
		seen[m] = true;
		int r = parse_member(p, (enum member)m, value);
		if (r < 0)
			return r;
	}
	return check_whole(p, seen);
}

/* Of the first byte that is no UTF-8; text.len if there is none. */
static size_t utf8_end(struct span text)
{
	size_t at = 0;
	for (size_t n; at < text.len && (n = utf8_valid(text.at + at, text.len - at)); at += n)
		;
	return at;
}

int answer_parse(struct span text, const struct answer_rules *rules, struct answer *ret, struct err *err)
{
	struct answer a = {.requeue_after_ms = -1, .retry_after_ms = -1, .error_outcome = WIRE_OUTCOME_OK};
	while (text.len && isspace((unsigned char)text.at[0]))
		text.at++, text.len--;
	a.empty = !text.len;
	if (a.empty && !rules->uid_required) {
		*ret = a;
		return 0;
	}
	char quoted[QUOTE_ROOM];
	struct err why = {0};
	if (json_check(text, &why) < 0)
		return err_set(
		    err, -EPROTO,
		    "stdout is not the JSON of an answer (%s): %s; what is meant for people goes to stderr",
		    why.text, text_quote(text, quoted));
	if (json_type_of(text) != JSON_OBJECT)
		return err_set(err, -EPROTO,
			       "the answer is not a JSON object: %s; what is meant for people goes to stderr",
			       text_quote(text, quoted));
	/* The API server would refuse what it becomes part of, and that for ever. */
	size_t valid = utf8_end(text);
	if (valid < text.len)
		return err_set(err, -EPROTO, "the answer is not UTF-8: byte %zu is 0x%02x", valid,
			       (unsigned char)text.at[valid]);
	a.doc = doc_new();
	int r = parse_top(&(struct parse){rules, &a, err}, text);
	if (r < 0) {
		answer_done(&a);
		return r;
	}
	*ret = a;
	return 0;
}

void answer_done(struct answer *a)
{
	if (!a)
		return;
	free(a->children);
	doc_free(a->doc);
	a->children = NULL;
	a->doc = NULL;
}

void answer_result(const struct answer *a, struct result *r)
{
	result_init(r);
	r->has_priority = a->has_priority;
	r->priority = a->priority;
	if (!a->has_error) {
		r->requeue_after_ms = a->requeue_after_ms;
		r->requeue = a->requeue && a->requeue_after_ms < 0;
		return;
	}
	_cleanup_(free_ptr) char *reason = span_dup(a->error_reason), *message = span_dup(a->error_message);
	result_set(r, a->error_outcome, reason, "%s", message);
	r->requeue_after_ms = a->retry_after_ms;
	r->pause_controller = a->pause_controller;
}
