typedef int config_empty;
