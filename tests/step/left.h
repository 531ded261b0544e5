/* What a killed broker left: copied, started again as the broker does, and described so that it can be
 * compared. Of the queue only its public faces are used: region.h, store.h (format, recover), workqueue.h,
 * queue_read.h. */
#pragma once
#include "queue/workqueue.h"
#include "queue_read.h"

#define LEFT_BLOCKS 22u /* the region at most */

/* ---- a region file in a folder of its own ---- */

struct place {
	char *folder, *path;
	int fd; /* -1: there is no file (yet) */
	char *at;
	size_t size;		     /* of the file when it was last looked at */
	struct queue_reader *reader; /* NULL until it is needed */
};

struct place place_new(const char *below, const char *name);
void place_done(struct place *p); /* removes file and folder */
/* Makes *to what *from is at this instant. */
void place_copy(struct place *from, struct place *to);
/* *to has grown since, which a reader does not expect to be undone. */
void place_forget(struct place *p);

/* ---- a broker's start ---- */

struct started {
	struct region region;
	struct store store;
	struct workqueue wq;
};

enum start_result { START_RECOVERED, START_MADE_ANEW, START_FAILED };
/* random: what the writer's generator stood at. MADE_ANEW and FAILED leave nothing open; err says why. */
enum start_result start(struct place *p, uint64_t random, struct started *ret, struct err *err);
void start_done(struct started *s);

/* ---- the image: what queue_read.h shows, as hashes ---- */

struct line { /* a key; or a controller's row: its number; or all that was counted for it: 64 and that */
	uint64_t id, hash;
};
#define LINE_KEYS 128u /* ids of keys are not below */

enum { IMAGE_ENTRIES = 64 };
struct image {
	struct line *lines;
	size_t n, cap;
	size_t busy;	/* slots that are being written: cannot be read now */
	size_t damaged; /* slots that the reader calls damaged */
	/* the last entries of the history, the newest at number % IMAGE_ENTRIES */
	uint64_t entries[IMAGE_ENTRIES], last;
	bool gap; /* there is a number that none of them accounts for */
};

/* wq: who counts; NULL for what a reader sees. print: what each line stands for goes to stdout. */
void image_read(struct place *p, const struct workqueue *wq, struct image *ret, bool print);
void image_done(struct image *i);
/* near: where it probably is. NULL: there is none. */
const struct line *image_find(const struct image *i, uint64_t id, size_t near);
bool image_equal(const struct image *a, const struct image *b); /* history apart */

/* ---- whole? ---- */

/* Every cell is free or named once, counts are the keys'. NULL, or what is wrong. */
const char *left_cells(const struct started *s);
/* Ends all leases, runs every key, drops all controllers: each key must be granted once or more, generations
 * above `generation` alone, and at the end every cell free. NULL, or what is wrong. */
const char *left_drain(struct started *s, int64_t now, uint64_t generation, size_t keys);
/* The rules that every controller has here: no jitter, three crashes park a key. */
struct workqueue_rules left_rules(void);
void left_configure(struct workqueue *wq);
