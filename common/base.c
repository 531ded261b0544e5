typedef int base_empty;
