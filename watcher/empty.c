/* Replaced by the first module. */
typedef int watcher_empty;
