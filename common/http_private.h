/* What the parts of http.h share: http.c (transfers and their loop), http_client.c (the client, its address
 * and options of its connections), http_auth.c (who we are: tokens and the plugin), http_material.c
 * (certificates), http_error.c (why a transfer ended). The only include of libcurl. */
#pragma once
#include "exec_plugin.h"
#include "exec_schedule.h"
#include "http.h"
#include "http_tls.h"
#include <curl/curl.h>
#include <sys/stat.h>

/* Certificates and key of a connection; shared by the client and by the transfers that use it. */
struct http_material {
	unsigned refs;
	struct http_pem pem[HTTP_PEMS];
};

/* Who we are. */
struct http_auth {
	char *basic; /* Authorization's value of basic auth, or NULL */
	char *token; /* the current one, or NULL */
	int64_t token_read_ns;
	/* Rises when a request would be sent as somebody else, or over another connection. */
	uint64_t generation;
	struct http_material *material;
	struct stat stamps[HTTP_PEMS]; /* of the files it was read from */
	int64_t looked_ns;	       /* at them */
	bool told_expired;
	struct exec_schedule schedule;
	struct exec_plugin *plugin;	   /* the run that is under way */
	struct exec_credential credential; /* its last result */
	struct err failure;		   /* of the last run */
};

struct http_client {
	CURLM *multi;
	struct kubeconfig config;
	char *user_agent, *base; /* base: what every URL begins with */
	char *host;		 /* "Host: name:port", where base has another name than the server; or NULL */
	char *wanted_name;	 /* what the certificate must be for */
	struct curl_slist *connect_to;
	struct http_auth auth;
	struct http_tls tls;
	void (*notice)(void *ctx, bool warning, const char *text); /* NULL: nobody listens */
	void *notice_ctx;
	char *proxy;			 /* URL of the one that is used, or NULL: it may hold a password */
	struct http_transfer *transfers; /* all that have not ended */
	bool in_callback;		 /* curl is on the stack */
	uint64_t calls;			 /* callbacks made, for http_run to return after one */
	struct curl_waitfd *wait;
	size_t wait_size;
	struct http_counts counts;
	uint32_t
	    round_trip_us; /* the shortest of the last connection, as the kernel knows it; 0: not known */
};

enum transfer_state { TRANSFER_QUEUED, TRANSFER_RUNNING, TRANSFER_CANCELLED };

struct http_transfer {
	struct http_client *client;
	struct http_transfer *next;
	enum transfer_state state;
	CURL *easy;
	struct curl_slist *headers;
	char *method, *url, *content_type, *accept;
	struct http_request request; /* its texts are not used after http_start */
	struct http_callbacks cb;
	void *ctx;
	struct http_result result;
	int code;	     /* what a callback or the idle clock ended it with */
	bool started;	     /* on_start is done */
	bool compressed;     /* asked for, so that curl unpacks what comes */
	char encoding[32];   /* Content-Encoding that is nevertheless in what is handed out; "": none */
	bool again;	     /* a 401, and there is a newer credential, or will be */
	bool was_again;	     /* once is enough */
	bool outdated;	     /* a watch whose connection was made with what has been replaced */
	uint64_t generation; /* of auth, when it was sent */
	struct http_material *material;
	int64_t last_byte_ns, begun_ns;
	int64_t heard_ns; /* last_byte_ns of before the bytes at hand */
	char curl_text[CURL_ERROR_SIZE];
};

void http_transfer_free(struct http_transfer *t);

void http_notice(struct http_client *c, bool warning, const char *fmt, ...) _printf_(3, 4);

/* ---- http_auth.c ---- */

int http_auth_init(struct http_client *c, struct err *err);
void http_auth_done(struct http_client *c);
/* What a request does now: 1 it can be sent, 0 it waits for the plugin, negative: there is no credential. */
int http_auth_need(struct http_client *c, struct err *err);
/* The time passes: files are looked at, the plugin's run goes on. */
void http_auth_run(struct http_client *c);
/* The answer to t was a 401. True: it is worth to ask again, once http_auth_need says so. */
bool http_auth_refused(struct http_client *c, const struct http_transfer *t);
void http_auth_accepted(struct http_client *c, const struct http_transfer *t); /* it was another one */
int64_t http_auth_due_ns(const struct http_client *c); /* when http_auth_run has something to do */

/* ---- http_material.c ---- */

/* Reads what the kubeconfig names and the plugin gave, checks it, and takes it if it is another one; watches on
 * connections that were made with the old are marked outdated. -EACCES: what was there stays. */
int http_material_load(struct http_client *c, struct err *err);
/* Loads it again if a file changed since. What cannot be used is noted, once. */
void http_material_look(struct http_client *c);
struct http_material *http_material_ref(struct http_material *m);
void http_material_unref(struct http_material *m);

/* ---- http_error.c ---- */

/* The code and the text, "GET https://server/path: what", for a transfer that curl gave up. */
int http_explain(const struct http_transfer *t, CURLcode curl, struct err *err);
/* The same text for a reason of ours. Returns code. */
int http_explain_code(const struct http_transfer *t, int code, const char *what, struct err *err);
