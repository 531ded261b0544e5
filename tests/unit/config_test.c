#include "config_internal.h"
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- a folder for each test ---- */

static char folder[64];

static void folder_make(void)
{
	strcpy(folder, "/tmp/config_test.XXXXXX");
	cr_assert_not_null(mkdtemp(folder));
}

static void folder_remove(void)
{
	char command[96];
	snprintf(command, sizeof(command), "rm -rf %s", folder);
	cr_assert_eq(system(command), 0);
}

static void file_put(const char *name, const char *text)
{
	char path[256];
	snprintf(path, sizeof(path), "%s/%s", folder, name);
	FILE *f = fopen(path, "w");
	cr_assert_not_null(f, "%s", path);
	fputs(text, f);
	fclose(f);
}

static struct config loaded(const char *name)
{
	char path[256];
	struct config c;
	struct err err = {0};
	snprintf(path, sizeof(path), "%s%s%s", folder, *name ? "/" : "", name);
	cr_assert_eq(config_load(path, &c, &err), 0, "%s", err.text);
	return c;
}

/* What config_errors_print says, without the folder. */
static char *errors_of(const struct config *c)
{
	struct buf b = {0};
	config_errors_print(&c->errors, &b);
	char *text = buf_steal(&b), *at;
	size_t n = strlen(folder) + 1;
	while (text && (at = strstr(text, folder)))
		memmove(at, at + n, strlen(at + n) + 1);
	return text ? text : xstrdup("");
}

static void errors_are(const char *yaml, const char *want)
{
	file_put("c.yaml", yaml);
	struct config c = loaded("c.yaml");
	char *have = errors_of(&c);
	cr_expect_str_eq(have, want, "\n--- have\n%s--- want\n%s", have, want);
	free(have);
	config_done(&c);
}

static struct config_controller *only(struct config *c)
{
	char *have = errors_of(c);
	cr_assert(c->count == 1 && c->errors.fatal == 0, "%zu controllers, errors:\n%s", c->count, have);
	free(have);
	return &c->controllers[0];
}

static struct config one(const char *yaml)
{
	file_put("c.yaml", yaml);
	return loaded("c.yaml");
}

TestSuite(config, .init = folder_make, .fini = folder_remove);

#define HEAD "apiVersion: reconciled.dev/v1alpha1\nkind: Controller\nmetadata: {name: website}\nspec:\n"
#define FOR  "  for: {apiVersion: v1, kind: ConfigMap}\n"
#define EXEC "  reconciler: {exec: {command: [./run]}}\n"
/* HEAD, FOR and EXEC are six lines: what follows begins in line 7. */
#define BASE HEAD FOR EXEC

Test(config, a_coprocess_has_the_documented_defaults)
{
	struct config all = one(HEAD FOR "  reconciler: {coprocess: {command: [./run]}}\n");
	const struct config_controller *c = only(&all);
	cr_expect(c->reconciler.coprocess);
	cr_expect_eq(c->reconciler.startup_timeout_ns, 10 * NS_PER_S);
	cr_expect(c->reconciler.max_requests == 10000 && c->reconciler.max_memory == 0);
	config_done(&all);
}

Test(config, the_smallest_controller_has_the_documented_defaults)
{
	struct config all = one(BASE);
	const struct config_controller *c = only(&all);
	cr_expect_str_eq(c->name, "website");
	cr_expect_str_eq(c->folder, folder);
	cr_expect_eq(c->watch_count, 1);
	cr_expect(c->watches[0].map == MAP_SELF && !c->watches[0].kind.metadata_only &&
		  !c->watches[0].predicates_given);
	cr_expect_null(c->watches[0].kind.namespaces);
	cr_expect(c->input_children && !c->input_related && !c->input_reasons);
	cr_expect(!c->reconciler.coprocess && !c->reconciler.network_host);
	cr_expect_str_eq(c->reconciler.command[0], "./run");
	cr_expect_null(c->reconciler.command[1]);
	cr_expect(c->reconciler.env && !c->reconciler.env[0]);
	cr_expect_eq(c->reconciler.limit_cpu_ns, 60 * NS_PER_S);
	cr_expect(c->reconciler.limit_files == 1024 && c->reconciler.limit_processes == 64);
	cr_expect(c->workers == 1 && c->max_concurrent == 0);
	cr_expect_eq(c->reconciliation_timeout_ns, 30 * NS_PER_S);
	cr_expect(c->base_delay_ns == 5 * NS_PER_MS && c->max_delay_ns == 1000 * NS_PER_S);
	cr_expect(c->jitter == 0.1 && c->qps == 10 && c->burst == 100);
	cr_expect_null(c->finalizer);
	cr_expect(!c->prune && c->strip_managed_fields);
	cr_expect(c->quarantine_crashes == 5 && c->quarantine_within_ns == 600 * NS_PER_S &&
		  c->quarantine_for_ns == 3600 * NS_PER_S);
	cr_expect_eq(c->cache_sync_timeout_ns, 120 * NS_PER_S);
	cr_expect_eq(strlen(c->digest), 64);
	config_done(&all);
}

/* The example of the contract, without what this version refuses. */
static const char full[] =
    "apiVersion: reconciled.dev/v1alpha1\n"
    "kind: Controller\n"
    "metadata: {name: website}\n"
    "spec:\n"
    "  for:\n"
    "    apiVersion: example.com/v1\n"
    "    kind: Website\n"
    "    namespaces: [shop, blog]\n"
    "    labelSelector: {matchLabels: {tier: web}}\n"
    "    fieldSelector: metadata.name!=legacy\n"
    "    predicates: [{or: [GenerationChanged, LabelChanged]}]\n"
    "  owns:\n"
    "  - {apiVersion: apps/v1, kind: Deployment, predicates: [ResourceVersionChanged], metadataOnly: false, "
    "matchEveryOwner: true}\n"
    "  watches:\n"
    "  - {apiVersion: v1, kind: Secret, metadataOnly: true, mapTo: {index: spec.tlsSecretName}}\n"
    "  - {apiVersion: v1, kind: ConfigMap, mapTo: {label: example.com/website}}\n"
    "  - {apiVersion: batch/v1, kind: Job, mapTo: {annotation: example.com/website}}\n"
    "  - {apiVersion: v1, kind: Pod, mapTo: {owner: {apiVersion: apps/v1, kind: ReplicaSet}}}\n"
    "  - {apiVersion: v1, kind: Node, namespaces: ['*'], mapTo: {all: true}}\n"
    "  input: {children: false, related: true, reasons: true}\n"
    "  reconciler:\n"
    "    coprocess: {command: [/usr/bin/python3, website.py], startupTimeout: 3s, maxRequests: 5, maxMemory: "
    "256Mi}\n"
    "    credentials: none\n"
    "    network: host\n"
    "    env: {LOG_LEVEL: info}\n"
    "    sandbox: {readOnlyPaths: [./data, /opt/x], readWritePaths: [out], limits: {cpu: 10s, files: 64, "
    "processes: 8}, without: [seccomp]}\n"
    "  workers: 4\n"
    "  maxConcurrentReconciles: 3\n"
    "  reconciliationTimeout: 1m\n"
    "  rateLimiter: {baseDelay: 1s, maxDelay: 2s, jitter: 0, qps: 0, burst: 1}\n"
    "  finalizer: example.com/website\n"
    "  prune: true\n"
    "  quarantine: {crashes: 2, within: 1m, for: 2m}\n"
    "  cacheSyncTimeout: 1m\n"
    "  cache: {stripManagedFields: false}\n";

Test(config, every_supported_key_arrives)
{
	struct config all = one(full);
	const struct config_controller *c = only(&all);
	const struct config_watch *w = c->watches;
	char path[128];
	cr_assert_eq(c->watch_count, 7);
	static const char *const tables[] = {
	    "example.com/v1 Website ns=blog,shop labels=tier=web fields=metadata.name!=legacy",
	    "apps/v1 Deployment ns=blog,shop",
	    "v1 Secret ns=blog,shop metadata",
	    "v1 ConfigMap ns=blog,shop",
	    "batch/v1 Job ns=blog,shop",
	    "v1 Pod ns=blog,shop",
	    "v1 Node",
	};
	for (size_t i = 0; i < 7; i++) {
		char *table = config_table_name(&w[i].kind);
		cr_expect_str_eq(table, tables[i]);
		free(table);
	}
	cr_expect(w[0].predicates_given && w[0].predicates.type == PREDICATE_AND &&
		  w[0].predicates.count == 1);
	const struct config_predicate * or = &w[0].predicates.children[0];
	cr_expect(or->type == PREDICATE_OR && or->count == 2);
	cr_expect(or->children[0].type == PREDICATE_GENERATION_CHANGED &&
		  or->children[1].type == PREDICATE_LABEL_CHANGED);
	cr_expect(w[1].is_owns && w[1].map == MAP_OWNER && w[1].match_every_owner);
	cr_expect(w[2].map == MAP_INDEX && !strcmp(w[2].map_key, "spec.tlsSecretName") && !w[2].is_owns);
	cr_expect(w[3].map == MAP_LABEL && !strcmp(w[3].map_key, "example.com/website"));
	cr_expect(w[4].map == MAP_ANNOTATION);
	cr_expect(w[5].map == MAP_OWNER_OTHER && !strcmp(w[5].owner_api_version, "apps/v1") &&
		  !strcmp(w[5].owner_kind, "ReplicaSet"));
	cr_expect(w[6].map == MAP_ALL);
	cr_expect(!c->input_children && c->input_related && c->input_reasons);
	cr_expect(c->reconciler.coprocess && c->reconciler.network_host);
	cr_expect_str_eq(c->reconciler.command[1], "website.py");
	cr_expect(c->reconciler.startup_timeout_ns == 3 * NS_PER_S && c->reconciler.max_requests == 5 &&
		  c->reconciler.max_memory == 256u << 20);
	cr_expect_str_eq(c->reconciler.env[0], "LOG_LEVEL=info");
	snprintf(path, sizeof(path), "%s/data", folder);
	cr_expect_str_eq(c->reconciler.read_only_paths[0], path);
	cr_expect_str_eq(c->reconciler.read_only_paths[1], "/opt/x");
	snprintf(path, sizeof(path), "%s/out", folder);
	cr_expect_str_eq(c->reconciler.read_write_paths[0], path);
	cr_expect_str_eq(c->reconciler.without[0], "seccomp");
	cr_expect(c->workers == 4 && c->max_concurrent == 3 && c->qps == 0 && c->jitter == 0 &&
		  c->burst == 1);
	cr_expect_str_eq(c->finalizer, "example.com/website");
	cr_expect(c->prune && !c->strip_managed_fields && c->quarantine_crashes == 2);
	/* The one warning: a finalizer with selectors. */
	cr_expect_eq(all.errors.count, 1);
	cr_expect(all.errors.at[0].warning &&
		  strstr(all.errors.at[0].text, "finalizer together with a selector"));
	config_done(&all);
}

/* ---- errors ---- */

/* BASE and one more line, "  KEY: VALUE"; want: what stands after "c.yaml:7:COLUMN: error: ", or NULL if it
 * is right. */
struct row {
	const char *line;
	size_t column;
	const char *want;
};

static void rows_are(const struct row *rows, size_t n)
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

#define WORKERS "; allowed: a whole number from 1 to 256"
#define DIGITS	"; write plain decimal digits, without leading zero, point, exponent or _"

Test(config, C44_whole_numbers)
{
	static const struct row rows[] = {
	    {"workers: 4", 0, NULL},
	    {"workers: 010", 12, "spec.workers: found 010" WORKERS DIGITS},
	    {"workers: 0o4", 12, "spec.workers: found 0o4" WORKERS DIGITS},
	    {"workers: 0x4", 12, "spec.workers: found 0x4" WORKERS DIGITS},
	    {"workers: 1e1", 12, "spec.workers: found 1e1" WORKERS DIGITS},
	    {"workers: 4.0", 12, "spec.workers: found 4.0" WORKERS DIGITS},
	    {"workers: \"4\"", 12, "spec.workers: found the text \"4\"" WORKERS "; remove the quotes"},
	    {"workers: 4_0", 12, "spec.workers: found 4_0" WORKERS DIGITS},
	    {"workers: .5", 12, "spec.workers: found .5" WORKERS DIGITS},
	    {"workers: 0", 12, "spec.workers: found 0" WORKERS},
	    {"workers: -1", 12, "spec.workers: found -1" WORKERS DIGITS},
	    {"workers: 257", 12, "spec.workers: found 257" WORKERS},
	    {"workers: 99999999999999999999", 12, "spec.workers: found 99999999999999999999" WORKERS},
	    {"workers: many", 12, "spec.workers: found many" WORKERS},
	    {"workers: ~", 12, "spec.workers: found nothing (~)" WORKERS},
	    {"workers:", 11, "spec.workers: found nothing" WORKERS},
	    {"workers: [4]", 12, "spec.workers: found a list" WORKERS},
	    {"workers: {min: 1, max: 8}", 12,
	     "spec.workers: {min, max} is not supported by this version; allowed: a whole number from 1 to "
	     "256"},
	};
	ROWS_ARE(rows);
}

Test(config, C44_booleans)
{
	static const struct row rows[] = {
	    {"prune: true", 0, NULL},
	    {"prune: True", 0, NULL},
	    {"prune: FALSE", 0, NULL},
	    {"prune: yes", 10, "spec.prune: found yes; allowed: true or false; write true"},
	    {"prune: on", 10, "spec.prune: found on; allowed: true or false; write true"},
	    {"prune: Off", 10, "spec.prune: found Off; allowed: true or false; write false"},
	    {"prune: \"true\"", 10,
	     "spec.prune: found the text \"true\"; allowed: true or false; remove the quotes"},
	    {"prune: 1", 10, "spec.prune: found 1; allowed: true or false"},
	    {"prune: tRue", 10, "spec.prune: found tRue; allowed: true or false"},
	};
	ROWS_ARE(rows);
}

static void name_is(const char *written, const char *want_name, const char *want_error)
{
	char yaml[512], want[512] = "";
	snprintf(yaml, sizeof(yaml),
		 "apiVersion: reconciled.dev/v1alpha1\nkind: Controller\nmetadata: {name: %s}\nspec:\n%s",
		 written, FOR EXEC);
	if (want_error)
		snprintf(want, sizeof(want),
			 "c.yaml:3:18: error: metadata.name: found %s; allowed: a DNS label: a-z, 0-9 and -, "
			 "at most 63 characters, no "
			 "dots%s\n",
			 written, want_error);
	errors_are(yaml, want);
	struct config c = loaded("c.yaml");
	cr_expect_eq(c.count, want_name ? 1 : 0);
	if (want_name && c.count)
		cr_expect_str_eq(c.controllers[0].name, want_name);
	config_done(&c);
}

Test(config, C44_names)
{
	name_is("\"1e3\"", "1e3", NULL);
	name_is("007", "007", NULL); /* text: JSON writes no number so */
	name_is("on", "on", NULL);
	name_is("2024-01-02", "2024-01-02", NULL);
	name_is("1e3", NULL, "; quote it");
	name_is("7", NULL, "; quote it");
	name_is("true", NULL, "; quote it");
	name_is("1.5", NULL, ""); /* quoting is no cure: a dot */
	name_is("Website", NULL, "");
	name_is("a.b", NULL, "");
	errors_are(
	    "apiVersion: reconciled.dev/v1alpha1\nkind: Controller\nmetadata: {name: null}\nspec:\n" FOR EXEC,
	    "c.yaml:3:18: error: metadata.name: found nothing (null); allowed: a DNS label: a-z, 0-9 and -, "
	    "at most 63 characters, no "
	    "dots; quote it\n");
	errors_are(
	    "apiVersion: reconciled.dev/v1alpha1\nkind: Controller\nmetadata: {name: ~}\nspec:\n" FOR EXEC,
	    "c.yaml:3:18: error: metadata.name: found nothing (~); allowed: a DNS label: a-z, 0-9 and -, at "
	    "most 63 characters, no "
	    "dots\n");
}

Test(config, C44_lists_of_names)
{
	errors_are(
	    HEAD
	    "  for: {apiVersion: v1, kind: ConfigMap, namespaces: [on, 2024-01-02, 1_0, 7, \"7\"]}\n" EXEC,
	    "c.yaml:5:71: error: spec.for.namespaces[2]: found 1_0; allowed: a namespace's name: a-z, 0-9 "
	    "and -, at most 63 "
	    "characters\n"
	    "c.yaml:5:76: error: spec.for.namespaces[3]: found 7; allowed: a namespace's name: a-z, 0-9 and "
	    "-, at most 63 "
	    "characters; quote it\n");
	struct config all =
	    one(HEAD "  for: {apiVersion: v1, kind: ConfigMap, namespaces: [on, 2024-01-02]}\n" EXEC);
	const struct config_controller *c = only(&all);
	cr_expect_str_eq(c->watches[0].kind.namespaces[0], "2024-01-02");
	cr_expect_str_eq(c->watches[0].kind.namespaces[1], "on");
	config_done(&all);
}

#define TIMEOUT "; allowed: a duration from 100ms to 24h, written as 500ms, 30s, 5m or 1h30m"

Test(config, C44_durations)
{
	static const struct row rows[] = {
	    {"reconciliationTimeout: 1.5h", 0, NULL},
	    {"reconciliationTimeout: 1h30m", 0, NULL},
	    {"reconciliationTimeout: \"30s\"", 0, NULL},
	    {"reconciliationTimeout: 30", 26,
	     "spec.reconciliationTimeout: found 30" TIMEOUT "; add the unit, as in 30s"},
	    {"reconciliationTimeout: 1d", 26,
	     "spec.reconciliationTimeout: found 1d" TIMEOUT
	     "; there is no unit for days: write hours, as in 24h"},
	    {"reconciliationTimeout: -1s", 26, "spec.reconciliationTimeout: found -1s" TIMEOUT},
	    {"reconciliationTimeout: 0", 26, "spec.reconciliationTimeout: found 0" TIMEOUT},
	    {"reconciliationTimeout: 9999999h", 26, "spec.reconciliationTimeout: found 9999999h" TIMEOUT},
	    {"reconciliationTimeout: 25h", 26, "spec.reconciliationTimeout: found 25h" TIMEOUT},
	    {"reconciliationTimeout: 1S", 26, "spec.reconciliationTimeout: found 1S" TIMEOUT},
	    {"reconciliationTimeout: null", 26, "spec.reconciliationTimeout: found nothing (null)" TIMEOUT},
	};
	ROWS_ARE(rows);
}

static void memory_is(const char *written, uint64_t want, const char *want_error)
{
	char yaml[512], text[512] = "";
	snprintf(yaml, sizeof(yaml), "%s  reconciler: {coprocess: {command: [a], maxMemory: %s}}\n", HEAD FOR,
		 written);
	if (want_error)
		snprintf(text, sizeof(text),
			 "c.yaml:6:53: error: spec.reconciler.coprocess.maxMemory: found %s; allowed: whole "
			 "bytes from 16Mi to 1Ti, written as "
			 "256Mi, 1Gi or 500M (upper and lower case matter)%s\n",
			 written, want_error);
	errors_are(yaml, text);
	struct config c = loaded("c.yaml");
	cr_expect_eq(c.count, want ? 1 : 0);
	if (want && c.count)
		cr_expect_eq(c.controllers[0].reconciler.max_memory, want, "%s", written);
	config_done(&c);
}

Test(config, C44_quantities)
{
	memory_is("256Mi", UINT64_C(256) << 20, NULL);
	memory_is("256M", UINT64_C(256000000), NULL);
	memory_is("1e9", UINT64_C(1000000000), NULL);
	memory_is("0.5Gi", UINT64_C(512) << 20, NULL);
	memory_is("268435456", UINT64_C(256) << 20, NULL);
	memory_is("\"1G\"", UINT64_C(1000000000), NULL);
	memory_is("256mi", 0, "");
	memory_is("256MB", 0, "");
	memory_is("1000000000m", 0, "");
	memory_is("20000000.5", 0, "");
	memory_is("1Mi", 0, "");
	memory_is("-1Gi", 0, "");
	memory_is("9999999999999999999Ei", 0, "");
}

Test(config, C44_numbers_with_fractions)
{
	static const struct row rows[] = {
	    {"rateLimiter: {qps: 0.5}", 0, NULL},
	    {"rateLimiter: {qps: 1e2}", 0, NULL},
	    {"rateLimiter: {qps: .5}", 22,
	     "spec.rateLimiter.qps: found .5; allowed: a number from 0 to 100000; write it as in 0.5 or 20"},
	    {"rateLimiter: {qps: \"5\"}", 22,
	     "spec.rateLimiter.qps: found the text \"5\"; allowed: a number from 0 to 100000; remove the "
	     "quotes"},
	    {"rateLimiter: {jitter: 1.01}", 25,
	     "spec.rateLimiter.jitter: found 1.01; allowed: a number from 0 to 1"},
	    {"rateLimiter: {jitter: -0.1}", 25,
	     "spec.rateLimiter.jitter: found -0.1; allowed: a number from 0 to 1"},
	    {"rateLimiter: {jitter: 1e999}", 25,
	     "spec.rateLimiter.jitter: found 1e999; allowed: a number from 0 to 1"},
	    {"rateLimiter: {baseDelay: 10s, maxDelay: 1s}", 16,
	     "spec.rateLimiter: maxDelay must not be below baseDelay"},
	};
	ROWS_ARE(rows);
}

Test(config, unknown_keys_with_a_guess)
{
	static const struct row rows[] = {
	    {"worker: 4", 3,
	     "spec: unknown key \"worker\": did you mean \"workers\"? Allowed: for, owns, watches, input, "
	     "reconciler, workers, "
	     "maxConcurrentReconciles, reconciliationTimeout, rateLimiter, finalizer, prune, quarantine, "
	     "cacheSyncTimeout, cache"},
	    {"rateLimiter: {basedelay: 1s}", 17,
	     "spec.rateLimiter: unknown key \"basedelay\": did you mean \"baseDelay\"? Allowed: baseDelay, "
	     "maxDelay, jitter, qps, burst"},
	    {"rateLimiter: {color: red}", 17,
	     "spec.rateLimiter: unknown key \"color\"; allowed: baseDelay, maxDelay, jitter, qps, burst"},
	};
	ROWS_ARE(rows);
}

Test(config, keys_of_the_contract_that_are_not_built)
{
	static const struct row rows[] = {
	    {"resyncPeriod: 10h", 3, "spec.resyncPeriod: not supported by this version: remove it"},
	    {"cache: {fields: [spec.a]}", 11, "spec.cache.fields: not supported by this version: remove it"},
	    {"watches: [{apiVersion: v1, kind: Pod, mapTo: {program: {command: [a]}}}]", 49,
	     "spec.watches[0].mapTo.program: not supported by this version: remove it"},
	};
	ROWS_ARE(rows);
	errors_are(HEAD FOR "  reconciler: {exec: {command: [a]}, credentials: kubeconfig}\n",
		   "c.yaml:6:51: error: spec.reconciler.credentials: kubeconfig is not supported by this "
		   "version; allowed: none\n");
	errors_are(
	    HEAD "  for: {apiVersion: v1, kind: Pod, predicates: [{program: {command: [a]}}]}\n" EXEC,
	    "c.yaml:5:50: error: spec.for.predicates[0].program: not supported by this version: remove it\n");
}

Test(config, all_errors_of_a_file_at_once_and_in_order)
{
	errors_are(
	    "apiVersion: reconciled.dev/v2\n"
	    "kind: Controler\n"
	    "metadata: {name: A}\n"
	    "spec:\n"
	    "  for: {apiVersion: V1, kind: configmaps, kind: ConfigMap}\n"
	    "  workers: four\n"
	    "  prune: yes\n"
	    "---\n"
	    "{}\n",
	    "c.yaml:1:13: error: apiVersion: found reconciled.dev/v2; allowed: reconciled.dev/v1alpha1\n"
	    "c.yaml:2:7: error: kind: found Controler; allowed: Controller\n"
	    "c.yaml:3:18: error: metadata.name: found A; allowed: a DNS label: a-z, 0-9 and -, at most 63 "
	    "characters, no dots\n"
	    "c.yaml:5:3: error: spec: \"reconciler\" is missing: the program\n"
	    "c.yaml:5:21: error: spec.for.apiVersion: found V1; allowed: an API version: v1, or "
	    "GROUP/VERSION as in apps/v1\n"
	    "c.yaml:5:31: error: spec.for.kind: found configmaps; allowed: a kind, as in ConfigMap (not its "
	    "plural or resource name)\n"
	    "c.yaml:5:43: error: spec.for: duplicate key \"kind\": it stands in line 5 already\n"
	    "c.yaml:6:12: error: spec.workers: found four; allowed: a whole number from 1 to 256\n"
	    "c.yaml:7:10: error: spec.prune: found yes; allowed: true or false; write true\n"
	    "c.yaml:9:1: error: \"apiVersion\" is missing: version of this format\n"
	    "c.yaml:9:1: error: \"kind\" is missing: what the document describes\n"
	    "c.yaml:9:1: error: \"metadata\" is missing: who the controller is\n"
	    "c.yaml:9:1: error: \"spec\" is missing: what it does\n");
}

Test(config, errors_of_one_file_are_bounded)
{
	struct buf yaml = {0};
	buf_puts(&yaml, BASE);
	for (int i = 0; i < 500; i++)
		buf_printf(&yaml, "  unknown%d: 1\n", i);
	struct config c = one(buf_str(&yaml));
	cr_expect_eq(c.errors.count, CONFIG_ERRORS_MAX + 1);
	cr_expect_str_eq(c.errors.at[CONFIG_ERRORS_MAX].text,
			 "too many errors in this file: the rest is not shown");
	buf_done(&yaml);
	config_done(&c);
}

Test(config, what_is_not_a_controller_file)
{
	errors_are("", "c.yaml: error: the file is empty: there is no controller in it\n");
	errors_are("# nothing\n---\n", "c.yaml: error: the file is empty: there is no controller in it\n");
	errors_are("- a\n", "c.yaml:1:1: error: found a list; allowed: a mapping\n");
	errors_are("a: [\n", "c.yaml:2:1: error: not valid YAML: did not find expected node content, while "
			     "parsing a flow node that begins in "
			     "line 2\n");
	errors_are(
	    "a: \xFF\n",
	    "c.yaml:1:4: error: not valid YAML: invalid leading UTF-8 octet; the file must be UTF-8 text\n");
	errors_are("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\nspec:\n" FOR EXEC,
		   "c.yaml:1:13: error: apiVersion: found v1; allowed: reconciled.dev/v1alpha1\n"
		   "c.yaml:2:7: error: kind: found ConfigMap; allowed: Controller\n");
}

Test(config, json_is_yaml)
{
	struct config all =
	    one("{\"apiVersion\":\"reconciled.dev/v1alpha1\",\"kind\":\"Controller\",\n"
		"\t\"metadata\":{\"name\":\"website\"},\"spec\":{\"for\":{\"apiVersion\":\"v1\",\"kind\":"
		"\"ConfigMap\"},\n"
		"\t\"reconciler\":{\"exec\":{\"command\":[\"./run\"]}},\"workers\":4,\"prune\":true}}");
	cr_expect_eq(only(&all)->workers, 4);
	config_done(&all);
}

/* ---- kinds ---- */

Test(config, namespaces_are_inherited_unless_written)
{
	struct config all =
	    one(HEAD "  for: {apiVersion: v1, kind: ConfigMap, namespaces: [b, a]}\n" EXEC "  owns:\n"
		     "  - {apiVersion: v1, kind: Secret}\n"
		     "  - {apiVersion: v1, kind: Pod, namespaces: [c]}\n"
		     "  - {apiVersion: v1, kind: Service, namespaces: ['*']}\n");
	const struct config_controller *c = only(&all);
	static const char *const tables[] = {"v1 ConfigMap ns=a,b", "v1 Secret ns=a,b metadata",
					     "v1 Pod ns=c", "v1 Service"};
	for (size_t i = 0; i < 4; i++) {
		char *table = config_table_name(&c->watches[i].kind);
		cr_expect_str_eq(table, tables[i]);
		free(table);
	}
	config_done(&all);
	static const struct row rows[] = {
	    {"owns: [{apiVersion: v1, kind: Pod, namespaces: []}]", 50,
	     "spec.owns[0].namespaces: found an empty list; allowed: at least one namespace; leave the key "
	     "out, or write [\"*\"], for all"},
	    {"owns: [{apiVersion: v1, kind: Pod, namespaces: [a, a]}]", 50,
	     "spec.owns[0].namespaces: the namespace \"a\" is named twice"},
	    {"owns: [{apiVersion: v1, kind: Pod, namespaces: a}]", 50,
	     "spec.owns[0].namespaces: found a; allowed: a list; write it in brackets: [...]"},
	};
	ROWS_ARE(rows);
}

Test(config, secrets_are_metadata_unless_written_out)
{
	struct config all = one(BASE "  owns:\n"
				     "  - {apiVersion: v1, kind: Secret}\n"
				     "  - {apiVersion: v1, kind: Secret, metadataOnly: false}\n"
				     "  - {apiVersion: example.com/v1, kind: Secret}\n"
				     "  - {apiVersion: v1, kind: Pod, metadataOnly: true}\n");
	const struct config_controller *c = only(&all);
	static const bool want[] = {false, true, false, false, true};
	for (size_t i = 0; i < 5; i++)
		cr_expect_eq(c->watches[i].kind.metadata_only, want[i], "%zu", i);
	config_done(&all);
	static const struct row rows[] = {
	    {"owns: [{apiVersion: v1, kind: Secret, predicates: [{Field: {path: data.a, changed: true}}]}]",
	     10,
	     "spec.owns[0]: the predicate on data.a sees nothing, because only metadata is cached; set "
	     "metadataOnly: false (Secrets need it "
	     "written out)"},
	    {"owns: [{apiVersion: v1, kind: Secret, predicates: [{Field: {path: metadata.labels.a, changed: "
	     "true}}]}]",
	     0, NULL},
	};
	ROWS_ARE(rows);
}

static void selector_is(const char *written, const char *want)
{
	char yaml[512];
	snprintf(yaml, sizeof(yaml), "%s  for: {apiVersion: v1, kind: Pod, labelSelector: %s}\n%s", HEAD,
		 written, EXEC);
	struct config all = one(yaml);
	cr_expect_str_eq(only(&all)->watches[0].kind.label_selector, want);
	config_done(&all);
}

Test(config, label_selectors_are_printed_one_way)
{
	selector_is("{matchLabels: {b: x, a: \"1\"}}", "a=1,b=x");
	selector_is("{matchExpressions: [{key: z, operator: In, values: [b, a]}, {key: a.b/y, operator: "
		    "NotIn, values: [c]}, "
		    "{key: x, operator: Exists}, {key: w, operator: DoesNotExist}]}",
		    "!w,a.b/y notin (c),x,z in (a,b)");
	selector_is("{matchExpressions: [{key: z, operator: Exists}], matchLabels: {a: b}}", "a=b,z");
	static const struct row rows[] = {
	    {"owns: [{apiVersion: v1, kind: Pod, labelSelector: {matchLabels: {v: 1.20}}}]", 71,
	     "spec.owns[0].labelSelector.matchLabels.v: found 1.20; allowed: a label's value: at most 63 of "
	     "A-Z, a-z, 0-9, -, _ and .; quote "
	     "it"},
	    {"owns: [{apiVersion: v1, kind: Pod, labelSelector: {}}]", 53,
	     "spec.owns[0].labelSelector: found an empty selector; leave the key out to select everything"},
	    {"owns: [{apiVersion: v1, kind: Pod, labelSelector: a=b}]", 53,
	     "spec.owns[0].labelSelector: found a=b; allowed: a mapping with matchLabels or "
	     "matchExpressions, or both"},
	    {"owns: [{apiVersion: v1, kind: Pod, labelSelector: {app: web}}]", 54,
	     "spec.owns[0].labelSelector: unknown key \"app\"; allowed: matchLabels, matchExpressions"},
	    {"owns: [{apiVersion: v1, kind: Pod, labelSelector: {matchExpressions: [{key: a, operator: "
	     "In}]}}]",
	     73, "spec.owns[0].labelSelector.matchExpressions[0]: values: In needs at least one"},
	    {"owns: [{apiVersion: v1, kind: Pod, labelSelector: {matchExpressions: [{key: a, operator: in, "
	     "values: [b]}]}}]",
	     73,
	     "spec.owns[0].labelSelector.matchExpressions[0]: operator: found \"in\"; allowed: In, NotIn, "
	     "Exists, DoesNotExist"},
	};
	ROWS_ARE(rows);
}

Test(config, map_to_is_exactly_one)
{
	static const struct row rows[] = {
	    {"watches: [{apiVersion: v1, kind: Pod}]", 13,
	     "spec.watches[0]: \"mapTo\" is missing: which keys a change reconciles"},
	    {"watches: [{apiVersion: v1, kind: Pod, mapTo: {}}]", 48,
	     "spec.watches[0].mapTo: found 0 keys; allowed: exactly one of index, label, annotation, owner, "
	     "all"},
	    {"watches: [{apiVersion: v1, kind: Pod, mapTo: {label: a, all: true}}]", 48,
	     "spec.watches[0].mapTo: found 2 keys; allowed: exactly one of index, label, annotation, owner, "
	     "all"},
	    {"watches: [{apiVersion: v1, kind: Pod, mapTo: {all: false}}]", 54,
	     "spec.watches[0].mapTo.all: found false; allowed: true (or another way to map)"},
	    {"watches: [{apiVersion: v1, kind: Pod, mapTo: {index: 'spec..a'}}]", 56,
	     "spec.watches[0].mapTo.index: found the text \"spec..a\"; allowed: a path into the `for` "
	     "object, as in spec.tlsSecretName"},
	    {"watches: [{apiVersion: v1, kind: Pod, mapTo: {owner: {kind: ReplicaSet}}}]", 56,
	     "spec.watches[0].mapTo.owner: \"apiVersion\" is missing: the owner's API version (its version "
	     "is ignored)"},
	};
	ROWS_ARE(rows);
}

/* ---- predicates ---- */

static struct config_controller *predicates(const char *written, struct config *all)
{
	char yaml[1024];
	snprintf(yaml, sizeof(yaml), "%s  for: {apiVersion: v1, kind: Pod, predicates: %s}\n%s", HEAD,
		 written, EXEC);
	*all = one(yaml);
	return only(all);
}

Test(config, predicates_of_every_shape)
{
	struct config all;
	const struct config_predicate *p =
	    &predicates("[LabelChanged, {not: AnnotationChanged}, {or: [GenerationChanged, [LabelChanged, "
			"{LabelSelector: {matchLabels: "
			"{a: b}}}]]}, {Field: {path: \"spec.x['a.b/c'][*].y\", in: [a, 1.20, True]}}, "
			"{Field: {path: spec.z, exists: "
			"false}}]",
			&all)
		 ->watches[0]
		 .predicates;
	cr_assert(p->type == PREDICATE_AND && p->count == 5);
	cr_expect(p->children[0].type == PREDICATE_LABEL_CHANGED);
	cr_expect(p->children[1].type == PREDICATE_NOT &&
		  p->children[1].children[0].type == PREDICATE_ANNOTATION_CHANGED);
	const struct config_predicate *and = &p->children[2].children[1];
	cr_expect(and->type == PREDICATE_AND && and->count == 2 &&
						    and->children[1].type == PREDICATE_LABEL_SELECTOR);
	cr_expect_str_eq(and->children[1].text, "a=b");
	cr_expect(p->children[3].op == FIELD_IN && !strcmp(p->children[3].values[1], "1.20") &&
		  !strcmp(p->children[3].values[2], "true"));
	cr_expect(p->children[4].op == FIELD_EXISTS && !p->children[4].wanted);
	config_done(&all);
	p = &predicates("[]", &all)->watches[0].predicates;
	cr_expect(all.controllers[0].watches[0].predicates_given && p->type == PREDICATE_AND &&
		  p->count == 0);
	config_done(&all);
}

#define PREDICATES                                                                                           \
	"GenerationChanged, ResourceVersionChanged, LabelChanged, AnnotationChanged, or a mapping with one " \
	"of or, not, LabelSelector, Field"

Test(config, predicates_that_are_wrong)
{
	static const struct row rows[] = {
	    {"owns: [{apiVersion: v1, kind: Pod, predicates: LabelChanged}]", 50,
	     "spec.owns[0].predicates: found LabelChanged; allowed: a list; write it in brackets: [...]"},
	    {"owns: [{apiVersion: v1, kind: Pod, predicates: [LabelsChanged]}]", 51,
	     "spec.owns[0].predicates[0]: unknown predicate \"LabelsChanged\": did you mean "
	     "\"LabelChanged\"? Allowed: " PREDICATES},
	    {"owns: [{apiVersion: v1, kind: Pod, predicates: [DefaultCustom]}]", 51,
	     "spec.owns[0].predicates[0]: found DefaultCustom; allowed: " PREDICATES},
	    {"owns: [{apiVersion: v1, kind: Pod, predicates: [PREDICATE_DEFAULT_CUSTOM]}]", 51,
	     "spec.owns[0].predicates[0]: found PREDICATE_DEFAULT_CUSTOM; allowed: " PREDICATES},
	    {"owns: [{apiVersion: v1, kind: Pod, predicates: [{or: []}]}]", 56,
	     "spec.owns[0].predicates[0].or: found an empty list, which nothing would pass; allowed: at "
	     "least one predicate"},
	    {"owns: [{apiVersion: v1, kind: Pod, predicates: [{field: {}}]}]", 52,
	     "spec.owns[0].predicates[0]: unknown predicate \"field\": did you mean \"Field\"?; "
	     "allowed: " PREDICATES},
	    {"owns: [{apiVersion: v1, kind: Pod, predicates: [{Field: {path: spec.a}}]}]", 59,
	     "spec.owns[0].predicates[0].Field: the test is missing; allowed: path and exactly one of in, "
	     "notIn, exists, changed"},
	    {"owns: [{apiVersion: v1, kind: Pod, predicates: [{Field: {path: spec.a, in: [x], exists: "
	     "true}}]}]",
	     59,
	     "spec.owns[0].predicates[0].Field: found more than one test; allowed: path and exactly one of "
	     "in, notIn, exists, changed"},
	    {"owns: [{apiVersion: v1, kind: Pod, predicates: [{Field: {path: spec.a, notin: [x]}}]}]", 74,
	     "spec.owns[0].predicates[0].Field: unknown key \"notin\": did you mean \"notIn\"?; allowed: "
	     "path and one of in, notIn, exists, "
	     "changed"},
	};
	ROWS_ARE(rows);
	char deep[400] = "owns: [{apiVersion: v1, kind: Pod, predicates: ";
	for (int i = 0; i < 20; i++)
		strcat(deep, "[");
	strcat(deep, "LabelChanged");
	for (int i = 0; i < 20; i++)
		strcat(deep, "]");
	strcat(deep, "}]");
	char want[300] = "spec.owns[0].predicates";
	for (int i = 0; i < 17; i++)
		strcat(want, "[0]");
	strcat(want, ": predicates are nested deeper than 16");
	const struct row row = {deep, 67, want};
	rows_are(&row, 1);
}

/* ---- the reconciler ---- */

static void reconciler_errors(const char *written, const char *want)
{
	char yaml[1024];
	snprintf(yaml, sizeof(yaml), "%s  reconciler: %s\n", HEAD FOR, written);
	errors_are(yaml, want);
}

Test(config, reconcilers_that_are_wrong)
{
	reconciler_errors("{}", "c.yaml:6:15: error: spec.reconciler: \"exec\" or \"coprocess\" is missing: "
				"the program to run\n");
	reconciler_errors("{exec: {command: [a]}, coprocess: {command: [b]}}",
			  "c.yaml:6:38: error: spec.reconciler.coprocess: exec and coprocess exclude each "
			  "other: keep one\n");
	reconciler_errors("{exec: {command: ./a}}", "c.yaml:6:32: error: spec.reconciler.exec.command: found "
						    "./a; allowed: a list; write it in brackets: [...]\n");
	reconciler_errors("{exec: {command: []}}", "c.yaml:6:32: error: spec.reconciler.exec.command: found "
						   "an empty list; allowed: at least 1 entry\n");
	reconciler_errors(
	    "{exec: {command: [sleep, 60]}}",
	    "c.yaml:6:40: error: spec.reconciler.exec.command[1]: found 60; allowed: a text; quote it\n");
	reconciler_errors("{exec: {command: ['']}}",
			  "c.yaml:6:22: error: spec.reconciler.exec: command: the program's name is empty\n");
	reconciler_errors(
	    "{exec: {command: [a], maxMemory: 1Gi}}",
	    "c.yaml:6:37: error: spec.reconciler.exec: unknown key \"maxMemory\"; allowed: command\n");
	reconciler_errors("{exec: {command: [a]}, network: Host}",
			  "c.yaml:6:47: error: spec.reconciler.network: found Host; allowed: none or host\n");
	reconciler_errors(
	    "{exec: {command: [a]}, env: {1A: x, B: 1, C: on, C: y}}",
	    "c.yaml:6:44: error: spec.reconciler.env.1A: allowed: a variable's name of A-Z, a-z, 0-9 and _, "
	    "not beginning with a "
	    "digit\n"
	    "c.yaml:6:54: error: spec.reconciler.env.B: found 1; allowed: a text; quote it\n"
	    "c.yaml:6:64: error: spec.reconciler.env.C: duplicate key: it stands in line 6 already\n");
	reconciler_errors("{exec: {command: [a]}, sandbox: {without: [seccom, net]}}",
			  "c.yaml:6:58: error: spec.reconciler.sandbox.without: found \"seccom\" (did you "
			  "mean \"seccomp\"?); allowed: user, pid, "
			  "mount, network, ipc, proc, seccomp\n"
			  "c.yaml:6:66: error: spec.reconciler.sandbox.without: found \"net\"; allowed: "
			  "user, pid, mount, network, ipc, proc, "
			  "seccomp\n");
	reconciler_errors(
	    "{exec: {command: [a]}, envFile: nowhere}",
	    "c.yaml:6:47: error: spec.reconciler.envFile: cannot read nowhere: No such file or directory\n");
}

Test(config, env_file_then_env)
{
	file_put("web.env", "# comment\n\nA=1\n  B=x = y # kept\r\nC=\nA=2\nQ=\"q\"\n");
	struct config all = one(
	    HEAD FOR "  reconciler: {exec: {command: [a]}, env: {C: three, D: \"4\"}, envFile: ./web.env}\n");
	static const char *const want[] = {"A=2", "B=x = y # kept", "C=three", "Q=\"q\"", "D=4"};
	char *const *env = only(&all)->reconciler.env;
	cr_assert_eq(texts_count(env), 5);
	for (size_t i = 0; i < 5; i++)
		cr_expect_str_eq(env[i], want[i]);
	char *errors = errors_of(&all);
	cr_expect_str_eq(
	    errors, "web.env:7:1: warning: the quotes are part of the value: nothing is unquoted here\n");
	free(errors);
	config_done(&all);
}

Test(config, env_file_errors_name_its_lines_and_no_values)
{
	file_put("web.env", "A=1\nsecret-without-name\nexport B=secret\n=secret\n");
	reconciler_errors("{exec: {command: [a]}, envFile: web.env}",
			  "web.env:2:1: error: allowed: NAME=VALUE, # comment, or an empty line\n"
			  "web.env:3:1: error: allowed before '=': a variable's name of A-Z, a-z, 0-9 and _, "
			  "without blanks or export\n"
			  "web.env:4:1: error: allowed before '=': a variable's name of A-Z, a-z, 0-9 and _, "
			  "without blanks or export\n");
}

Test(config, a_kubeconfig_in_the_controllers_folder_is_refused)
{
	static const char kubeconfig[] = "apiVersion: v1\nkind: Config\nclusters: []\n";
	char path[128];
	snprintf(path, sizeof(path), "%s/deep", folder);
	mkdir(path, 0700);
	static const char *const names[] = {"admin.conf", "deep/any.txt", "kubeconfig", "x.kubeconfig"};
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		char want[256];
		file_put(names[i], kubeconfig);
		snprintf(want, sizeof(want),
			 "c.yaml:1:1: error: the controller's folder holds a kubeconfig, %s: the reconciler "
			 "sees this folder, so move one of "
			 "them elsewhere\n",
			 names[i]);
		errors_are(BASE, want);
		snprintf(path, sizeof(path), "%s/%s", folder, names[i]);
		unlink(path);
	}
	file_put("config-map.yaml", "kind: ConfigMap\ndata: {clusters: x}\n");
	errors_are(BASE, "");
}

Test(config, finalizers_have_a_domain)
{
	static const struct row rows[] = {
	    {"finalizer: example.com/website", 0, NULL},
	    {"finalizer: website", 14,
	     "spec.finalizer: found website; allowed: a finalizer's name with a domain, as in "
	     "example.com/website"},
	};
	ROWS_ARE(rows);
	errors_are(HEAD "  for: {apiVersion: v1, kind: Pod, fieldSelector: spec.a=b}\n" EXEC
			"  finalizer: a.b/c\n",
		   "c.yaml:5:3: warning: spec.for: a finalizer together with a selector: an object that "
		   "leaves the selector while it carries "
		   "a.b/c is reconciled once more with finalizing: true, and keeps the finalizer until the "
		   "answer says finalized: true\n");
}

/* ---- folders ---- */

static const char named[] =
    "apiVersion: reconciled.dev/v1alpha1\nkind: Controller\nmetadata: {name: %s}\nspec:\n" FOR EXEC;

static void controller_put(const char *file, const char *name)
{
	char yaml[512];
	snprintf(yaml, sizeof(yaml),
		 "apiVersion: reconciled.dev/v1alpha1\nkind: Controller\nmetadata: {name: %s}\nspec:\n%s",
		 name, FOR EXEC);
	file_put(file, yaml);
}

Test(config, a_folder_is_all_its_files_sorted_by_controller)
{
	controller_put("1.yaml", "zoo");
	controller_put("2.yml", "bar");
	controller_put("3.json", "mid");
	controller_put(".hidden.yaml", "hidden");
	controller_put("note.txt", "note");
	file_put("4.yaml", "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\n");
	file_put("5.yaml",
		 "apiVersion: reconciled.dev/v1alpha1\nkind: Controller\nmetadata: {name: wrong}\n");
	struct config c = loaded("");
	cr_assert_eq(c.count, 3);
	cr_expect_str_eq(c.controllers[0].name, "bar");
	cr_expect_str_eq(c.controllers[2].name, "zoo");
	cr_expect_eq(config_find(&c, "mid"), &c.controllers[1]);
	cr_expect_null(config_find(&c, "wrong"));
	char *have = errors_of(&c);
	cr_expect_str_eq(have, "4.yaml:1:1: warning: CustomResourceDefinition apiextensions.k8s.io/v1 is no "
			       "controller: skipped\n"
			       "5.yaml:1:1: error: \"spec\" is missing: what it does\n");
	free(have);
	config_done(&c);
}

Test(config, names_are_unique_over_all_files)
{
	controller_put("a.yaml", "same");
	controller_put("b.yaml", "same");
	struct config c = loaded("");
	cr_expect_eq(c.count, 1);
	char *have = errors_of(&c);
	cr_expect_str_eq(have, "b.yaml:3:18: error: metadata.name: the name \"same\" is taken: a.yaml:3 has "
			       "a controller of this name\n");
	free(have);
	config_done(&c);
}

Test(config, controllers_d_and_reconciled_yaml)
{
	char path[128];
	snprintf(path, sizeof(path), "%s/controllers.d", folder);
	mkdir(path, 0700);
	controller_put("controllers.d/a.yaml", "inside");
	controller_put("outside.yaml", "outside");
	file_put("reconciled.yaml", "kubeconfig: kube/config\nbudgets: {queue: 64Mi}\nha: {mode: none}\n");
	struct config c = loaded("");
	cr_expect_str_eq(only(&c)->name, "inside");
	snprintf(path, sizeof(path), "%s/kube/config", folder);
	cr_expect_str_eq(c.main.kubeconfig, path);
	cr_expect(c.main.queue_budget == 64u << 20 && c.main.cache_budget == 1u << 30);
	config_done(&c);

	file_put("reconciled.yaml",
		 "kubeconfg: a\naddresses: {}\nha: {mode: leader, name: x}\nbudgets: {queue: 1}\n");
	c = loaded("");
	cr_expect_eq(c.count, 1); /* its controllers stand */
	char *have = errors_of(&c);
	cr_expect_str_eq(
	    have,
	    "reconciled.yaml:1:1: error: unknown key \"kubeconfg\": did you mean \"kubeconfig\"? Allowed: "
	    "kubeconfig, budgets, "
	    "ha\n"
	    "reconciled.yaml:2:1: error: addresses: not supported by this version: remove it\n"
	    "reconciled.yaml:3:12: error: ha.mode: leader is not supported by this version; allowed: none\n"
	    "reconciled.yaml:3:20: error: ha.name: not supported by this version: remove it\n"
	    "reconciled.yaml:4:18: error: budgets.queue: found 1; allowed: whole bytes from 8Mi to 2Gi, "
	    "written as 256Mi, 1Gi or "
	    "500M (upper and lower case matter)\n");
	free(have);
	config_done(&c);
}

Test(config, several_documents_fail_one_by_one)
{
	char yaml[2048];
	int n = snprintf(yaml, sizeof(yaml), named, "one");
	n += snprintf(yaml + n, sizeof(yaml) - (size_t)n, "---\n%s---\n", "kind: Controller\n");
	snprintf(yaml + n, sizeof(yaml) - (size_t)n, named, "three");
	struct config c = one(yaml);
	cr_expect_eq(c.count, 2);
	cr_expect_eq(c.errors.fatal, 3);
	config_done(&c);
}

Test(config, what_cannot_be_read)
{
	struct config c;
	struct err err = {0};
	char path[128];
	snprintf(path, sizeof(path), "%s/nowhere", folder);
	cr_expect_eq(config_load(path, &c, &err), -ENOENT);
	cr_expect(strstr(err.text, "cannot read the configuration"), "%s", err.text);
	snprintf(path, sizeof(path), "%s/pipe.yaml", folder);
	mkfifo(path, 0600);
	c = loaded("pipe.yaml");
	char *have = errors_of(&c);
	cr_expect_str_eq(have, "pipe.yaml: error: pipe.yaml is not a regular file\n");
	free(have);
	config_done(&c);
}

Test(config, the_digest_follows_what_is_parsed)
{
	static const struct {
		const char *line;
		bool same;
	} rows[] = {{"# a comment", true},
		    {"workers: 1", true},
		    {"workers: 2", false},
		    {"prune: false", true},
		    {"prune: true", false},
		    {"finalizer: a.b/c", false},
		    {"rateLimiter: {jitter: 0.2}", false}};
	struct config base = one(BASE);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		char yaml[512];
		snprintf(yaml, sizeof(yaml), "%s  %s\n", BASE, rows[i].line);
		struct config c = one(yaml);
		cr_expect_eq(strcmp(only(&c)->digest, base.controllers[0].digest) == 0, rows[i].same, "%s",
			     rows[i].line);
		config_done(&c);
	}
	config_done(&base);
	file_put("e", "A=1\n");
	base = one(HEAD FOR "  reconciler: {exec: {command: [a]}, envFile: e}\n");
	file_put("e", "A=2\n");
	struct config c = one(HEAD FOR "  reconciler: {exec: {command: [a]}, envFile: e}\n");
	cr_expect_str_neq(only(&c)->digest, only(&base)->digest);
	config_done(&c);
	config_done(&base);
}

/* ---- plain functions ---- */

Test(config_scalar, durations_as_go_reads_them)
{
	static const struct {
		const char *text;
		int code;
		int64_t ns;
	} rows[] = {{"0", 0, 0},
		    {"0s", 0, 0},
		    {"5ms", 0, 5000000},
		    {"1h30m", 0, INT64_C(5400000000000)},
		    {"1.5h", 0, INT64_C(5400000000000)},
		    {".5s", 0, 500000000},
		    {"1.s", 0, 1000000000},
		    {"100us", 0, 100000},
		    {"1\xC2\xB5s", 0, 1000},
		    {"1\xCE\xBCs", 0, 1000},
		    {"7ns", 0, 7},
		    {"2562047h47m16.854775807s", 0, INT64_MAX},
		    {"2562047h47m16.854775808s", -ERANGE, 0},
		    {"9999999h", -ERANGE, 0},
		    {"99999999999999999999s", -ERANGE, 0},
		    {"-1s", -ERANGE, 0},
		    {"", -EINVAL, 0},
		    {"1", -EINVAL, 0},
		    {"00", -EINVAL, 0},
		    {"s", -EINVAL, 0},
		    {".s", -EINVAL, 0},
		    {"1d", -EINVAL, 0},
		    {"1 s", -EINVAL, 0},
		    {" 1s", -EINVAL, 0},
		    {"1s ", -EINVAL, 0},
		    {"1M", -EINVAL, 0},
		    {"+1s", -EINVAL, 0}};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		int64_t ns = 0;
		cr_expect_eq(parse_duration(rows[i].text, &ns), rows[i].code, "%s", rows[i].text);
		cr_expect_eq(ns, rows[i].ns, "%s", rows[i].text);
	}
}

Test(config_scalar, quantities_as_kubernetes_reads_them)
{
	static const struct {
		const char *text;
		int code;
		uint64_t bytes;
	} rows[] = {{"0", 0, 0},	 {"1", 0, 1},		{"1k", 0, 1000},
		    {"1Ki", 0, 1024},	 {"1.5Ki", 0, 1536},	{"1E", 0, UINT64_C(1000000000000000000)},
		    {"1e3", 0, 1000},	 {"1E3", 0, 1000},	{"7Ei", 0, UINT64_C(7) << 60},
		    {"8Ei", -ERANGE, 0}, {"-1", -ERANGE, 0},	{"1K", -EINVAL, 0},
		    {"1mi", -EINVAL, 0}, {"1m", -EINVAL, 0},	{"1MB", -EINVAL, 0},
		    {"1.5", -EINVAL, 0}, {"1 Mi", -EINVAL, 0},	{"Mi", -EINVAL, 0},
		    {"1e", -EINVAL, 0},	 {"1e999", -EINVAL, 0}, {"", -EINVAL, 0}};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		uint64_t bytes = 0;
		cr_expect_eq(parse_quantity(rows[i].text, &bytes), rows[i].code, "%s", rows[i].text);
		cr_expect_eq(bytes, rows[i].bytes, "%s", rows[i].text);
	}
}

Test(config_scalar, durations_for_people)
{
	static const struct {
		int64_t ns;
		const char *text;
	} rows[] = {{0, "0s"},
		    {-5, "0s"},
		    {7, "7ns"},
		    {1500000, "1ms500us"},
		    {NS_PER_S * 90, "1m30s"},
		    {NS_PER_S * 3600, "1h"},
		    {NS_PER_S * 3601, "1h"},
		    {NS_PER_S * 1000, "16m40s"}};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		char text[32];
		cr_expect_str_eq(format_duration(rows[i].ns, text), rows[i].text);
	}
	char text[32];
	cr_expect_str_eq(format_quantity(256u << 20, text), "256Mi");
	cr_expect_str_eq(format_quantity(1000, text), "1000");
}

Test(config_scalar, guesses)
{
	static const char *const words[] = {"for", "owns", "watches", "workers", "metadataOnly", NULL};
	cr_expect_str_eq(config_did_you_mean("worker", words), "workers");
	cr_expect_str_eq(config_did_you_mean("own", words), "owns");
	cr_expect_str_eq(config_did_you_mean("METADATAONLY", words), "metadataOnly");
	cr_expect_str_eq(config_did_you_mean("wacthes", words), "watches");
	cr_expect_null(config_did_you_mean("x", words));
	cr_expect_null(config_did_you_mean("replicas", words));
	cr_expect_null(config_did_you_mean("a-very-long-word-that-nobody-would-write-here", words));
}
/* The page for users has a line "| `PATH` | type | default | ..." for every row of the table. */
Test(config_keys, the_page_names_every_key_with_its_default)
{
	const char *source = getenv("SRC");
	if (!source)
		cr_skip_test("SRC is not set: run by ctest");
	struct buf page = {0};
	struct err err;
	char path[512];
	snprintf(path, sizeof(path), "%s/docs/configuration.md", source);
	cr_assert_eq(config_file_read(path, &page, &err), 0, "%s", err.text);
	for (const struct config_key *k = config_keys; k->path; k++) {
		char row[256];
		const char *key = strncmp(k->path, "reconciled.", 11) == 0 ? k->path + 11 : k->path;
		snprintf(row, sizeof(row), "| `%s` |", key);
		const char *at = strstr(buf_str(&page), row);
		cr_expect_not_null(at, "docs/configuration.md has no row %s", row);
		if (!at)
			continue;
		char *line = strndup(at, strcspn(at, "\n")), fallback[64];
		snprintf(fallback, sizeof(fallback), "| `%s` |", k->fallback ? k->fallback : "");
		if (k->type == KEY_UNSUPPORTED)
			cr_expect(strstr(line, "not supported"), "%s", line);
		else if (k->fallback)
			cr_expect(strstr(line, fallback), "%s lacks its default %s", line, fallback);
		free(line);
	}
	buf_done(&page);
}
