#include "config_lib.h"

TestSuite(config_kinds, .init = folder_make, .fini = folder_remove);

/* ---- kinds ---- */

Test(config_kinds, namespaces_are_inherited_unless_written)
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

Test(config_kinds, secrets_are_metadata_unless_written_out)
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

Test(config_kinds, label_selectors_are_printed_one_way)
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
	    {"owns: [{apiVersion: v1, kind: Pod, labelSelector: null}]", 53,
	     "spec.owns[0].labelSelector: found nothing (null); allowed: a mapping with matchLabels or "
	     "matchExpressions, or both"},
	    {"owns: [{apiVersion: v1, kind: Pod, matchLabels: {a: b}}]", 38,
	     "spec.owns[0]: unknown key \"matchLabels\"; allowed: apiVersion, kind, namespaces, "
	     "labelSelector, "
	     "fieldSelector, metadataOnly, predicates, matchEveryOwner"},
	    {"owns: [{apiVersion: v1, kind: Pod, labelSelector: {matchLabels: {\"a b\": x}}}]", 68,
	     "spec.owns[0].labelSelector.matchLabels.a b: allowed: a label's name, as in app or "
	     "example.com/app"},
	    {"owns: [{apiVersion: v1, kind: Pod, labelSelector: {matchExpressions: [{key: a, operator: In, "
	     "values: "
	     "[]}]}}]",
	     73, "spec.owns[0].labelSelector.matchExpressions[0]: values: In needs at least one"},
	    {"owns: [{apiVersion: v1, kind: Pod, labelSelector: {matchExpressions: [{key: a, operator: "
	     "Exists, "
	     "values: [x]}]}}]",
	     73, "spec.owns[0].labelSelector.matchExpressions[0]: values: not allowed with Exists"},
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

Test(config_kinds, an_empty_selector_selects_everything_and_is_warned_of)
{
	static const char *const empty[] = {"{}", "{matchLabels: {}}", "{matchExpressions: []}"};
	for (size_t i = 0; i < ARRAY_SIZE(empty); i++) {
		char yaml[512];
		snprintf(yaml, sizeof(yaml),
			 "%s  for: {apiVersion: v1, kind: Pod, labelSelector: %s, predicates: "
			 "[{LabelSelector: %s}]}\n%s",
			 HEAD, empty[i], empty[i], EXEC);
		struct config all = one(yaml);
		cr_expect(all.errors.count == 2 && !all.errors.fatal, "%s", empty[i]);
		cr_expect_not_null(
		    strstr(all.errors.at[0].text, "selector selects everything, as if it were left out"));
		cr_expect_null(only(&all)->watches[0].kind.label_selector);
		config_done(&all);
	}
}

Test(config_kinds, map_to_is_exactly_one)
{
	static const struct row rows[] = {
	    {"watches: [{apiVersion: v1, kind: Pod}]", 13,
	     "spec.watches[0]: \"mapTo\" is missing: which keys a change reconciles"},
	    {"watches: [{apiVersion: v1, kind: Pod, mapTo: {}}]", 48,
	     "spec.watches[0].mapTo: found 0 keys; allowed: exactly one of index, label, annotation, owner, "
	     "all, program"},
	    {"watches: [{apiVersion: v1, kind: Pod, mapTo: {label: a, all: true}}]", 48,
	     "spec.watches[0].mapTo: found 2 keys; allowed: exactly one of index, label, annotation, owner, "
	     "all, program"},
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

Test(config_kinds, predicates_of_every_shape)
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
	"of or, not, LabelSelector, Field, program"

Test(config_kinds, programs)
{
	struct config all;
	const struct config_predicate *p =
	    &predicates("[{or: [LabelChanged, {program: {command: [/bin/a, b], timeout: 2s}}]}]", &all)
		 ->watches[0]
		 .predicates;
	const struct config_program *program = p->children[0].children[1].program;
	cr_assert(p->children[0].children[1].type == PREDICATE_PROGRAM && program);
	cr_expect(!strcmp(program->command[0], "/bin/a") && !strcmp(program->command[1], "b") &&
		  !program->command[2]);
	cr_expect(program->timeout_ns == 2 * NS_PER_S && program->startup_timeout_ns == 10 * NS_PER_S &&
		  program->max_memory == UINT64_C(256) << 20);
	config_done(&all);
}

Test(config_kinds, programs_that_are_wrong)
{
	static const struct row rows[] = {
	    {"watches: [{apiVersion: v1, kind: Pod, mapTo: {program: {}}}]", 58,
	     "spec.watches[0].mapTo.program: \"command\" is missing: program and arguments, no shell"},
	    {"watches: [{apiVersion: v1, kind: Pod, mapTo: {program: {command: []}}}]", 68,
	     "spec.watches[0].mapTo.program.command: found an empty list; allowed: at least 1 entry"},
	    {"watches: [{apiVersion: v1, kind: Pod, mapTo: {program: {command: [a], network: host}}}]", 73,
	     "spec.watches[0].mapTo.program: unknown key \"network\"; allowed: command, startupTimeout, "
	     "timeout, maxMemory"},
	    {"watches: [{apiVersion: v1, kind: Pod, mapTo: {program: {command: [a], timeout: 0s}}}]", 82,
	     "spec.watches[0].mapTo.program.timeout: found 0s; allowed: a duration from 100ms to 1h, written "
	     "as 500ms, 30s, 5m or 1h30m"},
	    {"owns: [{apiVersion: v1, kind: Pod, predicates: [{program: {command: [a], maxMemory: 1Mi}}]}]",
	     87,
	     "spec.owns[0].predicates[0].program.maxMemory: found 1Mi; allowed: whole bytes from 16Mi to "
	     "1Ti, written as 256Mi, 1Gi or 500M "
	     "(upper and lower case matter)"},
	    {"owns: [{apiVersion: v1, kind: Pod, predicates: [{program: a}]}]", 61,
	     "spec.owns[0].predicates[0].program: found a; allowed: a mapping"},
	    {"owns: [{apiVersion: v1, kind: Pod, predicates: [{program: {command: [\"\"]}}]}]", 61,
	     "spec.owns[0].predicates[0].program: command: the program's name is empty"},
	};
	ROWS_ARE(rows);
}

Test(config_kinds, so_many_programs_and_no_more)
{
	_cleanup_(buf_done) struct buf b = {0};
	struct config all;
	for (int i = 0; i < CONFIG_PROGRAMS_MAX; i++)
		buf_printf(&b, "%s{program: {command: [/bin/a]}}", i ? ", " : "[");
	_cleanup_(free_ptr) char *just = xasprintf("%s]", buf_str(&b)),
				 *more = xasprintf("%s, {program: {command: [/bin/a]}}]", buf_str(&b));
	cr_expect_eq(predicates(just, &all)->watches[0].predicates.count, CONFIG_PROGRAMS_MAX);
	config_done(&all);
	_cleanup_(free_ptr) char *text =
	    xasprintf(HEAD "  for: {apiVersion: v1, kind: Pod, predicates: %s}\n" EXEC, more);
	all = one(text);
	_cleanup_(free_ptr) char *said = errors_of(&all);
	cr_expect(all.errors.fatal == 1 &&
		      strstr(said,
			     "spec.for.predicates[16].program: more than 16 programs in the predicates and "
			     "maps of one controller"),
		  "%s", said);
	config_done(&all);
}

Test(config_kinds, predicates_that_are_wrong)
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

Test(config_kinds, reconcilers_that_are_wrong)
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

Test(config_kinds, env_file_then_env)
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

Test(config_kinds, env_file_errors_name_its_lines_and_no_values)
{
	file_put("web.env", "A=1\nsecret-without-name\nexport B=secret\n=secret\n");
	reconciler_errors("{exec: {command: [a]}, envFile: web.env}",
			  "web.env:2:1: error: allowed: NAME=VALUE, # comment, or an empty line\n"
			  "web.env:3:1: error: allowed before '=': a variable's name of A-Z, a-z, 0-9 and _, "
			  "without blanks or export\n"
			  "web.env:4:1: error: allowed before '=': a variable's name of A-Z, a-z, 0-9 and _, "
			  "without blanks or export\n");
}

Test(config_kinds, a_kubeconfig_in_the_controllers_folder_is_refused)
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

Test(config_kinds, finalizers_have_a_domain)
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

Test(config_kinds, related_without_what_a_program_maps_draws_a_warning)
{
#define MAPS                                                                                                 \
	HEAD "  for: {apiVersion: v1, kind: Pod}\n" EXEC                                                     \
	     "  watches: [{apiVersion: v1, kind: Service, mapTo: {program: {command: [sh]}}}]\n"
	errors_are(MAPS "  input: {related: false}\n", "");
	errors_are(MAPS "  input: {related: true}\n",
		   "c.yaml:8:20: warning: spec.input.related: without the objects of Service: which of them "
		   "lead to a "
		   "key only the program of mapTo knows; a coprocess can ask for them with Get and List\n");
}

#define COMMAND "spec.reconciler.exec.command[0]: "

Test(config_kinds, programs_that_cannot_be_started_draw_a_warning)
{
	char path[128], want[512], text[512];
	snprintf(path, sizeof(path), "%s/sub", folder);
	mkdir(path, 0700);
	program_put("sub/run", 0755);
	program_put("plain", 0644);
	program_put("outside", 0755);
	static const struct {
		const char *command, *more, *want;
	} rows[] = {
	    {"run", "", NULL},
	    {"./run", "", NULL},
	    {"/bin/sh", "", NULL},
	    {"./nowhere", "", "the program cannot be started: sub/nowhere: No such file or directory"},
	    {"../sub", "", "the program cannot be started: sub/../sub is no regular file"},
	    {"../plain", "", "the program cannot be started: no right to execute it; chmod +x sub/../plain"},
	    {"../outside", "",
	     "the program is not seen in the sandbox, where /tmp is empty: name outside in "
	     "sandbox.readOnlyPaths"},
	    {"../outside", ", sandbox: {readOnlyPaths: [..]}", NULL},
	    {"../outside", ", sandbox: {without: [mount]}", NULL},
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		snprintf(text, sizeof(text), "%s  reconciler: {exec: {command: [%s]}%s}\n", HEAD FOR,
			 rows[i].command, rows[i].more);
		file_put("sub/c.yaml", text);
		*want = 0;
		if (rows[i].want)
			snprintf(want, sizeof(want), "sub/c.yaml:6:33: warning: " COMMAND "%s\n",
				 rows[i].want);
		struct config c = loaded("sub/c.yaml");
		char *have = errors_of(&c);
		cr_expect_str_eq(have, want, "%s: %s", rows[i].command, have);
		free(have);
		config_done(&c);
	}
}

static void tables_are(struct config *all, const char *const *tables, size_t n)
{
	const struct config_controller *c = only(all);
	cr_assert_eq(c->watch_count, n);
	for (size_t i = 0; i < n; i++) {
		char *table = config_table_name(&c->watches[i].kind);
		cr_expect_str_eq(table, tables[i]);
		free(table);
	}
	config_done(all);
}

Test(config_kinds, fields_are_of_all_that_is_not_owned)
{
	struct config all = one(BASE "  owns: [{apiVersion: apps/v1, kind: Deployment}]\n"
				     "  watches:\n"
				     "  - {apiVersion: v1, kind: Pod, mapTo: {index: spec.pod}, predicates: "
				     "[{Field: {path: status.phase, exists: true}}]}\n"
				     "  - {apiVersion: v1, kind: Secret, mapTo: {all: true}}\n"
				     "  cache: {fields: [\"spec['pod']\", spec.b.c, \"spec.x[*].y\", spec.b, "
				     "metadata.name, spec.b, status]}\n");
	static const char *const tables[] = {"v1 ConfigMap keep=spec.b,spec.pod,spec.x[*].y",
					     "apps/v1 Deployment", "v1 Pod keep=spec.b,spec.pod,spec.x[*].y",
					     "v1 Secret metadata"};
	tables_are(&all, tables, ARRAY_SIZE(tables));
	all = one(BASE "  cache: {fields: [status.phase]}\n");
	static const char *const nothing_else[] = {"v1 ConfigMap keep="};
	tables_are(&all, nothing_else, 1);
	all = one(BASE "  cache: {fields: []}\n");
	static const char *const everything[] = {"v1 ConfigMap"};
	tables_are(&all, everything, 1);
}

Test(config_kinds, fields_that_are_wrong)
{
	static const struct row rows[] = {
	    {"cache: {fields: spec.a}", 19,
	     "spec.cache.fields: found spec.a; allowed: a list; write it in brackets: [...]"},
	    {"cache: {fields: [spec.a, a..b]}", 28,
	     "spec.cache.fields[1]: found a..b; allowed: a path, as in spec.title or spec.nodes[*].name"},
	};
	ROWS_ARE(rows);
	errors_are(
	    BASE "  watches: [{apiVersion: v1, kind: Pod, mapTo: {index: spec.pod}}]\n"
		 "  cache: {fields: [spec.po]}\n",
	    "c.yaml:8:19: error: spec.cache.fields: mapTo.index reads spec.pod, which is left out: add it\n");
	errors_are(
	    BASE
	    "  watches: [{apiVersion: v1, kind: Pod, mapTo: {all: true}, predicates: [{or: [{Field: {path: "
	    "spec.a, exists: true}}]}]}]\n"
	    "  cache: {fields: [spec.a.b]}\n",
	    "c.yaml:8:19: error: spec.cache.fields: a predicate looks at spec.a, which is left out: add "
	    "it\n");
}
