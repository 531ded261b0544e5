/* Each way to map, and each predicate that looks at both objects: create, update and delete reach the keys that the old and the new object name. */
#include "watcher_rig.h"
#include <stdio.h>

static const struct row {
	const char *controller, *spec; /* `for` ConfigMap; spec: what is watched, a Secret */
	const char *one, *two;	       /* what makes the object name these two */
} rows[] = {
    {"label", "mapTo: {label: site}", "\"metadata\":{\"labels\":{\"site\":\"a\"}}",
     "\"metadata\":{\"labels\":{\"site\":\"b\"}}"},
    {"annotation", "mapTo: {annotation: site}", "\"metadata\":{\"annotations\":{\"site\":\"a\"}}",
     "\"metadata\":{\"annotations\":{\"site\":\"shop/b\"}}"},
    {"owner", "mapTo: {owner: {apiVersion: apps/v1, kind: ReplicaSet}}",
     "\"metadata\":{\"ownerReferences\":[{\"apiVersion\":\"apps/"
     "v1\",\"kind\":\"ReplicaSet\",\"name\":\"a\",\"uid\":\"u\"}]}",
     "\"metadata\":{\"ownerReferences\":[{\"apiVersion\":\"apps/"
     "v2\",\"kind\":\"ReplicaSet\",\"name\":\"b\",\"uid\":\"v\"}]}"},
};

static size_t came(const char *controller, const char *name)
{
	return fake_broker_count(&rig.broker, controller, "shop", name, NULL);
}

/* Because of a Secret, not of itself. */
static size_t mapped(const char *controller, const char *name)
{
	size_t n = 0;
	for (size_t i = 0; i < rig.broker.n_keys; i++) {
		const struct broker_key *k = &rig.broker.keys[i];
		n += !strcmp(k->controller, controller) && !strcmp(k->name, name) &&
		     !strcmp(k->cause_kind, "Secret.v1");
	}
	return n;
}

static void put(const char *kind, const char *name, const char *members)
{
	rig_control("{\"op\":\"put\",\"kind\":\"%s\",\"namespace\":\"shop\",\"name\":\"%s\"%s%s}", kind, name,
		    *members ? "," : "", members);
}

static void delete (const char *kind, const char *name)
{
	rig_control("{\"op\":\"delete\",\"kind\":\"%s\",\"namespace\":\"shop\",\"name\":\"%s\"}", kind, name);
}

/* A marker that the watch has come so far. */
static void settle(void)
{
	static int n;
	char name[32];
	snprintf(name, sizeof name, "mark%d", n++);
	put("Secret", name, "\"metadata\":{\"labels\":{\"site\":\"marked\"}}");
	SAYS(SOON, came("label", "marked") > 0);
}

static void old_and_new(const struct row *r)
{
	fake_broker_forget(&rig.broker);
	put("Secret", r->controller, r->one);
	SAYS(SOON, came(r->controller, "a") == 1);
	CHECK(!came(r->controller, "b"));
	fake_broker_forget(&rig.broker);
	put("Secret", r->controller, r->two);
	SAYS(SOON, came(r->controller, "a") == 1 && came(r->controller, "b") == 1);
	fake_broker_forget(&rig.broker);
	put("Secret", r->controller, "\"data\":{\"names\":\"nobody\"}");
	SAYS(SOON, came(r->controller, "b") == 1);
	settle();
	CHECK(!came(r->controller, "a"));
	put("Secret", r->controller, r->two);
	SAYS(SOON, came(r->controller, "b") == 2);
	fake_broker_forget(&rig.broker);
	delete ("Secret", r->controller);
	SAYS(SOON, came(r->controller, "b") > 0);
	settle();
	CHECK(!came(r->controller, "a"));
}

/* mapTo.index looks at the `for` objects that name it. */
static void index_map(void)
{
	put("ConfigMap", "web", "\"data\":{\"secret\":\"tls\"}");
	put("ConfigMap", "other", "\"data\":{\"secret\":\"shop/tls\"}");
	put("ConfigMap", "none", "");
	SAYS(SOON, came("index", "web") && came("index", "other") && came("index", "none"));
	put("Secret", "tls", "");
	SAYS(SOON, mapped("index", "web") == 1 && mapped("index", "other") == 1);
	put("Secret", "tls", "\"data\":{\"x\":\"1\"}");
	SAYS(SOON, mapped("index", "web") == 2 && mapped("index", "other") == 2);
	fake_broker_forget(&rig.broker);
	put("ConfigMap", "other", "\"data\":{}"); /* it names no Secret any more */
	SAYS(SOON, came("index", "other") == 1);
	delete ("Secret", "tls");
	SAYS(SOON, mapped("index", "web") > 0);
	settle();
	CHECK(!mapped("index", "other") && !mapped("index", "none"));
}

static void all_map(void)
{
	fake_broker_forget(&rig.broker);
	put("Secret", "all", "");
	SAYS(SOON, mapped("all", "web") && mapped("all", "other") && mapped("all", "none"));
	fake_broker_forget(&rig.broker);
	put("Secret", "all", "\"data\":{\"x\":\"1\"}");
	SAYS(SOON, mapped("all", "web") && mapped("all", "other") && mapped("all", "none"));
	fake_broker_forget(&rig.broker);
	delete ("Secret", "all");
	SAYS(SOON, mapped("all", "web") && mapped("all", "other") && mapped("all", "none"));
}

/* What a predicate filters is the key, by old and new object; a delete shows it the last one. */
static void predicates(void)
{
	fake_broker_forget(&rig.broker);
	put("ConfigMap", "p", "\"metadata\":{\"labels\":{\"tier\":\"web\"}},\"data\":{\"n\":\"1\"}");
	SAYS(SOON, came("selected", "p") == 1 && came("changed", "p") == 1 && came("negated", "p") == 0);
	put("ConfigMap", "p",
	    "\"metadata\":{\"labels\":{\"tier\":\"web\"}},\"data\":{\"n\":\"1\",\"m\":\"1\"}");
	SAYS(SOON, came("selected", "p") == 2);
	CHECK(came("changed", "p") == 1); /* data.n is as it was */
	put("ConfigMap", "p", "\"metadata\":{\"labels\":{\"tier\":\"db\"}},\"data\":{\"n\":\"2\"}");
	SAYS(SOON, came("changed", "p") == 2 && came("negated", "p") == 1);
	CHECK(came("selected", "p") == 2);
	delete ("ConfigMap", "p");
	SAYS(SOON, came("changed", "p") > 2 && came("negated", "p") > 1);
	settle();
	CHECK(came("selected", "p") == 2); /* its last state is not selected */
}

int main(void)
{
	rig_start();
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		_cleanup_(free_ptr) char *spec =
		    xasprintf("  for: {apiVersion: v1, kind: ConfigMap}\n"
			      "  watches:\n  - {apiVersion: v1, kind: Secret, %s}\n",
			      rows[i].spec);
		rig_controller(rows[i].controller, spec);
	}
	rig_controller("index",
		       "  for: {apiVersion: v1, kind: ConfigMap}\n"
		       "  watches:\n  - {apiVersion: v1, kind: Secret, mapTo: {index: data.secret}}\n");
	rig_controller("all", "  for: {apiVersion: v1, kind: ConfigMap}\n"
			      "  watches:\n  - {apiVersion: v1, kind: Secret, mapTo: {all: true}}\n");
	rig_controller("selected", "  for: {apiVersion: v1, kind: ConfigMap, predicates: [{LabelSelector: "
				   "{matchLabels: {tier: web}}}]}\n");
	rig_controller("negated", "  for: {apiVersion: v1, kind: ConfigMap, predicates: [{not: {Field: "
				  "{path: metadata.labels.tier, in: [web]}}}, "
				  "{Field: {path: metadata.labels.tier, exists: true}}]}\n");
	rig_controller("changed", "  for: {apiVersion: v1, kind: ConfigMap, predicates: [{Field: {path: "
				  "data.n, changed: true}}]}\n");
	rig_start_watcher();
	SAYS(SOON, rig_watching("Secret") && rig_watching("ConfigMap") && rig.broker.sweeps >= 8);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		old_and_new(&rows[i]);
	index_map();
	all_map();
	predicates();
	return check_result();
}
