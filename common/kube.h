/* The Kubernetes API's conventions over http.h: paths, discovery, metav1.Status, selectors. */
#pragma once
#include "http.h"
#include "names.h"

struct kube_resource {
	char api_version[254]; /* "v1", "apps/v1" */
	char group[254];       /* "" for the core group */
	char version[64];
	char kind[64];
	char plural[64];
	bool namespaced;
	bool has_status; /* the status subresource is served */
	/* the kind comes from a CustomResourceDefinition (its group has a dot and is none of Kubernetes'
	 * own) */
	bool custom;
};

/* "apps/v1" to group and version: -EINVAL if it is no such thing. */
int kube_split_api_version(const char *api_version, char group[254], char version[64]);

/* Asks discovery for one kind; nothing is remembered. -ENOENT: not served (group, version or kind); else as
 * http_do or kube_status. */
int kube_discover(struct http_client *c, const char *api_version, const char *kind, struct kube_resource *ret,
		  struct err *err);
/* The two halves of it, for those who must not block: what to GET, and the kind in the body of a 200 (-ENOENT:
 * not in it; -EPROTO). */
int kube_discovery_path(const char *api_version, struct buf *path, struct err *err);
int kube_discovery_find(const char *api_version, const char *kind, struct span body,
			struct kube_resource *ret, struct err *err);

/* The versions of a kind's group but the given one, as apiVersions with their NULs, from the body of GET /apis.
 * *ret_listed: the given one is there, too. -EPROTO: it is no list of groups, and nothing is known. */
int kube_discovery_versions(const char *api_version, struct span body, struct buf *others, bool *ret_listed);

/* Appends "/apis/apps/v1/namespaces/NS/deployments/NAME/status". namespace may be absent (cluster scope, or
 * all namespaces for a list), name may be absent (the collection), subresource may be NULL. Segments are
 * percent-encoded. */
void kube_path(struct buf *out, const struct kube_resource *r, struct span namespace, struct span name,
	       const char *subresource);
void kube_query(struct buf *path, const char *name,
		struct span value); /* appends "?n=v" or "&n=v", encoded */

/* What a metav1.Status answer says, or was made up from the HTTP status for an answer that is none. */
struct kube_status {
	int code;
	char reason[64];	/* "NotFound", "Conflict", "Invalid", "Expired", ... */
	char message[1024];	/* for a person */
	int64_t retry_after_ms; /* header or details.retryAfterSeconds; -1: none */
};
/* 0 for 2xx, unless JSON was asked for and the answer is something else (-EPROTO); else a negative errno: 400 EINVAL, 401 EACCES, 403 EPERM, 404 ENOENT, 405 EOPNOTSUPP, 409
 * AlreadyExists EEXIST, 409 Conflict EBUSY, 410 ESTALE, 413 EMSGSIZE, 422 EINVAL, 429 EAGAIN, 5xx EIO. ret
 * may be NULL. err: "PATCH path: 403 Forbidden: message". */
int kube_status(const struct http_request *r, const struct http_result *h, struct span body,
		struct kube_status *ret, struct err *err);
/* The part of it that asks for JSON: 0 or -EPROTO. */
int kube_answers(const struct http_request *r, const struct http_result *h, struct err *err);
/* http_do and kube_status in one. On failure body is as before. */
int kube_do(struct http_client *c, const struct http_request *r, struct buf *body, struct kube_status *ret,
	    struct err *err);

/* Does the label selector (as in a query: "a=b,c!=d,e in (f,g),h,!i") match the object's metadata.labels? 1,
 * 0, or -EINVAL with err. */
int kube_selector_match(const char *selector, struct span labels_object, struct err *err);

/* A resourceVersion as a number, which orders those of one resource: digits without a leading zero, at most 18446744073709551614. 0: it is not
 * such a one, and nothing is known of its order. */
uint64_t kube_version(struct span text);
