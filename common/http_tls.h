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

/* What a connection is made with. */
enum http_pem_use { HTTP_CA, HTTP_CERT, HTTP_KEY, HTTP_PEMS };
struct http_pem {
	char *text;	   /* PEM; NULL: none */
	const char *place; /* for messages: the file, or what else it came from */
};

/* Can the CA, the client certificate and its key be read, and do they fit? -EACCES with the field and the
 * place. */
int http_tls_check(const struct http_pem pem[HTTP_PEMS], const char *source, struct err *err);
/* Is the certificate over, and since when? */
bool http_tls_expired(const char *cert, char until[32]);
/* ssl_ctx: an SSL_CTX of a new connection. t must outlive the connection. */
void http_tls_watch(struct http_tls *t, void *ssl_ctx);
/* Text for a refused certificate, after "https://server: ". wanted_name: the name that it was checked for. */
void http_tls_explain(const struct http_tls *t, const struct kubeconfig *k, const char *wanted_name,
		      char *out, size_t size);
