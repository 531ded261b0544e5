/* A controller document: the readers for rows of the table that are no plain value, and the rules that join
 * several keys. */
#include "config_internal.h"
#include "names.h"
#include <stdio.h>

#define READ(name)                                                                                           \
	void name(struct config_reader *r, _unused_ const struct config_key *k,                              \
		  const struct yaml_doc_node *n, void *base)

READ(config_read_name)
{
	struct config_controller *c = base;
	const char *text;
	if (!config_text(r, n, kube_is_dns_label,
			 "a DNS label: a-z, 0-9 and -, at most 63 characters, no dots", &text))
		return;
	free(c->name);
	c->name = xstrdup(text);
	r->name_node = n;
}

/* ---- for, owns, watches ---- */

static void watch_read(struct config_reader *r, const char *section, const struct yaml_doc_node *n,
		       struct config_watch *w)
{
	r->metadata_only_given = false;
	r->map_count = 0;
	config_section_defaults(section, w);
	config_section(r, section, n, w);
	bool secret = w->kind.kind && w->kind.api_version && strcmp(w->kind.kind, "Secret") == 0 &&
		      strcmp(w->kind.api_version, "v1") == 0;
	if (secret && !r->metadata_only_given)
		w->kind.metadata_only = true;
	const char *path = w->kind.metadata_only ? config_predicate_beyond_metadata(&w->predicates) : NULL;
	if (path)
		config_complain(r, n,
				"the predicate on %.100s sees nothing, because only metadata is cached; set "
				"metadataOnly: false%s",
				path, secret ? " (Secrets need it written out)" : "");
}

READ(config_read_for)
{
	struct config_controller *c = base;
	c->watches[0].map = MAP_SELF;
	watch_read(r, "spec.for", n, &c->watches[0]);
}

static void watches_read(struct config_reader *r, const char *section, const struct yaml_doc_node *n,
			 struct config_controller *c)
{
	size_t i = 0;
	if (!config_is_sequence(r, n))
		return;
	for (const struct yaml_doc_node *item = n->child; item; item = item->next, i++) {
		size_t here = config_enter(r, "[%zu]", i);
		if (c->watch_count == CONFIG_WATCHES_MAX) {
			config_complain(r, item, "more than %d kinds in one controller", CONFIG_WATCHES_MAX);
			config_leave(r, here);
			return;
		}
		struct config_watch *w = &c->watches[c->watch_count++];
		w->is_owns = strcmp(section, "spec.owns[]") == 0;
		w->map = w->is_owns ? MAP_OWNER : MAP_SELF; /* watches: mapTo is required and sets it */
		watch_read(r, section, item, w);
		config_leave(r, here);
	}
}

READ(config_read_owns)
{
	watches_read(r, "spec.owns[]", n, base);
}
READ(config_read_watches)
{
	watches_read(r, "spec.watches[]", n, base);
}

/* Sorted; ["*"] says all where something would be inherited otherwise, and is the empty list until that is
 * done. */
READ(config_read_namespaces)
{
	struct config_watch *w = base;
	char **list = NULL;
	if (n->type == YAML_SEQUENCE && !n->child) {
		config_complain(r, n,
				"found an empty list; allowed: at least one namespace; leave the key out, or "
				"write [\"*\"], for all");
		return;
	}
	if (n->type == YAML_SEQUENCE && !n->child->next && n->child->type == YAML_SCALAR &&
	    strcmp(n->child->text, "*") == 0) {
		w->kind.namespaces = xcalloc(1, sizeof(char *));
		return;
	}
	if (!config_texts(r, n, 1, kube_is_dns_label,
			  "a namespace's name: a-z, 0-9 and -, at most 63 characters", &list))
		return;
	texts_sort(list);
	for (size_t i = 1; list[i]; i++)
		if (strcmp(list[i - 1], list[i]) == 0)
			config_complain(r, n, "the namespace \"%s\" is named twice", list[i]);
	texts_free(w->kind.namespaces);
	w->kind.namespaces = list;
}

READ(config_read_label_selector)
{
	struct config_watch *w = base;
	config_selector(r, n, &w->kind.label_selector);
	if (w->kind.label_selector && !*w->kind.label_selector) {
		free(w->kind.label_selector);
		w->kind.label_selector = NULL;
	}
}

READ(config_read_metadata_only)
{
	struct config_watch *w = base;
	r->metadata_only_given = config_bool(r, n, &w->kind.metadata_only);
}

READ(config_read_predicates)
{
	struct config_watch *w = base;
	r->predicate_count = 0;
	w->predicates_given = config_predicates(r, n, &w->predicates);
}

/* ---- mapTo ---- */

READ(config_read_map_to)
{
	if (!config_is_mapping(r, n))
		return;
	size_t keys = 0;
	for (const struct yaml_doc_node *c = n->child; c; c = c->next)
		keys++;
	if (keys != 1)
		config_complain(
		    r, n,
		    "found %zu keys; allowed: exactly one of index, label, annotation, owner, all, program",
		    keys);
	config_section(r, "spec.watches[].mapTo", n, base);
}

READ(config_read_map_key)
{
	struct config_watch *w = base;
	const char *text, *name = config_key_name(k);
	if (!config_text(r, n, k->check, k->allowed, &text))
		return;
	w->map = strcmp(name, "index") == 0   ? MAP_INDEX
		 : strcmp(name, "label") == 0 ? MAP_LABEL
					      : MAP_ANNOTATION;
	free(w->map_key);
	w->map_key = xstrdup(text);
}

READ(config_read_map_owner)
{
	struct config_watch *w = base;
	w->map = MAP_OWNER_OTHER;
	config_section(r, k->path, n, w);
}

READ(config_read_map_all)
{
	struct config_watch *w = base;
	bool all = false;
	if (config_bool(r, n, &all) && !all)
		config_complain(r, n, "found false; allowed: true (or another way to map)");
	w->map = MAP_ALL;
}

READ(config_read_map_program)
{
	struct config_watch *w = base;
	w->map = MAP_PROGRAM;
	config_program_read(r, n, &w->program);
}

/* ---- the reconciler ---- */

static void command_read(struct config_reader *r, const struct config_key *k, const struct yaml_doc_node *n,
			 void *base)
{
	struct config_reconciler *rec = base;
	if (r->exec_given && r->coprocess_given)
		config_complain(r, n->key, "exec and coprocess exclude each other: keep one");
	config_section_defaults(k->path, rec);
	config_section(r, k->path, n, rec);
	if (rec->command && !*rec->command[0])
		config_complain(r, n, "command: the program's name is empty");
}

READ(config_read_exec)
{
	r->exec_given = true;
	command_read(r, k, n, base);
}

READ(config_read_coprocess)
{
	r->coprocess_given = true;
	((struct config_reconciler *)base)->coprocess = true;
	command_read(r, k, n, base);
}

/* One of two words, of which the second sets *ret_second. */
static bool choice(struct config_reader *r, const struct yaml_doc_node *n, const char *first,
		   const char *second, bool *ret_second)
{
	char allowed[64];
	snprintf(allowed, sizeof(allowed), "%s or %s", first, second);
	if (n->type == YAML_SCALAR && (strcmp(n->text, first) == 0 || strcmp(n->text, second) == 0)) {
		*ret_second = strcmp(n->text, second) == 0;
		return true;
	}
	config_refuse(r, n, allowed, NULL);
	return false;
}

READ(config_read_credentials)
{
	struct config_reconciler *rec = base;
	choice(r, n, "none", "kubeconfig", &rec->kubeconfig);
}

READ(config_read_network)
{
	struct config_reconciler *rec = base;
	choice(r, n, "none", "host", &rec->network_host);
}

static void env_put(char ***list, const char *name, size_t name_len, const char *value)
{
	size_t i = 0;
	char *entry = xasprintf("%.*s=%s", (int)name_len, name, value);
	for (; *list && (*list)[i]; i++) {
		if (strncmp((*list)[i], entry, name_len + 1) == 0) {
			free((*list)[i]);
			(*list)[i] = entry;
			return;
		}
	}
	texts_add(list, entry);
}

READ(config_read_env)
{
	(void)base;
	size_t count = 0;
	if (!config_is_mapping(r, n))
		return;
	for (const struct yaml_doc_node *c = n->child; c; c = c->next) {
		const char *text, *name = c->key->text;
		if (++count > CONFIG_LIST_MAX) {
			config_complain(r, c->key, "more than %d variables", CONFIG_LIST_MAX);
			return;
		}
		size_t here = config_enter(r, ".%.100s", name);
		if (c->duplicate)
			config_complain(r, c->key, "duplicate key: it stands in line %zu already",
					yaml_doc_get(n, name)->key->line);
		else if (!config_check_env_name(span_of(name)))
			config_complain(
			    r, c->key,
			    "allowed: a variable's name of A-Z, a-z, 0-9 and _, not beginning with a digit");
		else if (config_text(r, c, NULL, NULL, &text))
			env_put(&r->env_own, name, strlen(name), text);
		config_leave(r, here);
	}
}

/* One line of an envFile, which is written over. Values may be secret: errors quote none. Returns what is
 * wrong, or NULL. */
static const char *env_line(char *line, char ***list, bool *ret_quoted)
{
	line += strspn(line, " \t");
	size_t len = strlen(line);
	if (len && line[len - 1] == '\r')
		line[--len] = 0;
	if (!len || *line == '#')
		return NULL;
	char *equal = strchr(line, '=');
	if (!equal)
		return "allowed: NAME=VALUE, # comment, or an empty line";
	size_t name_len = (size_t)(equal - line);
	if (!config_check_env_name((struct span){line, name_len}))
		return "allowed before '=': a variable's name of A-Z, a-z, 0-9 and _, without blanks or "
		       "export";
	if (texts_count(*list) >= CONFIG_LIST_MAX)
		return "more than 256 variables";
	*ret_quoted =
	    len > name_len + 2 && (equal[1] == '"' || equal[1] == '\'') && line[len - 1] == equal[1];
	env_put(list, line, name_len, equal + 1);
	return NULL;
}

READ(config_read_env_file)
{
	(void)base;
	const char *text;
	struct err err;
	_cleanup_(buf_done) struct buf content = {0};
	if (!config_text(r, n, config_check_any, "a file's path", &text))
		return;
	_cleanup_(free_ptr) char *path = config_path_from(r->folder, text);
	if (config_file_read(path, &content, &err) < 0) {
		config_complain(r, n, "%s", err.text);
		return;
	}
	if (memchr(buf_str(&content), 0, content.len)) {
		config_complain(r, n, "%s holds a NUL byte: it is not a text file", path);
		return;
	}
	size_t line_number = 1;
	for (char *line = content.len ? content.data : NULL, *next; line; line = next, line_number++) {
		bool quoted = false;
		next = strchr(line, '\n');
		if (next)
			*next++ = 0;
		const char *wrong = env_line(line, &r->env_file, &quoted);
		if (wrong)
			config_say(r, path, line_number, 1, false, wrong);
		if (quoted)
			config_say(r, path, line_number, 1, true,
				   "the quotes are part of the value: nothing is unquoted here");
	}
}

READ(config_read_paths)
{
	char ***at = (char ***)(void *)((char *)base + k->offset);
	char **given = NULL;
	if (!config_texts(r, n, 0, config_check_any, "a path", &given))
		return;
	texts_free(*at);
	*at = xcalloc(1, sizeof(**at));
	for (size_t i = 0; given[i]; i++)
		texts_add(at, config_path_from(r->folder, given[i]));
	texts_free(given);
}

READ(config_read_without)
{
	static const char *const parts[] = {"user", "pid",  "mount",   "network",
					    "ipc",  "proc", "seccomp", NULL};
	struct config_reconciler *rec = base;
	char **given = NULL;
	if (!config_texts(r, n, 0, NULL, NULL, &given))
		return;
	for (const struct yaml_doc_node *part = n->child; part; part = part->next) {
		bool known = false;
		for (size_t p = 0; parts[p]; p++)
			known |= strcmp(parts[p], part->text) == 0;
		const char *near = config_did_you_mean(part->text, parts);
		if (!known)
			config_complain(
			    r, part,
			    "found \"%.64s\"%s%s%s; allowed: user, pid, mount, network, ipc, proc, seccomp",
			    part->text, near ? " (did you mean \"" : "", near ? near : "",
			    near ? "\"?)" : "");
	}
	texts_free(rec->without);
	rec->without = given;
}

READ(config_read_workers)
{
	struct config_controller *c = base;
	size_t fatal = r->errors->fatal;
	if (n->type != YAML_MAPPING) {
		config_u32(r, n, (uint32_t)k->min, (uint32_t)k->max, &c->workers);
		return;
	}
	c->workers_elastic = true;
	config_section(r, k->path, n, base);
	if (r->errors->fatal == fatal && c->workers_min > c->workers)
		config_complain(r, n, "found min %u above max %u; allowed: min is at most max",
				c->workers_min, c->workers);
}

/* ---- the whole ---- */

static void join_env(struct config_reader *r, struct config_reconciler *rec)
{
	rec->env = r->env_file ? r->env_file : xcalloc(1, sizeof(char *));
	for (size_t i = 0; r->env_own && r->env_own[i]; i++) {
		const char *equal = strchr(r->env_own[i], '=');
		env_put(&rec->env, r->env_own[i], (size_t)(equal - r->env_own[i]), equal + 1);
	}
	texts_free(r->env_own);
	r->env_file = r->env_own = NULL;
	char ***lists[] = {&rec->read_only_paths, &rec->read_write_paths, &rec->without};
	for (size_t i = 0; i < ARRAY_SIZE(lists); i++)
		if (!*lists[i])
			*lists[i] = xcalloc(1, sizeof(char *));
}

static void inherit_namespaces(struct config_controller *c)
{
	char **of_for = c->watches[0].kind.namespaces;
	for (size_t i = 1; i < c->watch_count; i++) {
		struct config_kind *kind = &c->watches[i].kind;
		for (size_t n = 0; !kind->namespaces && of_for && of_for[n]; n++) {
			char **copy = NULL;
			for (n = 0; of_for[n]; n++)
				texts_add(&copy, xstrdup(of_for[n]));
			kind->namespaces = copy;
		}
	}
	for (size_t i = 0; i < c->watch_count; i++) {
		struct config_kind *kind = &c->watches[i].kind;
		if (kind->namespaces && !kind->namespaces[0]) { /* "*" */
			texts_free(kind->namespaces);
			kind->namespaces = NULL;
		}
	}
}

static void program_check(struct config_reader *r, const struct yaml_doc_node *reconciler,
			  const struct config_controller *c)
{
	const char *how = r->coprocess_given ? "coprocess" : "exec";
	const struct yaml_doc_node *command = yaml_doc_get(yaml_doc_get(reconciler, how), "command");
	if (reconciler && reconciler->type == YAML_MAPPING && !r->exec_given && !r->coprocess_given)
		config_complain(r, reconciler,
				"spec.reconciler: \"exec\" or \"coprocess\" is missing: the program to run");
	if (!c->reconciler.command || !command || !command->child)
		return; /* that was said */
	size_t here = config_enter(r, "spec.reconciler.%s.command[0]", how);
	config_command_check(r, command->child, c, c->reconciler.command[0]);
	config_leave(r, here);
}

/* Those of predicates and maps; only now is the sandbox known. */
static void programs_check(struct config_reader *r, const struct config_controller *c)
{
	for (size_t i = 0; i < r->program_count; i++) {
		size_t here = config_enter(r, "%s", r->programs[i].where);
		config_command_check(r, r->programs[i].node, c, r->programs[i].command);
		config_leave(r, here);
		free(r->programs[i].where);
	}
	r->program_count = 0;
}

static void related_check(struct config_reader *r, const struct yaml_doc_node *input,
			  const struct config_controller *c)
{
	for (size_t i = 0; i < c->watch_count && c->input_related; i++)
		if (c->watches[i].map == MAP_PROGRAM)
			config_warn(
			    r, yaml_doc_get(input, "related"),
			    "spec.input.related: without the objects of %s: which of them lead to a key only "
			    "the program of mapTo knows; a coprocess can ask for them with Get and List",
			    c->watches[i].kind.kind);
}

/* What no key alone can tell. */
static void rules_check(struct config_reader *r, const struct yaml_doc_node *root,
			const struct config_controller *c)
{
	const struct yaml_doc_node *spec = yaml_doc_get(root, "spec"), *of_for = yaml_doc_get(spec, "for");
	const struct yaml_doc_node *limiter = yaml_doc_get(spec, "rateLimiter");
	program_check(r, yaml_doc_get(spec, "reconciler"), c);
	related_check(r, yaml_doc_get(spec, "input"), c);
	if (limiter && c->max_delay_ns < c->base_delay_ns)
		config_complain(r, limiter, "spec.rateLimiter: maxDelay must not be below baseDelay");
	if (c->finalizer && (c->watches[0].kind.label_selector || c->watches[0].kind.field_selector))
		config_warn(r, of_for->key,
			    "spec.for: a finalizer together with a selector: an object that leaves the "
			    "selector while it carries "
			    "%s is reconciled once more with finalizing: true, and keeps the finalizer until "
			    "the answer says "
			    "finalized: true",
			    c->finalizer);
}

/* Credentials are of no use without a way to the API server. */
static void network_of_credentials(struct config_reader *r, const struct yaml_doc_node *root,
				   struct config_reconciler *rec)
{
	const struct yaml_doc_node *network =
	    yaml_doc_get(yaml_doc_get(yaml_doc_get(root, "spec"), "reconciler"), "network");
	if (rec->kubeconfig && network && !rec->network_host)
		config_complain(
		    r, network,
		    "spec.reconciler.network: none together with credentials: kubeconfig, which need a "
		    "way to the API server; allowed: host");
	rec->network_host |= rec->kubeconfig;
}

void config_controller_read(struct config_reader *r, const struct yaml_doc_node *root,
			    struct config_controller *ret)
{
	*ret = (struct config_controller){
	    .file = xstrdup(r->file), .folder = xstrdup(r->folder), .watch_count = 1};
	ret->watches = xcalloc(CONFIG_WATCHES_MAX, sizeof(*ret->watches));
	r->exec_given = r->coprocess_given = false;
	r->program_count = 0;
	r->name_node = NULL;
	config_section_defaults("", ret);
	config_section(r, "", root, ret);
	join_env(r, &ret->reconciler);
	if (root->type == YAML_MAPPING)
		rules_check(r, root, ret);
	programs_check(r, ret);
	network_of_credentials(r, root, &ret->reconciler);
	inherit_namespaces(ret);
	config_fields_share(r, root, ret);
}

static void watch_done(struct config_watch *w)
{
	free(w->kind.api_version);
	free(w->kind.kind);
	texts_free(w->kind.namespaces);
	free(w->kind.label_selector);
	free(w->kind.field_selector);
	texts_free(w->kind.fields);
	config_predicate_done(&w->predicates);
	free(w->map_key);
	free(w->owner_api_version);
	free(w->owner_kind);
	config_program_done(&w->program);
}

void config_controller_done(struct config_controller *c)
{
	for (size_t i = 0; i < c->watch_count && c->watches; i++)
		watch_done(&c->watches[i]);
	free(c->watches);
	free(c->name);
	free(c->file);
	free(c->folder);
	free(c->finalizer);
	texts_free(c->cache_fields);
	texts_free(c->reconciler.command);
	texts_free(c->reconciler.env);
	texts_free(c->reconciler.read_only_paths);
	texts_free(c->reconciler.read_write_paths);
	texts_free(c->reconciler.without);
	*c = (struct config_controller){0};
}
