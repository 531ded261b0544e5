typedef int program_empty;
