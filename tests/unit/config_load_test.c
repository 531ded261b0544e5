#include "config_lib.h"

TestSuite(config_load, .init = folder_make, .fini = folder_remove);

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

Test(config_load, a_folder_is_all_its_files_sorted_by_controller)
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

Test(config_load, names_are_unique_over_all_files)
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

Test(config_load, controllers_d_and_reconciled_yaml)
{
	char path[128];
	snprintf(path, sizeof(path), "%s/controllers.d", folder);
	mkdir(path, 0700);
	controller_put("controllers.d/a.yaml", "inside");
	program_put("controllers.d/run", 0755);
	controller_put("outside.yaml", "outside");
	file_put("reconciled.yaml", "kubeconfig: kube/config\nbudgets: {queue: 64Mi}\nha: {mode: none}\n");
	struct config c = loaded("");
	cr_expect_str_eq(only(&c)->name, "inside");
	snprintf(path, sizeof(path), "%s/kube/config", folder);
	cr_expect_str_eq(c.main.kubeconfig, path);
	cr_expect(c.main.queue_budget == 64u << 20 && c.main.cache_budget == 1u << 30);
	config_done(&c);

	file_put("reconciled.yaml",
		 "kubeconfg: a\naddresses: {}\nha: {mode: shard, name: x}\nbudgets: {queue: 1}\n");
	c = loaded("");
	cr_expect_eq(c.count, 1); /* its controllers stand */
	char *have = errors_of(&c);
	cr_expect_str_eq(
	    have,
	    "reconciled.yaml:1:1: error: unknown key \"kubeconfg\": did you mean \"kubeconfig\"? Allowed: "
	    "kubeconfig, budgets, maxConcurrentReconciles, "
	    "ha\n"
	    "reconciled.yaml:2:1: error: addresses: not supported by this version: remove it\n"
	    "reconciled.yaml:3:12: error: ha.mode: shard is not supported by this version; allowed: none, "
	    "leader\n"
	    "reconciled.yaml:4:18: error: budgets.queue: found 1; allowed: whole bytes from 8Mi to 2Gi, "
	    "written as 256Mi, 1Gi or "
	    "500M (upper and lower case matter)\n");
	free(have);
	cr_expect(c.main.wrong);
	config_done(&c);
}

Test(config_load, who_leads_is_by_the_lease_that_is_named)
{
	file_put("reconciled.yaml", "ha: {mode: leader, namespace: kube-system, name: my.lock}\n");
	struct config c = loaded("");
	const struct config_ha *ha = &c.main.ha;
	cr_expect(ha->leader && !c.main.wrong);
	cr_expect_str_eq(ha->namespace, "kube-system");
	cr_expect_str_eq(ha->name, "my.lock");
	cr_expect(ha->lease_duration_ns == 15 * NS_PER_S && ha->renew_deadline_ns == 10 * NS_PER_S &&
		  ha->retry_period_ns == 2 * NS_PER_S);
	config_done(&c);
	file_put("reconciled.yaml", "maxConcurrentReconciles: 3\n");
	c = loaded("");
	cr_expect(!c.main.ha.leader && !c.main.wrong);
	config_done(&c);
}

Test(config_load, what_a_lease_cannot_be)
{
	static const struct {
		const char *ha, *error;
	} rows[] = {
	    {"mode: leader", "ha: \"namespace\" is missing: with mode: leader the Lease must be named"},
	    {"mode: leader, namespace: a",
	     "ha: \"name\" is missing: with mode: leader the Lease must be named"},
	    {"mode: leader, namespace: a.b, name: c", "ha.namespace: found a.b; allowed: a namespace"},
	    {"mode: leader, namespace: a, name: C", "ha.name: found C; allowed: a Lease's name"},
	    {"mode: leder", "ha.mode: found leder; allowed: none or leader"},
	    {"mode: leader, namespace: a, name: b, leaseDuration: 15500ms",
	     "ha: found leaseDuration 15s500ms; allowed: whole seconds, as a Lease counts them"},
	    {"mode: leader, namespace: a, name: b, leaseDuration: 11s",
	     "ha: found leaseDuration 11s and renewDeadline 10s; allowed: renewDeadline at least 2s below "
	     "leaseDuration, in which attempts are ended before another host begins"},
	    {"mode: leader, namespace: a, name: b, renewDeadline: 2400ms",
	     "ha: found renewDeadline 2s400ms and retryPeriod 2s; allowed: renewDeadline above 1.2 times "
	     "retryPeriod, so that a renewal can be tried again"},
	    {"mode: leader, namespace: a, name: b, retryPeriod: 0s",
	     "ha.retryPeriod: found 0s; allowed: a duration from 50ms to 1h, written as"},
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		char text[256];
		snprintf(text, sizeof(text), "ha: {%s}\n", rows[i].ha);
		file_put("reconciled.yaml", text);
		struct config c = loaded("");
		char *have = errors_of(&c);
		cr_expect_not_null(strstr(have, rows[i].error), "%s: %s", rows[i].ha, have);
		cr_expect(c.main.wrong);
		free(have);
		config_done(&c);
	}
	/* A file that cannot be read at all may say that another host leads, too. */
	file_put("reconciled.yaml", "ha: {mode: leader\n");
	struct config c = loaded("");
	cr_expect(c.main.wrong);
	config_done(&c);
}

Test(config_load, several_documents_fail_one_by_one)
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

Test(config_load, what_cannot_be_read)
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

Test(config_load, the_digest_follows_what_is_parsed)
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

/* The page for users has a line "| `PATH` | type | default | ..." for every row of the table. */
Test(config_load, the_page_names_every_key_with_its_default)
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
