/* Replaced by the first module. */
typedef int ctl_empty;
