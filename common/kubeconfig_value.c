/* Values of a kubeconfig: texts, booleans, paths, material. */
#include "base64.h"
#include "kubeconfig_private.h"
#include <stdio.h>
#include <unistd.h>

void kubeconfig_warn(struct kubeconfig *k, const char *fmt, ...)
{
	char line[512];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(line, sizeof line, fmt, ap);
	va_end(ap);
	kubeconfig_list_add(&k->warnings, xstrdup(line));
}

char *kubeconfig_resolve(const char *path, const char *named_in)
{
	if (*path == '/')
		return xstrdup(path);
	const char *slash = strrchr(named_in, '/');
	_cleanup_(free_ptr) char *folder =
	    slash ? span_dup((struct span){named_in, (size_t)(slash - named_in)}) : xstrdup(".");
	if (*named_in == '/')
		return xasprintf("%s/%s", folder, path);
	_cleanup_(free_ptr) char *here = getcwd(NULL, 0);
	return xasprintf("%s/%s/%s", here ? here : ".", folder, path);
}

int kubeconfig_refuse(const struct kubeconfig_reader *r, const struct yaml_doc_node *at, const char *fmt, ...)
{
	char text[900];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	return err_set(r->err, -EINVAL, "%s:%zu:%zu: %s", r->file, at->line, at->column, text);
}

int kubeconfig_get_text(const struct kubeconfig_reader *r, const struct yaml_doc_node *in, const char *key,
			const char **ret)
{
	const struct yaml_doc_node *n = yaml_doc_get(in, key);
	if (!yaml_doc_is_null(n) && n->type != YAML_SCALAR)
		return kubeconfig_refuse(r, n, "%s: a text is wanted here", key);
	*ret = yaml_doc_is_null(n) || !*n->text ? NULL : n->text;
	return 0;
}

int kubeconfig_copy_text(const struct kubeconfig_reader *r, const struct yaml_doc_node *in, const char *key,
			 char **ret)
{
	const char *text = NULL;
	int e = kubeconfig_get_text(r, in, key, &text);
	if (!e && text)
		*ret = xstrdup(text);
	return e;
}

int kubeconfig_get_bool(const struct kubeconfig_reader *r, const struct yaml_doc_node *in, const char *key,
			bool *ret)
{
	const struct yaml_doc_node *n = yaml_doc_get(in, key);
	if (yaml_doc_is_null(n))
		return 0;
	bool yes = n->type == YAML_SCALAR && !n->quoted && strcasecmp(n->text, "true") == 0;
	if (!yes && (n->type != YAML_SCALAR || n->quoted || strcasecmp(n->text, "false") != 0))
		return kubeconfig_refuse(r, n, "%s: true or false is wanted here", key);
	*ret = yes;
	return 0;
}

void kubeconfig_list_add(char ***list, char *item)
{
	size_t n = 0;
	while (*list && (*list)[n])
		n++;
	*list = xrealloc(*list, (n + 2) * sizeof **list);
	(*list)[n] = item;
	(*list)[n + 1] = NULL;
}

int kubeconfig_get_list(const struct kubeconfig_reader *r, const struct yaml_doc_node *in, const char *key,
			char ***list)
{
	const struct yaml_doc_node *all = yaml_doc_get(in, key);
	if (yaml_doc_is_null(all))
		return 0;
	if (all->type != YAML_SEQUENCE)
		return kubeconfig_refuse(r, all, "%s: a list of texts is wanted here", key);
	for (const struct yaml_doc_node *n = all->child; n; n = n->next) {
		if (n->type != YAML_SCALAR)
			return kubeconfig_refuse(r, n, "%s: a text is wanted here", key);
		kubeconfig_list_add(list, xstrdup(n->text));
	}
	return 0;
}

int kubeconfig_get_material(const struct kubeconfig_reader *r, const struct yaml_doc_node *in,
			    const char *key, char **ret_file, char **ret_data)
{
	_cleanup_(free_ptr) char *data_key = xasprintf("%s-data", key);
	const char *file = NULL, *data = NULL;
	int e = kubeconfig_get_text(r, in, key, &file);
	if (!e)
		e = kubeconfig_get_text(r, in, data_key, &data);
	if (e)
		return e;
	if (!data) {
		if (file)
			*ret_file = kubeconfig_resolve(file, r->file);
		return 0;
	}
	const struct yaml_doc_node *n = yaml_doc_get(in, data_key);
	size_t len = 0;
	char *decoded = base64_decode(span_of(data), &len);
	if (decoded && n->binary) { /* YAML's own base64 around it */
		char *outer = decoded;
		decoded = base64_decode((struct span){outer, len}, &len);
		free(outer);
	}
	if (!decoded || !len || memchr(decoded, 0, len)) {
		free(decoded);
		if (strstr(data, "-----BEGIN "))
			return kubeconfig_refuse(
			    r, n, "%s: this is PEM, and base64 of it is wanted: base64 -w0 FILE", data_key);
		return kubeconfig_refuse(r, n, "%s: not a base64 text of PEM", data_key);
	}
	*ret_data = decoded;
	if (file)
		kubeconfig_warn(r->k, "%s:%zu: %s and %s are both set: the first is used, file %s is not",
				r->file, n->line, data_key, key, file);
	return 0;
}
