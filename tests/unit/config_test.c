#include "config_lib.h"

TestSuite(config, .init = folder_make, .fini = folder_remove);

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
	    {"workers: {min: 0, max: 8}", 0, NULL},
	    {"workers: {min: 8, max: 8}", 0, NULL},
	    {"workers: {min: 9, max: 8}", 12,
	     "spec.workers: found min 9 above max 8; allowed: min is at most max"},
	    {"workers: {min: 1}", 12,
	     "spec.workers: \"max\" is missing: processes to start; those that are not needed sleep"},
	    {"workers: {min: 0, max: 0}", 26, "spec.workers.max: found 0" WORKERS},
	    {"workers: {min: 1, max: 2, mx: 3}", 29,
	     "spec.workers: unknown key \"mx\": did you mean \"max\"? Allowed: min, max"},
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
	    {"resyncPeriod: 0s", 17,
	     "spec.resyncPeriod: found 0s; allowed: a duration from 1s to 8760h, written as 500ms, 30s, 5m "
	     "or 1h30m"},
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
	     "maxConcurrentReconciles, reconciliationTimeout, rateLimiter, resyncPeriod, stormGuard, "
	     "finalizer, prune, "
	     "quarantine, "
	     "cacheSyncTimeout, cache"},
	    {"rateLimiter: {basedelay: 1s}", 17,
	     "spec.rateLimiter: unknown key \"basedelay\": did you mean \"baseDelay\"? Allowed: baseDelay, "
	     "maxDelay, jitter, qps, burst"},
	    {"rateLimiter: {color: red}", 17,
	     "spec.rateLimiter: unknown key \"color\"; allowed: baseDelay, maxDelay, jitter, qps, burst"},
	};
	ROWS_ARE(rows);
}

/* Credentials need a way to the API server, and open it. */
Test(config, credentials)
{
	static const char *const values[] = {"none", "kubeconfig"};
	for (int given = 0; given < 2; given++) {
		_cleanup_(free_ptr) char *yaml = xasprintf(
		    HEAD FOR "  reconciler: {exec: {command: [./run]}, credentials: %s}\n", values[given]);
		struct config c = one(yaml);
		const struct config_reconciler *r = &only(&c)->reconciler;
		cr_expect(r->kubeconfig == given && r->network_host == given);
		config_done(&c);
	}
	errors_are(
	    HEAD FOR "  reconciler: {exec: {command: [./run]}, credentials: kubeconfig, network: none}\n",
	    "c.yaml:6:76: error: spec.reconciler.network: none together with credentials: kubeconfig, which "
	    "need a way to the API server; allowed: host\n");
	errors_are(
	    HEAD FOR "  reconciler: {exec: {command: [./run]}, credentials: token}\n",
	    "c.yaml:6:55: error: spec.reconciler.credentials: found token; allowed: none or kubeconfig\n");
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
