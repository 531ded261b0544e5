#include "http_tls.h"
#include <arpa/inet.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <time.h>

/* ---- what the configuration brings ---- */

static int no_password(char *buf _unused_, int size _unused_, int writing _unused_, void *arg _unused_)
{
	return 0;
}

static void format_time(const ASN1_TIME *t, char out[32])
{
	struct tm tm;
	if (ASN1_TIME_to_tm(t, &tm))
		strftime(out, 32, "%Y-%m-%dT%H:%M:%SZ", &tm);
	else
		snprintf(out, 32, "an unreadable date");
}

static X509 *read_certificate(const char *pem)
{
	BIO *b = BIO_new_mem_buf(pem, -1);
	X509 *x = b ? PEM_read_bio_X509(b, NULL, no_password, NULL) : NULL;
	BIO_free(b);
	return x;
}

static EVP_PKEY *read_key(const char *pem)
{
	BIO *b = BIO_new_mem_buf(pem, -1);
	EVP_PKEY *p = b ? PEM_read_bio_PrivateKey(b, NULL, no_password, NULL) : NULL;
	BIO_free(b);
	return p;
}

static int check_ca(const struct http_pem *ca, const char *source, struct err *err)
{
	if (!ca->text)
		return 0;
	X509 *x = read_certificate(ca->text);
	X509_free(x);
	return x ? 0
		 : err_set(err, -EACCES, "%s: certificate-authority: no PEM certificate in %s", source,
			   ca->place);
}

static int check_client(const struct http_pem *cert, const struct http_pem *key, const char *source,
			struct err *err)
{
	if (!cert->text)
		return 0;
	X509 *x = read_certificate(cert->text);
	EVP_PKEY *p = key->text ? read_key(key->text) : NULL;
	int r = 0;
	if (!x)
		r = err_set(err, -EACCES, "%s: client-certificate: no PEM certificate in %s", source,
			    cert->place);
	else if (!p)
		r = err_set(err, -EACCES, "%s: client-key: no PEM private key without a password in %s",
			    source, key->place);
	else if (X509_check_private_key(x, p) != 1)
		r = err_set(err, -EACCES, "%s: client-key does not belong to client-certificate", source);
	X509_free(x);
	EVP_PKEY_free(p);
	return r;
}

int http_tls_check(const struct http_pem pem[HTTP_PEMS], const char *source, struct err *err)
{
	int r = check_ca(&pem[HTTP_CA], source, err);
	return r ? r : check_client(&pem[HTTP_CERT], &pem[HTTP_KEY], source, err);
}

bool http_tls_expired(const char *cert, char until[32])
{
	X509 *x = cert ? read_certificate(cert) : NULL;
	bool over = x && X509_cmp_current_time(X509_get0_notAfter(x)) < 0;
	if (over)
		format_time(X509_get0_notAfter(x), until);
	X509_free(x);
	return over;
}

/* ---- what the server brings ---- */

static int client_index(void)
{
	static int index = -1;
	if (index < 0)
		index = SSL_CTX_get_ex_new_index(0, NULL, NULL, NULL, NULL);
	return index;
}

static void add_name(char *names, size_t size, const char *type, const char *text, int len)
{
	size_t at = strlen(names);
	snprintf(names + at, size - at, "%s%s:%.*s", at ? ", " : "", type, len, text);
}

static void note_names(struct http_tls *t, X509 *leaf)
{
	*t->names = 0;
	GENERAL_NAMES *all = X509_get_ext_d2i(leaf, NID_subject_alt_name, NULL, NULL);
	for (int i = 0; i < sk_GENERAL_NAME_num(all); i++) {
		const GENERAL_NAME *n = sk_GENERAL_NAME_value(all, i);
		char text[INET6_ADDRSTRLEN];
		if (n->type == GEN_DNS)
			add_name(t->names, sizeof t->names, "DNS",
				 (const char *)ASN1_STRING_get0_data(n->d.dNSName),
				 ASN1_STRING_length(n->d.dNSName));
		if (n->type == GEN_IPADD &&
		    inet_ntop(ASN1_STRING_length(n->d.iPAddress) == 4 ? AF_INET : AF_INET6,
			      ASN1_STRING_get0_data(n->d.iPAddress), text, sizeof text))
			add_name(t->names, sizeof t->names, "IP", text, (int)strlen(text));
	}
	GENERAL_NAMES_free(all);
}

static void note_certificate(struct http_tls *t, X509 *x)
{
	X509_NAME_oneline(X509_get_subject_name(x), t->subject, sizeof t->subject);
	X509_NAME_oneline(X509_get_issuer_name(x), t->issuer, sizeof t->issuer);
	format_time(X509_get0_notBefore(x), t->not_before);
	format_time(X509_get0_notAfter(x), t->not_after);
}

static int on_verify(int ok, X509_STORE_CTX *store)
{
	SSL *ssl = X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx());
	struct http_tls *t = SSL_CTX_get_ex_data(SSL_get_SSL_CTX(ssl), client_index());
	X509 *x = X509_STORE_CTX_get_current_cert(store);
	if (!t || !x)
		return ok;
	if (X509_STORE_CTX_get_error_depth(store) == 0)
		note_names(t, x);
	if (!ok) {
		t->verify_error = X509_STORE_CTX_get_error(store);
		note_certificate(t, x);
	}
	return ok;
}

void http_tls_watch(struct http_tls *t, void *ssl_ctx)
{
	SSL_CTX *ctx = ssl_ctx;
	t->verify_error = 0;
	SSL_CTX_set_ex_data(ctx, client_index(), t);
	SSL_CTX_set_verify(ctx, SSL_CTX_get_verify_mode(ctx), on_verify);
}

void http_tls_explain(const struct http_tls *t, const struct kubeconfig *k, const char *wanted_name,
		      char *out, size_t size)
{
	switch (t->verify_error) {
	case X509_V_OK: /* the chain is good: it is the name */
		snprintf(
		    out, size,
		    "the server's certificate is for other names (%s), not for %s: use one of them %s %s",
		    *t->names ? t->names : "none", wanted_name,
		    k->tls_server_name ? "as tls-server-name in"
				       : "in the server's address, or set tls-server-name in",
		    k->source);
		return;
	case X509_V_ERR_CERT_HAS_EXPIRED:
		snprintf(out, size,
			 "the certificate %s expired on %s: renew it on the server, or set this host's clock",
			 t->subject, t->not_after);
		return;
	case X509_V_ERR_CERT_NOT_YET_VALID:
		snprintf(out, size, "the certificate %s is not valid before %s: set this host's clock",
			 t->subject, t->not_before);
		return;
	case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
	case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
	case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
	case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
	case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
	case X509_V_ERR_CERT_SIGNATURE_FAILURE:
		snprintf(out, size,
			 "the server's certificate is signed by an unknown authority (%s): %s %s is not the "
			 "CA of this server",
			 t->issuer,
			 k->ca_file || k->ca_data ? "certificate-authority of"
						  : "no certificate-authority in",
			 k->source);
		return;
	default:
		snprintf(out, size, "the certificate %s is refused: %s", t->subject,
			 X509_verify_cert_error_string(t->verify_error));
	}
}
