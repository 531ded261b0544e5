#include "listing.h"
#include "watch.h"
#include <stdio.h>

static void call_done(struct call *c)
{
	char *words[] = {c->group, c->version, c->namespace, c->plural, c->name, c->subresource};
	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		free(words[i]);
	params_done(&c->params);
	view_done(&c->view);
	doc_free(c->doc);
}

/* The words of a resource path, taken out of u; false if it is none. */
static bool parse_path(struct call *c, struct uri *u)
{
	bool core = u->n >= 2 && !strcmp(u->segments[0], "api"),
	     named = u->n >= 3 && !strcmp(u->segments[0], "apis");
	if (!core && !named)
		return false;
	size_t at = core ? 1 : 2;
	c->group = xstrdup(core ? "" : u->segments[1]);
	c->version = xstrdup(u->segments[at++]);
	if (at == u->n)
		return false;
	bool in_namespace = !strcmp(u->segments[at], "namespaces") && u->n >= at + 3 &&
			    (strcmp(u->segments[at + 2], "status") != 0 || u->n > at + 3) &&
			    (strcmp(u->segments[at + 2], "finalize") != 0 || u->n > at + 3);
	if (in_namespace) {
		c->namespace = xstrdup(u->segments[at + 1]);
		at += 2;
	}
	char **words[] = {&c->plural, &c->name, &c->subresource};
	for (size_t i = 0; i < ARRAY_SIZE(words) && at < u->n; i++)
		*words[i] = xstrdup(u->segments[at++]);
	return at == u->n;
}

/* What methods a path has: for 405 and its Allow header. */
static const char *allowed(const struct call *c)
{
	if (c->subresource)
		return "GET, PATCH, PUT";
	if (c->name)
		return "DELETE, GET, PATCH, PUT";
	return c->view.def->scope == NAMESPACED && !c->namespace ? "GET" : "DELETE, GET, POST";
}

static int refuse_method(struct call *c, const char *allow)
{
	c->out->allow = allow;
	return fail_method(&c->f);
}

static int find_view(struct call *c)
{
	storage_lock(c->store);
	bool found =
	    view_find(c->store, span_of(c->group), span_of(c->version), span_of(c->plural), &c->view);
	storage_unlock(c->store);
	if (!found || (c->namespace && c->view.def->scope == CLUSTER))
		return fail_no_route(&c->f);
	if (c->name && c->view.def->scope == NAMESPACED && !c->namespace)
		return fail_no_route(&c->f);
	if (c->subresource && (strcmp(c->subresource, "status") != 0 || !view_has_status(&c->view)))
		return fail_no_route(&c->f);
	return 0;
}

static int dispatch(struct call *c)
{
	const char *m = c->in->method;
	bool one = c->name, writable = c->namespace || c->view.def->scope == CLUSTER;
	if (!strcmp(m, "GET"))
		return c->params.watch && !c->subresource ? call_watch(c) : one ? call_get(c) : call_list(c);
	if (!strcmp(m, "PUT") && one)
		return call_update(c);
	if (!strcmp(m, "PATCH") && one)
		return call_patch(c);
	if (!strcmp(m, "POST") && !one && writable)
		return call_create(c);
	if (!strcmp(m, "DELETE") && !c->subresource && writable)
		return one ? call_delete(c) : call_delete_collection(c);
	return refuse_method(c, allowed(c));
}

static int resource(struct call *c, struct uri *u)
{
	if (!parse_path(c, u))
		return fail_no_route(&c->f);
	int r = find_view(c);
	if (r == 0)
		r = uri_params(c->in->uri, &c->params, &c->f);
	if (r == 0)
		r = accept_form(c->in->accept, &c->form, &c->f);
	return r < 0 ? r : dispatch(c);
}

static bool is_health(const struct uri *u)
{
	static const char *const paths[] = {"healthz", "readyz", "livez"};
	for (size_t i = 0; u->n == 1 && i < ARRAY_SIZE(paths); i++)
		if (!strcmp(u->segments[0], paths[i]))
			return true;
	return false;
}

/* A description that describes nothing: kubectl then checks nothing by itself, where without it apply and
 * create would fail. In protobuf, which is what kubectl asks for, that is no bytes at all. */
static int openapi(struct call *c)
{
	static const char asked[] = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";
	c->out->code = 200;
	if (strstr(c->in->accept, asked))
		c->out->content_type = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
	else
		buf_puts(&c->out->body, "{\"swagger\":\"2.0\",\"info\":{\"title\":\"Kubernetes\",\"version\":"
					"\"unversioned\"},\"paths\":{},\"definitions\":{}}");
	return 0;
}

static int answer(struct call *c, struct uri *u)
{
	bool get = !strcmp(c->in->method, "GET");
	if (is_health(u)) {
		if (!get)
			return refuse_method(c, "GET");
		c->out->code = 200;
		c->out->content_type = "text/plain; charset=utf-8";
		buf_puts(&c->out->body, "ok");
		return 0;
	}
	if (get && u->n == 2 && !strcmp(u->segments[0], "openapi") && !strcmp(u->segments[1], "v2"))
		return openapi(c);
	bool core = u->n && !strcmp(u->segments[0], "api"), named = u->n && !strcmp(u->segments[0], "apis");
	bool discovery = (core && u->n <= 2) || (named && u->n <= 3) || !u->n ||
			 (u->n == 1 && !strcmp(u->segments[0], "version"));
	if (!discovery)
		return resource(c, u);
	return get ? call_discovery(c, u) : refuse_method(c, "GET");
}

static void print_failure(const struct failure *f, struct api_response *out)
{
	buf_reset(&out->body);
	out->code = f->code;
	out->content_type = "application/json";
	out->retry_after = f->retry_after;
	failure_print(f, &out->body);
}

void api_handle(struct storage *s, const struct api_request *in, struct api_response *out)
{
	struct call c = {.store = s, .in = in, .out = out, .doc = doc_new()};
	struct uri u;
	*out = (struct api_response){.content_type = "application/json"};
	int r = uri_path(in->uri, &u, &c.f);
	if (r == 0) {
		r = answer(&c, &u);
		uri_done(&u);
	}
	if (r == 0 && buf_failed(&out->body))
		r = fail(&c.f, 500, "InternalError", "out of memory");
	if (r < 0)
		print_failure(&c.f, out);
	call_done(&c);
}

void api_refuse(struct api_response *out, int code, const char *reason, const char *message)
{
	struct failure f = {0};
	fail(&f, code, reason, "%s", message);
	f.retry_after = code == 429;
	*out = (struct api_response){0};
	print_failure(&f, out);
}

void api_response_done(struct api_response *out)
{
	buf_done(&out->body);
	watch_free(out->watch);
	listing_free(out->rest);
	out->watch = NULL;
	out->rest = NULL;
}
