/* What pause, resume, drain, scale and quarantine share. */
#pragma once
#include "ctl.h"

#define CONTROL_SCALE_MOST 1024u /* as many as may be connected */

/* The controller that argv[0] names; wrong usage exits. */
const char *control_controller(const struct ctl_command *self, int argc, char **argv);
/* One CONTROL and its count; a refusal is an error that says why. */
int control_ask(const struct ctl *c, const struct wire_control *wish, uint32_t *ret_count, struct err *err);
