#include "config.h"
#include "ctl.h"

struct loaded {
	struct config *configs;
	size_t count, fatal;
};

/* config_load knows one path: names must be unique over all that are given. */
static void names_check(struct loaded *l, struct config_errors *errors)
{
	for (size_t i = 1; i < l->count; i++) {
		for (size_t k = 0; k < l->configs[i].count; k++) {
			const struct config_controller *c = &l->configs[i].controllers[k];
			for (size_t before = 0; before < i; before++) {
				const struct config_controller *other =
				    config_find(&l->configs[before], c->name);
				if (!other)
					continue;
				_cleanup_(free_ptr) char *text =
				    xasprintf("metadata.name: the name \"%s\" is taken: %s has a controller "
					      "of this name",
					      c->name, other->file);
				config_errors_add(errors, c->file, 0, 0, false, text);
				break;
			}
		}
	}
}

static void error_json(const struct config_error *e, struct buf *out)
{
	buf_puts(out, "{\"file\":");
	buf_json_string(out, span_of(e->file));
	buf_printf(out, ",\"line\":%zu,\"column\":%zu,\"severity\":\"%s\",\"message\":", e->line, e->column,
		   e->warning ? "warning" : "error");
	buf_json_string(out, span_of(e->text));
	buf_putc(out, '}');
}

static void print_json(const struct loaded *l, const struct config_errors *more, struct buf *out)
{
	const char *comma = "";
	buf_printf(out, "{\"valid\":%s,\"controllers\":[", l->fatal ? "false" : "true");
	for (size_t i = 0; i < l->count; i++) {
		for (size_t k = 0; k < l->configs[i].count; k++) {
			const struct config_controller *c = &l->configs[i].controllers[k];
			buf_printf(out, "%s{\"name\":", comma);
			buf_json_string(out, span_of(c->name));
			buf_puts(out, ",\"file\":");
			buf_json_string(out, span_of(c->file));
			buf_printf(out, ",\"digest\":\"%s\",\"workers\":%u}", c->digest, c->workers);
			comma = ",";
		}
	}
	buf_puts(out, "],\"errors\":[");
	comma = "";
	for (size_t i = 0; i <= l->count; i++) {
		const struct config_errors *errors = i < l->count ? &l->configs[i].errors : more;
		for (size_t k = 0; k < errors->count; k++) {
			buf_puts(out, comma);
			error_json(&errors->at[k], out);
			comma = ",";
		}
	}
	buf_puts(out, "]}\n");
}

static void print_text(const struct loaded *l, const struct config_errors *more, struct buf *out)
{
	size_t controllers = 0;
	for (size_t i = 0; i < l->count; i++) {
		config_errors_print(&l->configs[i].errors, out);
		controllers += l->configs[i].count;
	}
	config_errors_print(more, out);
	buf_printf(out, "%zu %s right, %zu %s\n", controllers,
		   controllers == 1 ? "controller is" : "controllers are", l->fatal,
		   l->fatal == 1 ? "error" : "errors");
}

CTL_RUN(validate_run)
{
	struct ctl c;
	struct err err;
	struct loaded l = {0};
	struct config_errors more = {0};
	_cleanup_(buf_done) struct buf out = {0};
	ctl_options(&c, self, NULL, true, argc, argv);
	if (c.first == argc)
		ctl_usage(self, "which file?");
	l.configs = xcalloc((size_t)(argc - c.first), sizeof(*l.configs));
	for (int i = c.first; i < argc; i++) {
		if (config_load(argv[i], &l.configs[l.count], &err) < 0)
			config_errors_add(&more, argv[i], 0, 0, false, err.text);
		else
			l.fatal += l.configs[l.count++].errors.fatal;
	}
	names_check(&l, &more);
	l.fatal += more.fatal;
	if (c.json)
		print_json(&l, &more, &out);
	else
		print_text(&l, &more, &out);
	ctl_print(&out);
	for (size_t i = 0; i < l.count; i++)
		config_done(&l.configs[i]);
	free(l.configs);
	config_errors_done(&more);
	return l.fatal ? EXIT_CONFIG : EXIT_SUCCESS;
}
