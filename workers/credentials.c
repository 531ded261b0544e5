#include "credentials.h"
#include "buf.h"
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static void add(char ***list, char *item)
{
	size_t n = 0;
	while (*list && (*list)[n])
		n++;
	*list = xrealloc(*list, (n + 2) * sizeof **list);
	(*list)[n] = item;
	(*list)[n + 1] = NULL;
}

static void add_once(char ***list, char *item)
{
	for (char **at = *list; at && *at; at++)
		if (strcmp(*at, item) == 0) {
			free(item);
			return;
		}
	add(list, item);
}

/* A folder directly below / is never shown whole. */
static void show(struct credentials *c, const char *file)
{
	struct stat st;
	const char *slash = file ? strrchr(file, '/') : NULL;
	if (!slash)
		return;
	bool is_link = lstat(file, &st) == 0 && S_ISLNK(st.st_mode);
	bool deep = memchr(file + 1, '/', (size_t)(slash - file)) != slash;
	add_once(&c->paths,
		 is_link && deep ? span_dup((struct span){file, (size_t)(slash - file)}) : xstrdup(file));
}

static void tell(struct credentials *c, const char *name)
{
	const char *value = getenv(name);
	if (value)
		add(&c->env, xasprintf("%s=%s", name, value));
}

void credentials_init(struct credentials *c, const struct kubeconfig *k)
{
	*c = (struct credentials){0};
	if (!k)
		return;
	struct buf list = {0};
	for (char **file = k->files; file && *file; file++) {
		add_once(&c->paths, xstrdup(*file));
		buf_printf(&list, "%s%s", list.len ? ":" : "", *file);
	}
	show(c, k->ca_file);
	show(c, k->cert_file);
	show(c, k->key_file);
	show(c, k->token_file);
	if (k->exec_command && *k->exec_command == '/' && access(k->exec_command, X_OK) == 0)
		add_once(&c->paths, xstrdup(k->exec_command));
	if (list.len) {
		add(&c->env, xasprintf("KUBECONFIG=%s", buf_str(&list)));
	} else {
		tell(c, "KUBERNETES_SERVICE_HOST");
		tell(c, "KUBERNETES_SERVICE_PORT");
	}
	buf_done(&list);
}

static void list_free(char **list)
{
	for (char **at = list; at && *at; at++)
		free(*at);
	free(list);
}

void credentials_done(struct credentials *c)
{
	list_free(c->paths);
	list_free(c->env);
	free(c->seen);
	*c = (struct credentials){0};
}

static size_t count(const struct credentials *c)
{
	size_t n = 0;
	while (c->paths && c->paths[n])
		n++;
	return n;
}

/* Not there: all zeros. */
static struct stat look(const char *path)
{
	struct stat st;
	return stat(path, &st) < 0 ? (struct stat){0} : st;
}

void credentials_note(struct credentials *c)
{
	size_t n = count(c);
	c->seen = xrealloc(c->seen, (n + 1) * sizeof *c->seen);
	for (size_t i = 0; i < n; i++)
		c->seen[i] = look(c->paths[i]);
}

bool credentials_replaced(const struct credentials *c)
{
	size_t n = c->seen ? count(c) : 0;
	for (size_t i = 0; i < n; i++) {
		struct stat now = look(c->paths[i]);
		if (now.st_ino && (now.st_dev != c->seen[i].st_dev || now.st_ino != c->seen[i].st_ino))
			return true;
	}
	return false;
}
