# abi_next.sed -- makes the headers of a minor that never was: 1.2, where plugins, encoders and tasks have one more field.
s/^#define LAB_ABI_MINOR 1u/#define LAB_ABI_MINOR 2u/
/^struct lab_encoder {/,/^};/ s/^};/    int (*later)(void);\n};/
/^struct lab_task {/,/^};/ s/^};/    int (*later)(void);\n};/
/^struct lab_plugin {/,/^};/ s/^};/    const char *later;\n};/
