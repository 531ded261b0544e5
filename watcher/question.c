#include "question.h"
#include "json_scan.h"
#include "lines.h"
#include "names.h"
#include <stdio.h>

/* ---- one ---- */

struct question *question_new(struct span old, struct span new, enum question_why why)
{
	struct question *q = xcalloc(1, sizeof *q);
	q->text = xcalloc(1, old.len + new.len + 1);
	q->why = why;
	if (old.at)
		q->old = (struct span){q->text, old.len};
	if (new.at)
		q->new = (struct span){q->text + old.len, new.len};
	memcpy(q->text, old.at ? old.at : "", old.len);
	memcpy(q->text + old.len, new.at ? new.at : "", new.len);
	for (char *at = q->text, *end = at + old.len + new.len; (at = memchr(at, '\n', (size_t)(end - at)));
	     at++)
		*at = ' ';
	return q;
}

void question_free(struct question *q)
{
	free(q->text);
	free(q->held);
	free(q);
}

static uint64_t bytes_of(const struct question *q)
{
	return q->old.len + q->new.len;
}

/* ---- lists ---- */

static void append(struct question_list *l, struct question *q)
{
	q->next = NULL;
	*(l->first ? &l->last->next : &l->first) = q;
	l->last = q;
}

static struct question *shift(struct question_list *l)
{
	struct question *q = l->first;
	if (q)
		l->first = q->next;
	return q;
}

static void leave(struct questions *l, const struct question *q)
{
	l->count--;
	l->bytes -= bytes_of(q);
	if (q->why != QUESTION_EVENT) {
		l->low--;
		l->low_bytes -= bytes_of(q);
	}
}

bool questions_has_room(const struct questions *l, uint64_t bytes, enum question_why why)
{
	bool low = why == QUESTION_EVENT || !l->low ||
		   (l->low < QUESTIONS_LOW && l->low_bytes + bytes <= QUESTIONS_LOW_BYTES);
	return low && l->count < QUESTIONS_MAX && l->bytes + bytes <= QUESTIONS_BYTES;
}

void questions_put(struct questions *l, struct question *q)
{
	q->failures = 0;
	q->not_before_ns = 0;
	append(&l->waiting, q);
	l->count++;
	l->bytes += bytes_of(q);
	if (q->why != QUESTION_EVENT) {
		l->low++;
		l->low_bytes += bytes_of(q);
	}
}

void questions_wake(struct questions *l, int64_t now_ns)
{
	struct question_list late = l->late;
	if (questions_due_ns(l) > now_ns)
		return;
	l->late = (struct question_list){0};
	for (struct question *q; (q = shift(&late));)
		append(q->not_before_ns <= now_ns ? &l->waiting : &l->late, q);
}

struct question *questions_next(struct questions *l, int64_t now_ns)
{
	struct question *q = l->n_asked < QUESTIONS_AHEAD ? shift(&l->waiting) : NULL;
	if (!q)
		return NULL;
	q->number = ++l->last_number;
	if (!l->asked.first)
		q->since_ns = now_ns;
	append(&l->asked, q);
	l->n_asked++;
	return q;
}

struct question *questions_answered(struct questions *l, uint64_t number, int64_t now_ns)
{
	struct question *before = NULL, *q = l->asked.first;
	for (; q && q->number != number; q = q->next)
		before = q;
	if (!q)
		return NULL;
	if (before)
		before->next = q->next;
	else
		l->asked.first = q->next;
	if (l->asked.last == q)
		l->asked.last = before;
	if (!before && l->asked.first)
		l->asked.first->since_ns = now_ns;
	l->n_asked--;
	leave(l, q);
	return q;
}

const struct question *questions_oldest(const struct questions *l)
{
	return l->asked.first;
}

void questions_return(struct questions *l, bool blame, int64_t now_ns)
{
	struct question *oldest = blame ? shift(&l->asked) : NULL;
	if (oldest) {
		int64_t wait = QUESTION_AGAIN_MIN_NS << MIN(oldest->failures, 20u);
		oldest->failures++;
		oldest->not_before_ns = now_ns + MIN(wait, QUESTION_AGAIN_MAX_NS);
		append(&l->late, oldest);
	}
	if (l->asked.first) {
		l->asked.last->next = l->waiting.first;
		if (!l->waiting.first)
			l->waiting.last = l->asked.last;
		l->waiting.first = l->asked.first;
	}
	l->asked = (struct question_list){0};
	l->n_asked = 0;
}

struct question *questions_take(struct questions *l)
{
	struct question *q = shift(&l->asked);
	if (q)
		l->n_asked--;
	else if (!(q = shift(&l->waiting)))
		q = shift(&l->late);
	if (q)
		leave(l, q);
	return q;
}

int64_t questions_due_ns(const struct questions *l)
{
	int64_t due = INT64_MAX;
	for (const struct question *q = l->late.first; q; q = q->next)
		due = MIN(due, q->not_before_ns);
	return due;
}

/* ---- what is asked ---- */

void question_print(const struct question *q, const struct question_form *form, struct buf *out)
{
	buf_printf(
	    out,
	    "{\"apiVersion\":\"reconciled.dev/v1\",\"kind\":\"%s\",\"uid\":\"%llu\",\"controller\":\"%s\","
	    "\"source\":{\"apiVersion\":\"%s\",\"kind\":\"%s\"},\"old\":",
	    form->map ? "MapRequest" : "PredicateRequest", (unsigned long long)q->number, form->controller,
	    form->api_version, form->kind);
	buf_span_add(out, q->old.at ? q->old : span_of("null"));
	buf_puts(out, ",\"new\":");
	buf_span_add(out, q->new.at ? q->new : span_of("null"));
	buf_puts(out, "}\n");
}

/* ---- what is answered ---- */

#define REFUSE(err, ...) err_set(err, -EPROTO, __VA_ARGS__)

/* The member's place in names, or -1. */
static int which(struct span key, const char *const *names)
{
	for (int i = 0; names[i]; i++)
		if (json_string_is(key, names[i]))
			return i;
	return -1;
}

/* Members of an object to values, one for each name; others are refused. prefix: "" or "requests[3].". */
static int members(struct span object, const char *prefix, const char *const *names, struct span *values,
		   struct err *err)
{
	struct json_iter it = {0};
	struct span key, value;
	while (json_each(object, &it, &key, &value)) {
		char quoted[QUOTE_ROOM];
		int i = which(key, names);
		if (i < 0)
			return REFUSE(err, "%s: unknown field %s", *prefix ? prefix : "the answer",
				      text_quote(key, quoted));
		values[i] = value;
	}
	return 0;
}

static int read_number(struct span value, uint64_t *ret)
{
	struct span text;
	uint64_t n = 0;
	if (json_string_raw(value, &text) < 0 || !text.len || text.len > 19 || text.at[0] == '0')
		return -EPROTO;
	for (size_t i = 0; i < text.len; i++) {
		if (text.at[i] < '0' || text.at[i] > '9')
			return -EPROTO;
		n = n * 10 + (uint64_t)(text.at[i] - '0');
	}
	*ret = n;
	return 0;
}

static bool read_name(struct span value, struct buf *out)
{
	return json_type_of(value) == JSON_STRING && json_unescape(value, out) == 0 && !buf_failed(out);
}

static int read_key(struct span request, size_t at, enum cache_scope scope, struct keys *out, struct err *err)
{
	enum { NAMESPACE, NAME };
	static const char *const names[] = {"namespace", "name", NULL};
	struct span values[2] = {{0}};
	_cleanup_(buf_done) struct buf namespace = {.limit = KEY_MAX_LEN + 1},
				       name = {.limit = KEY_MAX_LEN + 1};
	char prefix[40], quoted[QUOTE_ROOM];
	snprintf(prefix, sizeof prefix, "requests[%zu]", at);
	if (json_type_of(request) != JSON_OBJECT)
		return REFUSE(err, "%s: must be an object with namespace and name, not %s", prefix,
			      text_quote(request, quoted));
	int rc = members(request, prefix, names, values, err);
	if (rc < 0)
		return rc;
	bool has_namespace = values[NAMESPACE].at && json_type_of(values[NAMESPACE]) != JSON_NULL;
	if (!read_name(values[NAME], &name) || name.len > NAME_MAX_LEN ||
	    !kube_is_path_segment(buf_span(&name)))
		return REFUSE(err, "%s.name: must be an object's name, not %s", prefix,
			      text_quote(values[NAME].at ? values[NAME] : span_of(""), quoted));
	if (has_namespace && scope == CACHE_SCOPE_CLUSTER)
		return REFUSE(err, "%s.namespace: the `for` kind has no namespaces; leave it out", prefix);
	if (!has_namespace && scope == CACHE_SCOPE_NAMESPACED)
		return REFUSE(err, "%s.namespace is missing: the `for` kind has namespaces", prefix);
	if (has_namespace &&
	    (!read_name(values[NAMESPACE], &namespace) || namespace.len > NAMESPACE_MAX_LEN ||
	     !kube_is_path_segment(buf_span(&namespace))))
		return REFUSE(err, "%s.namespace: must be a namespace's name, not %s", prefix,
			      text_quote(values[NAMESPACE], quoted));
	keys_add(out, buf_span(&namespace), buf_span(&name));
	return 0;
}

static int read_requests(struct span list, enum cache_scope scope, struct keys *out, struct err *err)
{
	struct json_iter it = {0};
	struct span key, request;
	int rc = 0;
	if (json_type_of(list) != JSON_ARRAY)
		return REFUSE(err, "requests: %s; allowed: a list, which may be empty",
			      list.at ? "is no list" : "is missing");
	for (size_t i = 0; rc == 0 && json_each(list, &it, &key, &request); i++)
		rc = read_key(request, i, scope, out, err);
	return rc;
}

int question_answer_read(struct span line, bool map, enum cache_scope scope, struct question_answer *ret,
			 struct err *err)
{
	enum { API_VERSION, KIND, UID, VALUE };
	const char *const names[] = {"apiVersion", "kind", "uid", map ? "requests" : "pass", NULL};
	const char *kind = map ? "MapResponse" : "PredicateResponse";
	struct span values[4] = {{0}};
	char quoted[QUOTE_ROOM];
	*ret = (struct question_answer){0};
	if (json_check(line, NULL) < 0 || json_type_of(line) != JSON_OBJECT)
		return REFUSE(
		    err, "stdout: a line that is no JSON object: %s; what is meant for people goes to stderr",
		    text_quote(line, quoted));
	if (!json_string_is(json_get(line, "kind"), kind))
		return REFUSE(err, "stdout: a line whose kind is not %s: %s", kind, text_quote(line, quoted));
	int rc = members(line, "", names, values, err);
	if (rc < 0)
		return rc;
	if (values[API_VERSION].at && !json_string_is(values[API_VERSION], "reconciled.dev/v1"))
		return REFUSE(err, "apiVersion: must be \"reconciled.dev/v1\", not %s",
			      text_quote(values[API_VERSION], quoted));
	if (read_number(values[UID], &ret->number) < 0)
		return REFUSE(err, "uid: must be that of a question, not %s",
			      text_quote(values[UID].at ? values[UID] : span_of(""), quoted));
	if (map)
		return read_requests(values[VALUE], scope, &ret->keys, err);
	if (json_type_of(values[VALUE]) != JSON_BOOL)
		return REFUSE(err, "pass: must be true or false, not %s",
			      text_quote(values[VALUE].at ? values[VALUE] : span_of(""), quoted));
	ret->pass = span_is(values[VALUE], "true");
	return 0;
}

void question_answer_done(struct question_answer *a)
{
	keys_done(&a->keys);
}
