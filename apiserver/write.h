/* What create, update, patch and apply have in common. The store's lock is held from the first look at the
 * live object to the end. */
#pragma once
#include "call.h"
#include "fields.h"

/* Kind, apiVersion, namespace and name of a written object against those of the request. Fills in what was
 * left out. */
int write_identity(struct call *c, struct doc_node *root);
/* The live object as the tree that a client would GET. */
struct doc_node *write_live_tree(struct call *c, const struct object *o);

struct draft {
	struct object *live;	 /* NULL: to be created. Borrowed */
	struct doc_node *before; /* tree of live, stored field names */
	struct doc_node *after;	 /* as the client wants it, shown field names */
	struct doc_node *fields; /* managedFields from an apply; NULL: recorded here */
	struct manager manager;
};
/* Checks, stores and answers. */
int write_create(struct call *c, struct draft *w);
int write_update(struct call *c, struct draft *w);
enum { OBJECT_MAX = 3 << 20 }; /* bytes of JSON */
/* Prints and stores root as version s->rv + 1; -ECANCELED with the failure set. *ret: a reference. */
int write_store(struct call *c, struct doc_node *root, struct object **ret);
