/* What can be said about a program before it is started. Warnings only: it may be installed later, by
 * another. */
#include "config_internal.h"
#include <sys/stat.h>

static bool is_below(const char *path, const char *folder)
{
	size_t n = strlen(folder);
	return strncmp(path, folder, n) == 0 &&
	       (path[n] == '/' || path[n] == 0 || (n && folder[n - 1] == '/'));
}

static bool is_below_any(const char *path, char *const *folders)
{
	for (size_t i = 0; folders && folders[i]; i++) {
		_cleanup_(free_ptr) char *real = realpath(folders[i], NULL);
		if (is_below(path, real ? real : folders[i]))
			return true;
	}
	return false;
}

/* path: without links and "..". The folders that the sandbox replaces by empty ones (docs/configuration.md
 * names them); NULL: it is seen.
 */
static const char *hidden_by(const char *path, const struct config_controller *c)
{
	static const char *const own[] = {"/home",    "/root",	  "/run",	    "/tmp",
					  "/var/tmp", "/dev/shm", "/etc/reconciled"};
	const struct config_reconciler *r = &c->reconciler;
	for (size_t i = 0; r->without && r->without[i]; i++)
		if (strcmp(r->without[i], "mount") == 0)
			return NULL;
	if (is_below(path, c->folder) || is_below_any(path, r->read_only_paths) ||
	    is_below_any(path, r->read_write_paths))
		return NULL;
	for (size_t i = 0; i < ARRAY_SIZE(own); i++)
		if (is_below(path, own[i]))
			return own[i];
	return NULL;
}

void config_command_check(struct config_reader *r, const struct yaml_doc_node *n,
			  const struct config_controller *c, const char *name)
{
	struct stat st;
	if (!strchr(name, '/'))
		return; /* looked for in the sandbox's PATH */
	_cleanup_(free_ptr) char *path = config_path_from(c->folder, name);
	_cleanup_(free_ptr) char *real = realpath(path, NULL);
	const char *hidden = real ? hidden_by(real, c) : NULL;
	if (stat(path, &st) < 0)
		config_warn(r, n, "the program cannot be started: %s: %s", path, strerror(errno));
	else if (!S_ISREG(st.st_mode))
		config_warn(r, n, "the program cannot be started: %s is no regular file", path);
	else if (!(st.st_mode & 0111))
		config_warn(r, n, "the program cannot be started: no right to execute it; chmod +x %s", path);
	else if (hidden)
		config_warn(r, n,
			    "the program is not seen in the sandbox, where %s is empty: name %s in "
			    "sandbox.readOnlyPaths",
			    hidden, real);
}

bool config_program_read(struct config_reader *r, const struct yaml_doc_node *n, struct config_program *ret)
{
	static const char section[] = "spec.watches[].mapTo.program"; /* the rows of all of them */
	size_t fatal = r->errors->fatal;
	if (r->program_count == CONFIG_PROGRAMS_MAX) {
		config_complain(r, n, "more than %d programs in the predicates and maps of one controller",
				CONFIG_PROGRAMS_MAX);
		return false;
	}
	config_section_defaults(section, ret);
	config_section(r, section, n, ret);
	const struct yaml_doc_node *command = yaml_doc_get(n, "command");
	if (ret->command && !*ret->command[0])
		config_complain(r, n, "command: the program's name is empty");
	if (r->errors->fatal != fatal || !command)
		return false;
	r->programs[r->program_count++] = (struct config_program_place){
	    command->child, xasprintf("%s.command[0]", r->where), ret->command[0]};
	return true;
}

void config_program_done(struct config_program *p)
{
	texts_free(p->command);
	*p = (struct config_program){0};
}
