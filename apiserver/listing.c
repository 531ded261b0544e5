#include "listing.h"
#include "table.h"

enum { CHUNK = 64 << 10 };

struct listing {
	struct view view;
	enum form form;
	struct snapshot snap;
	struct list_meta meta;
	char *token; /* of meta */
	int64_t now;
	size_t next;
	bool begun;
};

struct listing *listing_new(const struct view *v, enum form form, struct snapshot *snap,
			    const struct list_meta *meta, int64_t now)
{
	struct listing *l = xcalloc(1, sizeof(*l));
	*l = (struct listing){.view = {v->kind, definition_ref(v->def), v->version},
			      .form = form,
			      .snap = *snap,
			      .meta = *meta,
			      .now = now};
	l->meta.continue_token = l->token = meta->continue_token ? xstrdup(meta->continue_token) : NULL;
	*snap = (struct snapshot){0};
	return l;
}

void listing_free(struct listing *l)
{
	if (!l)
		return;
	view_done(&l->view);
	snapshot_done(&l->snap);
	free(l->token);
	free(l);
}

bool listing_read(struct listing *l, struct buf *out)
{
	size_t start = out->len;
	if (!l->begun)
		encode_list_head(out, &l->view, l->form, &l->meta);
	for (; l->next < l->snap.n && out->len - start < CHUNK; l->next++) {
		if (l->next)
			buf_putc(out, ',');
		encode_item(out, &l->view, l->form, l->snap.objects[l->next], l->now);
		object_unref(l->snap.objects[l->next]);
		l->snap.objects[l->next] = NULL;
	}
	l->begun = true;
	if (l->next < l->snap.n)
		return true;
	buf_puts(out, "]}");
	return false;
}
