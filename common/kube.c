#include "kube.h"
#include "json_scan.h"
#include <stdio.h>

enum { DISCOVERY_MAX = 8 << 20, DISCOVERY_TIMEOUT_MS = 30000, STATUS_MAX = 1 << 20 };

/* ---- metav1.Status ---- */

static const struct {
	int status, code;
	const char *reason; /* what the API's servers say with it */
} statuses[] = {
    {400, -EINVAL, "BadRequest"},
    {401, -EACCES, "Unauthorized"},
    {403, -EPERM, "Forbidden"},
    {404, -ENOENT, "NotFound"},
    {405, -EOPNOTSUPP, "MethodNotAllowed"},
    {406, -EOPNOTSUPP, "NotAcceptable"},
    {409, -EBUSY, "Conflict"},
    {410, -ESTALE, "Expired"},
    {413, -EMSGSIZE, "RequestEntityTooLarge"},
    {415, -EOPNOTSUPP, "UnsupportedMediaType"},
    {422, -EINVAL, "Invalid"},
    {429, -EAGAIN, "TooManyRequests"},
    {500, -EIO, "InternalError"},
    {503, -EIO, "ServiceUnavailable"},
    {504, -EIO, "Timeout"},
};

static int status_code(int status, const char **ret_reason)
{
	*ret_reason = "Unknown";
	for (size_t i = 0; i < ARRAY_SIZE(statuses); i++)
		if (statuses[i].status == status) {
			*ret_reason = statuses[i].reason;
			return statuses[i].code;
		}
	return status >= 500 ? -EIO : status >= 400 ? -EINVAL : -EPROTO;
}

/* Cuts at a character, and keeps what a terminal or a log line cannot show out of it. */
static void copy_printable(char *out, size_t size, struct span text)
{
	size_t n = MIN(text.len, size - 1);
	while (n && n < text.len && ((unsigned char)text.at[n] & 0xc0) == 0x80)
		n--;
	for (size_t i = 0; i < n; i++)
		out[i] = (unsigned char)text.at[i] < 0x20 || text.at[i] == 0x7f ? ' ' : text.at[i];
	while (n && out[n - 1] == ' ')
		n--;
	out[n] = 0;
}

static void copy_string(char *out, size_t size, struct span json)
{
	struct buf text = {0};
	if (json_type_of(json) == JSON_STRING && json_unescape(json, &text) == 0 && text.len)
		copy_printable(out, size, buf_span(&text));
	buf_done(&text);
}

static bool is_status(struct span body)
{
	return body.len <= STATUS_MAX && json_check(body, NULL) == 0 && json_type_of(body) == JSON_OBJECT &&
	       json_string_is(json_get(body, "kind"), "Status");
}

/* A login page, say. Who names no type is believed. */
int kube_answers(const struct http_request *r, const struct http_result *h, struct err *err)
{
	if (!*h->type || strcasecmp(h->type, "application/json") == 0 ||
	    (r->accept && strstr(r->accept, "*/*")))
		return 0;
	return err_set(err, -EPROTO,
		       "%s %.*s: %d, but the answer is %s and no JSON: is it from an API server?", r->method,
		       (int)strcspn(r->path, "?"), r->path, h->status, h->type);
}

int kube_status(const struct http_request *r, const struct http_result *h, struct span body,
		struct kube_status *ret, struct err *err)
{
	struct kube_status s = {.code = h->status, .retry_after_ms = h->retry_after_ms};
	int code = 0;
	if (h->status >= 200 && h->status <= 299) {
		code = kube_answers(r, h, err);
	} else {
		const char *reason;
		code = status_code(h->status, &reason);
		snprintf(s.reason, sizeof s.reason, "%s", reason);
		int64_t seconds;
		if (is_status(body)) {
			copy_string(s.reason, sizeof s.reason, json_get(body, "reason"));
			copy_string(s.message, sizeof s.message, json_get(body, "message"));
			if (s.retry_after_ms < 0 &&
			    json_int(json_path(body, "details", "retryAfterSeconds", NULL), &seconds) == 0 &&
			    seconds > 0 && seconds < 86400)
				s.retry_after_ms = seconds * 1000;
		} else {
			copy_printable(s.message, sizeof s.message,
				       (struct span){body.at, MIN(body.len, 200)});
		}
		if (h->status >= 300 && h->status < 400)
			snprintf(s.message, sizeof s.message,
				 "the server redirects to %s, which is not followed: use its real address",
				 *h->location ? h->location : "nowhere");
		if (h->status == 409 && strcmp(s.reason, "AlreadyExists") == 0)
			code = -EEXIST;
		err_set(err, code, "%s %.*s: %d %s%s%s", r->method, (int)strcspn(r->path, "?"), r->path,
			s.code, s.reason, *s.message ? ": " : "", s.message);
	}
	if (ret)
		*ret = s;
	return code;
}

int kube_do(struct http_client *c, const struct http_request *r, struct buf *body, struct kube_status *ret,
	    struct err *err)
{
	struct buf own = {.limit = STATUS_MAX};
	struct buf *to = body ? body : &own;
	size_t before = to->len;
	struct http_result result;
	int code = http_do(c, r, &result, to, err);
	if (!code) {
		code =
		    kube_status(r, &result, (struct span){buf_str(to) + before, to->len - before}, ret, err);
		char hint[HTTP_HINT_MAX] = "";
		if (code == -EACCES || code == -EPERM)
			http_client_hint(c, code == -EACCES, hint);
		if (*hint)
			err_prefix(err, code, "%s", hint);
	} else if (ret) {
		*ret = (struct kube_status){.retry_after_ms = -1};
	}
	if (code && body && body->len > before) { /* what is in it is no answer */
		body->len = before;
		body->data[before] = 0;
	}
	buf_done(&own);
	return code;
}

/* ---- discovery ---- */

/* Groups with a dot that belong to Kubernetes itself (and to its metrics adapters): not made by a
 * CustomResourceDefinition. */
static const char *const own_groups[] = {
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "apiregistration.k8s.io",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "certificates.k8s.io",
    "coordination.k8s.io",
    "discovery.k8s.io",
    "events.k8s.io",
    "flowcontrol.apiserver.k8s.io",
    "internal.apiserver.k8s.io",
    "networking.k8s.io",
    "node.k8s.io",
    "rbac.authorization.k8s.io",
    "resource.k8s.io",
    "scheduling.k8s.io",
    "storage.k8s.io",
    "storagemigration.k8s.io",
    "metrics.k8s.io",
    "custom.metrics.k8s.io",
    "external.metrics.k8s.io",
};

static bool group_is_custom(const char *group)
{
	for (size_t i = 0; i < ARRAY_SIZE(own_groups); i++)
		if (strcmp(group, own_groups[i]) == 0)
			return false;
	return strchr(group, '.');
}

/* Finds the kind in an APIResourceList. */
static int find_kind(struct span list, const char *kind, struct kube_resource *ret, struct err *err)
{
	struct span resources = json_get(list, "resources"), key, item;
	struct buf kinds = {.limit = 500};
	char plural[64] = "";
	bool namespaced = false, has_status = false;
	if (json_type_of(resources) != JSON_ARRAY)
		return err_set(err, -EPROTO, "discovery of %s: the answer has no list of resources",
			       ret->api_version);
	for (struct json_iter it = {0}; json_each(resources, &it, &key, &item);) {
		struct span name;
		if (json_string_raw(json_get(item, "name"), &name) || memchr(name.at, '/', name.len))
			continue;
		char its_kind[64] = "";
		copy_string(its_kind, sizeof its_kind, json_get(item, "kind"));
		buf_printf(&kinds, "%s%s", kinds.len ? ", " : "", its_kind);
		if (*plural || strcmp(its_kind, kind) != 0 || name.len >= sizeof plural)
			continue;
		snprintf(plural, sizeof plural, SPAN_FMT, SPAN_ARG(name));
		namespaced = span_is(json_get(item, "namespaced"), "true");
	}
	char status[sizeof plural + 8];
	snprintf(status, sizeof status, "%s/status", plural);
	for (struct json_iter it = {0}; *plural && json_each(resources, &it, &key, &item);)
		has_status |= json_string_is(json_get(item, "name"), status);
	int r = 0;
	if (!*plural)
		r = err_set(err, -ENOENT, "kind %s is not served in %s; these are: %s", kind,
			    ret->api_version, buf_str(&kinds));
	buf_done(&kinds);
	if (r)
		return r;
	snprintf(ret->kind, sizeof ret->kind, "%s", kind);
	snprintf(ret->plural, sizeof ret->plural, "%s", plural);
	ret->namespaced = namespaced;
	ret->has_status = has_status;
	return 0;
}

int kube_discovery_path(const char *api_version, struct buf *path, struct err *err)
{
	char group[254], version[64];
	if (kube_split_api_version(api_version, group, version))
		return err_set(err, -EINVAL, "\"%s\" is no apiVersion", api_version);
	buf_printf(path, *group ? "/apis/%s/%s" : "/api%s/%s", group, version);
	return 0;
}

static void take_versions(struct span group, const char *api_version, struct buf *others, bool *ret_listed)
{
	struct span key, item;
	for (struct json_iter it = {0}; json_each(json_get(group, "versions"), &it, &key, &item);) {
		char version[254] = "";
		copy_string(version, sizeof version, json_get(item, "groupVersion"));
		if (!strcmp(version, api_version))
			*ret_listed = true;
		else if (*version)
			buf_add(others, version, strlen(version) + 1);
	}
}

int kube_discovery_versions(const char *api_version, struct span body, struct buf *others, bool *ret_listed)
{
	char group[254], version[64];
	struct span groups, key, item;
	*ret_listed = false;
	if (kube_split_api_version(api_version, group, version) || json_check(body, NULL) < 0)
		return -EPROTO;
	groups = json_get(body, "groups");
	if (!json_string_is(json_get(body, "kind"), "APIGroupList") || json_type_of(groups) != JSON_ARRAY)
		return -EPROTO;
	for (struct json_iter it = {0}; json_each(groups, &it, &key, &item);)
		if (json_string_is(json_get(item, "name"), group))
			take_versions(item, api_version, others, ret_listed);
	return 0;
}

int kube_discovery_find(const char *api_version, const char *kind, struct span body,
			struct kube_resource *ret, struct err *err)
{
	struct kube_resource found = {0};
	if (strlen(kind) >= sizeof found.kind ||
	    kube_split_api_version(api_version, found.group, found.version))
		return err_set(err, -EINVAL, "\"%s\" is no apiVersion, or kind \"%s\" is too long",
			       api_version, kind);
	snprintf(found.api_version, sizeof found.api_version, "%s", api_version);
	found.custom = group_is_custom(found.group);
	if (json_check(body, err))
		return err_prefix(err, -EPROTO, "discovery of %s", api_version);
	int code = find_kind(body, kind, &found, err);
	if (!code)
		*ret = found;
	return code;
}

int kube_discover(struct http_client *c, const char *api_version, const char *kind, struct kube_resource *ret,
		  struct err *err)
{
	struct buf path = {0}, body = {.limit = DISCOVERY_MAX};
	int code = kube_discovery_path(api_version, &path, err);
	struct http_request r = {.method = "GET", .path = buf_str(&path), .timeout_ms = DISCOVERY_TIMEOUT_MS};
	if (!code)
		code = kube_do(c, &r, &body, NULL, err);
	if (code == -ENOENT)
		err_set(err, code, "%s is not served (kind %s)", api_version, kind);
	else if (!code)
		code = kube_discovery_find(api_version, kind, buf_span(&body), ret, err);
	buf_done(&path);
	buf_done(&body);
	return code;
}
