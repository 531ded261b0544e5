/* The one table of the keys of controller files and of reconciled.yaml, and the reader that it drives. A key
 * is a row here, a field in config.h, a line in docs/configuration.md (a test compares), and no more if one
 * of the plain types fits. */
#include "config_internal.h"
#include "names.h"

#define C(member)  offsetof(struct config_controller, member)
#define W(member)  offsetof(struct config_watch, member)
#define R(member)  offsetof(struct config_reconciler, member)
#define P(member)  offsetof(struct config_program, member)
#define M(member)  offsetof(struct config_main, member)
#define MS(n)	   ((int64_t)(n)*NS_PER_MS)
#define S(n)	   ((int64_t)(n)*NS_PER_S)
#define H(n)	   S((n)*3600)
#define MI(n)	   ((int64_t)(n) << 20)
#define TIB(n)	   ((int64_t)(n) << 40)
#define REQUIRED   .required = true
#define NOT_KEPT   .offset = KEY_NOT_KEPT
#define DURATION   .type = KEY_DURATION
#define NUMBER	   .type = KEY_U32
#define TEXT(c, a) .type = KEY_TEXT, .check = c, .allowed = a

static bool check_our_version(struct span s)
{
	return span_is(s, "reconciled.dev/v1alpha1");
}
static bool check_our_kind(struct span s)
{
	return span_is(s, "Controller");
}

#define API_VERSION TEXT(config_check_api_version, "an API version: v1, or GROUP/VERSION as in apps/v1")
#define KIND	    TEXT(config_check_kind, "a kind, as in ConfigMap (not its plural or resource name)")

/* What `for`, `owns` and `watches` have in common. */
#define KIND_KEYS(section)                                                                                   \
	{section ".apiVersion", API_VERSION, .offset = W(kind.api_version), REQUIRED,                        \
	 .help = "API version of the kind"},                                                                 \
	    {section ".kind", KIND, .offset = W(kind.kind), REQUIRED, .help = "the kind"},                   \
	    {section ".namespaces", KEY_OWN, .read = config_read_namespaces,                                 \
	     .help = "only these namespaces"},                                                               \
	    {section ".labelSelector", KEY_OWN, .read = config_read_label_selector,                          \
	     .help = "only objects with these labels"},                                                      \
	    {section ".fieldSelector",                                                                       \
	     TEXT(config_check_field_selector, "a field selector, as in metadata.name!=legacy"),             \
	     .offset = W(kind.field_selector), .help = "only objects with these fields"},                    \
	    {section ".metadataOnly", KEY_OWN, .fallback = "false", .read = config_read_metadata_only,       \
	     .help = "cache metadata alone (Secret: true unless written out)"},                              \
	{                                                                                                    \
		section ".predicates", KEY_OWN, .read = config_read_predicates,                              \
						.help = "which changes count"                                \
	}

const struct config_key config_keys[] = {
    {"apiVersion", TEXT(check_our_version, "reconciled.dev/v1alpha1"), NOT_KEPT, REQUIRED,
     .help = "version of this format"},
    {"kind", TEXT(check_our_kind, "Controller"), NOT_KEPT, REQUIRED, .help = "what the document describes"},
    {"metadata", KEY_SECTION, REQUIRED, .help = "who the controller is"},
    {"metadata.name", KEY_OWN, .read = config_read_name, REQUIRED, .help = "the controller's name"},
    {"spec", KEY_SECTION, REQUIRED, .help = "what it does"},

    {"spec.for", KEY_OWN, .read = config_read_for, REQUIRED, .help = "the kind that is reconciled"},
    KIND_KEYS("spec.for"),

    {"spec.owns", KEY_OWN, .read = config_read_owns, .help = "kinds whose objects the controller creates"},
    KIND_KEYS("spec.owns[]"),
    {"spec.owns[].matchEveryOwner", KEY_BOOL, .offset = W(match_every_owner), .fallback = "false",
     .help = "any owner reference, not only the one with controller: true"},

    {"spec.watches", KEY_OWN, .read = config_read_watches, .help = "other kinds whose changes matter"},
    KIND_KEYS("spec.watches[]"),
    {"spec.watches[].mapTo", KEY_OWN, .read = config_read_map_to, REQUIRED,
     .help = "which keys a change reconciles"},
    {"spec.watches[].mapTo.index", KEY_OWN, .read = config_read_map_key, .check = config_check_path,
     .allowed = "a path into the `for` object, as in spec.tlsSecretName",
     .help = "those that name the object at this path"},
    {"spec.watches[].mapTo.label", KEY_OWN, .read = config_read_map_key, .check = kube_is_qualified_name,
     .allowed = "a label's name, as in example.com/website",
     .help = "the one that this label names, in the same namespace"},
    {"spec.watches[].mapTo.annotation", KEY_OWN, .read = config_read_map_key, .check = kube_is_qualified_name,
     .allowed = "an annotation's name, as in example.com/website",
     .help = "the one that this annotation names: name or ns/name"},
    {"spec.watches[].mapTo.owner", KEY_OWN, .read = config_read_map_owner,
     .help = "the owner of another kind"},
    {"spec.watches[].mapTo.owner.apiVersion", API_VERSION, .offset = W(owner_api_version), REQUIRED,
     .help = "the owner's API version (its version is ignored)"},
    {"spec.watches[].mapTo.owner.kind", KIND, .offset = W(owner_kind), REQUIRED, .help = "the owner's kind"},
    {"spec.watches[].mapTo.all", KEY_OWN, .read = config_read_map_all,
     .help = "every object of the `for` kind"},
    {"spec.watches[].mapTo.program", KEY_OWN, .read = config_read_map_program,
     .help = "those that a program names"},
    {"spec.watches[].mapTo.program.command", KEY_TEXTS, .offset = P(command), .min = 1, REQUIRED,
     .help = "program and arguments, no shell"},
    {"spec.watches[].mapTo.program.startupTimeout", DURATION, .offset = P(startup_timeout_ns),
     .fallback = "10s", .min = MS(100), .max = H(1), .help = "time until its Hello"},
    {"spec.watches[].mapTo.program.timeout", DURATION, .offset = P(timeout_ns), .fallback = "10s",
     .min = MS(100), .max = H(1), .help = "time for one answer"},
    {"spec.watches[].mapTo.program.maxMemory", KEY_QUANTITY, .offset = P(max_memory), .fallback = "256Mi",
     .min = MI(16), .max = TIB(1), .help = "hard limit"},

    {"spec.input", KEY_SECTION, .help = "what a request carries beside the object"},
    {"spec.input.children", KEY_BOOL, .offset = C(input_children), .fallback = "true",
     .help = "the owned objects"},
    {"spec.input.related", KEY_BOOL, .offset = C(input_related), .fallback = "false",
     .help = "the watched objects"},
    {"spec.input.reasons", KEY_BOOL, .offset = C(input_reasons), .fallback = "false",
     .help = "what happened, as a hint"},

    {"spec.reconciler", KEY_SECTION, .offset = C(reconciler), REQUIRED, .help = "the program"},
    {"spec.reconciler.exec", KEY_OWN, .read = config_read_exec, .help = "one process for each reconcile"},
    {"spec.reconciler.exec.command", KEY_TEXTS, .offset = R(command), .min = 1, REQUIRED,
     .help = "program and arguments, no shell"},
    {"spec.reconciler.coprocess", KEY_OWN, .read = config_read_coprocess,
     .help = "one process for many reconciles"},
    {"spec.reconciler.coprocess.command", KEY_TEXTS, .offset = R(command), .min = 1, REQUIRED,
     .help = "program and arguments, no shell"},
    {"spec.reconciler.coprocess.startupTimeout", DURATION, .offset = R(startup_timeout_ns), .fallback = "10s",
     .min = MS(100), .max = H(1), .help = "time until its Hello"},
    {"spec.reconciler.coprocess.maxRequests", NUMBER, .offset = R(max_requests), .fallback = "10000",
     .min = 1, .max = 1000000000, .help = "requests until it is started anew"},
    {"spec.reconciler.coprocess.maxMemory", KEY_QUANTITY, .offset = R(max_memory), .min = MI(16),
     .max = TIB(1), .help = "hard limit; started anew above 3/4 of it"},
    {"spec.reconciler.credentials", KEY_OWN, .fallback = "none", .read = config_read_credentials,
     .help = "what the program may use to reach the API server"},
    {"spec.reconciler.network", KEY_OWN, .fallback = "none", .read = config_read_network,
     .help = "none, or the host's"},
    {"spec.reconciler.env", KEY_OWN, .read = config_read_env, .help = "environment of the program"},
    {"spec.reconciler.envFile", KEY_OWN, .read = config_read_env_file,
     .help = "a file of NAME=VALUE lines; env wins over it"},
    {"spec.reconciler.sandbox", KEY_SECTION, .help = "what the program sees and may use"},
    {"spec.reconciler.sandbox.readOnlyPaths", KEY_OWN, .offset = R(read_only_paths),
     .read = config_read_paths, .help = "more paths that it may read"},
    {"spec.reconciler.sandbox.readWritePaths", KEY_OWN, .offset = R(read_write_paths),
     .read = config_read_paths, .help = "paths that it may write"},
    {"spec.reconciler.sandbox.limits", KEY_SECTION, .help = "limits of its processes"},
    {"spec.reconciler.sandbox.limits.cpu", DURATION, .offset = R(limit_cpu_ns), .fallback = "60s",
     .min = S(1), .max = H(24), .help = "processor time of one attempt"},
    {"spec.reconciler.sandbox.limits.files", NUMBER, .offset = R(limit_files), .fallback = "1024", .min = 16,
     .max = 1 << 20, .help = "open files of a process"},
    {"spec.reconciler.sandbox.limits.processes", NUMBER, .offset = R(limit_processes), .fallback = "64",
     .min = 1, .max = 32768, .help = "processes and threads"},
    {"spec.reconciler.sandbox.without", KEY_OWN, .read = config_read_without,
     .help = "parts of the sandbox to leave out"},

    {"spec.workers", KEY_OWN, .offset = C(workers), .fallback = "1", .min = 1, .max = 256,
     .read = config_read_workers, .help = "worker processes to start, or {min, max}"},
    {"spec.workers.min", NUMBER, .offset = C(workers_min), .min = 0, .max = 256, REQUIRED,
     .help = "so many are always awake"},
    {"spec.workers.max", NUMBER, .offset = C(workers), .min = 1, .max = 256, REQUIRED,
     .help = "processes to start; those that are not needed sleep"},
    {"spec.maxConcurrentReconciles", NUMBER, .offset = C(max_concurrent), .min = 1, .max = 256,
     .help = "keys at a time (default: as many as workers are connected)"},
    {"spec.reconciliationTimeout", DURATION, .offset = C(reconciliation_timeout_ns), .fallback = "30s",
     .min = MS(100), .max = H(24), .help = "an attempt is killed after it"},
    {"spec.rateLimiter", KEY_SECTION, .help = "how failures are tried again"},
    {"spec.rateLimiter.baseDelay", DURATION, .offset = C(base_delay_ns), .fallback = "5ms", .min = MS(1),
     .max = H(1), .help = "delay after the first failure; doubles"},
    {"spec.rateLimiter.maxDelay", DURATION, .offset = C(max_delay_ns), .fallback = "1000s", .min = MS(1),
     .max = H(24), .help = "the longest delay"},
    {"spec.rateLimiter.jitter", KEY_NUMBER, .offset = C(jitter), .fallback = "0.1", .min = 0, .max = 1,
     .help = "share of a delay that is random"},
    {"spec.rateLimiter.qps", KEY_NUMBER, .offset = C(qps), .fallback = "10", .min = 0, .max = 100000,
     .help = "retries a second over all keys; 0: any number"},
    {"spec.rateLimiter.burst", NUMBER, .offset = C(burst), .fallback = "100", .min = 1, .max = 1000000,
     .help = "retries at once before qps counts"},
    {"spec.resyncPeriod", DURATION, .offset = C(resync_period_ns), .fallback = "10h", .min = S(1),
     .max = H(8760), .help = "everything is reconciled once in this time, whatever changed"},
    {"spec.stormGuard", KEY_SECTION, .help = "one event that concerns very many keys"},
    {"spec.stormGuard.keys", NUMBER, .offset = C(storm_keys), .fallback = "100", .min = 1, .max = 1024,
     .help = "more are very many"},
    {"spec.stormGuard.qps", NUMBER, .offset = C(storm_qps), .fallback = "100", .min = 1, .max = 100000,
     .help = "so many of them are enqueued in a second"},
    {"spec.finalizer",
     TEXT(config_check_finalizer, "a finalizer's name with a domain, as in example.com/website"),
     .offset = C(finalizer), .help = "put on each object, removed when the reconciler says finalized"},
    {"spec.prune", KEY_BOOL, .offset = C(prune), .fallback = "false",
     .help = "delete owned objects that an answer leaves out"},
    {"spec.quarantine", KEY_SECTION, .help = "when a key that crashes is parked"},
    {"spec.quarantine.crashes", NUMBER, .offset = C(quarantine_crashes), .fallback = "5", .min = 1,
     .max = 1000, .help = "crashes, timeouts or memory kills"},
    {"spec.quarantine.within", DURATION, .offset = C(quarantine_within_ns), .fallback = "10m", .min = S(1),
     .max = H(24), .help = "in this time"},
    {"spec.quarantine.for", DURATION, .offset = C(quarantine_for_ns), .fallback = "1h", .min = S(1),
     .max = H(168), .help = "parked for so long, unless the object changes"},
    {"spec.cacheSyncTimeout", DURATION, .offset = C(cache_sync_timeout_ns), .fallback = "2m", .min = S(1),
     .max = H(1), .help = "a key waits so long for the first lists of its kinds"},
    {"spec.cache", KEY_SECTION, .help = "what the cache keeps of objects"},
    {"spec.cache.stripManagedFields", KEY_BOOL, .offset = C(strip_managed_fields), .fallback = "true",
     .help = "leave metadata.managedFields out"},
    {"spec.cache.fields", KEY_OWN, .read = config_read_fields,
     .help = "keep only these paths (and metadata and status) of `for` and `watches`"},

    {"reconciled.kubeconfig", KEY_OWN, .offset = M(kubeconfig), .read = config_read_kubeconfig,
     .help = "how to reach the API server"},
    {"reconciled.budgets", KEY_SECTION, .help = "shared memory at most"},
    {"reconciled.budgets.queue", KEY_QUANTITY, .offset = M(queue_budget), .fallback = "512Mi", .min = MI(8),
     .max = MI(2048), .help = "of the queue region"},
    {"reconciled.budgets.cache", KEY_QUANTITY, .offset = M(cache_budget), .fallback = "1Gi", .min = MI(8),
     .max = TIB(1), .help = "of the cache region"},
    {"reconciled.maxConcurrentReconciles", NUMBER, .offset = M(max_concurrent), .min = 1, .max = 1024,
     .help = "keys at a time over all controllers (default: no limit)"},
    {"reconciled.addresses", KEY_UNSUPPORTED, .help = "where metrics and health are served"},
    {"reconciled.ha", KEY_OWN, .read = config_read_ha, .help = "several hosts"},
    {"reconciled.ha.mode", KEY_OWN, .fallback = "none", .read = config_read_ha_mode,
     .help = "none, leader or shard"},
    {"reconciled.ha.namespace", TEXT(kube_is_dns_label, "a namespace"), .offset = M(ha.namespace),
     .help = "of the Lease"},
    {"reconciled.ha.name", TEXT(kube_is_dns_subdomain, "a Lease's name"), .offset = M(ha.name),
     .help = "of the Lease"},
    {"reconciled.ha.leaseDuration", DURATION, .offset = M(ha.lease_duration_ns), .fallback = "15s",
     .min = S(2), .max = H(1), .help = "another host takes over after so long without a renewal"},
    {"reconciled.ha.renewDeadline", DURATION, .offset = M(ha.renew_deadline_ns), .fallback = "10s",
     .min = MS(100), .max = H(1), .help = "the leader stops after so long without a renewal"},
    {"reconciled.ha.retryPeriod", DURATION, .offset = M(ha.retry_period_ns), .fallback = "2s", .min = MS(50),
     .max = H(1), .help = "between two tries to renew or to get the Lease"},
    {0},
};

const char *config_key_name(const struct config_key *k)
{
	const char *dot = strrchr(k->path, '.');
	return dot ? dot + 1 : k->path;
}

/* Rows of a section: its path, a dot (unless it is the top), and one more word. */
static bool is_in_section(const struct config_key *k, const char *section)
{
	size_t n = strlen(section);
	if (!n)
		return !strchr(k->path, '.');
	return strncmp(k->path, section, n) == 0 && k->path[n] == '.' && !strchr(k->path + n + 1, '.');
}

static void *value_at(const struct config_key *k, void *base)
{
	return (char *)base + k->offset;
}

/* Own rows with a default are either plain numbers or made so by the zeroed struct ("none", "false"). */
static void default_put(const struct config_key *k, void *base)
{
	void *at = value_at(k, base);
	bool own_number = k->type == KEY_OWN && k->max;
	if (k->type == KEY_U32 || own_number)
		*(uint32_t *)at = (uint32_t)strtoul(k->fallback, NULL, 10);
	else if (k->type == KEY_BOOL)
		*(bool *)at = strcmp(k->fallback, "true") == 0;
	else if (k->type == KEY_NUMBER)
		*(double *)at = strtod(k->fallback, NULL);
	int rc = k->type == KEY_DURATION   ? parse_duration(k->fallback, at)
		 : k->type == KEY_QUANTITY ? parse_quantity(k->fallback, at)
					   : 0;
	if (rc < 0)
		abort(); /* the table is wrong */
}

void config_section_defaults(const char *section, void *base)
{
	for (const struct config_key *k = config_keys; k->path; k++) {
		if (!is_in_section(k, section))
			continue;
		if (k->type == KEY_SECTION)
			config_section_defaults(k->path, value_at(k, base));
		else if (k->fallback)
			default_put(k, base);
	}
}

static void text_put(struct config_reader *r, const struct config_key *k, const struct yaml_doc_node *n,
		     void *base)
{
	const char *text;
	if (!config_text(r, n, k->check, k->allowed, &text) || k->offset == KEY_NOT_KEPT)
		return;
	char **at = value_at(k, base);
	free(*at);
	*at = xstrdup(text);
}

static void value_read(struct config_reader *r, const struct config_key *k, const struct yaml_doc_node *n,
		       void *base)
{
	switch (k->type) {
	case KEY_TEXT:
		text_put(r, k, n, base);
		break;
	case KEY_U32:
		config_u32(r, n, (uint32_t)k->min, (uint32_t)k->max, value_at(k, base));
		break;
	case KEY_BOOL:
		config_bool(r, n, value_at(k, base));
		break;
	case KEY_NUMBER:
		config_number(r, n, (double)k->min, (double)k->max, value_at(k, base));
		break;
	case KEY_DURATION:
		config_duration(r, n, k->min, k->max, value_at(k, base));
		break;
	case KEY_QUANTITY:
		config_quantity(r, n, (uint64_t)k->min, (uint64_t)k->max, value_at(k, base));
		break;
	case KEY_TEXTS:
		if (!*(char ***)value_at(
			k, base)) /* exec and coprocess share theirs: the first is kept, both are an error */
			config_texts(r, n, (size_t)k->min, NULL, NULL, value_at(k, base));
		break;
	case KEY_SECTION:
		config_section(r, k->path, n, value_at(k, base));
		break;
	case KEY_OWN:
		k->read(r, k, n, base);
		break;
	case KEY_UNSUPPORTED:
		config_complain(r, n->key, "not supported by this version: remove it");
		break;
	}
}

static void unknown_say(struct config_reader *r, const char *section, const struct yaml_doc_node *key)
{
	enum { NAMES_MAX = 32 };
	const char *names[NAMES_MAX + 1];
	size_t count = 0;
	_cleanup_(buf_done) struct buf allowed = {0};
	for (const struct config_key *k = config_keys; k->path && count < NAMES_MAX; k++) {
		if (!is_in_section(k, section))
			continue;
		names[count++] = config_key_name(k);
		if (k->type != KEY_UNSUPPORTED)
			buf_printf(&allowed, "%s%s", buf_str(&allowed)[0] ? ", " : "", config_key_name(k));
	}
	names[count] = NULL;
	const char *near = config_did_you_mean(key->text, names);
	if (near)
		config_complain(r, key, "unknown key \"%.100s\": did you mean \"%s\"? Allowed: %s", key->text,
				near, buf_str(&allowed));
	else
		config_complain(r, key, "unknown key \"%.100s\"; allowed: %s", key->text, buf_str(&allowed));
}

static void member_read(struct config_reader *r, const char *section, const struct yaml_doc_node *n,
			const struct yaml_doc_node *parent, void *base)
{
	for (const struct config_key *k = config_keys; k->path; k++) {
		if (!is_in_section(k, section) || strcmp(config_key_name(k), n->key->text) != 0)
			continue;
		if (n->duplicate) {
			config_complain(r, n->key, "duplicate key \"%s\": it stands in line %zu already",
					n->key->text, yaml_doc_get(parent, n->key->text)->key->line);
			return;
		}
		size_t here = config_enter(r, "%s%s", r->where_len ? "." : "", config_key_name(k));
		value_read(r, k, n, base);
		config_leave(r, here);
		return;
	}
	unknown_say(r, section, n->key);
}

void config_section(struct config_reader *r, const char *section, const struct yaml_doc_node *n, void *base)
{
	if (!config_is_mapping(r, n))
		return;
	for (const struct yaml_doc_node *c = n->child; c; c = c->next)
		member_read(r, section, c, n, base);
	for (const struct config_key *k = config_keys; k->path; k++)
		if (k->required && is_in_section(k, section) && !yaml_doc_get(n, config_key_name(k)))
			config_complain(r, n, "\"%s\" is missing: %s", config_key_name(k), k->help);
}
