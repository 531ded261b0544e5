/* reconciled-watcher: an object is the bytes that were sent, wherever chunks cut its characters, escapes and events. */
#include "watcher_rig.h"

enum { UPDATES = 40, FILLING = 4096 };

static void make_object(struct buf *out, int version)
{
	buf_printf(
	    out,
	    "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"namespace\":\"shop\",\"name\":"
	    "\"text\",\"uid\":\"text\",\"resourceVersion\":\"%d\",\"annotations\":{\"日本語🙂é\":"
	    "\"é🙂\"}"
	    "},"
	    "\"data\":{\"escapes\":\"\\u00e9\\ud83d\\ude42\\/\\u003c\",\"filling\":\"",
	    version);
	for (size_t end = out->len + FILLING; out->len < end;)
		buf_puts(out, "日本語🙂é");
	buf_puts(out, "\"}}");
}

static void update(int version)
{
	_cleanup_(buf_done) struct buf object = {0}, event = {0}, order = {0};
	make_object(&object, version);
	buf_printf(&event, "{\"type\":\"MODIFIED\",\"object\":%s}\n", buf_str(&object));
	buf_puts(&order, "{\"op\":\"send\",\"kind\":\"ConfigMap\",\"text\":");
	buf_json_string(&order, buf_span(&event));
	buf_puts(&order, "}");
	rig_control("%s", buf_str(&order));
	SAYS(SOON, rig_cache_says("v1 ConfigMap", "text", buf_str(&object)));
}

int main(void)
{
	static const int sizes[] = {1, 3, 7, 4095, 16384};
	int version = 1000000;
	rig.idle_timeout = NULL;
	rig_start();
	rig_controller("maps", "  for: {apiVersion: v1, kind: ConfigMap}\n");
	rig_start_watcher();
	SAYS(SOON, rig_watching("ConfigMap"));
	rig_requests_forget();
	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		rig_control("{\"op\":\"chunks\",\"bytes\":%d}", sizes[i]);
		for (int n = 0; n < UPDATES; n++)
			update(++version);
	}
	CHECK(rig_logged("watch has a problem") == 0);
	CHECK(rig_lists("ConfigMap") == 0 && rig_requests("ConfigMap", "watch", "watch", NULL) == 0);
	return check_result();
}
