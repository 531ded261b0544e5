/* Files around a controller file. */
#include "config_internal.h"
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

int config_file_read(const char *path, struct buf *out, struct err *err)
{
	struct stat st;
	/* O_NONBLOCK: a FIFO must not stop us here. */
	_cleanup_(close_fd) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_set(err, -errno, "cannot read %s: %s", path, strerror(errno));
	if (!S_ISREG(st.st_mode))
		return err_set(err, -EINVAL, "%s is not a regular file", path);
	for (;;) {
		char *room = buf_room(out, 16384);
		if (!room)
			return err_set(err, -ENOMEM, "cannot read %s: no memory", path);
		ssize_t n = read(fd, room, 16384);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_set(err, -errno, "cannot read %s: %s", path, strerror(errno));
		if (n == 0)
			return 0;
		out->len += (size_t)n;
		out->data[out->len] = 0;
		if (out->len > CONFIG_FILE_MAX)
			return err_set(err, -EFBIG, "%s is too large: at most %d bytes", path,
				       CONFIG_FILE_MAX);
	}
}

char *config_path_from(const char *folder, const char *path)
{
	if (*path == '/')
		return xstrdup(path);
	while (path[0] == '.' && path[1] == '/')
		path += 2 + strspn(path + 2, "/");
	return xasprintf("%s/%s", strcmp(folder, "/") == 0 ? "" : folder, path);
}

/* ---- kubeconfigs ---- */

enum { SCAN_DEPTH = 4, SCAN_ENTRIES = 10000, SCAN_BYTES = 256 << 10 };

static bool is_kubeconfig_text(struct span text)
{
	struct yaml_doc *docs = NULL;
	struct err err;
	size_t line, column;
	bool found = false;
	/* Most files end here: a kubeconfig says both words. */
	if (!memmem(text.at, text.len, "clusters", 8) || !memmem(text.at, text.len, "Config", 6))
		return false;
	if (yaml_doc_parse_lenient(text, &docs, &line, &column, &err) < 0)
		return false;
	for (const struct yaml_doc *d = docs; d && !found; d = d->next) {
		const struct yaml_doc_node *kind = yaml_doc_get(d->root, "kind");
		found = kind && kind->type == YAML_SCALAR && strcmp(kind->text, "Config") == 0 &&
			yaml_doc_get(d->root, "clusters");
	}
	yaml_doc_free(docs);
	return found;
}

static bool is_kubeconfig_name(const char *name)
{
	size_t n = strlen(name);
	return strcmp(name, "kubeconfig") == 0 || (n > 11 && strcmp(name + n - 11, ".kubeconfig") == 0);
}

static int scan(const char *folder, unsigned depth, size_t *entries, char **ret_path, struct err *err);

/* One entry of a folder that is not "." or "..". Takes path over when it is the one. */
static int scan_entry(const char *name, char *path, unsigned depth, size_t *entries, char **ret_path,
		      struct err *err)
{
	struct stat st;
	int c = 0;
	if (lstat(path, &st) < 0)
		return 0; /* gone meanwhile */
	if (S_ISDIR(st.st_mode)) {
		if (depth < SCAN_DEPTH && strcmp(name, ".git") != 0 && strcmp(name, "node_modules") != 0)
			c = scan(path, depth + 1, entries, ret_path, err);
		return c;
	}
	if (!S_ISREG(st.st_mode) || st.st_size > SCAN_BYTES)
		return 0;
	_cleanup_(buf_done) struct buf text = {0};
	struct err ignored; /* what we cannot read, the program (as a lesser user) cannot either */
	if (!is_kubeconfig_name(name) &&
	    (config_file_read(path, &text, &ignored) < 0 || !is_kubeconfig_text(buf_span(&text))))
		return 0;
	*ret_path = xstrdup(path);
	return 1;
}

static int scan(const char *folder, unsigned depth, size_t *entries, char **ret_path, struct err *err)
{
	DIR *d = opendir(folder);
	int c = 0;
	if (!d)
		return depth ? 0
			     : err_set(err, -errno, "cannot read the folder %s: %s", folder, strerror(errno));
	for (struct dirent *e; c == 0 && (e = readdir(d));) {
		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
			continue;
		if (++*entries > SCAN_ENTRIES) {
			c = err_set(err, -E2BIG,
				    "the controller's folder %s holds more than %d files and folders: too "
				    "many to look for a kubeconfig; "
				    "put the controller file and its program into a folder of their own",
				    folder, SCAN_ENTRIES);
			break;
		}
		_cleanup_(free_ptr) char *path = xasprintf("%s/%s", folder, e->d_name);
		c = scan_entry(e->d_name, path, depth, entries, ret_path, err);
	}
	closedir(d);
	return c;
}

int config_folder_kubeconfig(const char *folder, char **ret_path, struct err *err)
{
	size_t entries = 0;
	return scan(folder, 0, &entries, ret_path, err);
}
