/* Shared by the tests of controller files: a folder for each test, and what was said about its files. */
#pragma once
#include "config_internal.h"
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- a folder for each test ---- */

static char folder[64];

static _unused_ void program_put(const char *name, mode_t mode)
{
	char path[256];
	snprintf(path, sizeof(path), "%s/%s", folder, name);
	int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	cr_assert(fd >= 0 && fchmod(fd, mode) == 0, "%s", path);
	close(fd);
}

static _unused_ void folder_make(void)
{
	strcpy(folder, "/tmp/config_test.XXXXXX");
	cr_assert_not_null(mkdtemp(folder));
	program_put("run", 0755); /* what EXEC names: one that is not there draws a warning */
}

static _unused_ void folder_remove(void)
{
	char command[96];
	snprintf(command, sizeof(command), "rm -rf %s", folder);
	cr_assert_eq(system(command), 0);
}

static _unused_ void file_put(const char *name, const char *text)
{
	char path[256];
	snprintf(path, sizeof(path), "%s/%s", folder, name);
	FILE *f = fopen(path, "w");
	cr_assert_not_null(f, "%s", path);
	fputs(text, f);
	fclose(f);
}

static _unused_ struct config loaded(const char *name)
{
	char path[256];
	struct config c;
	struct err err = {0};
	snprintf(path, sizeof(path), "%s%s%s", folder, *name ? "/" : "", name);
	cr_assert_eq(config_load(path, &c, &err), 0, "%s", err.text);
	return c;
}

/* What config_errors_print says, without the folder. */
static _unused_ char *errors_of(const struct config *c)
{
	struct buf b = {0};
	config_errors_print(&c->errors, &b);
	char *text = buf_steal(&b), *at;
	size_t n = strlen(folder) + 1;
	while (text && (at = strstr(text, folder)))
		memmove(at, at + n, strlen(at + n) + 1);
	return text ? text : xstrdup("");
}

static _unused_ void errors_are(const char *yaml, const char *want)
{
	file_put("c.yaml", yaml);
	struct config c = loaded("c.yaml");
	char *have = errors_of(&c);
	cr_expect_str_eq(have, want, "\n--- have\n%s--- want\n%s", have, want);
	free(have);
	config_done(&c);
}

static _unused_ struct config_controller *only(struct config *c)
{
	char *have = errors_of(c);
	cr_assert(c->count == 1 && c->errors.fatal == 0, "%zu controllers, errors:\n%s", c->count, have);
	free(have);
	return &c->controllers[0];
}

static _unused_ struct config one(const char *yaml)
{
	file_put("c.yaml", yaml);
	return loaded("c.yaml");
}

#define HEAD "apiVersion: reconciled.dev/v1alpha1\nkind: Controller\nmetadata: {name: website}\nspec:\n"
#define FOR  "  for: {apiVersion: v1, kind: ConfigMap}\n"
#define EXEC "  reconciler: {exec: {command: [./run]}}\n"
/* HEAD, FOR and EXEC are six lines: what follows begins in line 7. */
#define BASE HEAD FOR EXEC

/* BASE and one more line, "  KEY: VALUE"; want: what stands after "c.yaml:7:COLUMN: error: ", or NULL if it
 * is right. */
struct row {
	const char *line;
	size_t column;
	const char *want;
};

static _unused_ void rows_are(const struct row *rows, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		char yaml[1024], want[1024] = "";
		snprintf(yaml, sizeof(yaml), "%s  %s\n", BASE, rows[i].line);
		if (rows[i].want)
			snprintf(want, sizeof(want), "c.yaml:7:%zu: error: %s\n", rows[i].column,
				 rows[i].want);
		errors_are(yaml, want);
	}
}
#define ROWS_ARE(rows) rows_are(rows, ARRAY_SIZE(rows))
