/* What the parts of http.h share: http.c (transfers and their loop), http_client.c (the client, its address
 * and token), http_error.c (why a transfer ended). The only include of libcurl. */
#pragma once
#include "http.h"
#include "http_tls.h"
#include <curl/curl.h>

struct http_client {
	CURLM *multi;
	struct kubeconfig config;
	char *user_agent, *base; /* base: what every URL begins with */
	char *host;		 /* "Host: name:port", where base has another name than the server; or NULL */
	char *wanted_name;	 /* what the certificate must be for */
	struct curl_slist *connect_to;
	char *basic; /* Authorization's value of basic auth, or NULL */
	char *token; /* the current one, or NULL */
	int64_t token_read_ns;
	struct http_tls tls;
	struct http_transfer *transfers; /* all that have not ended */
	bool in_callback;		 /* curl is on the stack */
	uint64_t calls;			 /* callbacks made, for http_run to return after one */
	struct curl_waitfd *wait;
	size_t wait_size;
	struct http_counts counts;
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
	int code;	/* what a callback or the idle clock ended it with */
	bool started;	/* on_start is done */
	bool again;	/* a 401, and there is a newer token */
	bool was_again; /* once is enough */
	int64_t last_byte_ns;
	char curl_text[CURL_ERROR_SIZE];
};

void http_transfer_free(struct http_transfer *t);

/* Reads the token file when its time has come, or now. Fails only when there is no token at all. */
int http_refresh_token(struct http_client *c, bool now, struct err *err);

/* The code and the text, "GET https://server/path: what", for a transfer that curl gave up. */
int http_explain(const struct http_transfer *t, CURLcode curl, struct err *err);
/* The same text for a reason of ours. Returns code. */
int http_explain_code(const struct http_transfer *t, int code, const char *what, struct err *err);
