/* The part of http.h that knows OpenSSL: what is wrong with a certificate, said so that a person can mend it.
 * Private to http*.c. */
#pragma once
#include "kubeconfig.h"

/* What the last handshakes of a client saw. Written by OpenSSL's verify callback, which runs inside the
 * client's own loop. */
struct http_tls {
	int verify_error;  /* X509_V_ERR_*; 0: none */
	char subject[256]; /* of the certificate that was refused */
	char issuer[256];
	char not_before[32], not_after[32];
	char names[512]; /* of the server's certificate: "DNS:a, IP:b" */
};

/* Are the CA, the client certificate and its key there, readable, and do they fit? -EACCES with the field and
 * the file. */
int http_tls_check(const struct kubeconfig *k, struct err *err);
/* ssl_ctx: an SSL_CTX of a new connection. t must outlive the connection. */
void http_tls_watch(struct http_tls *t, void *ssl_ctx);
/* Text for a refused certificate, after "https://server: ". wanted_name: the name that it was checked for. */
void http_tls_explain(const struct http_tls *t, const struct kubeconfig *k, const char *wanted_name,
		      char *out, size_t size);
