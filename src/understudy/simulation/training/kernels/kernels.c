// Local SGD of one client, for a net that is a plain chain of layers.
//
// The planner (plan.py) lays all arrays of a net out in one arena and writes the chain down as a
// table of `op`s; this file runs it. Two micro-kernels carry all products: K1 adds scaled vectors,
// K2 multiplies vectors with vectors and adds up. What is around them is plain C.
//
// Same bits everywhere. The file is compiled for AVX-512, for AVX2 and without either, by gcc or
// clang, with -ffp-contract=off: a product and a sum are rounded once only where `fma` is written.
// K1's sums run over k = 0, 1, …, each lane for itself, so vectors may be as wide as they like. K2's
// sums are taken in LANES partial sums, whatever the width of a register: number i of a vector goes
// into partial sum i mod LANES, and at the end halves are added to halves. exp, log and tanh are
// polynomials written below. Nothing else adds up in an order that a compiler may choose.
//
// What it believes, and who checks it. Nothing else is assumed of what comes from Python.
//   plan, ops, offsets, taps: made by plan.py from the shapes of the weights and biases that the
//     layers were really called with (calls.py, chain.py), which must add up to the model's d. Fields
//     and their number: library.py, when a build is loaded. A convolution is at most MOST_WIDTH wide:
//     plan.py. A chunk has at most 64 images (the arrays on the stack): plan.py.
//   arena: as long as the plan says, at a multiple of 64 bytes, zero at first, of one call at a time:
//     plan.py, and a lock in kernel_engine.py.
//   data, labels, order, lengths, rates, start, correction, delta, outputs: type, device, length,
//     density and alignment to one number: memory.py, in every call. Nobody writes order and labels
//     meanwhile: they are copies.
//   data hold n examples of p->inputs numbers, or as many bytes: kernel_engine.py, in every call.
//     Of bytes, `into` has room for a chunk of images as numbers, and terms are five for each channel:
//     kernel_engine.py, which also tries all 256 bytes before any of them is trained on.
//   order is in 0 .. n − 1, labels in 0 .. classes − 1, lengths are positive and add up to the number
//     drawn: here, in every call, before anything is read; what is outside is counted, and no step
//     taken. A label is looked at once more where it is used.
//   start, correction, data may be anything, NaN and infinity too: they are never an address.
//
// Compiled with -DBITS=32 (float) or -DBITS=64 (double); no header but the compiler's own.
#include <stdint.h>
#include <string.h>
#if defined(__AVX2__)
#include <immintrin.h>
#endif

#define KERNELS_VERSION 1  // to be raised whenever a bit of a result changes
#define KERNELS_INTERFACE 3  // to be raised whenever an argument or a field of a struct changes

typedef int64_t i64;
#if BITS == 64
typedef double REAL;
typedef int64_t INT;
typedef uint64_t UINT;
#define FMA __builtin_fma
#define PS(name) name##pd
#elif BITS == 32
typedef float REAL;
typedef int32_t INT;
typedef uint32_t UINT;
#define FMA __builtin_fmaf
#define PS(name) name##ps
#else
#error "compile with -DBITS=32 or -DBITS=64"
#endif
#define INLINE static inline __attribute__((always_inline))
#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif
#define EXPORT __attribute__((visibility("default")))
#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define MAX(a, b) ((a) > (b) ? (a) : (b))

// ---- vectors: one register of this machine ------------------------------------------------------

#if defined(__AVX512F__)
#define BYTES 64
#elif defined(__AVX2__)
#define BYTES 32
#else
#define BYTES (2 * (BITS / 8))
#endif
enum { L = 8 * BYTES / BITS, LANES = 512 / BITS, PARTS = LANES / L };  // PARTS registers: 64 bytes
typedef REAL vec __attribute__((vector_size(BYTES)));
typedef INT ivec __attribute__((vector_size(BYTES)));
typedef REAL four __attribute__((vector_size(BITS / 2)));  // four numbers
typedef REAL vec_anywhere __attribute__((vector_size(BYTES), aligned(BITS / 8), may_alias));
typedef REAL four_anywhere __attribute__((vector_size(BITS / 2), aligned(BITS / 8), may_alias));
INLINE vec load(const REAL *p) { return *(const vec_anywhere *)p; }
INLINE void store(REAL *p, vec v) { *(vec_anywhere *)p = v; }

#if defined(__AVX512F__)
INLINE vec all(REAL x) { return PS(_mm512_set1_)(x); }
INLINE vec fma_(vec a, vec b, vec c) { return PS(_mm512_fmadd_)(a, b, c); }
typedef uint32_t mask;  // of lanes
INLINE mask range(i64 low, i64 high) { return ((1u << high) - 1) & ~((1u << low) - 1); }
// some lanes of what lies at p, zero in the others, which are not touched
INLINE vec load_some(const REAL *p, mask m) { return PS(_mm512_maskz_loadu_)(m, p); }
INLINE void store_some(REAL *p, vec v, mask m) { PS(_mm512_mask_storeu_)(p, m, v); }
INLINE ivec count(INT first, INT step) {
    ivec i = {0};
    UNROLL for (int l = 0; l < L; l++) i[l] = first + step * l;
    return i;
}
// of the 2 L numbers (a, b): every second one, from the first or from the second
INLINE vec evens(vec a, vec b) {
    return PS(_mm512_permutex2var_)(a, (__m512i)count(0, 2), b);
}
INLINE vec odds(vec a, vec b) { return PS(_mm512_permutex2var_)(a, (__m512i)count(1, 2), b); }
// the inverse: a0 b0 a1 b1 …, its first and its second vector
INLINE ivec zip_index(INT first) {
    ivec i = {0};
    UNROLL for (int l = 0; l < L; l++) i[l] = first + l / 2 + (l % 2 ? L : 0);
    return i;
}
INLINE vec zip_low(vec a, vec b) {
    return PS(_mm512_permutex2var_)(a, (__m512i)zip_index(0), b);
}
INLINE vec zip_high(vec a, vec b) {
    return PS(_mm512_permutex2var_)(a, (__m512i)zip_index(L / 2), b);
}
// sums of four times LANES numbers: lane l with l + LANES / 2, then with l + LANES / 4, …
INLINE four sum4(vec s[PARTS][4]) {
#define LOWS(p, q, i) ((vec)_mm512_shuffle_f64x2((__m512d)(p), (__m512d)(q), i))
    vec ab = LOWS(s[0][0], s[0][1], 0x44) + LOWS(s[0][0], s[0][1], 0xEE);
    vec cd = LOWS(s[0][2], s[0][3], 0x44) + LOWS(s[0][2], s[0][3], 0xEE);
    vec r = LOWS(ab, cd, 0x88) + LOWS(ab, cd, 0xDD);  // 16 bytes of each
#if BITS == 32
    r = r + _mm512_permute_ps(r, 0x4E);
    r = r + _mm512_permute_ps(r, 0xB1);
    return _mm512_castps512_ps128(_mm512_maskz_compress_ps(0x1111, r));
#else
    r = r + _mm512_permute_pd(r, 0x55);
    return _mm512_castpd512_pd256(_mm512_maskz_compress_pd(0x55, r));
#endif
}
#elif defined(__AVX2__)
INLINE vec all(REAL x) { return PS(_mm256_set1_)(x); }
INLINE vec fma_(vec a, vec b, vec c) { return PS(_mm256_fmadd_)(a, b, c); }
typedef __m256i mask;
INLINE mask range(i64 low, i64 high) {
    ivec i = {0};
    UNROLL for (int l = 0; l < L; l++) i[l] = l;
    return (mask)((i >= (INT)low) & (i < (INT)high));
}
INLINE vec load_some(const REAL *p, mask m) { return PS(_mm256_maskload_)(p, m); }
INLINE void store_some(REAL *p, vec v, mask m) { PS(_mm256_maskstore_)(p, m, v); }
#define ORDERED(v) ((vec)_mm256_permute4x64_pd((__m256d)(v), 0xD8))
#if BITS == 32
INLINE vec evens(vec a, vec b) { return ORDERED(_mm256_shuffle_ps(a, b, 0x88)); }
INLINE vec odds(vec a, vec b) { return ORDERED(_mm256_shuffle_ps(a, b, 0xDD)); }
#else
INLINE vec evens(vec a, vec b) { return ORDERED(_mm256_unpacklo_pd(a, b)); }
INLINE vec odds(vec a, vec b) { return ORDERED(_mm256_unpackhi_pd(a, b)); }
#endif
#define HALVES(p, q, i) PS(_mm256_permute2f128_)(p, q, i)
INLINE vec zip_low(vec a, vec b) {
    return HALVES(PS(_mm256_unpacklo_)(a, b), PS(_mm256_unpackhi_)(a, b), 0x20);
}
INLINE vec zip_high(vec a, vec b) {
    return HALVES(PS(_mm256_unpacklo_)(a, b), PS(_mm256_unpackhi_)(a, b), 0x31);
}
INLINE four sum4(vec s[PARTS][4]) {
    vec a = s[0][0] + s[1][0], b = s[0][1] + s[1][1], c = s[0][2] + s[1][2], d = s[0][3] + s[1][3];
    vec ab = HALVES(a, b, 0x20) + HALVES(a, b, 0x31), cd = HALVES(c, d, 0x20) + HALVES(c, d, 0x31);
#if BITS == 32
    vec r = _mm256_shuffle_ps(ab, cd, 0x44) + _mm256_shuffle_ps(ab, cd, 0xEE);
    r = r + _mm256_permute_ps(r, 0xB1);  // a a c c, b b d d
    return _mm_blend_ps(_mm256_castps256_ps128(r), _mm256_extractf128_ps(r, 1), 10);
#else
    vec r = _mm256_unpacklo_pd(ab, cd) + _mm256_unpackhi_pd(ab, cd);  // a c, b d
    return _mm256_permute4x64_pd(r, 0xD8);
#endif
}
#else  // no such registers: the same in loops, slow, for other machines and for the sanitizers
INLINE vec all(REAL x) { return (vec){x, x}; }
INLINE vec fma_(vec a, vec b, vec c) {
    return (vec){FMA(a[0], b[0], c[0]), FMA(a[1], b[1], c[1])};
}
typedef int mask;
INLINE mask range(i64 low, i64 high) { return ((1 << high) - 1) & ~((1 << low) - 1); }
INLINE vec load_some(const REAL *p, mask m) { return (vec){m & 1 ? p[0] : 0, m & 2 ? p[1] : 0}; }
INLINE void store_some(REAL *p, vec v, mask m) {
    for (int l = 0; l < L; l++)
        if (m >> l & 1) p[l] = v[l];
}
INLINE vec evens(vec a, vec b) { return (vec){a[0], b[0]}; }
INLINE vec odds(vec a, vec b) { return (vec){a[1], b[1]}; }
INLINE vec zip_low(vec a, vec b) { return (vec){a[0], b[0]}; }
INLINE vec zip_high(vec a, vec b) { return (vec){a[1], b[1]}; }
INLINE four sum4(vec s[PARTS][4]) {
    four sums;
    for (int j = 0; j < 4; j++) {
        vec part[PARTS];
        for (int i = 0; i < PARTS; i++) part[i] = s[i][j];
        for (int half = PARTS / 2; half; half /= 2)
            for (int i = 0; i < half; i++) part[i] = part[i] + part[i + half];
        sums[j] = part[0][0] + part[0][1];
    }
    return sums;
}
#endif

// ---- the two micro-kernels ----------------------------------------------------------------------

typedef struct {
    i64 a, b;
} tap;

// A tile has as many sums as registers hold: columns of a K1 tile by its rows, rows of a K2 tile.
#if defined(__AVX512F__)
enum { K1_ROWS = 6, K2_ROWS = 6, K2_BLOCK = 16 };
static const int K1_COLUMNS[K1_ROWS + 1] = {0, 4, 4, 4, 4, 4, 4};
#else
enum { K1_ROWS = 6, K2_ROWS = 3, K2_BLOCK = 16 };
static const int K1_COLUMNS[K1_ROWS + 1] = {0, 4, 4, 3, 3, 2, 2};
#endif

// K1: C[r][v] = start + Σ_k A[r · a_row + tap_k.a] · B[tap_k.b + v], for a tile of vectors v.
// It starts from C itself (`add`), from bias[r], or from zero. `tail`: one vector of n lanes.
// With a `step`, C is not replaced by the sum but descends by step times it.
INLINE void k1_tile(const int rows, const int columns, const int tail, i64 n, i64 K, const REAL *A,
                    i64 a_row, const tap *taps, const REAL *B, const REAL *bias, int add, REAL step,
                    REAL *C, i64 c_row) {
    vec sum[K1_ROWS][4], x[4];
    mask some = range(0, tail ? n : 0);
    UNROLL for (int r = 0; r < rows; r++) UNROLL for (int v = 0; v < columns; v++) {
        const REAL *c = C + r * c_row + v * L;
        sum[r][v] = add ? (tail ? load_some(c, some) : load(c)) : all(bias ? bias[r] : 0);
    }
    for (i64 k = 0; k < K; k++) {
        const REAL *a = A + taps[k].a, *b = B + taps[k].b;
        UNROLL for (int v = 0; v < columns; v++) x[v] = tail ? load_some(b, some) : load(b + v * L);
        UNROLL for (int r = 0; r < rows; r++) {
            vec scale = all(a[r * a_row]);
            UNROLL for (int v = 0; v < columns; v++) sum[r][v] = fma_(scale, x[v], sum[r][v]);
        }
    }
    UNROLL for (int r = 0; r < rows; r++) UNROLL for (int v = 0; v < columns; v++) {
        REAL *c = C + r * c_row + v * L;
        if (step != 0) sum[r][v] = fma_(all(-step), sum[r][v], tail ? load_some(c, some) : load(c));
        if (tail) store_some(c, sum[r][v], some);
        else store(c, sum[r][v]);
    }
}
// `tiles` tiles side by side; columns = 0 means a tail of n lanes
static __attribute__((noinline)) void k1_tiles(int rows, int columns, i64 tiles, i64 n, i64 K,
                                               const REAL *A, i64 a_row, const tap *taps,
                                               const REAL *B, const REAL *bias, int add, REAL step,
                                               REAL *C, i64 c_row) {
#define K1_CASE(r, c)                                                                            \
    case (r) * 8 + (c):                                                                          \
        for (i64 i = 0; i < tiles; i++)                                                          \
            k1_tile(r, (c) ? (c) : 1, (c) == 0, n, K, A, a_row, taps, B + i * (c) * L, bias, add, \
                    step, C + i * (c) * L, c_row);                                               \
        break;
#define K1_CASES(r) K1_CASE(r, 0) K1_CASE(r, 1) K1_CASE(r, 2)
    switch (rows * 8 + columns) {
        K1_CASES(1) K1_CASES(2) K1_CASES(3) K1_CASES(4) K1_CASES(5) K1_CASES(6)
        K1_CASE(1, 3) K1_CASE(2, 3) K1_CASE(3, 3) K1_CASE(4, 3) K1_CASE(1, 4) K1_CASE(2, 4)
#if defined(__AVX512F__)
        K1_CASE(5, 3) K1_CASE(6, 3) K1_CASE(3, 4) K1_CASE(4, 4) K1_CASE(5, 4) K1_CASE(6, 4)
#endif
    }
}
static void k1(i64 M, i64 n, i64 K, const REAL *A, i64 a_row, const tap *taps, const REAL *B,
               const REAL *bias, int add, REAL step, REAL *C, i64 c_row) {
    i64 left = (M + K1_ROWS - 1) / K1_ROWS;  // tiles of about equal height
    for (i64 m = 0; m < M; left--) {
        int rows = (int)((M - m + left - 1) / left);
        const REAL *a = A + m * a_row, *b0 = bias ? bias + m : 0;
        REAL *c = C + m * c_row;
        i64 vectors = n / L, most = K1_COLUMNS[rows], tiles = (vectors + most - 1) / most;
        if (tiles) {  // and of about equal width: some of `wide`, the others one less
            i64 wide = (vectors + tiles - 1) / tiles, n_wide = vectors - tiles * (wide - 1);
            i64 at = n_wide * wide * L;
            k1_tiles(rows, (int)wide, n_wide, 0, K, a, a_row, taps, B, b0, add, step, c, c_row);
            if (tiles > n_wide)
                k1_tiles(rows, (int)wide - 1, tiles - n_wide, 0, K, a, a_row, taps, B + at, b0, add,
                         step, c + at, c_row);
        }
        if (n % L)
            k1_tiles(rows, 0, 1, n % L, K, a, a_row, taps, B + vectors * L, b0, add, step,
                     c + vectors * L, c_row);
        m += rows;
    }
}

// K2: D[r][j] = plus[r][j] + Σ_o Σ_v A[a_r + o · a_step + v] · B[b_j + o · b_step + v], v < n:
// r a row of a tile, j one of four. With several registers to 64 bytes, one after the other.
INLINE void k2_tile(const int rows, const int columns, i64 O, i64 n, const REAL *A, const i64 *a_at,
                    i64 a_step, const REAL *B, const i64 *b_at, i64 b_step, const REAL *plus,
                    i64 plus_row, REAL *D, i64 d_row) {
    vec parts[K2_ROWS][PARTS][4];
    const REAL *a[K2_ROWS], *b[4];
    i64 whole = n / LANES * LANES;
    UNROLL for (int r = 0; r < rows; r++) a[r] = A + a_at[r];
    UNROLL for (int j = 0; j < columns; j++) b[j] = B + b_at[j];
    for (int part = 0; part < PARTS; part++) {
        i64 rest = MAX(0, MIN(n - whole - part * L, L));  // lanes of the last vector
        mask some = range(0, rest);
        vec sum[K2_ROWS][4], y[K2_ROWS];
        UNROLL for (int r = 0; r < rows; r++) UNROLL for (int j = 0; j < columns; j++)
            sum[r][j] = (vec){0};
        for (i64 o = 0; o < O; o++) {
            i64 in_a = o * a_step + part * L, in_b = o * b_step + part * L;
            for (i64 v = 0; v < whole; v += LANES, in_a += LANES, in_b += LANES) {
                UNROLL for (int r = 0; r < rows; r++) y[r] = load(a[r] + in_a);
                UNROLL for (int j = 0; j < columns; j++) {
                    vec x = load(b[j] + in_b);
                    UNROLL for (int r = 0; r < rows; r++) sum[r][j] = fma_(y[r], x, sum[r][j]);
                }
            }
            if (rest) {
                UNROLL for (int r = 0; r < rows; r++) y[r] = load_some(a[r] + in_a, some);
                UNROLL for (int j = 0; j < columns; j++) {
                    vec x = load_some(b[j] + in_b, some);
                    UNROLL for (int r = 0; r < rows; r++) sum[r][j] = fma_(y[r], x, sum[r][j]);
                }
            }
        }
        UNROLL for (int r = 0; r < rows; r++) UNROLL for (int j = 0; j < 4; j++)
            parts[r][part][j] = sum[r][MIN(j, columns - 1)];
    }
    UNROLL for (int r = 0; r < rows; r++) {
        four sums = sum4(parts[r]);
        const REAL *p = plus + r * plus_row;
        REAL *d = D + r * d_row;
        if (columns == 4) {
            if (plus) sums += *(const four_anywhere *)p;
            *(four_anywhere *)d = sums;
        } else {
            UNROLL for (int j = 0; j < columns; j++) d[j] = plus ? p[j] + sums[j] : sums[j];
        }
    }
}
static __attribute__((noinline)) void k2_tiles(int rows, int columns, i64 tiles, i64 O, i64 n,
                                               const REAL *A, const i64 *a_at, i64 a_step,
                                               const REAL *B, const i64 *b_at, i64 b_step,
                                               const REAL *plus, i64 plus_row, REAL *D, i64 d_row) {
#define K2_CASE(r, c)                                                                          \
    case (r) * 8 + (c):                                                                        \
        for (i64 i = 0; i < tiles; i++)                                                        \
            k2_tile(r, c, O, n, A, a_at, a_step, B, b_at + i * (c), b_step,                    \
                    plus ? plus + i * (c) : 0, plus_row, D + i * (c), d_row);                  \
        break;
#define K2_CASES(r) K2_CASE(r, 1) K2_CASE(r, 2) K2_CASE(r, 3) K2_CASE(r, 4)
    switch (rows * 8 + columns) {
        K2_CASES(1) K2_CASES(2) K2_CASES(3)
#if defined(__AVX512F__)
        K2_CASES(4) K2_CASES(5) K2_CASES(6)
#endif
    }
}
static void k2(i64 M, i64 J, i64 O, i64 n, const REAL *A, const i64 *a_at, i64 a_step,
               const REAL *B, const i64 *b_at, i64 b_step, const REAL *plus, i64 plus_row, REAL *D,
               i64 d_row) {
    for (i64 at = 0; at < J; at += K2_BLOCK) {  // what all rows meet next stays in the cache
        i64 block = MIN(J - at, K2_BLOCK), last = at + block / 4 * 4;
        i64 left = (M + K2_ROWS - 1) / K2_ROWS;
        for (i64 m = 0; m < M; left--) {
            int rows = (int)((M - m + left - 1) / left);
            const REAL *p = plus ? plus + m * plus_row : 0;
            REAL *d = D + m * d_row;
            k2_tiles(rows, 4, block / 4, O, n, A, a_at + m, a_step, B, b_at + at, b_step,
                     p ? p + at : 0, plus_row, d + at, d_row);
            if (block % 4)
                k2_tiles(rows, (int)(block % 4), 1, O, n, A, a_at + m, a_step, B, b_at + last,
                         b_step, p ? p + last : 0, plus_row, d + last, d_row);
            m += rows;
        }
    }
}

// ---- functions of one number, without a branch --------------------------------------------------

INLINE UINT bits_of(REAL x) {
    UINT u;
    memcpy(&u, &x, sizeof u);
    return u;
}
INLINE REAL of_bits(UINT u) {
    REAL x;
    memcpy(&x, &u, sizeof x);
    return x;
}
#if BITS == 64
enum { MANTISSA = 52, BIAS = 1023, EXP_TERMS = 13, LOG_TERMS = 10 };
#define LN2_HIGH 0x1.62e42fefa3p-1  // few enough digits that a multiple of it is exact
#define LN2_LOW 0x1.3de6af278ece6p-42
#define EXP_LEAST -746.0
#define EXP_MOST 710.0
#define TANH_IS_ONE 40.0
#else
enum { MANTISSA = 23, BIAS = 127, EXP_TERMS = 7, LOG_TERMS = 4 };
#define LN2_HIGH 0x1.62ep-1f
#define LN2_LOW 0x1.0bfbe8p-15f
#define EXP_LEAST -104.0f
#define EXP_MOST 89.0f
#define TANH_IS_ONE 20.0f
#endif
static const REAL INVERSE[] = {0, 1, 1.0 / 2, 1.0 / 3, 1.0 / 4, 1.0 / 5, 1.0 / 6, 1.0 / 7,
                               1.0 / 8, 1.0 / 9, 1.0 / 10, 1.0 / 11, 1.0 / 12, 1.0 / 13};

// x = n ln 2 + r with |r| <= ln 2 / 2: returns e^r − 1 = r (1 + r/2 (1 + r/3 (…))), and n
INLINE REAL reduced_exp(REAL x, UINT *n) {
    const REAL shift = 3 * (REAL)((UINT)1 << (MANTISSA - 1));  // a sum with it has no fraction
    REAL shifted = FMA(x, (REAL)1.4426950408889634, shift), whole = shifted - shift;
    REAL r = FMA(whole, -LN2_LOW, FMA(whole, -LN2_HIGH, x)), p = 1;
    UNROLL for (int k = EXP_TERMS; k > 1; k--) p = FMA(r * INVERSE[k], p, 1);
    *n = bits_of(shifted) - bits_of(shift);  // modulo 2^BITS
    return r * p;
}
INLINE REAL power_of_two(UINT n) { return of_bits((n + BIAS) << MANTISSA); }
INLINE REAL exp_(REAL x) {
    UINT n;
    x = x < EXP_LEAST ? EXP_LEAST : x;  // NaN stays
    x = x > EXP_MOST ? EXP_MOST : x;
    REAL e = reduced_exp(x, &n);
    UINT half = (UINT)((INT)n >> 1);  // in two factors: the result may be subnormal
    return (e + 1) * power_of_two(half) * power_of_two(n - half);
}
// tanh x = E / (E + 2), E = e^2x − 1, which is exact to the last bits for small x too
INLINE REAL tanh_(REAL x) {
    UINT n;
    REAL twice = x < 0 ? -2 * x : 2 * x;
    twice = twice > TANH_IS_ONE ? TANH_IS_ONE : twice;
    REAL e = reduced_exp(twice, &n), scale = power_of_two(n);
    REAL E = FMA(scale, e, scale - 1), y = E / (E + 2);
    return x < 0 ? -y : y;
}
INLINE REAL sigmoid_(REAL x) {
    REAL e = exp_(x < 0 ? x : -x);  // at most 1
    return (x < 0 ? e : 1) / (1 + e);
}
// of y >= 1: y = m 2^n with m in [1/√2, √2], log m = 2 (s + s³/3 + s⁵/5 + …), s = (m − 1) / (m + 1)
INLINE REAL log_(REAL y) {
    UINT u = bits_of(y), n = (u >> MANTISSA) - BIAS;
    REAL m = of_bits((u & (((UINT)1 << MANTISSA) - 1)) | (UINT)BIAS << MANTISSA);
    int large = m > (REAL)1.4142135623730951;
    m = large ? m / 2 : m;
    REAL k = (REAL)(INT)(n + (UINT)large), s = (m - 1) / (m + 1), z = s * s, p = 0;
    UNROLL for (int i = LOG_TERMS; i >= 0; i--) p = FMA(p, z, 1 / (REAL)(2 * i + 1));
    REAL result = FMA(k, LN2_HIGH, FMA(k, LN2_LOW, 2 * s * p));
    return y != y ? y : result;
}

// ---- the chain ----------------------------------------------------------------------------------

typedef struct {  // channel c of image i lies at arena + at + i * image + c * channel, densely
    i64 at, image, channel;
} array;
enum { MOST_WIDTH = 64 };  // of a convolution, as in plan.py
enum { CONV, LINEAR, MAX_POOL, AVERAGE_POOL, RELU, TANH, SIGMOID, COPY, DROPOUT };
typedef struct {  // as plan.py writes it
    i64 kind, channels, rows, columns, outputs, out_rows, out_columns;  // of one image
    array x, dx, y, dy;                                                 // dy lies in zeros
    i64 first;           // x is the data themselves
    i64 wanted;          // dx is
    i64 weight, bias;    // in the flat model; bias −1: none
    i64 height, width;   // of the kernel or window
    i64 down, right;     // padding of a convolution, stride of a pooling
    i64 patches, patches_image;      // convolution: see `pack`
    i64 together;        // convolution: images whose products are added up at once
    i64 spread, spread_channel;      // convolution: see `conv_backward`
    i64 forward_taps, weight_taps, input_taps, dy_taps;  // positions in the tables
    i64 chosen;          // pooling: where the maximum was
    i64 relu;            // pooling: followed by ReLU
    i64 layer;           // dropout: which one
    double p;            // dropout: the share that is dropped
} op;
typedef struct {
    i64 n_ops, d, weights, gradient, velocity, inputs, classes, chunk;
    array logits, dlogits;
} plan;
typedef struct {  // what all ops of a chunk of images share
    const op *ops;
    const i64 *offsets;
    const tap *taps;
    REAL *arena, *w, *g;
    const REAL *data;
    const i64 *order, *labels;  // examples of the chunk, and their labels
    i64 images, position;  // position: of its first image in the batch
    int add, training;     // add: not the first chunk of the step
    REAL step;             // not 0: weights of linear layers descend at once
    uint64_t stream;       // of the step's dropout
} work;

INLINE const REAL *input(const work *k, const op *o, i64 i) {
    return o->first ? k->data + k->order[i] * (o->channels * o->rows * o->columns)
                    : k->arena + o->x.at + i * o->x.image;
}
INLINE i64 input_channel(const op *o) { return o->first ? o->rows * o->columns : o->x.channel; }
static REAL sum_lanes(REAL lane[LANES]) {
    for (int half = LANES / 2; half; half /= 2)
        for (int l = 0; l < half; l++) lane[l] += lane[l + half];
    return lane[0];
}

// Convolution. y[o][p] = b[o] + Σ_(c,a,b) w[o][c][a][b] · x[c][p + (a, b)] over output pixels p, all
// of an image in one dense row. Patches make every tap dense: P[b][c] holds the columns b … of x's
// channel c, rows of the output's width, padding included; tap (c, a, b) then is P[b][c] from row a
// on. What pads is zero from the beginning and never written.
static void pack(const work *k, const op *o, i64 i) {
    const REAL *x = input(k, o, i);
    i64 wide = o->out_columns, high = o->rows + 2 * o->down;
    for (i64 b = 0; b < o->width; b++) {
        i64 from = MAX(0, o->right - b), to = MIN(wide, o->columns + o->right - b);
        i64 whole = from + MAX(0, to - from) / L * L;
        mask rest = range(0, MAX(0, to - whole));
        for (i64 c = 0; c < o->channels; c++) {
            const REAL *row = x + c * input_channel(o) + b - o->right;
            REAL *into = k->arena + o->patches + i * o->patches_image +
                         ((b * o->channels + c) * high + o->down) * wide;
            for (i64 r = 0; r < o->rows; r++, row += o->columns, into += wide) {
                for (i64 j = from; j < whole; j += L) store(into + j, load(row + j));
                store_some(into + whole, load_some(row + whole, rest), rest);
            }
        }
    }
}
static void conv_forward(const work *k, const op *o) {
    i64 taps = o->channels * o->height * o->width, pixels = o->out_rows * o->out_columns;
    for (i64 i = 0; i < k->images; i++) {
        pack(k, o, i);
        k1(o->outputs, (pixels + L - 1) / L * L, taps, k->w + o->weight, taps,
           k->taps + o->forward_taps, k->arena + o->patches + i * o->patches_image,
           o->bias < 0 ? 0 : k->w + o->bias, 0, 0, k->arena + o->y.at + i * o->y.image,
           o->y.channel);
    }
}
// dw[o][tap] = Σ_p dy[o][p] · P[tap][p] and db[o] = Σ_p dy[o][p], over the images too.
// dx: S[b][c][r][j] = Σ_(o,a) w[o][c][a][b] · dy[o][r + padding − a][j], where rows of dy that are
// not there are zeros around it; then dx[c][r][q] = Σ_b S[b][c][r][q + padding − b].
static void conv_backward(const work *k, const op *o) {
    i64 window = o->height * o->width, taps = o->channels * window;
    i64 wide = o->out_columns, pixels = o->out_rows * wide;
    const REAL *dy = k->arena + o->dy.at;
    REAL *dw = k->g + o->weight;
    for (i64 i = 0; i < k->images; i += o->together)
        k2(o->outputs, taps, MIN(k->images - i, o->together), pixels, dy + i * o->dy.image,
           k->offsets + o->dy_taps, o->dy.image, k->arena + o->patches + i * o->patches_image,
           k->offsets + o->weight_taps, o->patches_image, k->add || i ? dw : 0, taps, dw, taps);
    for (i64 c = 0; o->bias >= 0 && c < o->outputs; c += 4) {
        vec sum[PARTS][4] = {0};
        i64 channels = MIN(o->outputs - c, 4);
        for (i64 i = 0; i < k->images; i++)
            for (i64 v = 0; v < pixels; v += LANES)  // behind the pixels lie zeros
                UNROLL for (int j = 0; j < 4; j++) UNROLL for (int part = 0; part < PARTS; part++)
                    sum[part][j] += load(dy + i * o->dy.image + (c + MIN(j, channels - 1)) * o->dy.channel +
                                         v + part * L);
        four sums = sum4(sum);
        REAL *db = k->g + o->bias + c;
        for (i64 j = 0; j < channels; j++) db[j] = (k->add ? db[j] : 0) + sums[j];
    }
    for (i64 i = 0; o->wanted && i < k->images; i++) {
        REAL *spread = k->arena + o->spread, *dx = k->arena + o->dx.at + i * o->dx.image;
        i64 same_b = o->channels * o->spread_channel;
        for (i64 b = 0; b < o->width; b++)
            k1(o->channels, (o->rows * wide + L - 1) / L * L, o->outputs * o->height,
               k->w + o->weight + b, window, k->taps + o->input_taps, dy + i * o->dy.image, 0, 0, 0,
               spread + b * same_b, o->spread_channel);
        for (i64 q = 0; q < o->columns; q += L) {
            mask there[MOST_WIDTH], all_of_it = range(0, MIN(o->columns - q, L));
            for (i64 b = 0; b < o->width; b++) {  // lanes whose column of S is there
                i64 j = q + o->right - b, low = MIN(MAX(-j, 0), L);
                there[b] = range(low, MIN(MAX(wide - j, low), L));
            }
            for (i64 c = 0; c < o->channels; c++)
                for (i64 r = 0; r < o->rows; r++) {
                    const REAL *from = spread + c * o->spread_channel + r * wide + o->right + q;
                    vec sum = {0};
                    for (i64 b = 0; b < o->width; b++)
                        sum += load_some(from + b * same_b - b, there[b]);
                    store_some(dx + c * o->dx.channel + r * o->columns + q, sum, all_of_it);
                }
        }
    }
}

// Linear: y = x w' + b, dx = dy w, dw = dy' x, db = Σ dy; x dense, of length n.
static void linear_forward(const work *k, const op *o) {
    i64 n = o->channels * o->rows * o->columns, at[k->images];
    for (i64 i = 0; i < k->images; i++) at[i] = o->first ? k->order[i] * n : i * o->x.image;
    k2(k->images, o->outputs, 1, n, o->first ? k->data : k->arena + o->x.at, at, 0,
       k->w + o->weight, k->offsets + o->weight_taps, 0, o->bias < 0 ? 0 : k->w + o->bias, 0,
       k->arena + o->y.at, o->y.image);
}
static void linear_backward(const work *k, const op *o) {
    i64 n = o->channels * o->rows * o->columns;
    const REAL *dy = k->arena + o->dy.at;
    tap rows[k->images];
    for (i64 i = 0; i < k->images; i++) {
        rows[i].a = i * o->dy.image;
        rows[i].b = o->first ? k->order[i] * n : i * o->x.image;
    }
    if (o->wanted)  // first: the weights are as they were
        k1(k->images, n, o->outputs, dy, o->dy.image, k->taps + o->input_taps, k->w + o->weight, 0,
           0, 0, k->arena + o->dx.at, o->dx.image);
    k1(o->outputs, n, k->images, dy, 1, rows, o->first ? k->data : k->arena + o->x.at, 0, k->add,
       k->step, (k->step != 0 ? k->w : k->g) + o->weight, n);
    if (o->bias >= 0) {
        REAL *db = k->g + o->bias;
        if (!k->add) memset(db, 0, (size_t)o->outputs * sizeof(REAL));
        for (i64 i = 0; i < k->images; i++)
            for (i64 j = 0; j < o->outputs; j++) db[j] += dy[i * o->dy.image + j];
    }
}

// Pooling. A maximum is the first largest one, or the last NaN, as torch has it. ReLU after it is
// the same function, with the same gradient, as ReLU before it.
#define SELECT(c, p, q) (((c) & (p)) | (~(c) & (q)))
INLINE void pick(vec *most, ivec *at, vec value, INT index) {
    ivec better = (value > *most) | (value != value);
    *most = (vec)SELECT(better, (ivec)value, (ivec)*most);
    *at = SELECT(better, (ivec){0} + index, *at);
}
// windows of 2 × 2 side by side, row after row; `chosen` is 0 .. 3 in the window, −1: none
static void pool_2x2_forward(const op *o, const REAL *x, REAL *y, INT *chosen) {
    for (i64 j = 0; j < o->out_columns; j += L) {
        i64 n = MIN(o->out_columns - j, L);
        mask some = range(0, n), low = range(0, MIN(2 * n, L)), high = range(0, MAX(2 * n - L, 0));
        for (i64 r = 0; r < o->out_rows; r++) {
            const REAL *p = x + 2 * r * o->columns + 2 * j, *q = p + o->columns;
            vec p0 = load_some(p, low), p1 = load_some(p + L, high);
            vec q0 = load_some(q, low), q1 = load_some(q + L, high);
            vec most = evens(p0, p1), second = odds(p0, p1), third = evens(q0, q1);
            vec fourth = odds(q0, q1);
            i64 to = r * o->out_columns + j;
            if (o->kind == AVERAGE_POOL) {
                store_some(y + to, (((most + second) + third) + fourth) / all(4), some);
                continue;
            }
            ivec at = {0};
            pick(&most, &at, second, 1);
            pick(&most, &at, third, 2);
            pick(&most, &at, fourth, 3);
            if (o->relu) {
                ivec off = most <= (vec){0};
                most = (vec)(~off & (ivec)most);
                at |= off;
            }
            store_some(y + to, most, some);
            store_some((REAL *)chosen + to, (vec)at, some);
        }
    }
}
static void pool_2x2_backward(const op *o, REAL *dx, const REAL *dy, const INT *chosen) {
    if (o->rows > 2 * o->out_rows || o->columns > 2 * o->out_columns)  // some are in no window
        memset(dx, 0, (size_t)(o->rows * o->columns) * sizeof(REAL));
    for (i64 j = 0; j < o->out_columns; j += L) {
        i64 n = MIN(o->out_columns - j, L);
        mask some = range(0, n), low = range(0, MIN(2 * n, L)), high = range(0, MAX(2 * n - L, 0));
        for (i64 r = 0; r < o->out_rows; r++) {
            i64 from = r * o->out_columns + j;
            vec g = load_some(dy + from, some), left = g / all(4), right = left;
            ivec at = (ivec)load_some((const REAL *)chosen + from, some);
            for (int row = 0; row < 2; row++) {
                REAL *to = dx + (2 * r + row) * o->columns + 2 * j;
                if (o->kind == MAX_POOL) {
                    left = (vec)((ivec)g & (at == 2 * row));
                    right = (vec)((ivec)g & (at == 2 * row + 1));
                }
                store_some(to, zip_low(left, right), low);
                store_some(to + L, zip_high(left, right), high);
            }
        }
    }
}
static void pool_forward(const op *o, const REAL *x, REAL *y, INT *chosen) {
    for (i64 r = 0; r < o->out_rows; r++)
        for (i64 j = 0; j < o->out_columns; j++, y++, chosen++) {
            REAL most = 0, sum = 0;
            for (i64 a = 0; a < o->height; a++)
                for (i64 b = 0; b < o->width; b++) {
                    i64 from = (r * o->down + a) * o->columns + j * o->right + b;
                    REAL v = x[from];
                    sum += v;
                    if (!(a | b) || v > most || v != v) most = v, *chosen = (INT)from;
                }
            *y = o->kind == MAX_POOL ? most : sum / (REAL)(o->height * o->width);
            if (o->kind == MAX_POOL && o->relu && most <= 0) *y = 0, *chosen = -1;
        }
}
static void pool_backward(const op *o, REAL *dx, const REAL *dy, const INT *chosen) {
    memset(dx, 0, (size_t)(o->rows * o->columns) * sizeof(REAL));  // windows may overlap
    for (i64 r = 0; r < o->out_rows; r++)
        for (i64 j = 0; j < o->out_columns; j++, dy++, chosen++) {
            if (o->kind == MAX_POOL) {
                if (*chosen >= 0) dx[*chosen] += *dy;
                continue;
            }
            REAL share = *dy / (REAL)(o->height * o->width);
            for (i64 a = 0; a < o->height; a++)
                for (i64 b = 0; b < o->width; b++)
                    dx[(r * o->down + a) * o->columns + j * o->right + b] += share;
        }
}
static void pool(const work *k, const op *o, int forward) {
    i64 size = o->out_rows * o->out_columns;
    int plain = o->height == 2 && o->width == 2 && o->down == 2 && o->right == 2;
    for (i64 i = 0; i < k->images; i++)
        for (i64 c = 0; c < o->channels; c++) {
            INT *chosen = (INT *)(k->arena + o->chosen) + (i * o->channels + c) * size;
            if (forward)
                (plain ? pool_2x2_forward : pool_forward)(
                    o, input(k, o, i) + c * input_channel(o),
                    k->arena + o->y.at + i * o->y.image + c * o->y.channel, chosen);
            else
                (plain ? pool_2x2_backward : pool_backward)(
                    o, k->arena + o->dx.at + i * o->dx.image + c * o->dx.channel,
                    k->arena + o->dy.at + i * o->dy.image + c * o->dy.channel, chosen);
        }
}

// Random bits with an address, no state: SplitMix64's mixing of what is counted.
INLINE uint64_t mix(uint64_t z) {
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}
static void dropout(REAL *into, const REAL *from, i64 n, uint64_t stream, i64 position, double p) {
    uint64_t threshold = (uint64_t)(p * 4294967296.0);  // of 32 random bits
    REAL scale = (REAL)(1 / (1 - p));
    for (i64 j = 0; j < n; j++) {
        uint64_t word = mix(stream + (uint64_t)(position + j) * 0x9E3779B97F4A7C15u);
        into[j] = from[j] * ((word >> 32) >= threshold ? scale : 0);  // 0 · NaN is NaN, as in torch
    }
}

// What acts number by number; y may be x, and dx then is dy.
static void elementwise(const work *k, const op *o, int forward) {
    i64 n = o->rows * o->columns;
    uint64_t stream = mix(k->stream + (uint64_t)o->layer);
    for (i64 i = 0; i < k->images; i++)
        for (i64 c = 0; c < o->channels; c++) {
            REAL *y = k->arena + o->y.at + i * o->y.image + c * o->y.channel;
            i64 place = ((k->position + i) * o->channels + c) * n;
            if (forward) {
                const REAL *x = input(k, o, i) + c * input_channel(o);
                if (o->kind == RELU) for (i64 j = 0; j < n; j++) y[j] = x[j] <= 0 ? 0 : x[j];
                else if (o->kind == TANH) for (i64 j = 0; j < n; j++) y[j] = tanh_(x[j]);
                else if (o->kind == SIGMOID) for (i64 j = 0; j < n; j++) y[j] = sigmoid_(x[j]);
                else if (o->kind == COPY || !k->training) for (i64 j = 0; j < n; j++) y[j] = x[j];
                else dropout(y, x, n, stream, place, o->p);
                continue;
            }
            const REAL *dy = k->arena + o->dy.at + i * o->dy.image + c * o->dy.channel;
            REAL *dx = k->arena + o->dx.at + i * o->dx.image + c * o->dx.channel;
            if (o->kind == RELU) for (i64 j = 0; j < n; j++) dx[j] = y[j] <= 0 ? 0 : dy[j];
            else if (o->kind == TANH) for (i64 j = 0; j < n; j++) dx[j] = dy[j] * (1 - y[j] * y[j]);
            else if (o->kind == SIGMOID) for (i64 j = 0; j < n; j++) dx[j] = dy[j] * ((1 - y[j]) * y[j]);
            else if (o->kind == COPY) for (i64 j = 0; j < n; j++) dx[j] = dy[j];
            else dropout(dx, dy, n, stream, place, o->p);
        }
}
static void forward(const work *k, i64 n_ops) {
    for (const op *o = k->ops; o < k->ops + n_ops; o++) switch (o->kind) {
            case CONV: conv_forward(k, o); break;
            case LINEAR: linear_forward(k, o); break;
            case MAX_POOL: case AVERAGE_POOL: pool(k, o, 1); break;
            default: elementwise(k, o, 1);
        }
}
static void backward(const work *k, i64 n_ops) {
    for (const op *o = k->ops + n_ops - 1; o >= k->ops; o--) switch (o->kind) {
            case CONV: conv_backward(k, o); break;
            case LINEAR: linear_backward(k, o); break;
            case MAX_POOL: case AVERAGE_POOL: if (o->wanted) pool(k, o, 0); break;
            default: if (o->wanted) elementwise(k, o, 0);
        }
}
// −log softmax(z)_y of each image, summed; dz = (softmax(z) − e_y) / B
static double cross_entropy(const plan *p, const work *k, i64 B) {
    double total = 0;
    for (i64 i = 0; i < k->images; i++) {
        const REAL *z = k->arena + p->logits.at + i * p->logits.image;
        REAL *dz = k->arena + p->dlogits.at + i * p->dlogits.image, most = z[0], lane[LANES] = {0};
        i64 y = k->labels[i];
        for (i64 c = 1; c < p->classes; c++) most = z[c] > most ? z[c] : most;
        for (i64 c = 0; c < p->classes; c += LANES) {  // rows are whole vectors long
            REAL e[LANES];  // its own memory: else no compiler takes 64 bytes at once
            INT left = (INT)MIN(p->classes - c, LANES);
            for (INT l = 0; l < LANES; l++) e[l] = z[c + l] - most;
            for (INT l = 0; l < LANES; l++) e[l] = exp_(e[l]);
            for (INT l = 0; l < LANES; l++) e[l] = l < left ? e[l] : 0;
            for (INT l = 0; l < LANES; l++) lane[l] += e[l];
            memcpy(dz + c, e, sizeof e);
        }
        REAL sum = sum_lanes(lane);  // NaN where any z is
        for (i64 c = 0; c < p->classes; c += LANES)
            for (int l = 0; l < LANES; l++) dz[c + l] = dz[c + l] / sum / (REAL)B;
        if (y < 0 || y >= p->classes) return __builtin_nan("");
        dz[y] -= 1 / (REAL)B;
        total += (double)(log_(sum) - (z[y] - most));
    }
    return total;
}
typedef struct {
    double lr, weight_decay, mu, momentum;
} rates;
// g += decay · w + μ (w − start) + correction; v = momentum · v + g; w −= lr · v
INLINE void update_by(const int corrected, REAL *restrict w, const REAL *restrict g,
                      REAL *restrict v, const REAL *restrict start,
                      const REAL *restrict correction, i64 d, const rates *h) {
    REAL lr = (REAL)h->lr, decay = (REAL)h->weight_decay, mu = (REAL)h->mu;
    REAL momentum = (REAL)h->momentum;
    for (i64 j = 0; j < d; j++) {
        REAL e = g[j];
        if (decay != 0) e = FMA(decay, w[j], e);
        if (mu != 0) e = FMA(mu, w[j] - start[j], e);
        if (corrected) e += correction[j];
        if (momentum != 0) v[j] = e = FMA(momentum, v[j], e);
        w[j] = FMA(-lr, e, w[j]);
    }
}
// in two loops: a masked load from nowhere is correct, but takes a hundred cycles
static void update(REAL *w, const REAL *g, REAL *v, const REAL *start, const REAL *correction,
                   i64 d, const rates *h) {
    if (correction) update_by(1, w, g, v, start, correction, d, h);
    else update_by(0, w, g, v, start, 0, d, h);
}
// nothing but the gradient: w −= lr · g, of what linear layers did not do already
static void descend(const plan *p, const work *k, REAL lr) {
    for (const op *o = k->ops; o < k->ops + p->n_ops; o++) {
        i64 n_weights = o->kind == CONV ? o->outputs * o->channels * o->height * o->width
                        : o->kind == LINEAR && k->step == 0 ? o->outputs * o->channels * o->rows * o->columns : 0;
        for (i64 j = o->weight; j < o->weight + n_weights; j++) k->w[j] = FMA(-lr, k->g[j], k->w[j]);
        for (i64 j = o->bias; (o->kind == CONV || o->kind == LINEAR) && o->bias >= 0 && j < o->bias + o->outputs; j++)
            k->w[j] = FMA(-lr, k->g[j], k->w[j]);
    }
}

// Images that are kept as bytes: those of a chunk become numbers when their turn comes. With the
// terms of a channel, (byte / scale − mean) / std, each operation rounded once; a quotient is a
// product with the inverse, given in two parts.
enum { MOST_IMAGES = 64, TERMS = 5 };
typedef struct {
    i64 channels, size;  // of an image; numbers of a channel
    REAL *into;
    const REAL *terms;
} pixels;
static void unpack(const pixels *p, const uint8_t *restrict from, REAL *restrict into) {
    for (i64 c = 0; c < p->channels; c++, from += p->size, into += p->size) {
        const REAL *t = p->terms + c * TERMS;
        REAL high = t[0], low = t[1], mean = t[2], high_std = t[3], low_std = t[4];
        if (mean == 0 && high_std == 1 && low_std == 0) {  // the same, without three operations
            for (i64 j = 0; j < p->size; j++) {
                REAL value = (REAL)from[j];
                into[j] = FMA(value, high, value * low);
            }
            continue;
        }
        for (i64 j = 0; j < p->size; j++) {
            REAL value = (REAL)from[j];
            value = FMA(value, high, value * low) - mean;
            into[j] = FMA(value, high_std, value * low_std);
        }
    }
}
static const i64 in_turn[MOST_IMAGES] = {
    0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21,
    22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43,
    44, 45, 46, 47, 48, 49, 50, 51, 52, 53, 54, 55, 56, 57, 58, 59, 60, 61, 62, 63};
// Which examples a chunk has, and where they lie. The next ones are asked for meanwhile: they lie
// anywhere, so that no processor guesses which they are.
static void look_at(work *k, const plan *p, const void *data, const pixels *bytes,
                    const i64 *order, i64 left) {
    i64 size = p->inputs * (bytes ? 1 : (i64)sizeof(REAL));
    k->data = bytes ? bytes->into : data;
    k->order = bytes ? in_turn : order;
    for (i64 i = 0; i < k->images; i++) {
        if (bytes && i + k->images < left) {
            const char *next = (const char *)data + order[i + k->images] * size;
            for (i64 j = 0; j < size; j += 64) __builtin_prefetch(next + j, 0, 2);
        }
        if (bytes)
            unpack(bytes, (const uint8_t *)data + order[i] * size, bytes->into + i * size);
    }
}

// ---- what Python calls --------------------------------------------------------------------------

EXPORT i64 understudy_version(void) { return KERNELS_VERSION; }
EXPORT i64 understudy_interface(void) { return KERNELS_INTERFACE; }
EXPORT i64 understudy_fields(void) { return (sizeof(op) + sizeof(plan)) / sizeof(i64); }

// how many of n numbers are not in 0 .. most − 1
static i64 outside_of(const i64 *numbers, i64 n, i64 most) {
    i64 count = 0;
    for (i64 i = 0; i < n; i++) count += (uint64_t)numbers[i] >= (uint64_t)most;
    return count;
}

// n bytes of one channel as numbers, as they are trained on.
EXPORT void understudy_unpack(const pixels *p, const uint8_t *from, REAL *into) {
    unpack(p, from, into);
}

// Trains one client: `steps` steps of lengths[s] examples each, listed in `order`, `drawn` in all,
// of n that there are: numbers, or bytes where `bytes` says how they become numbers. Writes local − start into `delta`, returns the sum of the losses of all
// examples. Where indices, labels or lengths are outside of what there is: counts them in
// `outside`, returns NaN, and touches nothing else.
EXPORT double understudy_train(const plan *p, const op *ops, const i64 *offsets, const tap *taps,
                               REAL *arena, const void *data, const pixels *bytes, i64 n,
                               const i64 *labels, const i64 *order, const i64 *lengths, i64 drawn,
                               i64 steps, const rates *h, const REAL *start, const REAL *correction,
                               uint64_t seed, REAL *delta, i64 *outside) {
    REAL *w = arena + p->weights, *g = arena + p->gradient, *v = arena + p->velocity;
    work k = {ops, offsets, taps, arena, w, g, 0, 0, labels, 0, 0, 0, 1, 0, 0};
    const i64 *first = order;
    double total = 0;
    i64 counted = 0;
    *outside = outside_of(order, drawn, n) + outside_of(labels, drawn, p->classes);
    for (i64 s = 0; s < steps; s++) {
        *outside += lengths[s] < 1 || lengths[s] > drawn - counted;
        if (*outside) return __builtin_nan("");
        counted += lengths[s];
    }
    *outside += counted != drawn;
    if (*outside) return __builtin_nan("");
    memcpy(w, start, (size_t)p->d * sizeof(REAL));
    int plain = h->weight_decay == 0 && h->mu == 0 && h->momentum == 0 && !correction;
    if (h->momentum != 0) memset(v, 0, (size_t)p->d * sizeof(REAL));
    for (i64 s = 0; s < steps; s++) {
        i64 B = lengths[s], left = (B + p->chunk - 1) / p->chunk;  // chunks of about equal size
        k.stream = mix(mix(seed) + (uint64_t)s);
        k.step = plain && left == 1 ? (REAL)h->lr : 0;
        for (k.position = 0; k.position < B; left--) {
            k.images = (B - k.position + left - 1) / left;
            k.add = k.position > 0;
            look_at(&k, p, data, bytes, order, drawn - (order - first));
            forward(&k, p->n_ops);
            total += cross_entropy(p, &k, B);
            backward(&k, p->n_ops);
            k.position += k.images;
            order += k.images;
            k.labels += k.images;
        }
        if (plain) descend(p, &k, (REAL)h->lr);
        else update(w, g, v, start, correction, p->d, h);
    }
    for (i64 j = 0; j < p->d; j++) delta[j] = w[j] - start[j];
    return total;
}

// What the model says to n of `examples` examples, nothing dropped: (n, classes). Returns how many
// of the indices are outside of what there is; nothing is written then.
EXPORT i64 understudy_outputs(const plan *p, const op *ops, const i64 *offsets, const tap *taps,
                              REAL *arena, const void *data, const pixels *bytes, i64 examples,
                              const i64 *order, i64 n, const REAL *params, REAL *outputs) {
    REAL *w = arena + p->weights;
    work k = {ops, offsets, taps, arena, w, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
    i64 outside = outside_of(order, n, examples);
    if (outside) return outside;
    memcpy(w, params, (size_t)p->d * sizeof(REAL));
    for (; n > 0; n -= k.images, order += k.images) {
        k.images = MIN(n, p->chunk);
        look_at(&k, p, data, bytes, order, n);
        forward(&k, p->n_ops);
        for (i64 i = 0; i < k.images; i++, outputs += p->classes)
            memcpy(outputs, arena + p->logits.at + i * p->logits.image,
                   (size_t)p->classes * sizeof(REAL));
    }
    return 0;
}
