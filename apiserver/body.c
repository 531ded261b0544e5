#include "call.h"
#include "yaml_doc.h"

struct span media_type(const char *content_type)
{
	size_t n = strcspn(content_type, ";");
	while (n && (content_type[n - 1] == ' ' || content_type[n - 1] == '\t'))
		n--;
	return (struct span){content_type, n};
}

static int yaml_body(struct call *c, struct doc_node **ret)
{
	struct yaml_doc *y = NULL;
	size_t line = 0, column = 0;
	struct err err;
	if (yaml_doc_parse(c->in->body, &y, &line, &column, &err) < 0)
		return fail_bad_request(&c->f, "the body is not valid YAML: line %zu, column %zu: %s", line,
					column, err.text);
	_cleanup_(buf_done) struct buf json = {0};
	int r = 0;
	if (!y || !y->root)
		r = fail_bad_request(&c->f, "the body is empty");
	else if (y->next)
		r = fail_bad_request(&c->f, "the body holds more than one YAML document");
	else
		yaml_doc_to_json(y->root, &json);
	yaml_doc_free(y);
	if (r == 0 && (buf_failed(&json) || doc_parse(c->doc, buf_span(&json), ret, &err) < 0))
		r = fail_bad_request(&c->f, "the body cannot be read as JSON: %s", err.text);
	return r;
}

/* What is stored is sent to others as it came: it must be text. */
static bool is_utf8(struct span s)
{
	for (size_t i = 0, n; i < s.len; i += n)
		if ((n = utf8_valid(s.at + i, s.len - i)) == 0)
			return false;
	return true;
}

static bool is_json(struct span type)
{
	return !type.len || span_is(type, "application/json") ||
	       (type.len > 5 && !memcmp(type.at + type.len - 5, "+json", 5));
}

int body_parse(struct call *c, struct doc_node **ret)
{
	struct span type = media_type(c->in->content_type);
	bool yaml = span_is(type, "application/yaml") || span_is(type, "application/apply-patch+yaml");
	struct err err;
	if (!yaml && !is_json(type))
		return fail(&c->f, 415, "UnsupportedMediaType",
			    "the body of the request was in an unknown format - accepted media types "
			    "include: application/json, "
			    "application/yaml%s",
			    span_is(type, "application/vnd.kubernetes.protobuf")
				? " (not protobuf: use kubectl create -f or apply --server-side)"
				: "");
	if (!c->in->body.len)
		return fail_bad_request(&c->f, "the body is empty: an object is expected");
	if (!is_utf8(c->in->body))
		return fail_bad_request(&c->f, "the body is not valid UTF-8");
	if (yaml && json_check(c->in->body, NULL) < 0)
		return yaml_body(c, ret);
	if (doc_parse(c->doc, c->in->body, ret, &err) < 0)
		return fail_bad_request(&c->f, "the body is not valid JSON: %s", err.text);
	return 0;
}
