/* Who we are: a fixed token, one in a file that is read again, basic authentication, or what a plugin gives. */
#include "base64.h"
#include "http_private.h"
#include "proxy.h"
#include <ctype.h>
#include <fcntl.h>
#include <unistd.h>

enum {
	TOKEN_MAX = 64 << 10, /* bytes of a token */
};
#define TOKEN_AGE_NS (60 * NS_PER_S) /* a token file is read again after it */
#define LOOK_NS	     (10 * NS_PER_S) /* between two looks whether certificate files changed */

/* ---- tokens ---- */

static bool token_is_clean(const char *token)
{
	for (const char *p = token; *p; p++)
		if ((unsigned char)*p < 0x21 || *p == 0x7f)
			return false;
	return *token != 0;
}

/* Takes it over. */
static void set_token(struct http_auth *a, char *token)
{
	if (!a->token || !token || strcmp(a->token, token) != 0)
		a->generation++;
	if (a->token)
		explicit_bzero(a->token, strlen(a->token));
	free(a->token);
	a->token = token;
}

/* The file's text without white space around it, or NULL with errno. */
static char *token_read(const char *path)
{
	_cleanup_(close_fd) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	if (fd < 0)
		return NULL;
	char *text = xmalloc(TOKEN_MAX + 1);
	ssize_t n = read(fd, text, TOKEN_MAX);
	while (n > 0 && isspace((unsigned char)text[n - 1]))
		n--;
	text[MAX(n, 0)] = 0;
	char *start = text;
	while (isspace((unsigned char)*start))
		start++;
	memmove(text, start, strlen(start) + 1);
	if (n >= 0 && token_is_clean(text))
		return text;
	if (n >= 0)
		errno = EBADMSG;
	free(text);
	return NULL;
}

/* Reads the token file again when its time has come, or now; the last good token, then the one in the
 * kubeconfig, are used as long as it cannot be read. */
static int refresh_token(struct http_client *c, bool now, struct err *err)
{
	struct http_auth *a = &c->auth;
	if (a->token && !now && clock_boottime_ns() - a->token_read_ns < TOKEN_AGE_NS)
		return 0;
	char *token = token_read(c->config.token_file);
	if (!token && !a->token)
		return err_set(err, -ENOKEY, "%s: tokenFile %s: %s", c->config.source, c->config.token_file,
			       errno == EBADMSG ? "holds no token" : strerror(errno));
	if (!token)
		return 0;
	set_token(a, token);
	a->token_read_ns = clock_boottime_ns();
	return 0;
}

/* ---- the plugin ---- */

static void on_stderr(void *ctx, const char *line)
{
	struct http_client *c = ctx;
	http_notice(c, true, "exec plugin %s: %s", c->config.exec_command, line);
}

static void start_plugin(struct http_client *c, int64_t now_ns)
{
	struct http_auth *a = &c->auth;
	struct buf info = {0};
	exec_info(&c->config, a->material->pem[HTTP_CA].text, c->proxy, &info);
	exec_schedule_started(&a->schedule, now_ns);
	if (exec_plugin_start(&c->config, buf_str(&info), on_stderr, c, &a->plugin, &a->failure) < 0) {
		exec_schedule_failed(&a->schedule, now_ns);
		http_notice(c, true, "%s", a->failure.text);
	}
	buf_done(&info);
}

static int64_t life_ns(const struct exec_credential *given)
{
	if (!given->expires_s)
		return INT64_MAX;
	int64_t left_s = given->expires_s - clock_realtime_ns() / NS_PER_S;
	return left_s > INT64_C(3153600000) ? INT64_MAX : left_s * NS_PER_S; /* a century is for ever */
}

/* A certificate of the plugin's that is of no use leaves all as it was. */
static int take_credential(struct http_client *c, struct exec_credential *given, struct err *err)
{
	struct http_auth *a = &c->auth;
	struct exec_credential before = a->credential;
	a->credential = *given;
	int r = http_material_load(c, err);
	if (r) {
		a->credential = before;
		exec_credential_done(given);
		return err_prefix(err, r, "exec plugin %s", c->config.exec_command);
	}
	set_token(a, given->token ? xstrdup(given->token) : NULL);
	exec_credential_done(&before);
	a->failure = (struct err){0};
	return 0;
}

static void run_plugin(struct http_client *c)
{
	struct http_auth *a = &c->auth;
	struct exec_credential given = {0};
	int64_t now_ns = clock_boottime_ns();
	int r = exec_plugin_step(a->plugin, now_ns, &given, &a->failure);
	if (r > 0)
		return;
	exec_plugin_free(a->plugin);
	a->plugin = NULL;
	if (!r)
		r = take_credential(c, &given, &a->failure);
	if (r) {
		exec_schedule_failed(&a->schedule, now_ns);
		http_notice(c, true, "%s", a->failure.text);
		return;
	}
	a->generation++; /* even where it is the same again: who was refused asks once more */
	double random = (double)random_below(1u << 20) / (double)(1u << 20);
	if (exec_schedule_got(&a->schedule, life_ns(&a->credential), random, now_ns))
		http_notice(
		    c, true,
		    "exec plugin %s: its credential is over already or nearly so: is a clock wrong, there or "
		    "here?",
		    c->config.exec_command);
	for (const struct http_transfer *t = c->transfers; t; t = t->next)
		a->schedule.used |= t->state == TRANSFER_RUNNING;
}

/* ---- what http.c asks ---- */

int http_auth_init(struct http_client *c, struct err *err)
{
	const struct kubeconfig *k = &c->config;
	struct http_auth *a = &c->auth;
	if (k->token && !token_is_clean(k->token))
		return err_set(err, -EINVAL, "%s: token: holds white space or control characters", k->source);
	if (k->token)
		a->token = xstrdup(k->token);
	/* The fallback counts as read long ago. */
	a->token_read_ns = clock_boottime_ns() - TOKEN_AGE_NS;
	if (k->user) {
		_cleanup_(free_ptr) char *pair = xasprintf("%s:%s", k->user, k->password ? k->password : "");
		struct buf basic = {0};
		buf_puts(&basic, "Basic ");
		base64_encode(&basic, span_of(pair));
		a->basic = buf_steal(&basic);
		explicit_bzero(pair, strlen(pair));
	}
	int r = http_material_load(c, err);
	char until[32];
	if (!r && k->cert_data && http_tls_expired(k->cert_data, until)) /* a file may still be replaced */
		r = err_set(err, -EACCES, "%s: client-certificate expired on %s: get a new one", k->source,
			    until);
	return r;
}

static void wipe(char *text)
{
	if (text)
		explicit_bzero(text, strlen(text));
	free(text);
}

void http_auth_done(struct http_client *c)
{
	struct http_auth *a = &c->auth;
	wipe(a->basic);
	wipe(a->token);
	http_material_unref(a->material);
	exec_plugin_free(a->plugin);
	exec_credential_done(&a->credential);
}

int http_auth_need(struct http_client *c, struct err *err)
{
	struct http_auth *a = &c->auth;
	if (c->config.token_file)
		return refresh_token(c, false, err) < 0 ? -ENOKEY : 1;
	if (!c->config.exec_command)
		return 1;
	int64_t now_ns = clock_boottime_ns();
	if (exec_schedule_wants_run(&a->schedule, true, now_ns))
		start_plugin(c, now_ns);
	switch (exec_schedule_need(&a->schedule, now_ns)) {
	case EXEC_USE:
		a->schedule.used = true;
		return 1;
	case EXEC_WAIT:
		return 0;
	case EXEC_FAIL:
		break;
	}
	*err = a->failure;
	return -ENOKEY;
}

void http_auth_run(struct http_client *c)
{
	struct http_auth *a = &c->auth;
	int64_t now_ns = clock_boottime_ns();
	if (now_ns - a->looked_ns >= LOOK_NS)
		http_material_look(c);
	if (a->plugin)
		run_plugin(c);
	else if (c->config.exec_command && exec_schedule_wants_run(&a->schedule, false, now_ns))
		start_plugin(c, now_ns);
}

int64_t http_auth_due_ns(const struct http_client *c)
{
	const struct http_auth *a = &c->auth;
	if (a->plugin)
		return exec_plugin_due_ns(a->plugin);
	return c->config.exec_command ? exec_schedule_due_ns(&a->schedule) : INT64_MAX;
}

bool http_auth_refused(struct http_client *c, const struct http_transfer *t)
{
	struct http_auth *a = &c->auth;
	http_material_look(c);
	if (c->config.token_file)
		refresh_token(c, true, NULL);
	if (t->generation != a->generation)
		return true;
	return c->config.exec_command && exec_schedule_refused(&a->schedule, clock_boottime_ns());
}

void http_auth_accepted(struct http_client *c, const struct http_transfer *t)
{
	if (t->generation == c->auth.generation)
		exec_schedule_accepted(&c->auth.schedule);
}
