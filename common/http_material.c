/* Certificates that change while we run. libcurl gets their bytes, not their names: it never takes up a connection
 * again that was made with other bytes. */
#include "http_private.h"
#include <fcntl.h>
#include <unistd.h>

enum { PEM_MAX = 4 << 20 };

/* ---- the bytes ---- */

struct http_material *http_material_ref(struct http_material *m)
{
	if (m)
		m->refs++;
	return m;
}

void http_material_unref(struct http_material *m)
{
	if (!m || --m->refs)
		return;
	for (int i = 0; i < HTTP_PEMS; i++) {
		if (i == HTTP_KEY && m->pem[i].text)
			explicit_bzero(m->pem[i].text, strlen(m->pem[i].text));
		free(m->pem[i].text);
	}
	free(m);
}

static bool same_text(const char *a, const char *b)
{
	return a && b ? strcmp(a, b) == 0 : a == b;
}

static bool same(const struct http_material *a, const struct http_material *b)
{
	for (int i = 0; i < HTTP_PEMS; i++)
		if (!same_text(a->pem[i].text, b->pem[i].text))
			return false;
	return true;
}

/* ---- where they come from ---- */

struct source {
	const char *field, *file, *data;
};

static void sources(const struct kubeconfig *k, struct source ret[HTTP_PEMS])
{
	ret[HTTP_CA] = (struct source){"certificate-authority", k->ca_file, k->ca_data};
	ret[HTTP_CERT] = (struct source){"client-certificate", k->cert_file, k->cert_data};
	ret[HTTP_KEY] = (struct source){"client-key", k->key_file, k->key_data};
}

/* The file's text; its stamp was taken before, so that a change while it is read is seen later. */
static int read_pem(const char *path, struct stat *stamp, char **ret)
{
	struct buf text = {.limit = PEM_MAX};
	_cleanup_(close_fd) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	if (fd < 0 || fstat(fd, stamp) < 0)
		return -errno;
	for (;;) {
		char *room = buf_room(&text, 16384);
		ssize_t n = room ? read(fd, room, 16384) : (errno = EFBIG, -1);
		if (n < 0) {
			int e = -errno;
			buf_done(&text);
			return e;
		}
		if (n == 0)
			break;
		text.len += (size_t)n;
	}
	*ret = text.len ? buf_steal(&text) : xstrdup("");
	buf_done(&text);
	return 0;
}

/* Reads everything; the stamps are those of what was read, whether it is of use or not. */
static int gather(struct http_client *c, struct http_material *m, struct err *err)
{
	const struct kubeconfig *k = &c->config;
	const struct exec_credential *given = &c->auth.credential;
	struct source from[HTTP_PEMS];
	int first = 0;
	sources(k, from);
	for (int i = 0; i < HTTP_PEMS; i++) {
		struct http_pem *pem = &m->pem[i];
		pem->place = from[i].data ? "its -data" : from[i].file;
		c->auth.stamps[i] = (struct stat){0};
		if (from[i].data)
			pem->text = xstrdup(from[i].data);
		if (!from[i].file || from[i].data)
			continue;
		int e = read_pem(from[i].file, &c->auth.stamps[i], &pem->text);
		if (e && !first)
			first = err_set(err, -EACCES, "%s: %s: cannot read %s: %s", k->source, from[i].field,
					from[i].file, strerror(-e));
	}
	if (!m->pem[HTTP_CERT].place && given->cert) { /* one in the kubeconfig wins */
		m->pem[HTTP_CERT] = (struct http_pem){xstrdup(given->cert), "the plugin's answer"};
		m->pem[HTTP_KEY] = (struct http_pem){xstrdup(given->key), "the plugin's answer"};
	}
	return first;
}

/* A connection that has a watch on it may be old by now: it is made again, and goes on where it is. */
static void outdate_watches(struct http_client *c)
{
	for (struct http_transfer *t = c->transfers; t; t = t->next)
		t->outdated |= t->state == TRANSFER_RUNNING && t->request.own_connection;
}

int http_material_load(struct http_client *c, struct err *err)
{
	struct http_material *m = xcalloc(1, sizeof *m);
	m->refs = 1;
	c->auth.looked_ns = clock_boottime_ns();
	int r = 0;
	if (strncmp(c->base, "https:", 6) == 0) {
		r = gather(c, m, err);
		if (!r)
			r = http_tls_check(m->pem, c->config.source, err);
	}
	if (r || (c->auth.material && same(m, c->auth.material))) {
		http_material_unref(m);
		return r;
	}
	if (c->auth.material) {
		c->auth.generation++;
		outdate_watches(c);
	}
	http_material_unref(c->auth.material);
	c->auth.material = m;
	c->auth.told_expired = false;
	return 0;
}

static bool is_same_file(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
	       a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec &&
	       a->st_ctim.tv_sec == b->st_ctim.tv_sec && a->st_ctim.tv_nsec == b->st_ctim.tv_nsec;
}

void http_material_look(struct http_client *c)
{
	struct source from[HTTP_PEMS];
	bool changed = false, tls = strncmp(c->base, "https:", 6) == 0;
	char until[32];
	sources(&c->config, from);
	c->auth.looked_ns = clock_boottime_ns();
	for (int i = 0; i < HTTP_PEMS && tls; i++) {
		struct stat now = {0};
		if (!from[i].file || from[i].data)
			continue;
		if (stat(from[i].file, &now) < 0)
			now = (struct stat){0};
		changed |= !is_same_file(&now, &c->auth.stamps[i]);
	}
	if (changed) {
		struct err why = {0};
		uint64_t before = c->auth.generation;
		if (http_material_load(c, &why) < 0)
			http_notice(c, true, "%s; what was read before stays in use", why.text);
		else if (c->auth.generation != before)
			http_notice(c, false, "%s: certificates read again: new connections use them",
				    c->config.source);
	}
	const char *cert = c->auth.material->pem[HTTP_CERT].text;
	if (!c->auth.told_expired && http_tls_expired(cert, until)) {
		http_notice(c, true, "%s: client-certificate expired on %s: get a new one", c->config.source,
			    until);
		c->auth.told_expired = true;
	}
}
