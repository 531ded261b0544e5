typedef int doc_apply_empty;
