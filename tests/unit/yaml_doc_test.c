#include "yaml_doc.h"
#include <criterion/criterion.h>
#include <stdio.h>

static struct yaml_doc *parsed(const char *text)
{
	struct yaml_doc *d = NULL;
	struct err err = {0};
	size_t line = 0, column = 0;
	int c = yaml_doc_parse(span_of(text), &d, &line, &column, &err);
	cr_assert_eq(c, 0, "%zu:%zu: %s", line, column, err.text);
	return d;
}

static void json_is(const char *yaml, const char *json)
{
	struct yaml_doc *d = parsed(yaml);
	struct buf b = {0};
	for (struct yaml_doc *one = d; one; one = one->next) {
		if (one != d)
			buf_putc(&b, ' ');
		yaml_doc_to_json(one->root, &b);
	}
	cr_expect_str_eq(buf_str(&b), json);
	buf_done(&b);
	yaml_doc_free(d);
}

static void refused_span(struct span text, size_t want_line, size_t want_column, const char *want)
{
	struct yaml_doc *d = NULL;
	struct err err = {0};
	size_t line = 99, column = 99;
	cr_expect_eq(yaml_doc_parse(text, &d, &line, &column, &err), -EINVAL, "accepted: %.*s", (int)text.len,
		     text.at);
	cr_expect_null(d);
	cr_expect(line == want_line && column == want_column, "%zu:%zu instead of %zu:%zu for %s", line,
		  column, want_line, want_column, want);
	cr_expect(strstr(err.text, want), "\"%s\" does not say \"%s\"", err.text, want);
}

static void refused(const char *text, size_t line, size_t column, const char *want)
{
	refused_span(span_of(text), line, column, want);
}

Test(yaml_doc, plain_values_mean_what_json_writes_alike)
{
	json_is("[true, True, TRUE, false, null, ~, 12, -3, 1.5, 1e3, 1.20, 9007199254740993]",
		"[true,true,true,false,null,null,12,-3,1.5,1e3,1.20,9007199254740993]");
}

Test(yaml_doc, what_only_yaml_1_1_or_go_would_convert_stays_text)
{
	json_is("[yes, on, Off, n, 010, 0o4, 0x4, 1_0, .5, 4., +1, 2024-01-02, 1:30, .inf, 1.2.3]",
		"[\"yes\",\"on\",\"Off\",\"n\",\"010\",\"0o4\",\"0x4\",\"1_0\",\".5\",\"4.\",\"+1\",\"2024-"
		"01-02\","
		"\"1:30\",\".inf\",\"1.2.3\"]");
}

Test(yaml_doc, quoted_and_block_scalars_are_text)
{
	json_is("a: \"1\"\nb: 'true'\nc: |\n  null\nd: !!str 12\ne: ! 13\n",
		"{\"a\":\"1\",\"b\":\"true\",\"c\":\"null\\n\",\"d\":\"12\",\"e\":\"13\"}");
}

Test(yaml_doc, json_with_tabs_and_escapes)
{
	json_is("{\n\t\"a\":\"x\\/y\\u002dz\",\n\t\"b\":[1,2],\"c\":{}}",
		"{\"a\":\"x/y-z\",\"b\":[1,2],\"c\":{}}");
}

Test(yaml_doc, byte_order_mark_and_crlf)
{
	json_is("\xEF\xBB\xBF"
		"a: 1\r\nb:\r\n- x\r\n- y z\r\n",
		"{\"a\":1,\"b\":[\"x\",\"y z\"]}");
}

Test(yaml_doc, several_documents_and_empty_ones)
{
	json_is("a: 1\n---\nb: 2\n---\n---\nc: 3\n", "{\"a\":1} {\"b\":2} null {\"c\":3}");
	json_is("", "null");
	json_is("# only a comment\n", "null");
	struct yaml_doc *d = parsed("");
	cr_assert_not_null(d);
	cr_expect_null(d->root);
	yaml_doc_free(d);
}

Test(yaml_doc, lines_and_columns_count_from_one_in_characters)
{
	struct yaml_doc *d = parsed("a: 1\n\xC3\xA4: {b: x,  c: [y]}\n");
	struct yaml_doc_node *n = d->root->child->next;
	cr_expect(n->key->line == 2 && n->key->column == 1);
	n = yaml_doc_get(n, "c");
	cr_expect(n->key->line == 2 && n->key->column == 12, "%zu:%zu", n->key->line, n->key->column);
	cr_expect(n->child->line == 2 && n->child->column == 16, "%zu:%zu", n->child->line, n->child->column);
	yaml_doc_free(d);
}

Test(yaml_doc, anchors_are_copies_at_the_aliases_place)
{
	json_is("a: &x {k: [1, 2]}\nb: *x\nc: &x 5\nd: *x\n",
		"{\"a\":{\"k\":[1,2]},\"b\":{\"k\":[1,2]},\"c\":5,\"d\":5}");
	struct yaml_doc *d = parsed("a: &x [1]\nb: *x\n");
	struct yaml_doc_node *b = yaml_doc_get(d->root, "b");
	cr_expect(b->line == 2 && b->child->line == 2);
	yaml_doc_free(d);
}

Test(yaml_doc, anchors_do_not_reach_other_documents)
{
	refused("a: &x 1\n---\nb: *x\n", 3, 4, "*x names no anchor");
}

Test(yaml_doc, an_alias_inside_its_own_anchor_is_refused)
{
	refused("a: &x [1, *x]\n", 1, 11, "must be complete");
}

Test(yaml_doc, an_alias_bomb_is_refused_early)
{
	struct buf b = {0};
	buf_puts(&b, "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n");
	for (int i = 1; i < 12; i++) {
		buf_printf(&b, "a%d: &a%d [", i, i);
		for (int k = 0; k < 10; k++)
			buf_printf(&b, "%s*a%d", k ? "," : "", i - 1);
		buf_puts(&b, "]\n");
	}
	struct yaml_doc *d = NULL;
	struct err err = {0};
	size_t line = 0, column = 0;
	cr_expect_eq(yaml_doc_parse(buf_span(&b), &d, &line, &column, &err), -EINVAL);
	cr_expect(strstr(err.text, "more than 200000 values"), "%s", err.text);
	cr_expect_eq(line, 6);
	buf_done(&b);
}

Test(yaml_doc, depth_is_bounded)
{
	char deep[201] = {0};
	memset(deep, '[', 200);
	refused(deep, 1, 66, "nested deeper than 64 levels");
	/* by aliases, too */
	struct buf b = {0};
	buf_puts(&b, "a0: &a0 [x]\n");
	for (int i = 1; i < 70; i++)
		buf_printf(&b, "a%d: &a%d [*a%d]\n", i, i, i - 1);
	struct yaml_doc *d = NULL;
	struct err err = {0};
	size_t line = 0, column = 0;
	cr_expect_eq(yaml_doc_parse(buf_span(&b), &d, &line, &column, &err), -EINVAL);
	cr_expect(strstr(err.text, "nested deeper"), "%s", err.text);
	buf_done(&b);
}

Test(yaml_doc, what_is_refused_says_where)
{
	refused("a: 1\nb: 2\na: 3\n", 3, 1, "duplicate key \"a\": it stands in line 1 already");
	refused("a:\n  <<: {b: 1}\n", 2, 3, "merge keys (<<) are not supported");
	refused("? [a]\n: 1\n", 1, 3, "a key must be a plain text");
	refused("a: \"x\\0y\"\n", 1, 4, "NUL character");
	refused("a: !custom x\n", 1, 4, "the tag !custom is not known");
	refused("a: !!timestamp 2024-01-02\n", 1, 4, "is not known here");
	refused("a: {b: 1\nc: 2\n", 2, 2, "not valid YAML");
	refused("a:\n\t- b\n", 2, 1, "tabs cannot indent");
	refused("a: @b\n", 1, 4, "found character that cannot start any token");
	refused("a: 1\nb: \xFF\n", 2, 4, "must be UTF-8");
}

Test(yaml_doc, a_text_that_is_too_long_is_refused)
{
	struct span huge = {"", (size_t)YAML_DOC_MAX + 1};
	refused_span(huge, 0, 0, "bytes are too many");
}

Test(yaml_doc, quoted_merge_key_is_a_key)
{
	json_is("\"<<\": 1\n", "{\"<<\":1}");
}

Test(yaml_doc, lenient_keeps_and_marks_duplicates)
{
	struct yaml_doc *d = NULL;
	struct err err = {0};
	size_t line = 0, column = 0;
	cr_assert_eq(yaml_doc_parse_lenient(span_of("a: 1\nb: 2\na: 3\na: 4\n"), &d, &line, &column, &err),
		     0);
	struct yaml_doc_node *n = d->root->child;
	cr_expect(!n->duplicate && !n->next->duplicate && n->next->next->duplicate &&
		  n->next->next->next->duplicate);
	cr_expect_str_eq(yaml_doc_get(d->root, "a")->text, "1");
	yaml_doc_free(d);
}

Test(yaml_doc, binary_is_marked)
{
	struct yaml_doc *d = parsed("a: !!binary |\n  QUJD\n");
	cr_expect(d->root->child->binary && d->root->child->quoted);
	yaml_doc_free(d);
}

Test(yaml_doc, lookups_take_anything)
{
	struct yaml_doc *d = parsed("- 1\n");
	cr_expect_null(yaml_doc_get(d->root, "a"));
	cr_expect_null(yaml_doc_get(NULL, "a"));
	cr_expect(yaml_doc_is_null(NULL));
	cr_expect(!yaml_doc_is_null(d->root));
	yaml_doc_free(d);
	yaml_doc_free(NULL);
}
