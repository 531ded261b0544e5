/* Which events concern a controller: paths, objects as they are kept, predicates. */
#include "object_lib.h"
#include "watcher/predicate.h"

static struct err err;

/* ---- paths ---- */

static int join(void *ctx, struct span value)
{
	buf_span_add(ctx, value);
	buf_putc(ctx, ' ');
	return 0;
}

static void path_is(const char *path, const char *json, const char *values)
{
	struct path p;
	struct buf b = {0};
	cr_assert_eq(path_parse(path, &p, &err), 0, "%s", err.text);
	cr_assert_eq(path_each(&p, span_of(json), join, &b), 0);
	cr_assert_str_eq(buf_str(&b), values, "%s", path);
	buf_done(&b);
	path_done(&p);
}

Test(path, finds_values)
{
	path_is("spec.name", "{\"spec\":{\"name\":\"x\"}}", "\"x\" ");
	path_is("spec.name", "{\"spec\":{}}", "");
	path_is("spec.name", "{\"spec\":[{\"name\":\"x\"}]}", "");
	path_is("spec.name", "{\"spec\":{\"name\":null}}", "");
	path_is("spec.tls[*].secret", "{\"spec\":{\"tls\":[{\"secret\":\"a\"},{},{\"secret\":\"b\"}]}}",
		"\"a\" \"b\" ");
	path_is("spec.a[*][*]", "{\"spec\":{\"a\":[[1,2],3,[4]]}}", "1 2 4 ");
	path_is("metadata.annotations['a.b/c']", "{\"metadata\":{\"annotations\":{\"a.b/c\":\"v\"}}}",
		"\"v\" ");
	path_is("['odd key'].x", "{\"odd key\":{\"x\":1.20}}", "1.20 ");
	path_is("a[\"it's\"]", "{\"a\":{\"it's\":true}}", "true ");
}

Test(path, refuses_what_is_none)
{
	const char *const wrong[] = {"",      ".",     ".a",  "a.",  "a..b",  "a[",	 "a[]",	 "a[0]",
				     "a['']", "a['x'", "[*]", "a b", "a[*]b", "a['b']c", "a.[*]"};
	struct path p;
	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
		cr_assert_eq(path_parse(wrong[i], &p, &err), -EINVAL, "%s", wrong[i]);
		cr_assert(strstr(err.text, "character"), "%s", err.text);
	}
	_cleanup_(buf_done) struct buf deep = {0};
	for (int i = 0; i < 70; i++)
		buf_puts(&deep, i ? ".a" : "a");
	cr_assert_eq(path_parse(buf_str(&deep), &p, &err), -E2BIG);
}

/* ---- predicates ---- */

#define OBJECT(version, generation, labels, annotations, rest)                                               \
	read_object("{\"metadata\":{\"name\":\"a\",\"resourceVersion\":\"" version                           \
		    "\",\"generation\":" generation ",\"labels\":{" labels "},\"annotations\":{" annotations \
		    "}" rest "},\"spec\":{\"replicas\":" generation ",\"mode\":\"" version "\"}}")

static bool passes(enum config_predicate_type type, const struct object *a, const struct object *b)
{
	struct config_predicate c = {.type = type};
	struct predicate p;
	cr_assert_eq(predicate_init(&p, &c, &err), 0);
	bool passed = predicate_passes(&p, a, b);
	predicate_done(&p);
	return passed;
}

Test(predicate, changes_filter_updates_only)
{
	const enum config_predicate_type types[] = {
	    PREDICATE_GENERATION_CHANGED, PREDICATE_RESOURCE_VERSION_CHANGED, PREDICATE_LABEL_CHANGED,
	    PREDICATE_ANNOTATION_CHANGED, PREDICATE_DEFAULT_CUSTOM};
	struct object a = OBJECT("1", "1", "", "", ""), same = OBJECT("1", "1", "", "", ""),
		      version = OBJECT("2", "1", "", "", "");
	struct object generation = OBJECT("2", "2", "", "", ""),
		      label = OBJECT("2", "1", "\"x\":\"y\"", "", "");
	struct object annotation = OBJECT("2", "1", "", "\"x\":\"y\"", ""),
		      finalizer = OBJECT("2", "1", "", "", ",\"finalizers\":[\"f/f\"]");
	struct object deleted = OBJECT("2", "1", "", "", ",\"deletionTimestamp\":\"2026-01-01T00:00:00Z\"");
	const struct {
		const struct object *to;
		bool want[5];
	} rows[] = {{&same, {0, 0, 0, 0, 0}},	    {&version, {0, 1, 0, 0, 0}},
		    {&generation, {1, 1, 0, 0, 1}}, {&label, {0, 1, 1, 0, 1}},
		    {&annotation, {0, 1, 0, 1, 1}}, {&finalizer, {0, 1, 0, 0, 1}},
		    {&deleted, {0, 1, 0, 0, 1}}};
	for (size_t t = 0; t < ARRAY_SIZE(types); t++) {
		for (size_t r = 0; r < ARRAY_SIZE(rows); r++)
			cr_assert_eq(passes(types[t], &a, rows[r].to), rows[r].want[t], "type %zu row %zu", t,
				     r);
		cr_assert(passes(types[t], NULL, &a) && passes(types[t], &a, NULL));
	}
}

Test(predicate, generation_changed_drops_updates_of_kinds_without_one)
{
	struct object a = read_object("{\"metadata\":{\"name\":\"a\",\"resourceVersion\":\"1\"}}");
	struct object b = read_object("{\"metadata\":{\"name\":\"a\",\"resourceVersion\":\"2\"}}");
	cr_assert(!passes(PREDICATE_GENERATION_CHANGED, &a, &b));
	cr_assert(passes(PREDICATE_RESOURCE_VERSION_CHANGED, &a, &b));
}

Test(predicate, and_or_not)
{
	struct config_predicate changed[] = {{.type = PREDICATE_GENERATION_CHANGED},
					     {.type = PREDICATE_LABEL_CHANGED}};
	struct config_predicate any = {.type = PREDICATE_OR, .children = changed, .count = 2};
	struct config_predicate all = {.type = PREDICATE_AND, .children = changed, .count = 2};
	struct config_predicate none = {.type = PREDICATE_NOT, .children = &any, .count = 1};
	struct object a = OBJECT("1", "1", "", "", ""), g = OBJECT("2", "2", "", "", ""),
		      gl = OBJECT("2", "2", "\"x\":\"\"", "", "");
	struct predicate p[3];
	const struct config_predicate *c[] = {&any, &all, &none};
	for (int i = 0; i < 3; i++)
		cr_assert_eq(predicate_init(&p[i], c[i], &err), 0);
	cr_assert(predicate_passes(&p[0], &a, &g) && !predicate_passes(&p[1], &a, &g) &&
		  !predicate_passes(&p[2], &a, &g));
	cr_assert(predicate_passes(&p[1], &a, &gl));
	cr_assert(!predicate_passes(&p[0], &a, &a) && predicate_passes(&p[2], &a, &a));
	cr_assert(!predicate_passes(&p[2], NULL, &a)); /* not turns creates around too */
	for (int i = 0; i < 3; i++)
		predicate_done(&p[i]);
}

static bool field(enum config_field_op op, const char *path, bool wanted, char **values,
		  const struct object *a, const struct object *b)
{
	struct config_predicate c = {
	    .type = PREDICATE_FIELD, .op = op, .text = (char *)path, .wanted = wanted, .values = values};
	struct predicate p;
	cr_assert_eq(predicate_init(&p, &c, &err), 0, "%s", err.text);
	bool passed = predicate_passes(&p, a, b);
	predicate_done(&p);
	return passed;
}

Test(predicate, field)
{
	struct object a = OBJECT("1", "1", "\"tier\":\"web\"", "", ""),
		      b = OBJECT("2", "2", "\"tier\":\"db\"", "", "");
	char *one[] = {"1", "x", NULL}, *web[] = {"web", NULL};
	cr_assert(field(FIELD_IN, "spec.replicas", true, one, NULL, &a));
	cr_assert(!field(FIELD_IN, "spec.replicas", true, one, &a, &b)); /* the new object counts */
	cr_assert(field(FIELD_IN, "metadata.labels.tier", true, web, &a, NULL));
	cr_assert(!field(FIELD_IN, "spec.absent", true, one, NULL, &a));
	cr_assert(field(FIELD_NOT_IN, "spec.absent", true, one, NULL, &a));
	cr_assert(field(FIELD_NOT_IN, "spec.replicas", true, one, &a, &b) &&
		  !field(FIELD_NOT_IN, "spec.replicas", true, one, &b, &a));
	cr_assert(field(FIELD_EXISTS, "spec.mode", true, NULL, NULL, &a) &&
		  !field(FIELD_EXISTS, "spec.mode", false, NULL, NULL, &a));
	cr_assert(field(FIELD_EXISTS, "spec.none", false, NULL, NULL, &a) &&
		  !field(FIELD_EXISTS, "spec.none", true, NULL, NULL, &a));
	cr_assert(field(FIELD_CHANGED, "spec.replicas", true, NULL, &a, &b) &&
		  !field(FIELD_CHANGED, "metadata.name", true, NULL, &a, &b));
	cr_assert(field(FIELD_CHANGED, "metadata.name", false, NULL, &a, &b));
	cr_assert(field(FIELD_CHANGED, "spec.replicas", true, NULL, NULL, &a) &&
		  field(FIELD_CHANGED, "spec.replicas", true, NULL, &a, NULL));
}

Test(predicate, label_selector)
{
	struct config_predicate c = {.type = PREDICATE_LABEL_SELECTOR, .text = "tier=web"};
	struct predicate p;
	struct object web = OBJECT("1", "1", "\"tier\":\"web\"", "", ""),
		      db = OBJECT("2", "1", "\"tier\":\"db\"", "", "");
	struct object none = read_object("{\"metadata\":{\"name\":\"a\"}}");
	cr_assert_eq(predicate_init(&p, &c, &err), 0);
	cr_assert(predicate_passes(&p, NULL, &web) && !predicate_passes(&p, NULL, &db) &&
		  !predicate_passes(&p, NULL, &none));
	cr_assert(!predicate_passes(&p, &web, &db) && predicate_passes(&p, &db, &web) &&
		  predicate_passes(&p, &web, NULL));
	predicate_done(&p);
	c.text = "a in (";
	cr_assert_eq(predicate_init(&p, &c, &err), -EINVAL);
}

/* A sweep asks no object where this says yes, so it must never say yes of one that an object could fail. */
Test(predicate, passes_creates_of_any_object)
{
	struct config_predicate web = {.type = PREDICATE_LABEL_SELECTOR, .text = "tier=web"},
				changed = {.type = PREDICATE_GENERATION_CHANGED},
				path = {.type = PREDICATE_FIELD,
					.text = "spec.mode",
					.op = FIELD_CHANGED,
					.wanted = false};
	const struct {
		enum config_predicate_type type;
		struct config_predicate children[2];
		size_t count;
		bool all;
	} cases[] = {{PREDICATE_AND, {changed, path}, 2, true}, {PREDICATE_AND, {changed, web}, 2, false},
		     {PREDICATE_AND, {{0}}, 0, true},		{PREDICATE_OR, {web, changed}, 2, true},
		     {PREDICATE_OR, {web, web}, 2, false},	{PREDICATE_OR, {{0}}, 0, false},
		     {PREDICATE_NOT, {changed}, 1, false},	{PREDICATE_NOT, {web}, 1, false}};
	struct object db = OBJECT("2", "1", "\"tier\":\"db\"", "", "");
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct config_predicate c = {.type = cases[i].type,
					     .children = (struct config_predicate *)cases[i].children,
					     .count = cases[i].count};
		struct predicate p;
		cr_assert_eq(predicate_init(&p, &c, &err), 0, "%s", err.text);
		cr_assert_eq(predicate_passes_creates(&p), cases[i].all, "%zu", i);
		cr_assert(!cases[i].all || predicate_passes(&p, NULL, &db), "%zu", i);
		predicate_done(&p);
	}
	struct predicate p;
	for (int custom = 0; custom < 2; custom++) {
		predicate_init_default(&p, custom);
		cr_assert(predicate_passes_creates(&p));
		predicate_done(&p);
	}
}
/* ---- edges ---- */

Test(predicate, empty_lists)
{
	struct config_predicate none = {.type = PREDICATE_OR}, all = {.type = PREDICATE_AND},
				not_none = {.type = PREDICATE_NOT, .children = &none, .count = 1};
	struct object a = OBJECT("1", "1", "", "", "");
	const struct {
		const struct config_predicate *config;
		bool passes;
	} rows[] = {{&none, false}, {&all, true}, {&not_none, true}};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct predicate p;
		cr_assert_eq(predicate_init(&p, rows[i].config, &err), 0);
		cr_expect(predicate_passes(&p, NULL, &a) == rows[i].passes &&
			      predicate_passes(&p, &a, &a) == rows[i].passes &&
			      predicate_passes(&p, &a, NULL) == rows[i].passes,
			  "row %zu", i);
		cr_expect(!predicate_passes(&p, NULL, NULL)); /* no object, no event */
		predicate_done(&p);
	}
}

Test(predicate, not_turns_creates_updates_and_deletes_around)
{
	char *values[] = {"1", NULL};
	struct config_predicate in = {.type = PREDICATE_FIELD,
				      .op = FIELD_IN,
				      .text = (char *)"spec.replicas",
				      .values = values},
				not = {.type = PREDICATE_NOT, .children = &in, .count = 1};
	struct object one = OBJECT("1", "1", "", "", ""), two = OBJECT("2", "2", "", "", "");
	struct predicate p;
	cr_assert_eq(predicate_init(&p, &not, &err), 0);
	cr_expect(!predicate_passes(&p, NULL, &one) && predicate_passes(&p, NULL, &two));
	cr_expect(!predicate_passes(&p, &two, &one) && predicate_passes(&p, &one, &two));
	cr_expect(!predicate_passes(&p, &one, NULL) && predicate_passes(&p, &two, NULL));
	predicate_done(&p);
}

Test(predicate, fields_with_missing_values)
{
	struct object with = read_object("{\"metadata\":{\"name\":\"a\"},\"spec\":{\"x\":\"v\",\"n\":null,"
					 "\"list\":[{\"k\":\"v\"},{}]}}"),
		      without = read_object("{\"metadata\":{\"name\":\"a\"}}");
	char *v[] = {"v", NULL}, *null[] = {"null", NULL};
	/* Appearing and disappearing is a change; absent in both is none. */
	cr_expect(field(FIELD_CHANGED, "spec.x", true, NULL, &without, &with) &&
		  field(FIELD_CHANGED, "spec.x", true, NULL, &with, &without));
	cr_expect(!field(FIELD_CHANGED, "spec.y", true, NULL, &without, &with) &&
		  field(FIELD_CHANGED, "spec.y", false, NULL, &without, &with));
	/* null is as good as absent. */
	cr_expect(!field(FIELD_EXISTS, "spec.n", true, NULL, NULL, &with) &&
		  field(FIELD_EXISTS, "spec.n", false, NULL, NULL, &with));
	cr_expect(!field(FIELD_IN, "spec.n", true, null, NULL, &with) &&
		  !field(FIELD_CHANGED, "spec.n", true, NULL, &with, &without));
	/* in and notIn are each other's opposite, whatever is missing, on the new object or the one that goes. */
	const char *const paths[] = {
	    "spec.x", "spec.y", "spec.n", "spec.list[*].k", "spec.list[*].none", "spec.x.deeper"};
	for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
		cr_expect(field(FIELD_IN, paths[i], true, v, NULL, &with) !=
			      field(FIELD_NOT_IN, paths[i], true, v, NULL, &with),
			  "%s", paths[i]);
		cr_expect(!field(FIELD_IN, paths[i], true, v, &with, &without) &&
			      field(FIELD_NOT_IN, paths[i], true, v, &with, &without),
			  "%s", paths[i]);
		cr_expect(!field(FIELD_IN, paths[i], true, v, &without, NULL) &&
			      field(FIELD_NOT_IN, paths[i], true, v, &without, NULL),
			  "%s", paths[i]);
	}
	cr_expect(field(FIELD_IN, "spec.list[*].k", true, v, NULL, &with)); /* one of them is enough */
	cr_expect(field(FIELD_EXISTS, "spec.list[*].k", true, NULL, &with, NULL) &&
		  !field(FIELD_EXISTS, "spec.x", true, NULL, &with, &without));
}

Test(predicate, label_selector_without_labels)
{
	static const struct {
		const char *selector;
		bool none, null, other;
	} rows[] = {{"tier=web", false, false, false},	    {"!tier", true, true, true},
		    {"tier", false, false, false},	    {"tier!=web", true, true, true},
		    {"tier notin (web)", true, true, true}, {"a=b", false, false, true}};
	struct object none = read_object("{\"metadata\":{\"name\":\"a\"}}"),
		      null = read_object("{\"metadata\":{\"name\":\"a\",\"labels\":null}}"),
		      other = read_object("{\"metadata\":{\"name\":\"a\",\"labels\":{\"a\":\"b\"}}}");
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct config_predicate c = {.type = PREDICATE_LABEL_SELECTOR,
					     .text = (char *)(uintptr_t)rows[i].selector};
		struct predicate p;
		cr_assert_eq(predicate_init(&p, &c, &err), 0, "%s", err.text);
		cr_expect(predicate_passes(&p, NULL, &none) == rows[i].none &&
			      predicate_passes(&p, &other, &null) == rows[i].null &&
			      predicate_passes(&p, &other, NULL) == rows[i].other,
			  "%s", rows[i].selector);
		predicate_done(&p);
	}
}

/* ---- programs ---- */

/* [GenerationChanged, {or: [{program: 0}, {not: {program: 1}}]}] */
static struct config_program programs[2];
static struct config_predicate leaves[] = {{.type = PREDICATE_PROGRAM, .program = &programs[0]},
					   {.type = PREDICATE_PROGRAM, .program = &programs[1]}};
static struct config_predicate negated = {.type = PREDICATE_NOT, .children = &leaves[1], .count = 1};

Test(predicate, programs_are_asked_when_nothing_else_decides)
{
	struct config_predicate any[] = {leaves[0], negated},
				list[] = {{.type = PREDICATE_OR, .children = any, .count = 2},
					  {.type = PREDICATE_GENERATION_CHANGED}},
				top = {.type = PREDICATE_AND, .children = list, .count = 2};
	struct object a = OBJECT("1", "1", "", "", ""), same = OBJECT("2", "1", "", "", ""),
		      changed = OBJECT("2", "2", "", "", "");
	struct predicate p;
	unsigned program = 9;
	cr_assert_eq(predicate_init(&p, &top, &err), 0);
	cr_assert_eq(p.programs, 2);
	cr_assert(predicate_program(&p, 0) == &programs[0] && predicate_program(&p, 1) == &programs[1] &&
		  !predicate_program(&p, 2));
	/* What stands behind it in the list spares the question. */
	cr_assert(predicate_judge(&p, &a, &same, NULL, &program) == VERDICT_NO);
	cr_assert(predicate_judge(&p, &a, &changed, NULL, &program) == VERDICT_ASK && program == 0);
	cr_assert(predicate_judge(&p, NULL, &a, NULL, &program) == VERDICT_ASK &&
		  predicate_judge(&p, &a, NULL, NULL, &program) == VERDICT_ASK);
	static const struct {
		struct predicate_answers answers;
		enum verdict verdict;
		unsigned program;
	} rows[] = {{{0, 0}, VERDICT_ASK, 0}, {{1, 1}, VERDICT_YES, 0}, {{1, 0}, VERDICT_ASK, 1},
		    {{3, 0}, VERDICT_YES, 0}, {{3, 2}, VERDICT_NO, 0},	{{3, 3}, VERDICT_YES, 0},
		    {{2, 0}, VERDICT_YES, 0}};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		cr_expect_eq(predicate_judge(&p, &a, &changed, &rows[i].answers, &program), rows[i].verdict,
			     "row %zu", i);
		cr_expect(rows[i].verdict != VERDICT_ASK || program == rows[i].program, "row %zu", i);
	}
	predicate_done(&p);
}
