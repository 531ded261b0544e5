typedef int log_empty;
