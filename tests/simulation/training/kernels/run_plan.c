// Trains one client by a plan that a test wrote to a file, outside Python: under the sanitizers.
//
// The file: the number of arrays; then of each its length in bytes and its content, in the order of
// `understudy_train`'s arguments (data .. correction), then the parts of the arena that are used.
// Every array is a block of its own, so that the sanitizer sees each step beyond one; what lies
// between the arrays of the arena is poisoned. Prints the update and the loss.
#include <sanitizer/asan_interface.h>
#include <stdio.h>
#include <stdlib.h>

#include "kernels.c"

enum { PLAN, OPS, OFFSETS, TAPS, DATA, LABELS, ORDER, LENGTHS, RATES, START, CORRECTION, NUMBERS, SPANS };

static void *arrays[SPANS + 1];
static i64 bytes[SPANS + 1];

int main(int n_arguments, char **arguments) {
    FILE *file = fopen(arguments[n_arguments - 1], "rb");
    i64 n_arrays;
    if (!file || fread(&n_arrays, sizeof n_arrays, 1, file) != 1 || n_arrays != SPANS + 1) return 2;
    for (int a = 0; a <= SPANS; a++) {
        if (fread(&bytes[a], sizeof bytes[a], 1, file) != 1) return 2;
        arrays[a] = malloc((size_t)bytes[a]);
        if (fread(arrays[a], 1, (size_t)bytes[a], file) != (size_t)bytes[a]) return 2;
    }
    fclose(file);
    const i64 *numbers = arrays[NUMBERS], *spans = arrays[SPANS];  // of the arena; of dropout
    i64 size = numbers[0], last = 0;
    const plan *p = arrays[PLAN];
    REAL *arena = aligned_alloc(64, (size_t)size * sizeof(REAL));
    REAL *delta = malloc((size_t)p->d * sizeof(REAL));
    memset(arena, 0, (size_t)size * sizeof(REAL));
    for (i64 s = 0; s <= bytes[SPANS] / 16; s++) {
        i64 from = s < bytes[SPANS] / 16 ? spans[2 * s] : size;
        ASAN_POISON_MEMORY_REGION(arena + last, (size_t)(from - last) * sizeof(REAL));
        last = s < bytes[SPANS] / 16 ? spans[2 * s + 1] : size;
    }
    i64 n = bytes[DATA] / (p->inputs * (i64)sizeof(REAL)), drawn = bytes[ORDER] / 8, outside;
    double total = understudy_train(
        p, arrays[OPS], arrays[OFFSETS], arrays[TAPS], arena, arrays[DATA], 0, n, arrays[LABELS],
        arrays[ORDER], arrays[LENGTHS], drawn, bytes[LENGTHS] / 8, arrays[RATES], arrays[START],
        bytes[CORRECTION] ? arrays[CORRECTION] : 0, (uint64_t)numbers[1], delta, &outside);
    if (outside) return 3;
    REAL *outputs = malloc((size_t)(drawn * p->classes) * sizeof(REAL));
    outside = understudy_outputs(p, arrays[OPS], arrays[OFFSETS], arrays[TAPS], arena, arrays[DATA],
                                 0, n, arrays[ORDER], drawn, arrays[START], outputs);
    if (outside) return 3;
    fwrite(delta, sizeof(REAL), (size_t)p->d, stdout);
    fwrite(&total, sizeof total, 1, stdout);
    // once more from as many bytes: what is read and written, not what comes of it
    i64 n_bytes = n * p->inputs;
    uint8_t *images = malloc((size_t)n_bytes);
    for (i64 i = 0; i < n_bytes; i++) images[i] = (uint8_t)(i % 251);
    REAL *into = malloc((size_t)(p->chunk * p->inputs) * sizeof(REAL));
    REAL *terms = malloc(TERMS * sizeof(REAL));
    for (int i = 0; i < TERMS; i++) terms[i] = (REAL)0.001;
    pixels kept = {1, p->inputs, into, terms};
    understudy_train(p, arrays[OPS], arrays[OFFSETS], arrays[TAPS], arena, images, &kept, n,
                     arrays[LABELS], arrays[ORDER], arrays[LENGTHS], drawn, bytes[LENGTHS] / 8,
                     arrays[RATES], arrays[START], 0, (uint64_t)numbers[1], delta, &outside);
    if (outside) return 4;
    outside = understudy_outputs(p, arrays[OPS], arrays[OFFSETS], arrays[TAPS], arena, images, &kept,
                                 n, arrays[ORDER], drawn, arrays[START], outputs);
    if (outside) return 4;
    free(images);
    free(into);
    free(terms);
    for (int a = 0; a <= SPANS; a++) free(arrays[a]);
    free(outputs);
    free(delta);
    free(arena);
    return 0;
}
