/* What the parts of kubeconfig.h share: kubeconfig.c (where it comes from), kubeconfig_read.c (files, merged),
 * kubeconfig_user.c (who we are), kubeconfig_value.c (single values). */
#pragma once
#include "kubeconfig.h"
#include "yaml_doc.h"

/* One file of a list. */
struct kubeconfig_file {
	const char *path;
	struct yaml_doc *docs;
	const struct yaml_doc_node *root;
};

struct kubeconfig_reader {
	const char *file; /* of what is being read */
	struct kubeconfig *k;
	struct err *err;
};

/* ---- kubeconfig_read.c ---- */

/* Parses one file: root and docs are NULL when it says nothing or is refused (-EINVAL). */
int kubeconfig_file_parse(struct kubeconfig_file *f, struct span text, struct err *err);
/* What the current context says, from n files, at least one; each entry from the first file that has its
 * name. */
int kubeconfig_merge(const struct kubeconfig_file *files, size_t n, struct kubeconfig *k, struct err *err);

/* ---- kubeconfig_user.c ---- */

int kubeconfig_read_user(const struct kubeconfig_reader *r, const struct yaml_doc_node *u);

/* ---- kubeconfig_value.c ---- */

/* "file:line:column: text" and -EINVAL. */
int kubeconfig_refuse(const struct kubeconfig_reader *r, const struct yaml_doc_node *at, const char *fmt, ...)
    _printf_(3, 4);
/* One more line for the program's log. */
void kubeconfig_warn(struct kubeconfig *k, const char *fmt, ...) _printf_(2, 3);

/* A text member; absent, null and "" are NULL. */
int kubeconfig_get_text(const struct kubeconfig_reader *r, const struct yaml_doc_node *in, const char *key,
			const char **ret);
int kubeconfig_copy_text(const struct kubeconfig_reader *r, const struct yaml_doc_node *in, const char *key,
			 char **ret);
int kubeconfig_get_bool(const struct kubeconfig_reader *r, const struct yaml_doc_node *in, const char *key,
			bool *ret);
/* A list of texts, appended to *list (NULL-terminated). */
int kubeconfig_get_list(const struct kubeconfig_reader *r, const struct yaml_doc_node *in, const char *key,
			char ***list);
void kubeconfig_list_add(char ***list, char *item); /* takes item */
/* KEY-data, decoded, or KEY, a path: data wins. */
int kubeconfig_get_material(const struct kubeconfig_reader *r, const struct yaml_doc_node *in,
			    const char *key, char **ret_file, char **ret_data);
/* Relative to the folder of the file that names it, and absolute, so that a change of folder does not
 * matter. */
char *kubeconfig_resolve(const char *path, const char *named_in);
