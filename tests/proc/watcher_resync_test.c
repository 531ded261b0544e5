/* resyncPeriod: everything once in it, evenly, at low priority, by what a create would enqueue. */
#include "watcher_rig.h"
#include <stdio.h>

enum { MANY = 1000 };

static size_t resyncs(const char *controller, const char *name)
{
	size_t n = 0;
	for (size_t i = 0; i < rig.broker.n_keys; i++) {
		const struct broker_key *k = &rig.broker.keys[i];
		bool mine = strcmp(k->controller, controller) == 0 && (!name || strcmp(k->name, name) == 0);
		if (!mine || k->cause != WIRE_CAUSE_RESYNC)
			continue;
		n++;
		CHECK_MSG(k->priority == -100 && !k->primary_changed && k->event.resource_version == 0,
			  "%s: priority %lld", k->name, (long long)k->priority);
	}
	return n;
}

static void put(const char *kind, const char *name, const char *more)
{
	rig_control("{\"op\":\"put\",\"kind\":\"%s\",\"namespace\":\"shop\",\"name\":\"%s\"%s}", kind, name,
		    more);
}

static void all_come_again_and_again(void)
{
	static const char *const names[] = {"a", "b", "c"};
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		put("ConfigMap", names[i], "");
	put("Secret", "s", ",\"metadata\":{\"labels\":{\"site\":\"b\"}}");
	put("Secret", "without", "");
	put("Website", "many", ",\"count\":1000");
	rig_start_watcher();
	/* The predicates of updates do not count; those of creates do, so "c" never comes. */
	for (int round = 1; round <= 3; round++)
		for (size_t i = 0; i < 2; i++)
			SAYS(SOON, resyncs("often", names[i]) >= (size_t)round);
	CHECK(resyncs("often", "c") == 0);
	/* "b" by itself and by its Secret. */
	struct broker_key k = {0};
	bool mapped = false;
	SAYS(SOON, resyncs("often", "b") > 4);
	for (size_t i = 0; i < rig.broker.n_keys; i++) {
		k = rig.broker.keys[i];
		mapped |= k.cause == WIRE_CAUSE_RESYNC && strcmp(k.name, "b") == 0 &&
			  strcmp(k.cause_kind, "Secret.v1") == 0;
	}
	CHECK(mapped);
	CHECK(resyncs("often", "without") == 0 && resyncs("often", "s") == 0);
	CHECK(rig_logged("resync complete") >= 2);
}

/* One of a thousand every 3.6 s: if they came together, all of them would be here. */
static void they_are_spread_over_the_period(void)
{
	SAYS(SOON, resyncs("hourly", NULL) > 0);
	CHECK_MSG(resyncs("hourly", NULL) < MANY / 4, "%zu of %d came in a minute of an hour",
		  resyncs("hourly", NULL), MANY);
}

int main(void)
{
	rig_start();
	rig_controller(
	    "often",
	    "  for: {apiVersion: v1, kind: ConfigMap, predicates: [GenerationChanged, {Field: {path: "
	    "metadata.name, notIn: [c]}}]}\n"
	    "  watches:\n  - {apiVersion: v1, kind: Secret, mapTo: {label: site}}\n"
	    "  resyncPeriod: 1s\n");
	rig_controller("hourly", "  for: {apiVersion: example.com/v1, kind: Website}\n  resyncPeriod: 1h\n");
	all_come_again_and_again();
	they_are_spread_over_the_period();
	return check_result();
}
