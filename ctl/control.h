/* What the commands about one controller share. */
#pragma once
#include "ctl.h"
#include "queue_read.h"

#define CONTROL_SCALE_MOST 1024u /* as many as may be connected */

/* The controller that argv[0] names; wrong usage exits. */
const char *control_controller(const struct ctl_command *self, int argc, char **argv);
/* Its row in the queue's region. -ENOENT. */
int control_find(struct queue_reader *q, struct span name, struct shm_controller *ret, struct err *err);
/* One CONTROL and its count; a refusal is an error that says why. */
int control_ask(const struct ctl *c, const struct wire_control *wish, uint32_t *ret_count, struct err *err);
