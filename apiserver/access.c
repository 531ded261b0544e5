#include "access.h"
#include "certificate.h"
#include "private_file.h"
#include <fcntl.h>
#include <gnutls/gnutls.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FILE_MAX = 1 << 20 };

static int read_file(const char *path, const char *what, char **ret, struct err *err)
{
	_cleanup_(close_fd) int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return err_set(err, -errno, "%s %s: %s", what, path, strerror(errno));
	char *text = xmalloc(FILE_MAX + 1);
	size_t n = 0;
	for (ssize_t got; n < FILE_MAX && (got = read(fd, text + n, FILE_MAX - n)) != 0;) {
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0) {
			int code = -errno;
			free(text);
			return err_set(err, code, "%s %s: %s", what, path, strerror(-code));
		}
		n += (size_t)got;
	}
	if (n == 0 || n == FILE_MAX) {
		free(text);
		return err_set(err, -EINVAL, "%s %s: %s", what, path,
			       n ? "is larger than 1 MiB" : "is empty");
	}
	text[n] = 0;
	*ret = text;
	return 0;
}

static int read_token(const char *path, char **ret, struct err *err)
{
	char *text = NULL;
	int r = read_file(path, "token file", &text, err);
	if (r < 0 || !text)
		return r;
	size_t n = strcspn(text, "\r\n");
	text[n] = 0;
	bool clean = n > 0;
	for (size_t i = 0; i < n; i++)
		clean &= text[i] > ' ' && text[i] < 0x7f;
	if (!clean) {
		free(text);
		return err_set(
		    err, -EINVAL,
		    "token file %s: the first line must be a token: printable characters without blanks",
		    path);
	}
	*ret = text;
	return 0;
}

/* Its key and certificate stay over restarts: clients hold on to the certificate that they have read. */
static int keep_self_signed(struct access *a, const char *path, struct err *err)
{
	_cleanup_(free_ptr) char *text = NULL;
	struct err unreadable;
	if (read_file(path, "--self-signed", &text, &unreadable) == 0 && text &&
	    certificate_split(text, &a->key, &a->cert))
		return 0;
	int r = certificate_make(&a->key, &a->cert, err);
	if (r < 0)
		return r;
	_cleanup_(free_ptr) char *both = xasprintf("%s%s", a->key, a->cert);
	return private_file_write(path, span_of(both), "--self-signed", err);
}

int access_init(struct access *a, const struct access_files *files, struct err *err)
{
	*a = (struct access){.token_file = files->token};
	pthread_mutex_init(&a->lock, NULL);
	int r = 0;
	if (!files->cert != !files->key)
		r = err_set(err, -EINVAL, "--tls-cert and --tls-key go together");
	else if (files->cert && files->self_signed)
		r = err_set(err, -EINVAL, "--self-signed and --tls-cert exclude each other");
	else if (files->client_ca && !files->cert && !files->self_signed)
		r = err_set(err, -EINVAL, "--client-ca needs --tls-cert and --tls-key");
	if (r == 0 && files->token)
		r = read_token(files->token, &a->token, err);
	if (r == 0 && files->self_signed)
		r = keep_self_signed(a, files->self_signed, err);
	if (r == 0 && files->cert)
		r = read_file(files->cert, "certificate", &a->cert, err);
	if (r == 0 && files->key)
		r = read_file(files->key, "key", &a->key, err);
	if (r == 0 && files->client_ca)
		r = read_file(files->client_ca, "client CA", &a->client_ca, err);
	if (r < 0)
		access_done(a);
	return r;
}

void access_done(struct access *a)
{
	free(a->token);
	free(a->cert);
	free(a->key);
	free(a->client_ca);
	pthread_mutex_destroy(&a->lock);
}

int access_reload(struct access *a, struct err *err)
{
	char *token = NULL;
	if (!a->token_file)
		return 0;
	int r = read_token(a->token_file, &token, err);
	if (r < 0)
		return r;
	pthread_mutex_lock(&a->lock);
	free(a->token);
	a->token = token;
	pthread_mutex_unlock(&a->lock);
	return 0;
}

/* Takes as long for a wrong token as for the right one. */
static bool equal_secret(const char *a, const char *b)
{
	size_t n = strlen(a), m = strlen(b);
	unsigned differ = n != m;
	for (size_t i = 0; i < m; i++)
		differ |= (unsigned char)(n ? a[i % n] : 0) ^ (unsigned char)b[i];
	return !differ;
}

static bool token_right(struct access *a, const char *authorization)
{
	if (!authorization || strncasecmp(authorization, "Bearer ", 7) != 0)
		return false;
	pthread_mutex_lock(&a->lock);
	bool right = a->token && equal_secret(a->token, authorization + 7);
	pthread_mutex_unlock(&a->lock);
	return right;
}

static bool certificate_right(struct MHD_Connection *connection)
{
	const union MHD_ConnectionInfo *info =
	    MHD_get_connection_info(connection, MHD_CONNECTION_INFO_GNUTLS_SESSION);
	unsigned status = 0;
	return info && gnutls_certificate_verify_peers2(info->tls_session, &status) == GNUTLS_E_SUCCESS &&
	       status == 0;
}

bool access_allowed(struct access *a, struct MHD_Connection *connection, const char *authorization)
{
	if (!a->token_file && !a->client_ca)
		return true;
	return token_right(a, authorization) || (a->client_ca && certificate_right(connection));
}
