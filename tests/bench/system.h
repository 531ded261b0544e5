/* The product's programs as a benchmark runs them, in a folder of its own with one controller, "web"; and what worker hosts and the
 * watcher say to the broker, for those that stand for them. */
#pragma once
#include "transport.h"
#include "wire.h"
#include <sys/types.h>

extern char system_digest[72]; /* of web's file */
extern char *system_table;     /* of its watch, in the cache */

/* Makes FOLDER/conf, run and shm; web is for this kind. */
void system_configure(const char *folder, const char *api_version, const char *kind);
/* They die with this process; their logs are FOLDER/PROGRAM.log. */
pid_t system_start_broker(void);
pid_t system_start_watcher(char *kubeconfig);
void system_show_log(const char *program);   /* on stderr */
void system_remove_log(const char *program); /* of one that is not running */

struct transport_client *system_connect(void); /* once the broker listens */
void system_send(struct transport_client *c, const struct wire *m);
/* The next message, decoded: free it with wire_done before the next one is asked for. */
void system_receive(struct transport_client *c, struct wire *ret);
struct wire system_expect(struct transport_client *c, enum wire_type type);
/* DONE of a granted key, by a reconciler that did nothing. */
void system_send_done(struct transport_client *c, uint64_t incarnation, const struct wire_grant *grant);
/* The HELLO of web's host number n, with a jail that is a process which only sleeps; the broker's incarnation. */
uint64_t system_hello_host(struct transport_client *c, uint32_t n);
