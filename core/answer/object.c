/* object -- see object.h. */
#include "answer/object.h"
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#if __ELF_NATIVE_CLASS == 64
#define SYMBOL_OF(info) ELF64_R_SYM(info)
#else
#define SYMBOL_OF(info) ELF32_R_SYM(info)
#endif

static const ElfW(Dyn) *entry(const struct object *o, ElfW(Sxword) tag)
{
    const ElfW(Dyn) *d = o->dynamic;
    for (; d && d->d_tag != DT_NULL; d++) if (d->d_tag == tag) return d;
    return NULL;
}

/* The linker has made these absolute, on most machines. */
static const void *address(const struct object *o, ElfW(Sxword) tag)
{
    const ElfW(Dyn) *d = entry(o, tag);
    if (!d) return NULL;
    return d->d_un.d_ptr < (uintptr_t)o->base ? o->base + d->d_un.d_ptr : (const char *)(uintptr_t)d->d_un.d_ptr;
}

struct search { struct object *object; const char *path; };

static int look_at(struct dl_phdr_info *info, size_t size, void *data)
{
    struct search *s = data;
    struct object *o = s->object;
    (void)size;
    if (!info->dlpi_name || strcmp(info->dlpi_name, s->path)) return 0;
    *o = (struct object){ .base = (const char *)(uintptr_t)info->dlpi_addr };
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        if (p->p_type == PT_DYNAMIC) o->dynamic = o->base + p->p_vaddr;
        if (p->p_type != PT_LOAD || !(p->p_flags & PF_W) || o->n_writable == 8) continue;
        o->writable[o->n_writable].at = (char *)(uintptr_t)(info->dlpi_addr + p->p_vaddr);
        o->writable[o->n_writable++].bytes = p->p_memsz;
    }
    o->symbol = address(o, DT_SYMTAB);
    o->string = address(o, DT_STRTAB);
    return 1;
}

int object_find(struct object *o, const char *path)
{
    return dl_iterate_phdr(look_at, &(struct search){ o, path }) == 1 && o->dynamic && o->symbol && o->string ? 0 : -1;
}

void object_needed(const struct object *o, struct str *out)
{
    for (const ElfW(Dyn) *d = o->dynamic; d->d_tag != DT_NULL; d++)
        if (d->d_tag == DT_NEEDED) str_printf(out, "%s%s", out->len ? " " : "", o->string + d->d_un.d_val);
}

static int redirect_table(const struct object *o, const ElfW(Rela) *r, size_t bytes, const char *import, void (*target)(void))
{
    const ElfW(Sym) *symbol = o->symbol;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    int n = 0;
    for (size_t i = 0; r && i < bytes / sizeof *r; i++) {
        const ElfW(Sym) *s = &symbol[SYMBOL_OF(r[i].r_info)];
        char *place = (char *)(uintptr_t)(o->base + r[i].r_offset);
        if (!SYMBOL_OF(r[i].r_info) || s->st_shndx != SHN_UNDEF || strcmp(o->string + s->st_name, import)) continue;
        if (mprotect(place - (uintptr_t)place % page, page, PROT_READ | PROT_WRITE) != 0) continue;
        memcpy(place, &target, sizeof target);
        n++;
    }
    return n;
}

int object_redirect(const struct object *o, const char *import, void (*target)(void))
{
    const ElfW(Dyn) *calls = entry(o, DT_PLTRELSZ), *others = entry(o, DT_RELASZ);
    return redirect_table(o, address(o, DT_JMPREL), calls ? calls->d_un.d_val : 0, import, target) +
           redirect_table(o, address(o, DT_RELA), others ? others->d_un.d_val : 0, import, target);
}

/* ---- the file itself: only its section headers know how many symbols there are ---- */

static int add_exports(const char *file, size_t size, struct str *out)
{
    const ElfW(Ehdr) *head = (const void *)file;
    const ElfW(Shdr) *section = (const void *)(file + head->e_shoff);
    if (size < sizeof *head || head->e_shoff == 0 || head->e_shoff + (size_t)head->e_shnum * sizeof *section > size) return -1;
    for (int i = 0; i < head->e_shnum; i++) {
        if (section[i].sh_type != SHT_DYNSYM || section[i].sh_link >= head->e_shnum) continue;
        const ElfW(Sym) *symbol = (const void *)(file + section[i].sh_offset);
        const char *name = file + section[section[i].sh_link].sh_offset;
        for (size_t k = 1; k < section[i].sh_size / sizeof *symbol; k++)
            if (symbol[k].st_shndx != SHN_UNDEF && (symbol[k].st_info >> 4) != STB_LOCAL)
                str_printf(out, "%s%s", out->len ? " " : "", name + symbol[k].st_name);
        return 0;
    }
    return -1;
}

int object_exports(const char *path, struct str *out)
{
    struct stat s;
    int fd = open(path, O_RDONLY | O_CLOEXEC), rc = -1;
    if (fd >= 0 && fstat(fd, &s) == 0 && s.st_size > 0) {
        char *file = mmap(NULL, (size_t)s.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (file != MAP_FAILED) rc = add_exports(file, (size_t)s.st_size, out), munmap(file, (size_t)s.st_size);
    }
    if (fd >= 0) close(fd);
    return rc;
}
