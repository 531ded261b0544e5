/* The controller files and reconciled.yaml, parsed and checked. Reads YAML 1.1 syntax with YAML 1.2 core
 * meaning: `yes`, `on`, 010 and 1_0 are strings where a string is wanted and errors elsewhere, with "quote
 * it" where that is the cure. The page for users: docs/configuration.md; names and meaning: the controller
 * file's contract there.
 *
 * All errors of a file are collected, each with file, line and column, what was found and what is allowed.
 * Not thread-safe. */
#pragma once
#include "buf.h"

/* ---- errors ---- */

struct config_error {
	char *file;
	size_t line, column; /* from 1; 0: the whole file */
	char *text;
	bool warning;
};
struct config_errors {
	struct config_error *at;
	size_t count, fatal; /* fatal: how many are no warnings */
};
void config_errors_done(struct config_errors *e);
/* Appends one (texts are copied). */
void config_errors_add(struct config_errors *e, const char *file, size_t line, size_t column, bool warning,
		       const char *text);
/* "FILE:LINE:COL: error: text\n" each. */
void config_errors_print(const struct config_errors *e, struct buf *out);

/* ---- a controller ---- */

struct config_kind {		  /* what one watch asks for */
	char *api_version, *kind; /* "apps/v1", "Deployment" */
	char **namespaces;	  /* sorted, NULL-terminated; NULL: all */
	char *label_selector;	  /* as the API takes it in a query; NULL: none */
	char *field_selector;	  /* as written; NULL: none */
	bool metadata_only;
	/* What is kept beside apiVersion, kind, metadata and status: canonical paths, sorted, none below another;
	 * NULL-terminated; NULL: all. Never for owns, nor with metadata_only. */
	char **fields;
};

enum { CONFIG_FIELDS_MAX = 64 };

/* A program that answers for a predicate or a map; docs/program-protocol.md. */
struct config_program {
	char **command;				/* NULL-terminated, at least one */
	int64_t startup_timeout_ns, timeout_ns; /* until its Hello; for one answer */
	uint64_t max_memory;			/* bytes */
};
enum { CONFIG_PROGRAMS_MAX = 16 }; /* of one controller, beside its reconciler */

enum config_predicate_type {
	PREDICATE_AND,
	PREDICATE_OR,
	PREDICATE_NOT, /* children; the top is always an AND */
	PREDICATE_GENERATION_CHANGED,
	PREDICATE_RESOURCE_VERSION_CHANGED,
	PREDICATE_LABEL_CHANGED,
	PREDICATE_ANNOTATION_CHANGED,
	/* generation, labels, annotations, finalizers or deletionTimestamp changed */
	PREDICATE_DEFAULT_CUSTOM,
	PREDICATE_LABEL_SELECTOR, /* selector in `text` */
	PREDICATE_FIELD,	  /* path, and one of the ops below */
	PREDICATE_PROGRAM,	  /* `program` is asked */
};
enum config_field_op { FIELD_IN, FIELD_NOT_IN, FIELD_EXISTS, FIELD_CHANGED };
struct config_predicate {
	enum config_predicate_type type;
	struct config_predicate *children;
	size_t count;
	char *text; /* LABEL_SELECTOR: as the API takes it; FIELD: the path as written */
	enum config_field_op op;
	bool wanted;			/* FIELD_EXISTS, FIELD_CHANGED: the value given */
	char **values;			/* FIELD_IN, FIELD_NOT_IN: scalar texts, NULL-terminated */
	struct config_program *program; /* PROGRAM; else NULL */
};

enum config_map_type {
	MAP_SELF,
	MAP_OWNER,
	MAP_OWNER_OTHER,
	MAP_LABEL,
	MAP_ANNOTATION,
	MAP_INDEX,
	MAP_ALL,
	MAP_PROGRAM
};
struct config_watch { /* for, owns and watches alike, in the file's order: watch[0] is `for` */
	struct config_kind kind;
	struct config_predicate predicates;
	/* false: the watcher puts the default for the kind, once it knows whether it is custom */
	bool predicates_given;
	enum config_map_type map;	      /* `for`: SELF; `owns`: OWNER (of the controller's kind) */
	bool match_every_owner;		      /* OWNER: any reference, not only controller: true */
	char *map_key;			      /* label or annotation name; index: dotted path */
	char *owner_api_version, *owner_kind; /* OWNER_OTHER */
	struct config_program program;	      /* PROGRAM */
	bool is_owns;
};

struct config_reconciler {
	bool coprocess; /* else exec */
	char **command; /* NULL-terminated, at least one */
	int64_t startup_timeout_ns;
	uint32_t max_requests;
	uint64_t max_memory; /* bytes; 0: none */
	bool network_host;
	bool kubeconfig; /* credentials: the worker's, shown in the jail */
	char **env;	 /* "NAME=value", envFile's first, then env; NULL-terminated; later ones win */
	char **read_only_paths, **read_write_paths; /* absolute; NULL-terminated */
	int64_t limit_cpu_ns;
	uint32_t limit_files, limit_processes;
	char **without; /* user pid mount network ipc proc seccomp */
};

struct config_controller {
	char *name, *file, *folder; /* folder: absolute, of the file: working directory */
	struct config_watch *watches;
	size_t watch_count;
	bool input_children, input_related, input_reasons;
	struct config_reconciler reconciler;
	uint32_t workers;	 /* processes to start: the number, or max */
	bool workers_elastic;	 /* {min, max}: only as many are awake as are needed */
	uint32_t workers_min;	 /* of these */
	uint32_t max_concurrent; /* 0: as many as hosts are connected */
	int64_t reconciliation_timeout_ns;
	int64_t base_delay_ns, max_delay_ns;
	double jitter, qps; /* qps 0: no bucket */
	uint32_t burst;
	int64_t resync_period_ns;
	uint32_t storm_keys, storm_qps; /* an event that concerns more keys is paced: so many a second */
	char *finalizer;		/* NULL: none */
	bool prune;
	uint32_t quarantine_crashes;
	int64_t quarantine_within_ns, quarantine_for_ns;
	int64_t cache_sync_timeout_ns;
	bool strip_managed_fields;
	char **cache_fields; /* of every kind but the owned: see config_kind.fields; NULL: all */
	char digest[65];     /* of everything parsed, env values included: hex SHA-256 */
};

/* ---- reconciled.yaml ---- */

#define CONFIG_HA_MARGIN_NS (2 * NS_PER_S) /* an attempt is ended in less than that once the lead is over */
#define CONFIG_HA_JITTER    1.2 /* of a retryPeriod: a follower waits up to 1 + this times longer */
struct config_ha {		/* leader election on a coordination.k8s.io Lease */
	bool leader; /* mode: leader; else this host alone does the work, and the rest says nothing */
	char *namespace, *name; /* of the Lease */
	/* lease > renew > 1.2 times retry; lease in whole seconds */
	int64_t lease_duration_ns, renew_deadline_ns, retry_period_ns;
};

struct config_main {
	char *kubeconfig;		     /* absolute; NULL: not given */
	uint64_t queue_budget, cache_budget; /* bytes of each region at most */
	uint32_t max_concurrent;	     /* keys at a time over all controllers; 0: no limit */
	struct config_ha ha;
	/* The file has errors: what it says of the host (does another one lead?) is not known, so no program may start on it. */
	bool wrong;
};

struct config {
	struct config_main main;
	struct config_controller *controllers; /* sorted by name */
	size_t count;
	/* of controllers that were left out because their file is wrong, and warnings */
	struct config_errors errors;
};

/* path: one file, or a folder: DIR/controllers.d/ *.yaml, *.yml, *.json if that exists (with
 * DIR/reconciled.yaml), else DIR's own. A wrong document leaves out that controller alone. Returns 0 even
 * with errors in files: see errors.fatal; negative only if the path itself cannot be read. */
int config_load(const char *path, struct config *ret, struct err *err);
void config_done(struct config *c);
const struct config_controller *config_find(const struct config *c, const char *name);

/* The canonical text of a watch: equal texts are one watch and one cache table. metadataOnly, namespaces,
 * selectors included. Example: "apps/v1 Deployment ns=blog,shop labels=tier=web". Owned by the caller. */
char *config_table_name(const struct config_kind *k);

/* Strict scalars, also for command lines. -EINVAL: not such a thing; -ERANGE: negative, too large, or outside
 * min and max. "1h30m", "500ms" (Go's duration, not negative); "256Mi", "1G" (Kubernetes quantity, whole
 * bytes). */
int parse_duration(const char *text, int64_t *ret_ns);
int parse_quantity(const char *text, uint64_t *ret_bytes);
int parse_u32(const char *text, uint32_t min, uint32_t max, uint32_t *ret);
/* The other way, for people: "1h30m", "1s500ms", "0s" (the two largest parts); "256Mi", "1000". Return
 * buf. */
char *format_duration(int64_t ns, char buf[32]);
char *format_quantity(uint64_t bytes, char buf[32]);
