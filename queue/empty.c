/* Replaced by the first module. */
typedef int queue_empty;
