/* The inside of libreconcile. Everything but what reconcile.h declares is hidden in both libraries
 * (CMakeLists.txt). */
#pragma once
#include "buf.h"
#include "json_scan.h"
#include "reconcile.h"

#define SDK_VERSION "reconciled.dev/v1"
enum { SDK_MESSAGE_MAX = 1024, SDK_PATH_KEY_MAX = 512 };
#define SDK_LINE_MAX	 (UINT64_C(64) << 20) /* a line from the worker; it sends 16 MiB and a little at most */
#define SDK_RESPONSE_MAX (UINT64_C(4) << 20)

/* ---- memory of one request ---- */

struct sdk_chunk;
/* n bytes that live as long as the request, terminated by a NUL of their own. */
char *sdk_keep(struct reconcile_request *req, const char *bytes, size_t n);

/* ---- the connection with the worker ---- */

struct sdk_link {
	int in, out;
	struct buf buffer; /* what was read and not yet handed out */
	size_t taken;	   /* of it, the line that was handed out last */
	bool ended;	   /* EOF */
	bool shutdown;	   /* the worker wants us to end */
	bool coprocess;
	uint64_t last_id; /* of our reads */
};
/* The next line without its end, valid until the next call: 1; 0 at EOF; -EAGAIN when wait is false and none
 * is there; -EMSGSIZE, or another negative errno. */
int sdk_line(struct sdk_link *link, bool wait, struct span *ret);
int sdk_send(struct sdk_link *link, struct span line); /* adds the newline; -EPIPE */

/* ---- request and response ---- */

struct reconcile_request {
	struct span text; /* the whole, checked */
	struct sdk_chunk *chunks;
	struct sdk_link *link; /* NULL: no reads */
	int64_t deadline_ns;   /* CLOCK_BOOTTIME; 0: none known */
	bool cancelled;
	char read_error[SDK_MESSAGE_MAX];
};
int sdk_request_init(struct reconcile_request *req, struct span text, struct sdk_link *link, struct err *err);
void sdk_request_done(struct reconcile_request *req);
struct reconcile_value sdk_value(struct reconcile_request *req, struct span text);

struct sdk_named { /* members of a JSON object under construction: condition types, status fields */
	char *name;
	struct buf json;
};
struct sdk_list {
	struct sdk_named *at;
	size_t count;
};

struct reconcile_response {
	struct sdk_list status, conditions, children, events; /* children and events have no names */
	bool children_managed, finalized, requeue, has_error, pause_controller;
	bool has_priority;
	int priority;
	int64_t requeue_after_ms, retry_after_ms; /* 0: none */
	enum reconcile_error_type error_type;
	char error_reason[256], error_message[SDK_MESSAGE_MAX];
	/* the first wrong template or argument: the response is a Terminal error then */
	char bug[SDK_MESSAGE_MAX + 64];
};
void sdk_response_done(struct reconcile_response *res);
/* The JSON of the response, one line. result: what the handler returned. */
void sdk_response_print(struct reconcile_response *res, struct reconcile_request *req, int result,
			struct buf *out);

/* Expands a template. -EINVAL: err shows the place; out then holds anything. */
int sdk_template(struct buf *out, struct err *err, const char *template_, va_list ap);

/* Runs the handler on a checked request. */
void sdk_handle(const struct reconcile_handler *handler, struct reconcile_request *req, struct buf *out);
