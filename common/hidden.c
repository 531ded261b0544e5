#include "hidden.h"
#include <libgen.h>

struct search {
	struct hidden *to;
	const struct config_controller *c;
	char **shown;
};

void hidden_done(struct hidden *h)
{
	for (size_t i = 0; i < h->count; i++)
		free(h->owned[i]);
	*h = (struct hidden){0};
}

static bool in_list(char **list, const char *path)
{
	for (; list && *list; list++)
		if (strcmp(*list, path) == 0)
			return true;
	return false;
}

static void hide(const struct search *s, const char *path)
{
	struct hidden *to = s->to;
	char *real = path ? realpath(path, NULL) : NULL;
	if (!real)
		return;
	bool known = strcmp(real, s->c->folder) == 0 || in_list(s->c->reconciler.read_only_paths, real) ||
		     in_list(s->c->reconciler.read_write_paths, real) || in_list(s->shown, real);
	for (size_t i = 0; i < to->count; i++)
		known |= strcmp(to->at[i], real) == 0;
	if (known || to->count == HIDDEN_MAX) {
		free(real);
		return;
	}
	to->at[to->count] = to->owned[to->count] = real;
	to->at[++to->count] = NULL;
}

/* The folder of a file with a secret. Of a folder directly below / only the file is hidden: /etc must stay.
 * -EINVAL: it lies where the program may look. */
static int hide_secret(const struct search *s, const char *file, struct err *err)
{
	const char *slash = file ? strrchr(file, '/') : NULL;
	_cleanup_(free_ptr) char *real = slash ? realpath(file, NULL) : NULL;
	_cleanup_(free_ptr) char *named =
	    slash ? span_dup((struct span){file, (size_t)(slash - file)}) : NULL;
	if (!real || in_list(s->shown, named)) /* its folder is shown */
		return 0;
	_cleanup_(free_ptr) char *copy = xstrdup(real);
	const char *folder = dirname(copy);
	if (strcmp(folder, s->c->folder) == 0)
		return err_set(err, -EINVAL,
			       "%s lies in the folder of the controller file, which the reconciler sees; "
			       "move it to another folder",
			       file);
	hide(s, strchr(folder + 1, '/') ? folder : real);
	return 0;
}

int hidden_find(struct hidden *ret, const struct config_controller *c, const struct program *p,
		const struct kubeconfig *k, char **shown, struct err *err)
{
	const struct search s = {ret, c, shown};
	const char *secrets[] = {k->cert_file, k->key_file, k->token_file};
	*ret = (struct hidden){0};
	hide(&s, p->runtime_dir);
	hide(&s, p->region_dir);
	hide(&s, "/etc/reconciled");
	int r = 0;
	for (char **file = k->files; file && *file && r == 0; file++)
		r = hide_secret(&s, *file, err);
	for (size_t i = 0; i < ARRAY_SIZE(secrets) && r == 0; i++)
		r = hide_secret(&s, secrets[i], err);
	if (r < 0)
		hidden_done(ret);
	return r;
}
