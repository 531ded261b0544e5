#include "exec_cause.h"
#include <elf.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

/* The file that an exec of `command` tries, owned by the caller; NULL: not in PATH. */
static char *find(const char *command, const char *folder, const char *path)
{
	if (command[0] == '/')
		return xstrdup(command);
	if (strchr(command, '/'))
		return xasprintf("%s/%s", folder, command);
	char *unusable = NULL;
	for (const char *at = path; at && *at;) {
		size_t n = strcspn(at, ":");
		char *file = xasprintf("%.*s/%s", (int)n, at, command);
		if (access(file, X_OK) == 0) {
			free(unusable);
			return file;
		}
		if (!unusable && access(file, F_OK) == 0)
			unusable = file;
		else
			free(file);
		at += n + (at[n] == ':');
	}
	return unusable;
}

static void explain_interpreter(const char *file, char *line, char *ret, size_t room)
{
	line[strcspn(line, "\n")] = 0;
	char *interpreter = line + 2 + strspn(line + 2, " \t");
	size_t n = strlen(interpreter);
	if (n && interpreter[n - 1] == '\r') {
		interpreter[n - 1] = 0;
		snprintf(ret, room,
			 "%s has Windows line ends: its first line asks for \"%s\\r\", which is not there; "
			 "convert it (sed -i 's/\\r$//')",
			 file, interpreter);
		return;
	}
	interpreter[strcspn(interpreter, " \t")] = 0;
	if (access(interpreter, X_OK) < 0)
		snprintf(ret, room, "%s: its interpreter %s %s (first line \"#!%s\")", file, interpreter,
			 errno == ENOENT ? "does not exist" : "cannot be executed", interpreter);
	else
		snprintf(
		    ret, room,
		    "%s: its interpreter %s is not visible to the jail, or a library it needs is missing",
		    file, interpreter);
}

static unsigned own_machine(void)
{
	Elf64_Ehdr h = {0};
	_cleanup_(close_fd) int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	return fd >= 0 && read(fd, &h, sizeof(h)) == (ssize_t)sizeof(h) ? h.e_machine : 0;
}

static void explain_content(const char *file, int error, char *ret, size_t room)
{
	union {
		char text[512];
		Elf64_Ehdr elf;
	} head = {{0}};
	_cleanup_(close_fd) int fd = open(file, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, head.text, sizeof(head.text) - 1);
	if (n < 0)
		snprintf(ret, room, "%s: %s (it cannot be read to see why: %s)", file, strerror(error),
			 strerror(errno));
	else if (n == 0)
		snprintf(ret, room, "%s is empty", file);
	else if (n >= 2 && memcmp(head.text, "#!", 2) == 0)
		explain_interpreter(file, head.text, ret, room);
	else if (n >= (ssize_t)sizeof(head.elf) && memcmp(head.text, ELFMAG, SELFMAG) == 0 &&
		 head.elf.e_machine != own_machine())
		snprintf(ret, room,
			 "%s is built for another kind of processor (ELF machine %u, this one is %u)", file,
			 head.elf.e_machine, own_machine());
	else if (n >= SELFMAG && memcmp(head.text, ELFMAG, SELFMAG) == 0)
		snprintf(ret, room, "%s: %s; its dynamic loader or a library may be missing (see ldd)", file,
			 strerror(error));
	else
		snprintf(ret, room,
			 "%s is neither a program nor a script: its first line must name the interpreter, as "
			 "in #!/bin/sh",
			 file);
}

static bool is_below(const char *file, const char *folder)
{
	size_t n = strlen(folder);
	return strncmp(file, folder, n) == 0 && (file[n] == '/' || file[n] == 0);
}

/* The jail has empty folders of its own in these places; over them lies what the controller shows. */
static bool is_hidden(const char *file, const struct config_controller *c)
{
	static const char *const hidden[] = {"/home",	 "/root",    "/run",	       "/tmp",
					     "/var/tmp", "/dev/shm", "/etc/reconciled"};
	char **const shown[] = {c->reconciler.read_only_paths, c->reconciler.read_write_paths};
	if (is_below(file, c->folder))
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(shown); i++)
		for (char **path = shown[i]; path && *path; path++)
			if (is_below(file, *path))
				return false;
	for (size_t i = 0; i < ARRAY_SIZE(hidden); i++)
		if (is_below(file, hidden[i]))
			return true;
	return false;
}

void exec_cause(const struct config_controller *c, const char *command, const char *path, int error,
		char *ret, size_t room)
{
	_cleanup_(free_ptr) char *file = find(command, c->folder, path);
	struct stat st;
	if (!file)
		snprintf(ret, room,
			 "%s is not in PATH (%s); write its full path, or ./%s for a file beside the "
			 "controller file",
			 command, path ? path : "", command);
	else if (stat(file, &st) < 0)
		snprintf(ret, room, "%s: %s%s", file, strerror(errno),
			 errno == ENOENT ? "; a relative command starts at the folder of the controller file"
					 : "");
	else if (S_ISDIR(st.st_mode))
		snprintf(ret, room, "%s is a folder, not a program", file);
	else if (!S_ISREG(st.st_mode))
		snprintf(ret, room, "%s is not a regular file", file);
	else if (!(st.st_mode & 0111))
		snprintf(ret, room, "%s is not executable; chmod +x it", file);
	else if (error == EACCES)
		snprintf(ret, room,
			 "%s: the user of the jail may not execute it, or a folder above it (mode %03o), or "
			 "its file system is "
			 "mounted noexec",
			 file, st.st_mode & 0777);
	else if (error == E2BIG)
		snprintf(ret, room, "%s: command line and environment are too long", file);
	else if (error == ENOENT && is_hidden(file, c))
		snprintf(ret, room,
			 "%s is not visible to the jail, which has folders of its own there; put it beside "
			 "the controller file or name "
			 "its folder in sandbox.readOnlyPaths",
			 file);
	else if (error == ENOENT || error == ENOEXEC || error == ELIBBAD)
		explain_content(file, error, ret, room);
	else
		snprintf(ret, room, "%s: %s", file, strerror(error));
}
