/* The regions that more than one program maps: each is written by one process and read by others of ours,
 * never by user code.
 *
 *   queue.shm   written by reconciled-queue; read by reconcilectl           shm_queue.h
 *   cache.shm, cache-N.seg   written by reconciled-watcher; read by hosts   shm_cache.h
 *
 * A changed struct gets another layout hash by itself (sizes and offsets are hashed), so an old file is
 * refused, never misread. */
#pragma once
#include "shm_cache.h"
#include "shm_queue.h"
