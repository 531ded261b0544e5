/* What the doc_*.c files share, and who walks field sets (the built-in API server). */
#pragma once
#include "doc.h"

/* ---- lookup by name in containers of any size, for what would otherwise compare everything with everything
 * ---- */

struct doc_index {
	struct doc_index_slot {
		uint64_t hash;
		struct span name;
		void *value; /* NULL: the slot is free */
	} * slots;
	size_t mask;
};

/* Room for n names; they are not copied. */
void doc_index_init(struct doc_index *ix, size_t n);
void doc_index_done(struct doc_index *ix);
/* What has that name already; or NULL: then value has it now. */
void *doc_index_put(struct doc_index *ix, struct span name, void *value);
void *doc_index_get(const struct doc_index *ix, struct span name);

/* The members of one object: looked through while they are few, indexed when they are many. */
struct doc_members {
	const struct doc_node *object;
	struct doc_index index; /* no slots: few */
};
void doc_members_init(struct doc_members *m, const struct doc_node *object);
void doc_members_done(struct doc_members *m);
struct doc_node *doc_members_get(const struct doc_members *m, struct span key);

/* ---- linking ---- */

/* Puts n in the place of a member that is there, under its name. */
void doc_replace(struct doc_node *container, struct doc_node *old, struct doc_node *n);
/* Adds a member whose name is known to be new. */
void doc_add(struct doc *d, struct doc_node *object, struct span key, struct doc_node *n);

/* ---- where in an object we are: names of members from the root, without the places in lists ---- */

enum { DOC_PATH_MAX = 12 /* deeper than any path that the tables know */ };

struct doc_where {
	struct span keys[DOC_PATH_MAX];
	size_t depth; /* counts on beyond the array */
};
void doc_enter(struct doc_where *w, struct span key);
void doc_leave(struct doc_where *w);
/* doc_list_keys of this place. */
const char *const *doc_keys_here(const struct doc_where *w);
/* An object that is one value: who sets it sets all of it. */
bool doc_atomic_here(const struct doc_where *w);

/* ---- lists whose items have names: k:{"name":"x"} by their keys, v:"x" in a set, as fieldsV1 writes them
 * ---- */

struct doc_list {
	struct doc_item {
		struct span name;
		struct doc_node *node;
	} * items;
	size_t n;
	struct doc_index index; /* name to struct doc_item */
};
/* False, and nothing to be done, if there are no keys, if list is neither NULL nor an array, if an item lacks
 * a key or if two share one: then the list is one value. Names live in d. */
bool doc_list_init(struct doc *d, struct doc_list *l, const struct doc_node *list, const char *const *keys);
void doc_list_done(struct doc_list *l);
