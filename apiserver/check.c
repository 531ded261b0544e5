#include "check.h"
#include "base64.h"
#include "crd.h"
#include "names.h"
#include <stdio.h>

enum {
	ANNOTATIONS_MAX = 262144,
	REFERENCES_MAX = 1024 /* finalizers, and owners, of one object */,
	DATA_MAX = 1 << 20
};

bool view_is(const struct view *v, const char *group, const char *plural)
{
	return v->def->builtin && !strcmp(v->def->group, group) && !strcmp(v->def->plural, plural);
}

/* ---- types ---- */

static int wrong_type(struct call *c, const char *field, const char *wanted)
{
	return fail_bad_request(&c->f, "%s in version \"%s\" cannot be handled as a %s: %s must be %s",
				c->view.def->kind, c->view.version->name, c->view.def->kind, field, wanted);
}

static bool is_or_absent(const struct doc_node *n, enum json_type type)
{
	return !n || n->type == JSON_NULL || n->type == type;
}

int check_types(struct call *c, const struct doc_node *root)
{
	static const char *const strings[] = {"name", "generateName",	 "namespace",
					      "uid",  "resourceVersion", "deletionTimestamp"};
	static const char *const maps[] = {"labels", "annotations"}, *const lists[] = {"finalizers",
										       "ownerReferences",
										       "managedFields"};
	char field[64];
	if (!root || root->type != JSON_OBJECT)
		return fail_bad_request(&c->f, "the body must be a JSON object");
	const struct doc_node *meta = doc_get(root, "metadata");
	if (!is_or_absent(meta, JSON_OBJECT))
		return wrong_type(c, "metadata", "an object");
	for (size_t i = 0; i < ARRAY_SIZE(strings); i++) {
		snprintf(field, sizeof(field), "metadata.%s", strings[i]);
		if (!is_or_absent(doc_get(meta, strings[i]), JSON_STRING))
			return wrong_type(c, field, "a string");
	}
	for (size_t i = 0; i < ARRAY_SIZE(maps); i++) {
		const struct doc_node *map = doc_get(meta, maps[i]);
		snprintf(field, sizeof(field), "metadata.%s", maps[i]);
		if (!is_or_absent(map, JSON_OBJECT))
			return wrong_type(c, field, "an object");
		doc_each (n, map)
			if (!is_or_absent(n, JSON_STRING))
				return wrong_type(c, field, "an object whose values are strings");
	}
	for (size_t i = 0; i < ARRAY_SIZE(lists); i++) {
		const struct doc_node *list = doc_get(meta, lists[i]);
		enum json_type element = i == 0 ? JSON_STRING : JSON_OBJECT;
		snprintf(field, sizeof(field), "metadata.%s", lists[i]);
		if (!is_or_absent(list, JSON_ARRAY))
			return wrong_type(c, field, "a list");
		doc_each (n, list)
			if (n->type != element)
				return wrong_type(c, field,
						  i == 0 ? "a list of strings" : "a list of objects");
	}
	if (!view_is(&c->view, "", "secrets"))
		return 0;
	const struct doc_node *plain = doc_get(root, "stringData");
	if (!is_or_absent(plain, JSON_OBJECT))
		return wrong_type(c, "stringData", "an object");
	doc_each (n, plain)
		if (n->type != JSON_STRING)
			return wrong_type(c, "stringData", "an object whose values are strings");
	return 0;
}

/* ---- metadata ---- */

#define SUBDOMAIN_RULE                                                                                       \
	"a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', "    \
	"and must start and "                                                                                \
	"end with an alphanumeric character (e.g. 'example.com', regex used for validation is "              \
	"'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
#define LABEL_RULE                                                                                           \
	"a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must "    \
	"start and end with "                                                                                \
	"an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "            \
	"'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
#define LABEL1035_RULE                                                                                       \
	"a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an "         \
	"alphabetic character, "                                                                             \
	"and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation "  \
	"is "                                                                                                \
	"'[a-z]([-a-z0-9]*[a-z0-9])?')"

/* What is wrong with the name; NULL: nothing. */
static const char *name_rule(enum kind_names names, struct span name)
{
	switch (names) {
	case SUBDOMAIN:
		return kube_is_dns_subdomain(name) ? NULL : SUBDOMAIN_RULE;
	case LABEL:
		return kube_is_dns_label(name) ? NULL : LABEL_RULE;
	case LABEL1035:
		return kube_is_dns_label(name) && name.at[0] >= 'a' && name.at[0] <= 'z' ? NULL
											 : LABEL1035_RULE;
	case PATH:
		if (span_is(name, ".") || span_is(name, ".."))
			return "may not be '.' or '..'";
		if (memchr(name.at, '/', name.len))
			return "may not contain '/'";
		if (memchr(name.at, '%', name.len))
			return "may not contain '%'";
		return name.len <= NAME_MAX_LEN ? NULL : "must be no more than 253 characters";
	}
	return NULL;
}

static void check_name(struct call *c, const struct doc_node *meta)
{
	struct span name = doc_string(c->doc, doc_get(meta, "name"));
	if (!name.len) {
		invalid(&c->f, "FieldValueRequired", "metadata.name",
			"Required value: name or generateName is required");
		return;
	}
	const char *rule = name_rule(c->view.def->names, name);
	if (rule)
		invalid(&c->f, "FieldValueInvalid", "metadata.name", "Invalid value: \"" SPAN_FMT "\": %s",
			(int)MIN(name.len, (size_t)300), name.at, rule);
}

#define NAME_PART_RULE                                                                                       \
	"name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with "   \
	"an alphanumeric "                                                                                   \
	"character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "              \
	"'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"

static void check_map_keys(struct call *c, const struct doc_node *map, const char *field)
{
	doc_each (n, map)
		if (!kube_is_qualified_name(n->key))
			invalid(&c->f, "FieldValueInvalid", field,
				"Invalid value: \"" SPAN_FMT "\": " NAME_PART_RULE,
				(int)MIN(n->key.len, (size_t)200), n->key.at);
}

static void check_labels(struct call *c, const struct doc_node *labels)
{
	check_map_keys(c, labels, "metadata.labels");
	doc_each (n, labels) {
		struct span value = doc_string(c->doc, n);
		if (!kube_is_label_value(value.at ? value : span_of("")))
			invalid(&c->f, "FieldValueInvalid", "metadata.labels",
				"Invalid value: \"" SPAN_FMT
				"\": a valid label must be an empty string or consist of alphanumeric "
				"characters, '-', '_' or '.', and must start and end with an alphanumeric "
				"character (e.g. 'MyValue',  or "
				"'my_value',  or '12345', regex used for validation is "
				"'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')",
				(int)MIN(value.len, (size_t)200), value.at);
	}
}

static void check_annotations(struct call *c, const struct doc_node *annotations)
{
	size_t total = 0;
	check_map_keys(c, annotations, "metadata.annotations");
	doc_each (n, annotations)
		total += n->key.len + doc_string(c->doc, n).len;
	if (total > ANNOTATIONS_MAX)
		invalid(&c->f, "FieldValueTooLong", "metadata.annotations",
			"Too long: may not be more than %d bytes", ANNOTATIONS_MAX);
}

static bool standard_finalizer(struct span name)
{
	return span_is(name, "orphan") || span_is(name, "foregroundDeletion") ||
	       span_is(name, "kubernetes") || span_is(name, CRD_FINALIZER);
}

static void check_finalizers(struct call *c, const struct doc_node *finalizers)
{
	if (finalizers && finalizers->count > REFERENCES_MAX)
		invalid(&c->f, "FieldValueTooMany", "metadata.finalizers",
			"Too many: %u: must have at most %d items", finalizers->count, REFERENCES_MAX);
	doc_each (n, finalizers) {
		struct span name = doc_string(c->doc, n);
		const char *rule = NULL;
		if (!kube_is_qualified_name(name))
			rule = NAME_PART_RULE;
		else if (c->view.def->builtin && !memchr(name.at, '/', name.len) && !standard_finalizer(name))
			rule = "name is neither a standard finalizer name nor is it fully qualified";
		if (rule)
			invalid(&c->f, "FieldValueInvalid", "metadata.finalizers",
				"Invalid value: \"" SPAN_FMT "\": %s", (int)MIN(name.len, (size_t)200),
				name.at, rule);
	}
}

static void check_owners(struct call *c, const struct doc_node *owners)
{
	if (owners && owners->count > REFERENCES_MAX)
		invalid(&c->f, "FieldValueTooMany", "metadata.ownerReferences",
			"Too many: %u: must have at most %d items", owners->count, REFERENCES_MAX);
	static const char *const required[] = {"apiVersion", "kind", "name", "uid"};
	size_t controllers = 0, index = 0;
	char field[128];
	doc_each (owner, owners) {
		for (size_t i = 0; i < ARRAY_SIZE(required); i++) {
			snprintf(field, sizeof(field), "metadata.ownerReferences[%zu].%s", index,
				 required[i]);
			if (!doc_string(c->doc, doc_get(owner, required[i])).len)
				invalid(&c->f, "FieldValueInvalid", field,
					"Invalid value: \"\": %s must not be empty",
					i ? required[i] : "version");
		}
		const struct doc_node *controller = doc_get(owner, "controller");
		controllers +=
		    controller && controller->type == JSON_BOOL && span_is(controller->text, "true");
		index++;
	}
	if (controllers > 1)
		invalid(&c->f, "FieldValueInvalid", "metadata.ownerReferences",
			"Invalid value: Only one reference can have Controller set to true");
}

/* ---- kinds ---- */

static bool data_key_valid(struct span key)
{
	if (!key.len || key.len > NAME_MAX_LEN || span_is(key, ".") || span_is(key, ".."))
		return false;
	for (size_t i = 0; i < key.len; i++) {
		char k = key.at[i];
		if (!((k >= 'a' && k <= 'z') || (k >= 'A' && k <= 'Z') || (k >= '0' && k <= '9') ||
		      k == '-' || k == '_' || k == '.'))
			return false;
	}
	return true;
}

/* data and binaryData of ConfigMap and Secret. */
static int check_data(struct call *c, const struct doc_node *root, const char *field, bool base64,
		      size_t *total)
{
	const struct doc_node *data = doc_get(root, field);
	if (!is_or_absent(data, JSON_OBJECT))
		return wrong_type(c, field, "an object");
	doc_each (n, data) {
		if (n->type != JSON_STRING)
			return wrong_type(c, field, "an object whose values are strings");
		struct span value = doc_string(c->doc, n);
		if (base64 && !base64_valid(value))
			return wrong_type(c, field, "an object whose values are base64");
		char where[300];
		snprintf(where, sizeof(where), "%s[" SPAN_FMT "]", field, (int)MIN(n->key.len, (size_t)253),
			 n->key.at);
		if (!data_key_valid(n->key))
			invalid(
			    &c->f, "FieldValueInvalid", where,
			    "Invalid value: \"" SPAN_FMT
			    "\": a valid config key must consist of alphanumeric characters, '-', '_' or '.'",
			    (int)MIN(n->key.len, (size_t)253), n->key.at);
		*total += base64 ? base64_size(value) : value.len;
	}
	return 0;
}

static int check_kind(struct call *c, const struct doc_node *root)
{
	bool secret = view_is(&c->view, "", "secrets"), map = view_is(&c->view, "", "configmaps");
	size_t total = 0;
	int r = 0;
	if (secret || map)
		r = check_data(c, root, "data", secret, &total);
	if (r == 0 && map)
		r = check_data(c, root, "binaryData", true, &total);
	if (r == 0 && view_is(&c->view, "apiextensions.k8s.io", "customresourcedefinitions"))
		r = crd_check(c, root);
	if (total > DATA_MAX)
		invalid(&c->f, "FieldValueTooLong", "data", "Too long: may not be more than %d bytes",
			DATA_MAX);
	return r;
}

int check_object(struct call *c, const struct doc_node *root)
{
	const struct doc_node *meta = doc_get(root, "metadata");
	check_name(c, meta);
	check_labels(c, doc_get(meta, "labels"));
	check_annotations(c, doc_get(meta, "annotations"));
	check_finalizers(c, doc_get(meta, "finalizers"));
	check_owners(c, doc_get(meta, "ownerReferences"));
	int r = check_kind(c, root);
	return r < 0 ? r
		     : invalid_done(&c->f, c->view.def->group, c->view.def->kind,
				    doc_string(c->doc, doc_get(meta, "name")));
}

/* ---- what may not change ---- */

static bool has_string(const struct doc_node *list, const struct doc_node *wanted)
{
	doc_each (n, list)
		if (doc_equal(n, wanted))
			return true;
	return false;
}

static void new_finalizers(struct call *c, const struct doc_node *before, const struct doc_node *after)
{
	if (!doc_get(before, "deletionTimestamp"))
		return;
	doc_each (n, doc_get(after, "finalizers"))
		if (!has_string(doc_get(before, "finalizers"), n)) {
			struct span name = doc_string(c->doc, n);
			invalid(&c->f, "FieldValueForbidden", "metadata.finalizers",
				"Forbidden: no new finalizers can be added if the object is being deleted, "
				"found new finalizers "
				"[]string{\"" SPAN_FMT "\"}",
				(int)MIN(name.len, (size_t)253), name.at);
		}
}

static bool changed(const struct doc_node *before, const struct doc_node *after, const char *a, const char *b)
{
	const struct doc_node *x = doc_get(before, a), *y = doc_get(after, a);
	if (b) {
		x = doc_get(x, b);
		y = doc_get(y, b);
	}
	return x && y ? !doc_equal(x, y) : x != y;
}

static void immutable_field(struct call *c, const char *field, const struct doc_node *value)
{
	_cleanup_(buf_done) struct buf text = {0};
	if (value)
		doc_print(value, &text);
	invalid(&c->f, "FieldValueInvalid", field, "Invalid value: %s: field is immutable",
		value ? buf_str(&text) : "null");
}

static void immutable_data(struct call *c, const struct doc_node *before, const struct doc_node *after)
{
	static const char *const fields[] = {"immutable", "data", "binaryData"};
	const struct doc_node *flag = doc_get(before, "immutable");
	if (!flag || flag->type != JSON_BOOL || !span_is(flag->text, "true"))
		return;
	for (size_t i = 0; i < ARRAY_SIZE(fields); i++)
		if (changed(before, after, fields[i], NULL))
			invalid(&c->f, "FieldValueForbidden", fields[i],
				"Forbidden: field is immutable when `immutable` is set");
}

static void stateful_set_spec(struct call *c, const struct doc_node *before, const struct doc_node *after)
{
	static const char *const mutable[] = {"replicas",
					      "ordinals",
					      "template",
					      "updateStrategy",
					      "revisionHistoryLimit",
					      "persistentVolumeClaimRetentionPolicy",
					      "minReadySeconds"};
	const struct doc_node *old = doc_get(before, "spec"), *new = doc_get(after, "spec");
	if (!old || !new)
		return;
	struct doc_node *a = doc_copy(c->doc, old), *b = doc_copy(c->doc, new);
	for (size_t i = 0; i < ARRAY_SIZE(mutable); i++) {
		doc_set(c->doc, a, mutable[i], NULL);
		doc_set(c->doc, b, mutable[i], NULL);
	}
	if (!doc_equal(a, b))
		invalid(&c->f, "FieldValueForbidden", "spec",
			"Forbidden: updates to statefulset spec for fields other than 'replicas', "
			"'ordinals', 'template', "
			"'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' "
			"and 'minReadySeconds' are "
			"forbidden");
}

static const struct {
	const char *group, *plural, *a, *b;
} immutable_fields[] = {
    {"", "secrets", "type", NULL},
    {"apps", "deployments", "spec", "selector"},
    {"apps", "replicasets", "spec", "selector"},
    {"apps", "daemonsets", "spec", "selector"},
    {"batch", "jobs", "spec", "selector"},
    {"batch", "jobs", "spec", "template"},
    {"rbac.authorization.k8s.io", "rolebindings", "roleRef", NULL},
    {"rbac.authorization.k8s.io", "clusterrolebindings", "roleRef", NULL},
    {"apiextensions.k8s.io", "customresourcedefinitions", "spec", "group"},
    {"apiextensions.k8s.io", "customresourcedefinitions", "spec", "scope"},
};

int check_change(struct call *c, const struct doc_node *before, const struct doc_node *after)
{
	new_finalizers(c, doc_get(before, "metadata"), doc_get(after, "metadata"));
	if (view_is(&c->view, "", "configmaps") || view_is(&c->view, "", "secrets"))
		immutable_data(c, before, after);
	if (view_is(&c->view, "apps", "statefulsets"))
		stateful_set_spec(c, before, after);
	for (size_t i = 0; i < ARRAY_SIZE(immutable_fields); i++) {
		const char *a = immutable_fields[i].a, *b = immutable_fields[i].b;
		char field[64];
		if (!view_is(&c->view, immutable_fields[i].group, immutable_fields[i].plural) ||
		    !changed(before, after, a, b))
			continue;
		snprintf(field, sizeof(field), b ? "%s.%s" : "%s%s", a, b ? b : "");
		immutable_field(c, field, b ? doc_path(after, a, b, NULL) : doc_get(after, a));
	}
	return invalid_done(&c->f, c->view.def->group, c->view.def->kind,
			    doc_string(c->doc, doc_path(after, "metadata", "name", NULL)));
}
