/* A shared-memory file with one writer. Knows nothing of what it holds: see shm_layout.h.
 *
 * The first page is struct region_header. magic is written last by the creator, so a reader never takes a
 * half-made region. A file is never truncated or punched while linked; it grows by posix_fallocate
 * (retried on EINTR) before it is touched, so that a full tmpfs is -ENOSPC and not SIGBUS. No locks
 * between processes.
 *
 * A mapping is made at its maximum size at once (PROT_NONE beyond what is allocated for the writer;
 * readers map what exists and map again when header.allocated grew), so addresses never change in the
 * writer. One thread per handle. */
#pragma once
#include "base.h"
#include <stdatomic.h>
#include <sys/types.h>

#define REGION_PAGE 4096u

struct region_header {
	_Atomic uint64_t magic;
	uint32_t layout_version;
	/* of layout_version, layout_hash and boot_id: FNV-1a, folded; checked by everyone who opens */
	uint32_t checksum;
	uint64_t layout_hash; /* hash of sizes and offsets: see shm_layout.h */
	uint8_t boot_id[16];
	/* raised by each writer's start; never 0; a new file starts at its creation time in us */
	_Atomic uint64_t incarnation;
	_Atomic uint64_t allocated; /* bytes of the file that may be touched */
	uint64_t max_size;	    /* follows the writer's configuration, never below `allocated` */
	uint32_t writer_pid;	    /* for messages only; proof of life is the flock */
	uint32_t reserved;
};

struct region {
	char *at;      /* the header is at[0] */
	size_t mapped; /* readers: bytes mapped; writer: max_size */
	int fd;	       /* the writer holds an exclusive flock on it */
	bool writer;
	char *path;
	struct region_ahead *ahead; /* region_ahead.h; NULL: none */
};

struct region_spec {
	uint64_t magic;
	uint32_t layout_version;
	uint64_t layout_hash;
	uint64_t max_size;     /* multiple of REGION_PAGE */
	uint64_t initial_size; /* allocated at creation */
	mode_t mode;	       /* 0600 or 0640 */
};

enum region_state {
	REGION_CREATED,	  /* there was none */
	REGION_RECOVERED, /* the old contents are there; the caller checks them */
	REGION_REPLACED, /* there was one that cannot be trusted; err says why; it was unlinked and made anew */
};

/* Writer: opens or creates. -EBUSY when another writer lives. On REGION_REPLACED err holds the reason for
 * the log. */
int region_write(const char *path, const struct region_spec *spec, struct region *ret,
		 enum region_state *ret_state, struct err *err);
/* Writer: allocates up to `size` bytes in steps of at most 4 MiB a call; -ENOSPC leaves it as it was,
 * -EFBIG above max_size. Costs nearly nothing where region_ahead.h has been there before. */
int region_grow(struct region *r, uint64_t size);
/* Reader: maps read-only. -ENOENT no file, -EAGAIN not ready yet, -EPROTO another layout (err says which). */
int region_read(const char *path, const struct region_spec *spec, struct region *ret, struct err *err);
/* Reader: after header.allocated grew. May move at. */
int region_remap(struct region *r);
/* Reader: is some writer holding the lock now? */
bool region_has_writer(const struct region *r);
/* Writer: is the file still where others look for it, and as long as it was? Nobody of ours deletes or cuts it, but a person
 * or a cleaner may. */
bool region_in_place(const struct region *r);
void region_done(struct region *r); /* unmaps; keeps the file */

static inline struct region_header *region_header(const struct region *r)
{
	return (struct region_header *)(void *)r->at;
}
