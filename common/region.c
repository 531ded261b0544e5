typedef int region_empty;
