#include "config.h"
#include "config_internal.h"

void config_done(struct config *c)
{
	if (!c)
		return;
	for (size_t i = 0; i < c->count; i++)
		config_controller_done(&c->controllers[i]);
	free(c->controllers);
	free(c->main.kubeconfig);
	free(c->main.ha.namespace);
	free(c->main.ha.name);
	config_errors_done(&c->errors);
	*c = (struct config){0};
}

const struct config_controller *config_find(const struct config *c, const char *name)
{
	for (size_t i = 0; i < c->count; i++)
		if (strcmp(c->controllers[i].name, name) == 0)
			return &c->controllers[i];
	return NULL;
}

char *config_table_name(const struct config_kind *k)
{
	struct buf b = {0};
	buf_printf(&b, "%s %s", k->api_version, k->kind);
	for (size_t i = 0; k->namespaces && k->namespaces[i]; i++)
		buf_printf(&b, "%s%s", i ? "," : " ns=", k->namespaces[i]);
	if (k->label_selector)
		buf_printf(&b, " labels=%s", k->label_selector);
	if (k->field_selector)
		buf_printf(&b, " fields=%s", k->field_selector);
	if (k->metadata_only)
		buf_puts(&b, " metadata");
	if (k->fields)
		buf_puts(&b, " keep=");
	for (size_t i = 0; k->fields && k->fields[i]; i++)
		buf_printf(&b, "%s%s", i ? "," : "", k->fields[i]);
	return buf_steal(&b);
}
