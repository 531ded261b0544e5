#include "doc.h"
#include <criterion/criterion.h>

static struct doc *d;

static void setup(void)
{
	d = doc_new();
}
static void teardown(void)
{
	doc_free(d);
}
TestSuite(doc_apply, .init = setup, .fini = teardown);

/* JSON with ' for ", to be read. */
static struct doc_node *parse(const char *text)
{
	struct buf quoted = {0};
	for (; *text; text++)
		buf_putc(&quoted, *text == '\'' ? '"' : *text);
	struct doc_node *n = NULL;
	struct err err = {0};
	cr_assert_eq(doc_parse(d, buf_span(&quoted), &n, &err), 0, "%s: %s", buf_str(&quoted), err.text);
	buf_done(&quoted);
	return n;
}

static void expect_print(const struct doc_node *n, const char *expected)
{
	struct buf out = {0}, quoted = {0};
	doc_print(n, &out);
	doc_print(parse(expected), &quoted);
	cr_expect_str_eq(buf_str(&out), buf_str(&quoted));
	buf_done(&out);
	buf_done(&quoted);
}

/* A server in small: what is live, and who owns what. */
struct manager {
	struct doc_node *fields;
};

static struct doc_node *apply(struct doc_node *live, struct manager *who, struct manager *other,
			      const char *config)
{
	struct doc_node *c = parse(config);
	const struct doc_node *others[] = {other ? other->fields : NULL};
	live = doc_apply(d, live, c, who->fields, others, other && other->fields ? 1 : 0);
	who->fields = doc_field_set(d, c);
	return live;
}

static void expect_keys(const char *path, const char *expected)
{
	struct span keys[16];
	size_t depth = 0;
	for (const char *at = path; *at; at += *at == '/') {
		keys[depth++] = (struct span){at, strcspn(at, "/")};
		at += strcspn(at, "/");
	}
	const char *const *found = doc_list_keys(keys, depth);
	struct buf got = {0};
	for (size_t i = 0; found && found[i]; i++)
		buf_printf(&got, "%s%s", i ? "," : "", *found[i] ? found[i] : "(set)");
	cr_expect_str_eq(buf_str(&got), expected, "%s: %s", path, buf_str(&got));
	buf_done(&got);
}

Test(doc_apply, which_lists_have_keys)
{
	expect_keys("metadata/finalizers", "(set)");
	expect_keys("metadata/ownerReferences", "uid");
	expect_keys("status/conditions", "type");
	expect_keys("spec/ports", "port,protocol");
	expect_keys("secrets", "name");
	expect_keys("spec/containers", "name");
	expect_keys("spec/template/spec/containers", "name");
	expect_keys("spec/jobTemplate/spec/template/spec/initContainers", "name");
	expect_keys("template/spec/volumes", "name");
	expect_keys("spec/template/spec/containers/ports", "containerPort,protocol");
	expect_keys("spec/template/spec/containers/env", "name");
	expect_keys("spec/template/spec/initContainers/volumeMounts", "mountPath");
	expect_keys("spec/template/spec/containers/resources/claims", "name");
	expect_keys("spec/template/spec/containers/envFrom", "");
	expect_keys("spec/template/spec/containers/command", "");
	expect_keys("spec/template/spec/tolerations", "");
	expect_keys("spec/template/spec/env", "");
	expect_keys("spec/rules", "");
	expect_keys("spec", "");
	expect_keys("", "");
	expect_keys("conditions", "");
	expect_keys("status/conditions/x", "");
}

Test(doc_apply, field_set_has_the_form_of_fieldsV1)
{
	expect_print(
	    doc_field_set(
		d, parse("{'apiVersion':'v1','kind':'ConfigMap','metadata':{'name':'a','namespace':'b'},"
			 "'data':{'k':'v','a.b':'c'}}")),
	    "{'f:data':{'f:k':{},'f:a.b':{}}}");
	expect_print(
	    doc_field_set(
		d,
		parse("{'metadata':{'uid':'u','resourceVersion':'1','labels':{'x':'y'},'finalizers':['a/b'],"
		      "'ownerReferences':[{'uid':'o','kind':'K'}]},'spec':{}}")),
	    "{'f:metadata':{'f:labels':{'f:x':{}},'f:finalizers':{'v:\\'a/b\\'':{}},"
	    "'f:ownerReferences':{'k:{\\'uid\\':\\'o\\'}':{'.':{},'f:uid':{},'f:kind':{}}}},'f:spec':{}}");
	expect_print(
	    doc_field_set(
		d,
		parse(
		    "{'spec':{'selector':{'matchLabels':{'a':'b'}},'replicas':1,'none':null,'args':[{'x':1}],"
		    "'template':{'spec':{'containers':[{'name':'c','image':'i','ports':[{'containerPort':80}]"
		    "}]}}}}")),
	    "{'f:spec':{'f:selector':{},'f:replicas':{},'f:args':{},'f:template':{'f:spec':{'f:containers':"
	    "{'k:{\\'name\\':\\'c\\'}':{'.':{},'f:name':{},'f:image':{},'f:ports':"
	    "{'k:{\\'containerPort\\':80,\\'protocol\\':\\'TCP\\'}':{'.':{},'f:containerPort':{}}}}}}}}}");
}

Test(doc_apply, creates_and_leaves_nulls_out)
{
	struct manager us = {NULL};
	expect_print(apply(NULL, &us, NULL, "{'kind':'X','spec':{'a':null,'b':{'c':null},'l':[1]}}"),
		     "{'kind':'X','spec':{'b':{},'l':[1]}}");
}

Test(doc_apply, what_the_manager_drops_goes_and_the_rest_stays)
{
	struct manager us = {NULL};
	struct doc_node *live = parse("{'data':{'theirs':'1'},'status':{'x':1}}");
	live = apply(live, &us, NULL, "{'data':{'a':'1','b':'2'},'extra':{'only':'ours'},'scalar':1}");
	expect_print(
	    live,
	    "{'data':{'theirs':'1','a':'1','b':'2'},'status':{'x':1},'extra':{'only':'ours'},'scalar':1}");
	live = apply(live, &us, NULL, "{'data':{'b':'3'}}");
	expect_print(live, "{'data':{'theirs':'1','b':'3'},'status':{'x':1}}");
	live = apply(live, &us, NULL, "{}");
	expect_print(live, "{'data':{'theirs':'1'},'status':{'x':1}}");
}

Test(doc_apply, of_two_managers_the_last_to_let_go_removes)
{
	struct manager a = {NULL}, b = {NULL};
	struct doc_node *live = apply(NULL, &a, NULL, "{'spec':{'x':1,'y':{'z':2}}}");
	live = apply(live, &b, &a, "{'spec':{'x':5,'y':{'z':2,'w':3}}}");
	expect_print(live, "{'spec':{'x':5,'y':{'z':2,'w':3}}}");
	live = apply(live, &a, &b, "{'spec':{}}");
	expect_print(live, "{'spec':{'x':5,'y':{'z':2,'w':3}}}");
	live = apply(live, &b, &a, "{'spec':{'y':{'w':3}}}");
	expect_print(live, "{'spec':{'y':{'w':3}}}");
}

Test(doc_apply, lists_with_keys_merge_item_by_item)
{
	struct manager us = {NULL}, sidecar = {NULL};
	struct doc_node *live = apply(NULL, &us, NULL,
				      "{'spec':{'containers':[{'name':'a','image':'1','env':[{'name':'X','"
				      "value':'1'}]},{'name':'b'}]}}");
	live = apply(live, &sidecar, &us,
		     "{'spec':{'containers':[{'name':'proxy','image':'p'},{'name':'a','tty':true}]}}");
	live = apply(live, &us, &sidecar,
		     "{'spec':{'containers':[{'name':'a','image':'2','env':[{'name':'Y','value':'2'}]},{'"
		     "name':'c'}]}}");
	/* b went as a whole; a keeps what the other set; the proxy is where it was put. */
	expect_print(live,
		     "{'spec':{'containers':[{'name':'proxy','image':'p'},"
		     "{'name':'a','image':'2','env':[{'name':'Y','value':'2'}],'tty':true},{'name':'c'}]}}");
	/* Ours let go of a: its name stays, since the item is another's too. */
	live = apply(live, &us, &sidecar, "{'spec':{'containers':[{'name':'c'}]}}");
	expect_print(
	    live,
	    "{'spec':{'containers':[{'name':'proxy','image':'p'},{'name':'a','tty':true},{'name':'c'}]}}");
	/* And a second time nothing changes. */
	struct doc_node *before = doc_copy(d, live);
	live = apply(live, &us, &sidecar, "{'spec':{'containers':[{'name':'c'}]}}");
	cr_assert(doc_equal(live, before));
}

Test(doc_apply, an_items_key_survives_when_only_a_field_of_it_is_anothers)
{
	struct manager us = {NULL},
		       editor = {
			   parse("{'f:spec':{'f:containers':{'k:{\\'name\\':\\'a\\'}':{'f:image':{}}}}}")};
	struct doc_node *live =
	    apply(NULL, &us, &editor, "{'spec':{'containers':[{'name':'a','image':'1','tty':true}]}}");
	live = apply(live, &us, &editor, "{'spec':{'containers':[{'name':'b'}]}}");
	expect_print(live, "{'spec':{'containers':[{'name':'a','image':'1'},{'name':'b'}]}}");
}

Test(doc_apply, keys_of_two_parts_and_their_default)
{
	struct manager us = {NULL};
	struct doc_node *live = apply(parse("{'spec':{'ports':[{'port':80,'protocol':'TCP','nodePort':30080},"
					    "{'port':80,'protocol':'UDP'}]}}"),
				      &us, NULL, "{'spec':{'ports':[{'port':80,'name':'http'}]}}");
	expect_print(live, "{'spec':{'ports':[{'port':80,'protocol':'TCP','nodePort':30080,'name':'http'},{'"
			   "port':80,'protocol':'UDP'}]}}");
}

Test(doc_apply, sets_merge_and_shrink)
{
	struct manager us = {NULL}, they = {NULL};
	struct doc_node *live = apply(NULL, &us, NULL, "{'metadata':{'finalizers':['a','b']}}");
	live = apply(live, &they, &us, "{'metadata':{'finalizers':['c','b']}}");
	expect_print(live, "{'metadata':{'finalizers':['a','c','b']}}");
	live = apply(live, &us, &they, "{}");
	expect_print(live, "{'metadata':{'finalizers':['c','b']}}");
	live = apply(live, &they, &us, "{'metadata':{'finalizers':[]}}");
	expect_print(live, "{'metadata':{'finalizers':[]}}");
}

Test(doc_apply, other_lists_and_selectors_are_one_value)
{
	struct manager us = {NULL};
	struct doc_node *live = parse("{'spec':{'args':[1,2,3],'selector':{'app':'x','more':'y'}}}");
	live = apply(live, &us, NULL, "{'spec':{'args':[4],'selector':{'app':'z'}}}");
	expect_print(live, "{'spec':{'args':[4],'selector':{'app':'z'}}}");
}

Test(doc_apply, a_list_that_breaks_its_keys_is_one_value)
{
	static const char *const odd[] = {
	    "{'spec':{'containers':[{'image':'no name'}]}}",
	    "{'spec':{'containers':[{'name':'twice'},{'name':'twice'}]}}",
	    "{'spec':{'containers':['text']}}",
	    "{'spec':{'containers':[{'name':{'a':1}}]}}",
	    "{'spec':{'containers':[null]}}",
	    "{'spec':{'containers':{}}}",
	    "{'spec':{'containers':'text'}}",
	};
	for (size_t i = 0; i < ARRAY_SIZE(odd); i++) {
		struct manager us = {NULL};
		struct doc_node *live =
		    apply(parse("{'spec':{'containers':[{'name':'a'}]}}"), &us, NULL, odd[i]);
		expect_print(live, odd[i]);
		live = apply(live, &us, NULL, "{'spec':{'containers':[{'name':'b'}]}}");
		expect_print(live, "{'spec':{'containers':[{'name':'b'}]}}");
		live = apply(live, &us, NULL, odd[i]);
		expect_print(live, odd[i]);
	}
}

Test(doc_apply, a_change_of_type_replaces)
{
	struct manager us = {NULL};
	struct doc_node *live = apply(NULL, &us, NULL, "{'a':{'b':1},'c':1}");
	live = apply(live, &us, NULL, "{'a':1,'c':{'d':1}}");
	expect_print(live, "{'a':1,'c':{'d':1}}");
	live = apply(live, &us, NULL, "{'a':{'b':2},'c':[1]}");
	expect_print(live, "{'a':{'b':2},'c':[1]}");
}

Test(doc_apply, strange_old_field_sets_do_no_harm)
{
	static const char *const strange[] = {"[]",
					      "7",
					      "{'f:a':7}",
					      "{'a':{}}",
					      "{'f:':{},'k:':{},'v:':{},'':{},'.':{}}",
					      "{'f:l':{'k:x':{},'v:1':{'.':{}}}}",
					      "{'f:a':{'f:b':{'f:c':{'f:d':{}}}}}"};
	for (size_t i = 0; i < ARRAY_SIZE(strange); i++) {
		struct doc_node *live =
		    doc_apply(d, parse("{'z':1,'l':[1]}"), parse("{'y':2}"), parse(strange[i]), NULL, 0);
		expect_print(live, "{'z':1,'l':[1],'y':2}");
	}
}

Test(doc_apply, contains_by_value_and_by_key)
{
	static const struct {
		const char *have, *want;
		bool contains;
	} cases[] = {
	    {"{'a':1,'b':2}", "{'a':1.0}", true},
	    {"{'a':1}", "{'a':1,'b':2}", false},
	    {"{'a':1}", "{'b':null}", true},
	    {"{'a':1}", "{'a':null}", false},
	    {"{'a':{'b':1,'c':2}}", "{'a':{'c':2}}", true},
	    {"{'a':[1,2]}", "{'a':[1]}", false},
	    {"{'a':[{'x':1,'y':2}]}", "{'a':[{'x':1}]}", false},
	    {"{'spec':{'containers':[{'name':'b','image':'i'},{'name':'a','image':'j'}]}}",
	     "{'spec':{'containers':[{'name':'a','image':'j'}]}}", true},
	    {"{'spec':{'containers':[{'name':'b','image':'i'}]}}",
	     "{'spec':{'containers':[{'name':'b','image':'j'}]}}", false},
	    {"{'spec':{'containers':[{'name':'b'}]}}", "{'spec':{'containers':[{'name':'a'}]}}", false},
	    {"{'spec':{'containers':[{'name':'b'}]}}", "{'spec':{'containers':[{'image':'a'}]}}", false},
	    {"{'spec':{'ports':[{'port':80,'protocol':'TCP','nodePort':1}]}}",
	     "{'spec':{'ports':[{'port':80}]}}", true},
	    {"{'metadata':{'finalizers':['x','y']}}", "{'metadata':{'finalizers':['y']}}", true},
	    {"{'metadata':{'finalizers':['x']}}", "{'metadata':{'finalizers':['y']}}", false},
	    {"{'metadata':{}}", "{'metadata':{'finalizers':['y']}}", false},
	    {"{'spec':{'selector':{'a':'1','b':'2'}}}", "{'spec':{'selector':{'a':'1'}}}", false},
	    {"{'spec':{'emptyDir':{'x':1}}}", "{'spec':{'emptyDir':{}}}", true},
	    {"{'spec':{}}", "{'spec':{'emptyDir':{}}}", false},
	    {"1", "1e0", true},
	};
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		cr_expect_eq(doc_contains(parse(cases[i].have), parse(cases[i].want)), cases[i].contains,
			     "%s, %s", cases[i].have, cases[i].want);
	cr_assert(!doc_contains(NULL, parse("1")));
}
