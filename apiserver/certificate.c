#include "certificate.h"
#include <gnutls/crypto.h>
#include <gnutls/x509.h>
#include <netinet/in.h>
#include <time.h>

enum { DAY = 86400, VALID = 3650 * DAY, SPARE = 30 * DAY, SERIAL_BYTES = 16 };

static const char CERTIFICATE_BEGIN[] = "-----BEGIN CERTIFICATE-----";

static int name_it(gnutls_x509_crt_t crt)
{
	struct in_addr four = {htonl(INADDR_LOOPBACK)};
	struct in6_addr six = in6addr_loopback;
	int r = gnutls_x509_crt_set_dn(crt, "CN=reconciled-apiserver", NULL);
	if (r == 0)
		r = gnutls_x509_crt_set_subject_alt_name(crt, GNUTLS_SAN_IPADDRESS, &four, sizeof(four),
							 GNUTLS_FSAN_SET);
	if (r == 0)
		r = gnutls_x509_crt_set_subject_alt_name(crt, GNUTLS_SAN_IPADDRESS, &six, sizeof(six),
							 GNUTLS_FSAN_APPEND);
	if (r == 0)
		r = gnutls_x509_crt_set_subject_alt_name(crt, GNUTLS_SAN_DNSNAME, "localhost",
							 strlen("localhost"), GNUTLS_FSAN_APPEND);
	return r;
}

static int fill(gnutls_x509_crt_t crt, gnutls_x509_privkey_t key)
{
	unsigned char serial[SERIAL_BYTES];
	time_t now = time(NULL);
	int r = gnutls_rnd(GNUTLS_RND_NONCE, serial, sizeof(serial));
	serial[0] = (serial[0] & 0x3f) | 0x40; /* positive, and as long as it says */
	if (r == 0)
		r = gnutls_x509_crt_set_version(crt, 3);
	if (r == 0)
		r = gnutls_x509_crt_set_serial(crt, serial, sizeof(serial));
	if (r == 0)
		r = gnutls_x509_crt_set_activation_time(crt, now - DAY);
	if (r == 0)
		r = gnutls_x509_crt_set_expiration_time(crt, now + VALID);
	if (r == 0)
		r = name_it(crt);
	if (r == 0)
		r = gnutls_x509_crt_set_basic_constraints(crt, 0, -1);
	if (r == 0)
		r = gnutls_x509_crt_set_key_usage(crt, GNUTLS_KEY_DIGITAL_SIGNATURE);
	if (r == 0)
		r = gnutls_x509_crt_set_key_purpose_oid(crt, GNUTLS_KP_TLS_WWW_SERVER, 0);
	if (r == 0)
		r = gnutls_x509_crt_set_key(crt, key);
	return r ? r : gnutls_x509_crt_sign2(crt, crt, key, GNUTLS_DIG_SHA256, 0);
}

static char *take(gnutls_datum_t *pem)
{
	char *text = xasprintf("%.*s", (int)pem->size, (const char *)pem->data);
	gnutls_free(pem->data);
	return text;
}

static int generate(gnutls_x509_crt_t crt, gnutls_x509_privkey_t key, char **ret_key, char **ret_cert)
{
	gnutls_datum_t key_pem = {0}, cert_pem = {0};
	int r = gnutls_x509_privkey_generate(key, GNUTLS_PK_ECDSA,
					     GNUTLS_CURVE_TO_BITS(GNUTLS_ECC_CURVE_SECP256R1), 0);
	if (r == 0)
		r = fill(crt, key);
	if (r == 0)
		r = gnutls_x509_privkey_export2(key, GNUTLS_X509_FMT_PEM, &key_pem);
	if (r == 0 && (r = gnutls_x509_crt_export2(crt, GNUTLS_X509_FMT_PEM, &cert_pem)) < 0)
		gnutls_free(key_pem.data);
	if (r < 0)
		return r;
	*ret_key = take(&key_pem);
	*ret_cert = take(&cert_pem);
	return 0;
}

int certificate_make(char **ret_key, char **ret_cert, struct err *err)
{
	gnutls_x509_crt_t crt = NULL;
	gnutls_x509_privkey_t key = NULL;
	int r = gnutls_x509_crt_init(&crt);
	if (r == 0)
		r = gnutls_x509_privkey_init(&key);
	if (r == 0)
		r = generate(crt, key, ret_key, ret_cert);
	if (key)
		gnutls_x509_privkey_deinit(key);
	if (crt)
		gnutls_x509_crt_deinit(crt);
	return r == 0 ? 0 : err_set(err, -EIO, "cannot make a certificate: %s", gnutls_strerror(r));
}

static bool still_valid(const char *pem)
{
	gnutls_x509_crt_t crt;
	const gnutls_datum_t data = {(unsigned char *)(uintptr_t)pem, (unsigned)strlen(pem)};
	if (gnutls_x509_crt_init(&crt) < 0)
		return false;
	bool valid = gnutls_x509_crt_import(crt, &data, GNUTLS_X509_FMT_PEM) == 0 &&
		     gnutls_x509_crt_get_expiration_time(crt) > time(NULL) + SPARE;
	gnutls_x509_crt_deinit(crt);
	return valid;
}

bool certificate_split(const char *text, char **ret_key, char **ret_cert)
{
	const char *cert = strstr(text, CERTIFICATE_BEGIN);
	if (!cert || cert == text || !still_valid(cert))
		return false;
	*ret_key = xasprintf("%.*s", (int)(cert - text), text);
	*ret_cert = xasprintf("%s", cert);
	return true;
}
