/* From a path to everything that is configured. */
#include "config_internal.h"
#include <dirent.h>
#include <stdio.h>
#include <sys/stat.h>

struct loader {
	struct config *config;
	bool folder;			     /* manifests of other kinds may lie beside the controllers */
	char **controller_places;	     /* "FILE:LINE" of config->controllers[i] */
	char *checked_folder, *folder_error; /* the last folder that was searched for a kubeconfig */
	int shortage;			     /* error_is_shortage() while something was read, and which */
	struct err shortage_text;
};

static void note_shortage(struct loader *l, int rc, const struct err *err)
{
	if (!error_is_shortage(rc))
		return;
	l->shortage = rc;
	l->shortage_text = *err;
}

/* Absolute; of a link: its target's, where the program lies, too. */
static char *folder_of(const char *file)
{
	char *path = realpath(file, NULL);
	if (!path)
		return xstrdup("/"); /* the file cannot be read either, and that is said */
	char *slash = strrchr(path, '/');
	slash[slash == path] = 0;
	return path;
}

/* What is wrong with the folder as a jail's folder; NULL: nothing. */
static const char *folder_check(struct loader *l, const char *folder)
{
	struct err err;
	_cleanup_(free_ptr) char *found = NULL;
	if (l->checked_folder && strcmp(l->checked_folder, folder) == 0)
		return l->folder_error;
	free(l->checked_folder);
	free(l->folder_error);
	l->checked_folder = xstrdup(folder);
	l->folder_error = NULL;
	int c = config_folder_kubeconfig(folder, &found, &err);
	note_shortage(l, c, &err);
	if (c < 0)
		l->folder_error = xstrdup(err.text);
	else if (c > 0)
		l->folder_error = xasprintf(
		    "the controller's folder holds a kubeconfig, %s: the reconciler sees this folder, so "
		    "move one of them elsewhere",
		    found);
	return l->folder_error;
}

static void controller_add(struct loader *l, struct config_reader *r, struct config_controller *c)
{
	struct config *config = l->config;
	size_t line = r->name_node->line;
	for (size_t i = 0; i < config->count; i++) {
		if (strcmp(config->controllers[i].name, c->name) == 0) {
			config_complain(
			    r, r->name_node,
			    "metadata.name: the name \"%s\" is taken: %s has a controller of this name",
			    c->name, l->controller_places[i]);
			config_controller_done(c);
			return;
		}
	}
	if (config->count == CONFIG_CONTROLLERS_MAX) {
		config_complain(r, r->name_node, "more than %d controllers: this one is left out",
				CONFIG_CONTROLLERS_MAX);
		config_controller_done(c);
		return;
	}
	config_controller_digest(c);
	config->controllers =
	    xrealloc(config->controllers, (config->count + 1) * sizeof(*config->controllers));
	config->controllers[config->count++] = *c;
	texts_add(&l->controller_places, xasprintf("%s:%zu", r->file, line));
}

/* A manifest of another API group, in a folder: somebody's CRD or example objects. */
static bool is_foreign(const struct yaml_doc_node *root)
{
	const struct yaml_doc_node *version = yaml_doc_get(root, "apiVersion"),
				   *kind = yaml_doc_get(root, "kind");
	return version && kind && version->type == YAML_SCALAR && kind->type == YAML_SCALAR &&
	       strncmp(version->text, "reconciled.dev/", 15) != 0 && strcmp(kind->text, "Controller") != 0;
}

static void document_load(struct loader *l, struct config_reader *r, const struct yaml_doc_node *root)
{
	struct config_controller c;
	size_t fatal = l->config->errors.fatal;
	if (l->folder && is_foreign(root)) {
		config_warn(r, root, "%.64s %.100s is no controller: skipped",
			    yaml_doc_get(root, "kind")->text, yaml_doc_get(root, "apiVersion")->text);
		return;
	}
	config_controller_read(r, root, &c);
	const char *wrong = folder_check(l, c.folder);
	if (wrong)
		config_complain(r, root, "%s", wrong);
	if (l->config->errors.fatal == fatal)
		controller_add(l, r, &c);
	else
		config_controller_done(&c);
}

/* The documents of a file, or NULL after an error that has been said. */
static struct yaml_doc *file_parse(struct loader *l, struct config_reader *r, struct buf *text)
{
	struct yaml_doc *docs = NULL;
	struct err err;
	size_t line = 0, column = 0;
	int rc = config_file_read(r->file, text, &err);
	note_shortage(l, rc, &err);
	if (rc < 0)
		config_errors_add(r->errors, r->file, 0, 0, false, err.text);
	else if (yaml_doc_parse_lenient(buf_span(text), &docs, &line, &column, &err) < 0)
		config_errors_add(r->errors, r->file, line, column, false, err.text);
	return docs;
}

static void file_load(struct loader *l, const char *file)
{
	_cleanup_(buf_done) struct buf text = {0};
	_cleanup_(free_ptr) char *folder = folder_of(file);
	struct config_reader r = {.errors = &l->config->errors, .file = file, .folder = folder};
	size_t from = l->config->errors.count, documents = 0;
	struct yaml_doc *docs = file_parse(l, &r, &text);
	for (const struct yaml_doc *d = docs; d; d = d->next) {
		if (!d->root)
			continue;
		documents++;
		document_load(l, &r, d->root);
	}
	if (docs && !documents)
		config_errors_add(r.errors, file, 0, 0, l->folder,
				  "the file is empty: there is no controller in it");
	config_errors_sort(&l->config->errors, from);
	yaml_doc_free(docs);
}

static void main_load(struct loader *l, const char *file)
{
	_cleanup_(buf_done) struct buf text = {0};
	_cleanup_(free_ptr) char *folder = folder_of(file);
	struct config_reader r = {.errors = &l->config->errors, .file = file, .folder = folder};
	size_t from = l->config->errors.count, fatal = l->config->errors.fatal;
	struct yaml_doc *docs = file_parse(l, &r, &text);
	if (docs && docs->next)
		config_complain(&r, docs->next->root, "found a second document; allowed: one");
	if (docs && docs->root)
		config_section(&r, "reconciled", docs->root, &l->config->main);
	l->config->main.wrong = l->config->errors.fatal != fatal;
	config_errors_sort(&l->config->errors, from);
	yaml_doc_free(docs);
}

static bool is_config_name(const char *name)
{
	static const char *const suffixes[] = {".yaml", ".yml", ".json"};
	size_t n = strlen(name);
	if (*name == '.' || strcmp(name, "reconciled.yaml") == 0)
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(suffixes); i++) {
		size_t len = strlen(suffixes[i]);
		if (n > len && strcmp(name + n - len, suffixes[i]) == 0)
			return true;
	}
	return false;
}

static int folder_load(struct loader *l, const char *path, struct err *err)
{
	char **files = NULL;
	DIR *d = opendir(path);
	if (!d)
		return err_set(err, -errno, "cannot read the folder %s: %s", path, strerror(errno));
	for (struct dirent *e; (e = readdir(d));) {
		struct stat st;
		char *file = xasprintf("%s/%s", path, e->d_name);
		/* A link may dangle: file_load says so. */
		if (is_config_name(e->d_name) && (stat(file, &st) < 0 || !S_ISDIR(st.st_mode)))
			texts_add(&files, file);
		else
			free(file);
	}
	closedir(d);
	texts_sort(files);
	if (texts_count(files) > CONFIG_FILES_MAX) {
		texts_free(files);
		return err_set(err, -E2BIG, "%s holds more than %d controller files", path, CONFIG_FILES_MAX);
	}
	for (size_t i = 0; files && files[i]; i++)
		file_load(l, files[i]);
	texts_free(files);
	return 0;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct config_controller *)a)->name,
		      ((const struct config_controller *)b)->name);
}

static int path_load(struct loader *l, const char *path, struct err *err)
{
	struct stat st;
	if (stat(path, &st) < 0)
		return err_set(err, -errno, "cannot read the configuration %s: %s", path, strerror(errno));
	if (!S_ISDIR(st.st_mode)) {
		file_load(l, path);
		return 0;
	}
	_cleanup_(free_ptr) char *below = xasprintf("%s/controllers.d", path);
	_cleanup_(free_ptr) char *main_file = xasprintf("%s/reconciled.yaml", path);
	l->folder = true;
	if (stat(main_file, &st) == 0 || errno != ENOENT)
		main_load(l, main_file);
	return folder_load(l, stat(below, &st) == 0 && S_ISDIR(st.st_mode) ? below : path, err);
}

int config_load(const char *path, struct config *ret, struct err *err)
{
	struct config config = {0};
	struct loader l = {.config = &config};
	config_section_defaults("reconciled", &config.main);
	config_section_defaults("reconciled.ha", &config.main);
	int c = path_load(&l, path, err);
	/* Whether a file that cannot be read now is wrong is not known. */
	if (c == 0 && l.shortage)
		c = err_set(err, l.shortage, "%s", l.shortage_text.text);
	texts_free(l.controller_places);
	free(l.checked_folder);
	free(l.folder_error);
	if (c < 0) {
		config_done(&config);
		return c;
	}
	if (config.count)
		qsort(config.controllers, config.count, sizeof(*config.controllers), by_name);
	*ret = config;
	return 0;
}
