/* Objects as clusters have them, made by number: the same number is the same text, on every machine. A pod has about 4 KB, a custom
 * resource about 8 KB, both without managedFields. What differs from object to object (uids, hashes, addresses, times, names, texts) is
 * as much as zstd -3 makes no less than 0.35 of one alone; what they share is what objects of one kind share. tests/unit/cache_pack_test.c
 * holds both to that. */
#pragma once
#include "buf.h"

/* Appends one JSON object. version: its metadata.resourceVersion; another one has another status, too. */
void objects_pod(struct buf *out, uint32_t i, uint64_t version);
void objects_custom(struct buf *out, uint32_t i, uint64_t version); /* example.com/v1 Database */
/* Where it is: namespace and name. */
enum { OBJECTS_NAMESPACES = 60 };
void objects_pod_name(uint32_t i, char namespace[64], char name[64]);
void objects_custom_name(uint32_t i, char namespace[64], char name[64]);
/* The uid of what owns number i: a hundred pods in a row have one ReplicaSet, a hundred databases one Tenant. */
void objects_owner(uint32_t i, char uid[37]);
