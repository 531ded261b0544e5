/* What the watcher needs to know of an object, as spans into its JSON text. Pure. */
#pragma once
#include "projection.h"

struct object {
	struct span json;			   /* {NULL, 0}: there is no object */
	struct span namespace, name, uid, version; /* unescaped; "" when absent */
	int64_t generation;			   /* -1: none, as ConfigMaps and Secrets */
	struct span deletion;			   /* deletionTimestamp; absent while the object lives */
	struct span labels, annotations, owners, finalizers; /* JSON values or absent */
};

static inline bool object_exists(const struct object *o)
{
	return o && o->json.at;
}

/* json must have passed json_check. Text that has escapes is unescaped into scratch, which must be empty or
 * hold nothing of use and live as long as *ret. Of members with one name the last counts; null is as good as
 * absent. -EINVAL: no object with a metadata.name, or names that the API does not have; err says which. */
int object_read(struct span json, struct buf *scratch, struct object *ret, struct err *err);
/* The same, for one who knows where metadata is. */
int object_read_at(struct span json, struct span metadata, struct buf *scratch, struct object *ret,
		   struct err *err);

/* One owner reference; api_version and kind are raw texts between the quotes. */
struct object_owner {
	struct span api_version, kind, name, uid;
	bool controller;
};
/* Walks metadata.ownerReferences; zeroed iterator first. Entries that are no objects or have escapes in their
 * texts are skipped. */
bool object_owner_next(const struct object *o, struct json_iter *it, struct object_owner *ret);

/* "apps" of "apps/v1", "" of "v1". */
struct span object_group(struct span api_version);

/* How the object is kept: with apiVersion and kind (a list's items come without; then in front), without
 * metadata.managedFields when strip, and with nothing but metadata when metadata_only, whatever the server
 * sent; or with nothing but some fields. The rest stays byte for byte, but for bytes that are no UTF-8: each becomes U+FFFD, as for who reads it
 * with Go, since a program in another language may refuse the whole text. Appends to out. */
struct object_keep {
	const char *api_version, *kind;
	bool strip_managed_fields, metadata_only;
	const struct projection *fields; /* NULL: all */
};
/* Returns the metadata in out, for object_read_at: good until out changes. */
struct span object_normalize(struct span json, const struct object_keep *keep, struct buf *out);
