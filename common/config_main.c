/* reconciled.yaml: the readers for its rows of the table that are no plain value. */
#include "config_internal.h"

#define READ(name)                                                                                           \
	void name(struct config_reader *r, _unused_ const struct config_key *k,                              \
		  const struct yaml_doc_node *n, void *base)

READ(config_read_kubeconfig)
{
	struct config_main *m = base;
	const char *text;
	if (!config_text(r, n, config_check_any, "a file's path", &text))
		return;
	free(m->kubeconfig);
	m->kubeconfig = config_path_from(r->folder, text);
}

READ(config_read_ha_mode)
{
	struct config_main *m = base;
	const char *mode = n->type == YAML_SCALAR ? n->text : "";
	m->ha.leader = strcmp(mode, "leader") == 0;
	if (strcmp(mode, "shard") == 0)
		config_complain(r, n, "shard is not supported by this version; allowed: none, leader");
	else if (!m->ha.leader && strcmp(mode, "none") != 0)
		config_refuse(r, n, "none or leader", NULL);
}

/* The numbers must leave a leader time to stop before another one begins, and to try more than once. */
static void check_ha_times(struct config_reader *r, const struct yaml_doc_node *n, const struct config_ha *ha)
{
	char lease[32], renew[32], retry[32];
	format_duration(ha->lease_duration_ns, lease);
	format_duration(ha->renew_deadline_ns, renew);
	format_duration(ha->retry_period_ns, retry);
	if (ha->lease_duration_ns % NS_PER_S)
		config_complain(
		    r, n, "found leaseDuration %s; allowed: whole seconds, as a Lease counts them", lease);
	if (ha->lease_duration_ns - ha->renew_deadline_ns < CONFIG_HA_MARGIN_NS)
		config_complain(
		    r, n,
		    "found leaseDuration %s and renewDeadline %s; allowed: renewDeadline at least 2s "
		    "below leaseDuration, in which attempts are ended before another host begins",
		    lease, renew);
	if ((double)ha->renew_deadline_ns <= CONFIG_HA_JITTER * (double)ha->retry_period_ns)
		config_complain(
		    r, n,
		    "found renewDeadline %s and retryPeriod %s; allowed: renewDeadline above 1.2 times "
		    "retryPeriod, so that a renewal can be tried again",
		    renew, retry);
}

READ(config_read_ha)
{
	struct config_main *m = base;
	size_t fatal = r->errors->fatal;
	config_section(r, k->path, n, base);
	if (r->errors->fatal != fatal || !m->ha.leader)
		return;
	if (!m->ha.namespace || !m->ha.name)
		config_complain(r, n, "\"%s\" is missing: with mode: leader the Lease must be named",
				m->ha.namespace ? "name" : "namespace");
	check_ha_times(r, n, &m->ha);
}
