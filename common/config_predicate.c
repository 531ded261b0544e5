/* Predicates and label selectors of a controller file. */
#include "config_internal.h"
#include "names.h"

static const struct {
	const char *word;
	enum config_predicate_type type;
} plain[] = {
    {"GenerationChanged", PREDICATE_GENERATION_CHANGED},
    {"ResourceVersionChanged", PREDICATE_RESOURCE_VERSION_CHANGED},
    {"LabelChanged", PREDICATE_LABEL_CHANGED},
    {"AnnotationChanged", PREDICATE_ANNOTATION_CHANGED},
};
#define ALLOWED                                                                                              \
	"GenerationChanged, ResourceVersionChanged, LabelChanged, AnnotationChanged, or a mapping with one " \
	"of or, not, "                                                                                       \
	"LabelSelector, Field, program"

static bool predicate_read(struct config_reader *r, const struct yaml_doc_node *n, unsigned depth,
			   struct config_predicate *ret);

/* Members of an AND or OR. */
static bool list_read(struct config_reader *r, const struct yaml_doc_node *n, unsigned depth,
		      enum config_predicate_type type, struct config_predicate *ret)
{
	size_t count = 0, i = 0;
	bool good = true;
	for (const struct yaml_doc_node *c = n->child; c; c = c->next)
		count++;
	if (r->predicate_count + count > CONFIG_PREDICATES_MAX) {
		config_complain(r, n, "more than %d predicates", CONFIG_PREDICATES_MAX);
		return false;
	}
	r->predicate_count += count;
	ret->type = type;
	ret->count = count;
	ret->children = xcalloc(count ? count : 1, sizeof(*ret->children));
	for (const struct yaml_doc_node *c = n->child; c; c = c->next, i++) {
		size_t here = config_enter(r, "[%zu]", i);
		good &= predicate_read(r, c, depth + 1, &ret->children[i]);
		config_leave(r, here);
	}
	return good;
}

static bool word_read(struct config_reader *r, const struct yaml_doc_node *n, struct config_predicate *ret)
{
	const char *words[ARRAY_SIZE(plain) + 1] = {0};
	for (size_t i = 0; i < ARRAY_SIZE(plain); i++) {
		words[i] = plain[i].word;
		if (strcmp(plain[i].word, n->text) == 0) {
			ret->type = plain[i].type;
			return true;
		}
	}
	const char *near = config_did_you_mean(n->text, words);
	if (near)
		config_complain(r, n, "unknown predicate \"%.64s\": did you mean \"%s\"? Allowed: " ALLOWED,
				n->text, near);
	else
		config_refuse(r, n, ALLOWED, NULL);
	return false;
}

/* Values of in and notIn: any scalars, compared as text with what stands at the path. */
static bool values_read(struct config_reader *r, const struct yaml_doc_node *n, struct config_predicate *ret)
{
	if (!config_is_sequence(r, n))
		return false;
	size_t count = 0;
	for (const struct yaml_doc_node *c = n->child; c; c = c->next) {
		if (c->type != YAML_SCALAR || yaml_doc_is_null(c)) {
			config_refuse(r, c, "texts, numbers, true or false", NULL);
			return false;
		}
		if (++count > CONFIG_LIST_MAX) {
			config_complain(r, c, "more than %d values", CONFIG_LIST_MAX);
			return false;
		}
		bool boolean = yaml_doc_meaning(c) == YAML_MEANS_BOOL;
		texts_add(&ret->values, xstrdup(!boolean		   ? c->text
						: (*c->text | 0x20) == 't' ? "true"
									   : "false"));
	}
	if (count == 0)
		config_complain(r, n, "found an empty list; allowed: at least one value");
	return count > 0;
}

static bool field_read(struct config_reader *r, const struct yaml_doc_node *n, struct config_predicate *ret)
{
	static const char *const keys[] = {"path", "in", "notIn", "exists", "changed", NULL};
	static const enum config_field_op ops[] = {0, FIELD_IN, FIELD_NOT_IN, FIELD_EXISTS, FIELD_CHANGED};
	unsigned given = 0;
	bool good = true;
	ret->type = PREDICATE_FIELD;
	if (!config_is_mapping(r, n))
		return false;
	for (const struct yaml_doc_node *c = n->child; c; c = c->next) {
		size_t k = 0;
		const char *text;
		while (keys[k] && strcmp(keys[k], c->key->text) != 0)
			k++;
		if (!keys[k] || c->duplicate) {
			const char *near = config_did_you_mean(c->key->text, keys);
			config_complain(
			    r, c->key,
			    "%s key \"%.64s\"%s%s%s; allowed: path and one of in, notIn, exists, changed",
			    c->duplicate ? "duplicate" : "unknown", c->key->text,
			    keys[k] || !near ? "" : ": did you mean \"", keys[k] || !near ? "" : near,
			    keys[k] || !near ? "" : "\"?");
			good = false;
			continue;
		}
		size_t here = config_enter(r, ".%s", keys[k]);
		if (k == 0) {
			if (config_text(r, c, config_check_path,
					"a path, as in spec.nodes[*].name or metadata.labels['a.b/c']",
					&text))
				ret->text = xstrdup(text);
			else
				good = false;
		} else {
			given++;
			ret->op = ops[k];
			good &= ops[k] == FIELD_IN || ops[k] == FIELD_NOT_IN
				    ? values_read(r, c, ret)
				    : config_bool(r, c, &ret->wanted);
		}
		config_leave(r, here);
	}
	if (good && (given != 1 || !ret->text)) {
		config_complain(r, n, "%s; allowed: path and exactly one of in, notIn, exists, changed",
				!ret->text ? "\"path\" is missing"
				: given	   ? "found more than one test"
					   : "the test is missing");
		good = false;
	}
	return good;
}

static bool mapping_read(struct config_reader *r, const struct yaml_doc_node *n, unsigned depth,
			 struct config_predicate *ret)
{
	static const char *const keys[] = {"or", "not", "LabelSelector", "Field", "program", NULL};
	const struct yaml_doc_node *c = n->child;
	bool good = false;
	if (!c || c->next) {
		config_complain(r, n, "found a mapping with %s; allowed: " ALLOWED,
				c ? "more than one key" : "no key");
		return false;
	}
	size_t here = config_enter(r, ".%.64s", c->key->text);
	if (strcmp(c->key->text, "or") == 0) {
		if (config_is_sequence(r, c) && !c->child)
			config_complain(
			    r, c,
			    "found an empty list, which nothing would pass; allowed: at least one predicate");
		else if (c->type == YAML_SEQUENCE)
			good = list_read(r, c, depth, PREDICATE_OR, ret);
	} else if (strcmp(c->key->text, "not") == 0) {
		ret->type = PREDICATE_NOT;
		ret->count = 1;
		ret->children = xcalloc(1, sizeof(*ret->children));
		good = predicate_read(r, c, depth + 1, ret->children);
	} else if (strcmp(c->key->text, "LabelSelector") == 0) {
		ret->type = PREDICATE_LABEL_SELECTOR;
		good = config_selector(r, c, &ret->text);
	} else if (strcmp(c->key->text, "Field") == 0) {
		good = field_read(r, c, ret);
	} else if (strcmp(c->key->text, "program") == 0) {
		ret->type = PREDICATE_PROGRAM;
		ret->program = xcalloc(1, sizeof *ret->program);
		good = config_program_read(r, c, ret->program);
	} else {
		config_leave(r, here);
		const char *near = config_did_you_mean(c->key->text, keys);
		config_complain(r, c->key, "unknown predicate \"%.64s\"%s%s%s; allowed: " ALLOWED,
				c->key->text, near ? ": did you mean \"" : "", near ? near : "",
				near ? "\"?" : "");
		return false;
	}
	config_leave(r, here);
	return good;
}

static bool predicate_read(struct config_reader *r, const struct yaml_doc_node *n, unsigned depth,
			   struct config_predicate *ret)
{
	if (depth > CONFIG_PREDICATE_DEPTH) {
		config_complain(r, n, "predicates are nested deeper than %d", CONFIG_PREDICATE_DEPTH);
		return false;
	}
	switch (n->type) {
	case YAML_SEQUENCE:
		return list_read(r, n, depth, PREDICATE_AND, ret);
	case YAML_MAPPING:
		return mapping_read(r, n, depth, ret);
	case YAML_SCALAR:
		break;
	}
	return word_read(r, n, ret);
}

bool config_predicates(struct config_reader *r, const struct yaml_doc_node *n, struct config_predicate *ret)
{
	config_predicate_done(ret);
	return config_is_sequence(r, n) && list_read(r, n, 0, PREDICATE_AND, ret);
}

void config_predicate_done(struct config_predicate *p)
{
	for (size_t i = 0; i < p->count; i++)
		config_predicate_done(&p->children[i]);
	free(p->children);
	free(p->text);
	texts_free(p->values);
	if (p->program)
		config_program_done(p->program);
	free(p->program);
	*p = (struct config_predicate){0};
}

const char *config_predicate_beyond_metadata(const struct config_predicate *p)
{
	if (p->type == PREDICATE_FIELD) {
		bool metadata = strncmp(p->text ? p->text : "metadata", "metadata", 8) == 0;
		bool type = p->text && (strcmp(p->text, "kind") == 0 || strcmp(p->text, "apiVersion") == 0);
		return metadata || type ? NULL : p->text;
	}
	for (size_t i = 0; i < p->count; i++) {
		const char *path = config_predicate_beyond_metadata(&p->children[i]);
		if (path)
			return path;
	}
	return NULL;
}

/* ---- label selectors ---- */

static bool match_labels(struct config_reader *r, const struct yaml_doc_node *n, char ***terms)
{
	bool good = config_is_mapping(r, n);
	if (!good)
		return false;
	for (const struct yaml_doc_node *c = n->child; c; c = c->next) {
		const char *value;
		size_t here = config_enter(r, ".%.100s", c->key->text);
		if (c->duplicate || !kube_is_qualified_name(span_of(c->key->text))) {
			config_complain(r, c->key,
					c->duplicate
					    ? "duplicate key"
					    : "allowed: a label's name, as in app or example.com/app");
			good = false;
		} else if (config_text(r, c, kube_is_label_value,
				       "a label's value: at most 63 of A-Z, a-z, 0-9, -, _ and .", &value)) {
			texts_add(terms, xasprintf("%s=%s", c->key->text, value));
		} else {
			good = false;
		}
		config_leave(r, here);
	}
	return good;
}

static bool expression_print(struct config_reader *r, const struct yaml_doc_node *n, const char *key,
			     const char *op, char **values, char ***terms)
{
	bool set = strcmp(op, "In") == 0 || strcmp(op, "NotIn") == 0, is_in = strcmp(op, "In") == 0;
	if (!set && strcmp(op, "Exists") != 0 && strcmp(op, "DoesNotExist") != 0) {
		config_complain(r, n, "operator: found \"%.64s\"; allowed: In, NotIn, Exists, DoesNotExist",
				op);
		return false;
	}
	if (set != (values && values[0])) {
		config_complain(r, n, set ? "values: %s needs at least one" : "values: not allowed with %s",
				op);
		return false;
	}
	if (!set) {
		texts_add(terms, xasprintf("%s%s", strcmp(op, "Exists") == 0 ? "" : "!", key));
		return true;
	}
	_cleanup_(buf_done) struct buf b = {0};
	texts_sort(values);
	buf_printf(&b, "%s %s (", key, is_in ? "in" : "notin");
	for (char **v = values; v && *v; v++)
		buf_printf(&b, "%s%s", v == values ? "" : ",", *v);
	buf_putc(&b, ')');
	texts_add(terms, buf_steal(&b));
	return true;
}

static bool expression_read(struct config_reader *r, const struct yaml_doc_node *n, char ***terms)
{
	const char *key = NULL, *op = NULL;
	char **values = NULL;
	bool good = config_is_mapping(r, n);
	for (const struct yaml_doc_node *c = good ? n->child : NULL; c; c = c->next) {
		size_t here = config_enter(r, ".%.64s", c->key->text);
		if (strcmp(c->key->text, "key") == 0) {
			good &= config_text(r, c, kube_is_qualified_name,
					    "a label's name, as in app or example.com/app", &key);
		} else if (strcmp(c->key->text, "operator") == 0) {
			good &= config_text(r, c, NULL, NULL, &op);
		} else if (strcmp(c->key->text, "values") == 0 && !values) {
			good &= config_texts(r, c, 0, kube_is_label_value, "a label's value", &values);
		} else {
			config_complain(r, c->key, "%s key; allowed: key, operator, values",
					c->duplicate ? "duplicate" : "unknown");
			good = false;
		}
		config_leave(r, here);
	}
	if (good && (!key || !op)) {
		config_complain(r, n, "\"%s\" is missing", key ? "operator" : "key");
		good = false;
	}
	good = good && expression_print(r, n, key, op, values, terms);
	texts_free(values);
	return good;
}

bool config_selector(struct config_reader *r, const struct yaml_doc_node *n, char **ret)
{
	char **terms = NULL;
	_cleanup_(buf_done) struct buf b = {0};
	bool good = n->type == YAML_MAPPING;
	if (!good)
		config_refuse(r, n, "a mapping with matchLabels or matchExpressions, or both", NULL);
	for (const struct yaml_doc_node *c = good ? n->child : NULL; c; c = c->next) {
		size_t i = 0, here = config_enter(r, ".%.64s", c->key->text);
		if (c->duplicate) {
			config_complain(r, c->key, "duplicate key");
			good = false;
		} else if (strcmp(c->key->text, "matchLabels") == 0) {
			good &= match_labels(r, c, &terms);
		} else if (strcmp(c->key->text, "matchExpressions") == 0) {
			good &= config_is_sequence(r, c);
			for (const struct yaml_doc_node *e = c->type == YAML_SEQUENCE ? c->child : NULL; e;
			     e = e->next, i++) {
				size_t inside = config_enter(r, "[%zu]", i);
				good &= expression_read(r, e, &terms);
				config_leave(r, inside);
			}
		} else {
			config_leave(r, here);
			config_complain(r, c->key,
					"unknown key \"%.64s\"; allowed: matchLabels, matchExpressions",
					c->key->text);
			good = false;
			continue;
		}
		config_leave(r, here);
	}
	if (good && !terms)
		config_warn(r, n, "an empty selector selects everything, as if it were left out");
	if (good) {
		buf_puts(&b, "");
		if (terms)
			texts_sort(terms); /* equal selectors are equal texts: watches are shared by them */
		for (size_t i = 0; terms && terms[i]; i++)
			buf_printf(&b, "%s%s", i ? "," : "", terms[i]);
		free(*ret);
		*ret = buf_steal(&b);
	}
	texts_free(terms);
	return good;
}
