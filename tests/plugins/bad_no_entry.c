/* bad_no_entry -- refused: a shared object, but no plugin. */
int bad_no_entry_answer(void);
__attribute__((visibility("default"))) int bad_no_entry_answer(void) { return 42; }
