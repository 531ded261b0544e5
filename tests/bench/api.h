/* The benchmark's objects (objects.h) on an API server. One handle per process; whatever is refused ends the program. */
#pragma once
#include "buf.h"
#include <stdint.h>

enum api_kind { API_PODS, API_DATABASES, API_KINDS };
enum api_kind api_kind_of(const char *text); /* "pods", "databases" */
/* As a controller's file and the cache name it. */
const char *api_version_of(enum api_kind k);
const char *api_kind_name(enum api_kind k);
const char *api_plural(enum api_kind k);
void api_object_name(enum api_kind k, uint32_t i, char namespace[64], char name[64]);

void api_connect(const char *kubeconfig);
/* Runs it in n processes of their own, each connected, and waits for all. */
enum { API_WRITERS = 4 };
void api_in_processes(const char *kubeconfig, uint32_t n, void (*run)(uint32_t self, const void *ctx),
		      const void *ctx);
/* The definition of databases, and the namespaces of count objects of the kind; what is there already stays. */
void api_prepare(enum api_kind k, uint32_t count);
void api_create(enum api_kind k, uint32_t i);
/* Gives object i the status of this version. The resourceVersion that the server answered; *ret_at: when it did, CLOCK_BOOTTIME ns. */
uint64_t api_update(enum api_kind k, uint32_t i, uint64_t version, int64_t *ret_at);
