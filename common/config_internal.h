/* What the files config_*.c share; nobody else includes this but their tests. */
#pragma once
#include "config.h"
#include "yaml_doc.h"

/* Bounds, each with an error that says it. */
enum {
	CONFIG_FILE_MAX = 1 << 20, /* bytes of a controller file or an envFile */
	CONFIG_FILES_MAX = 256,
	CONFIG_CONTROLLERS_MAX = 64,
	CONFIG_ERRORS_MAX = 100, /* of one file */
	CONFIG_WATCHES_MAX = 64, /* for, owns and watches together */
	CONFIG_LIST_MAX = 256,	 /* entries of any list of texts */
	CONFIG_PREDICATES_MAX = 256,
	CONFIG_PREDICATE_DEPTH = 16,
	CONFIG_TEXT_MAX = 32 << 10, /* bytes of any text */
};

/* ---- errors: config_error.c ---- */

struct config_reader {
	struct config_errors *errors;
	const char *file;
	const char *folder; /* absolute, of the file: what relative paths start from */
	size_t file_count;  /* errors of this file so far */
	char where[512];    /* the path to the value that is being read, "spec.owns[0].kind" */
	size_t where_len;

	/* Facts that more than one key decides, gathered while one controller is read. */
	bool metadata_only_given, exec_given, coprocess_given;
	size_t map_count, predicate_count;
	struct config_program_place { /* of programs beside the reconciler: where their command stands */
		const struct yaml_doc_node *node;
		char *where;
		const char *command;
	} programs[CONFIG_PROGRAMS_MAX];
	size_t program_count;
	char **env_file, **env_own;
	const struct yaml_doc_node *name_node;
};

/* An error at a place of the file; the text begins with r->where unless that is empty. */
void config_complain(struct config_reader *r, const struct yaml_doc_node *at, const char *fmt, ...)
    _printf_(3, 4);
void config_warn(struct config_reader *r, const struct yaml_doc_node *at, const char *fmt, ...)
    _printf_(3, 4);
/* The same for a place in another file: an envFile. */
void config_say(struct config_reader *r, const char *file, size_t line, size_t column, bool warning,
		const char *text);
/* "PATH: found X; allowed: Y" and, if cure is not NULL, "; CURE". */
void config_refuse(struct config_reader *r, const struct yaml_doc_node *n, const char *allowed,
		   const char *cure);
void config_errors_sort(struct config_errors *e, size_t from); /* by file, line, column */

/* Extends r->where for what is inside; give the returned length to config_leave. */
size_t config_enter(struct config_reader *r, const char *fmt, ...) _printf_(2, 3);
void config_leave(struct config_reader *r, size_t len);

/* The nearest of words (NULL-terminated), or NULL when none is near enough to be meant. */
const char *config_did_you_mean(const char *word, const char *const *words);

/* ---- scalars: config_scalar.c. False: refused, and said. ---- */

typedef bool config_check(struct span s);
/* A text: not null, boolean or number unless quoted. check may be NULL. ret points into the node. */
bool config_text(struct config_reader *r, const struct yaml_doc_node *n, config_check *check,
		 const char *allowed, const char **ret);
bool config_bool(struct config_reader *r, const struct yaml_doc_node *n, bool *ret);
bool config_u32(struct config_reader *r, const struct yaml_doc_node *n, uint32_t min, uint32_t max,
		uint32_t *ret);
bool config_number(struct config_reader *r, const struct yaml_doc_node *n, double min, double max,
		   double *ret);
bool config_duration(struct config_reader *r, const struct yaml_doc_node *n, int64_t min, int64_t max,
		     int64_t *ret);
bool config_quantity(struct config_reader *r, const struct yaml_doc_node *n, uint64_t min, uint64_t max,
		     uint64_t *ret);
/* A list of texts, at least min of them, to a NULL-terminated array that the caller owns. */
bool config_texts(struct config_reader *r, const struct yaml_doc_node *n, size_t min, config_check *check,
		  const char *allowed, char ***ret);
bool config_is_mapping(struct config_reader *r, const struct yaml_doc_node *n);
bool config_is_sequence(struct config_reader *r, const struct yaml_doc_node *n);

config_check config_check_any, config_check_api_version, config_check_kind, config_check_path,
    config_check_field_selector, config_check_finalizer, config_check_env_name;

/* NULL-terminated arrays of texts. */
void texts_add(char ***list, char *text); /* takes text */
size_t texts_count(char *const *list);
void texts_sort(char **list);
void texts_free(char **list);

/* ---- the table of keys: config_keys.c ---- */

enum config_key_type {
	KEY_TEXT,
	KEY_U32,
	KEY_BOOL,
	KEY_NUMBER,
	KEY_DURATION,
	KEY_QUANTITY,
	KEY_TEXTS,
	KEY_SECTION,	 /* a mapping whose keys are rows of the table */
	KEY_OWN,	 /* read() does it */
	KEY_UNSUPPORTED, /* of the contract, but not built */
};

struct config_key {
	const char *path; /* in the file: "spec.owns[].kind" */
	enum config_key_type type;
	bool required;
	size_t offset;	      /* in the struct that the key's section is read into */
	const char *fallback; /* the default as a user would write it; NULL: none */
	int64_t min, max; /* of numbers; durations in ns, quantities in bytes; of texts: how many at least */
	config_check *check;
	const char *allowed; /* of texts: what check wants */
	void (*read)(struct config_reader *r, const struct config_key *k, const struct yaml_doc_node *n,
		     void *base);
	const char *help;
};
extern const struct config_key config_keys[]; /* a NULL path ends it */
#define KEY_NOT_KEPT SIZE_MAX

/* Puts the defaults of a section and of the sections below into base. */
void config_section_defaults(const char *section, void *base);
/* Reads the mapping n: unknown, duplicate and missing keys are said. */
void config_section(struct config_reader *r, const char *section, const struct yaml_doc_node *n, void *base);
/* The name of a row's key: what follows the last dot. */
const char *config_key_name(const struct config_key *k);

/* ---- config_fields.c ---- */

/* spec.cache.fields is of all kinds that it is for, and what predicates and mappings read must be among it. After the
 * document is read. */
void config_fields_share(struct config_reader *r, const struct yaml_doc_node *root,
			 struct config_controller *c);

/* ---- config_controller.c: readers for rows of the table ---- */

#define CONFIG_READ(name)                                                                                    \
	void name(struct config_reader *r, const struct config_key *k, const struct yaml_doc_node *n,        \
		  void *base)
CONFIG_READ(config_read_name);
CONFIG_READ(config_read_for);
CONFIG_READ(config_read_owns);
CONFIG_READ(config_read_watches);
CONFIG_READ(config_read_namespaces);
CONFIG_READ(config_read_label_selector);
CONFIG_READ(config_read_metadata_only);
CONFIG_READ(config_read_fields);
CONFIG_READ(config_read_predicates);
CONFIG_READ(config_read_map_to);
CONFIG_READ(config_read_map_key);
CONFIG_READ(config_read_map_owner);
CONFIG_READ(config_read_map_all);
CONFIG_READ(config_read_map_program);
CONFIG_READ(config_read_exec);
CONFIG_READ(config_read_coprocess);
CONFIG_READ(config_read_credentials);
CONFIG_READ(config_read_network);
CONFIG_READ(config_read_env);
CONFIG_READ(config_read_env_file);
CONFIG_READ(config_read_paths);
CONFIG_READ(config_read_without);
CONFIG_READ(config_read_workers);
CONFIG_READ(config_read_kubeconfig);
CONFIG_READ(config_read_ha);
CONFIG_READ(config_read_ha_mode);

/* A document to *ret, which is freed by the caller also after errors. */
void config_controller_read(struct config_reader *r, const struct yaml_doc_node *root,
			    struct config_controller *ret);
void config_controller_done(struct config_controller *c);
void config_controller_digest(struct config_controller *c);

/* The label selector of a mapping {matchLabels, matchExpressions} as the API takes it in a query; owned by
 * the caller. */
bool config_selector(struct config_reader *r, const struct yaml_doc_node *n, char **ret);
bool config_predicates(struct config_reader *r, const struct yaml_doc_node *n, struct config_predicate *ret);
void config_predicate_done(struct config_predicate *p);
/* Does a predicate look at something that is not metadata? Its path, or NULL. */
const char *config_predicate_beyond_metadata(const struct config_predicate *p);

/* Warns when the program `name`, which has a path, is not there, cannot be executed, or is out of the sandbox's
 * sight. */
void config_command_check(struct config_reader *r, const struct yaml_doc_node *n,
			  const struct config_controller *c, const char *name);
/* The mapping below `program:` of a predicate or a map. */
bool config_program_read(struct config_reader *r, const struct yaml_doc_node *n, struct config_program *ret);
void config_program_done(struct config_program *p);

/* ---- config_folder.c ---- */

/* The whole regular file, at most CONFIG_FILE_MAX bytes. */
int config_file_read(const char *path, struct buf *out, struct err *err);
/* Looks for a kubeconfig in a controller's folder: 1 and its path (owned by the caller), 0, or negative with
 * err. */
int config_folder_kubeconfig(const char *folder, char **ret_path, struct err *err);
/* Absolute: path itself, or folder/path without "./". Owned by the caller. */
char *config_path_from(const char *folder, const char *path);
