/* From an object of a watched kind to the keys that it concerns. Pure: what has to be looked up is asked of
 * the caller. */
#pragma once
#include "config.h"
#include "object.h"
#include "path.h"
#include "shm_cache.h"

/* ---- a set of keys ---- */

/* An event that concerns more keys than these is answered by enqueuing everything of its controller, so many a
 * second: controller_want_paced_sweep(). */
enum { KEYS_MAX = 1024 };

struct keys {
	struct buf text;
	struct key {
		uint32_t at;
		uint16_t namespace_len, name_len;
	} * at;
	size_t count, cap;
	bool all; /* more than KEYS_MAX, or not to be told one by one: everything of the controller */
};
void keys_done(struct keys *k);
void keys_reset(struct keys *k);
/* Adds a key once. Names that no object can have are left out. */
void keys_add(struct keys *k, struct span namespace, struct span name);
void keys_get(const struct keys *k, size_t i, struct span *ret_namespace, struct span *ret_name);

/* ---- mapping ---- */

struct mapping {
	enum config_map_type type;
	bool every_owner;  /* not only the reference with controller: true; always so for OWNER_OTHER */
	const char *key;   /* of the label or annotation */
	char *owner_group; /* OWNER, OWNER_OTHER */
	const char *owner_kind;
};
/* Keeps pointers into both. for_kind: of the controller's `for`. */
void mapping_init(struct mapping *m, const struct config_watch *w, const struct config_kind *for_kind);
void mapping_done(struct mapping *m);

struct mapping_lookup {
	void *ctx;
	/* OWNER: is the object of that name cached with another uid? (then the reference is to one that is
	 * gone) */
	bool (*owner_is_another)(void *ctx, struct span namespace, struct span name, struct span uid);
	/* INDEX: the `for` objects whose value names this object. */
	void (*references)(void *ctx, struct span namespace, struct span name, struct keys *out);
	/* ALL: every `for` object, at most KEYS_MAX + 1 of them. */
	void (*everything)(void *ctx, struct keys *out);
	enum cache_scope for_scope; /* of the `for` kind */
};

/* Adds the keys of the object. While the scope of the `for` kind is unknown keys cannot be made: all is
 * set. */
void mapping_keys(const struct mapping *m, const struct object *o, const struct mapping_lookup *lookup,
		  struct keys *out);

/* Has the object changed so that its own key, if parked, deserves another attempt: uid, generation or
 * deletionTimestamp; for kinds without a generation (ConfigMap, Secret) anything. */
bool mapping_primary_changed(const struct object *before, const struct object *after);
