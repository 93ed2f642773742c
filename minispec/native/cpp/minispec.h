// What Python calls, and what any program may: models, caches, drafts, decisions and whole rounds.
//
// Arrays are batch-first, and lie without gaps. B rows, V ids, D numbers a state; K tokens of a draft. Numbers are
// of the type that a model computes in: double for MS_F64, float for all others. Every function that can fail returns
// an `ms_status`; where it is not MS_OK, nothing that counts has changed.
#pragma once

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
    MS_OK,
    MS_NO_MEMORY,         // the system refuses it
    MS_BAD_TOKEN,         // an id is outside the vocabulary
    MS_BAD_LOGITS,        // NaN, plus infinity, or nothing but minus infinity
    MS_BAD_NUMBER,        // a number to draw by is outside [0, 1)
    MS_BAD_DRAFT,         // a draft has a token, a length or a parent that cannot be
    MS_BAD_DISTRIBUTION,  // a number is negative or not finite, or the sum is not 1
} ms_status;

// Of the matrices of a model, which come as they are stored: [columns, depth], that is [out, in]. MS_INT8: whole numbers,
// of which 32 neighbours share a scale. The scales, upper halves of floats [columns, depth / 32 up], come before them.
typedef enum { MS_F32, MS_F64, MS_BF16, MS_INT8 } ms_type;

// ---- Models

// Packs a model. sizes: V, layers, D, heads, key heads, the size of a head, of the feed-forward network, the context.
// weights: in the order of `pack.py`; the embedding may be NULL: layers that draft for a target use its own; and so may
// what a layer does not have. The head is a packed matrix, which must live as long. norm_eps is added to mean squares.
// The matrices are cut into parts, so that as many threads can share a product. *model: NULL, or a model: then the layers
// are added to its own, and the other weights may be NULL. So layers can be packed one after the other.
ms_status ms_model_new(ms_type type, const int64_t* sizes, double norm_eps, int64_t parts, const void* const* weights,
                       void** model);
void ms_model_free(ms_type type, void* model);

// A cache has a multiple of 16 slots for tokens. It holds for each layer, row and key head first the keys [size of a head,
// slots], then the values [slots, size of a head, up to a multiple of 16].

// Packs a matrix [depth, columns], of the type of a model's. The head of a model is one of [D, V].
ms_status ms_matrix_new(ms_type type, int64_t depth, int64_t columns, int64_t parts, const void* numbers,
                        void** matrix);
void ms_matrix_free(ms_type type, void* matrix);

// What a forward reads: n tokens in each of B rows, after what the cache holds of them.
typedef struct {
    int64_t rows, n;
    const int64_t* tokens;     // [B, n]
    const void* states;        // [B, n, D]: what goes into the layers; NULL: the embeddings of the tokens
    int64_t* starts;           // [B], how many tokens the cache holds
    void* cache;               // of the layers that are read; it has a slot for every token that is read, as far as the
                               // context goes
    int64_t slots;
    int64_t begin, end;        // the layers that are read
    const int64_t* positions;  // [B, n], where in the text each token stands; NULL: one after the other
    const uint8_t* mask;       // [B, n, window], what each sees of the last slots, its own included; NULL: all before it
    int64_t window;
    const int64_t* taps;       // [tap_count]: after so many layers the stream is wanted, too
    int64_t tap_count;
    const void* qkv;           // [B, n, columns], queries, keys and values of the first layer; NULL: it makes them itself
    void* hidden;              // [B, n, tap_count + 1, D], becomes the streams at the taps, and then those after the layers,
                               // or after the last norm; NULL: nobody wants them, and there are no taps
} ms_block;

// Reads a block: its hidden states, after the last norm too if `normed`.
ms_status ms_read(ms_type type, const void* model, int64_t threads, const ms_block* block, int64_t normed);

// Multiplies [m, depth] with a matrix: [m, columns].
ms_status ms_multiply(ms_type type, const void* matrix, int64_t threads, const void* numbers, int64_t m, void* result);

// ---- Decisions

// From logits to the distribution that tokens are drawn from.
typedef struct {
    double temperature;  // 0: all on the largest, the lowest id on ties
    int64_t top_k;       // 0: all
    double top_p;        // 1: all
} ms_warp;

// What makes random decisions: numbers in [0, 1), used in order, or noise by prompt id and position.
typedef struct {
    const double* numbers;  // [count]; NULL: noise
    int64_t count, used;    // `used` is counted up
    int64_t seed;           // of the noise
    const int64_t* prompt_ids;  // [B]
    const int64_t* positions;   // [B], of the first token that is decided
} ms_source;

// Makes logits [rows, V] distributions.
ms_status ms_distributions(ms_type type, const ms_warp* warp, const void* logits, int64_t rows, int64_t vocab,
                           void* probs);

// Draws an id from each distribution [rows, V] that is live, without `live` from all; 0 elsewhere.
ms_status ms_choose(ms_type type, const void* probs, int64_t rows, int64_t vocab, const uint8_t* live,
                    ms_source* source, int64_t* token);

typedef enum { MS_GREEDY, MS_REJECTION, MS_BLOCK, MS_COUPLED, MS_TREE_GREEDY, MS_TREE } ms_rule;

// A draft, what the target makes of it, and what a rule decides.
typedef struct {
    int64_t rows, k, vocab;
    const void* p;           // [B, K + 1, V]
    const void* q;           // [B, K, V]; in a round NULL says that all drafted tokens are certain
    const int64_t* tokens;   // [B, K]
    int64_t* lengths;        // [B], how many of them count; in a round those of a chain that is drawn follow
    const int64_t* budgets;  // [B], in how many positions a row decides
    const int64_t* parents;  // [B, K] of a tree, or NULL
    int64_t* accepted;       // [B]
    int64_t* token;          // [B], what follows
    uint8_t* path;           // [B, K] of a tree: what is kept
} ms_decision;

ms_status ms_decide(ms_type type, ms_rule rule, ms_decision* decision, ms_source* source);

// ---- Drafts and rounds

typedef enum { MS_MODEL, MS_EXIT, MS_FEATURE, MS_PARALLEL, MS_MEDUSA, MS_JOINED } ms_kind;

// What drafts a chain, token after token.
typedef struct {
    ms_kind kind;
    ms_type type;
    const void* model;           // whose embedding and head it uses: the draft model, or the target
    const void* layers;          // its own layers and last norm; NULL for MS_MODEL and MS_MEDUSA
    const void* const* matrices; // MS_EXIT: after its layers; MS_FEATURE: joins; MS_PARALLEL: before, change;
                                 // MS_MEDUSA: of each head its residual layer, and to the vocabulary;
                                 // MS_JOINED: to queries, keys and values of embedding and feature
    const void* mask;            // MS_PARALLEL: [D]; MS_JOINED: the gains of embeddings, times √D
    int64_t first_layers;        // MS_EXIT: how many of the target's; MS_JOINED: whether it adds to normed features
    const int64_t* ids;          // MS_JOINED: which of the target's ids each of its head is
    int64_t threads;
    void* cache;                 // with slots for K + 1 tokens more, as far as the context goes
    int64_t slots;
} ms_drafter;

// A draft of K tokens in each row, after the pending one: a chain, or of MS_MODEL and MS_MEDUSA a tree, whose candidates
// for a position are drawn without replacement.
typedef struct {
    const ms_drafter* drafter;
    int64_t rows, k;
    const int64_t* pending;   // [B]
    int64_t* starts;          // [B], how many tokens the drafter's cache holds
    int64_t* budgets;         // [B], how many tokens a row may draw; after them comes 0, in a tree the most probable. In a
                              // round those of a chain follow: all of the row's but the last
    const ms_warp* warp;
    int64_t n;
    const int64_t* read;      // MS_JOINED: [B, n], what each row reads at first: what it has missed, and its pending token
    const int64_t* counts;    // [B], how many of them count
    void* states;             // MS_FEATURE, MS_MEDUSA: [B, D], the target's after the last token that it has read: a round
                              // brings them up to date; MS_JOINED: [B, n, D], the features before what is read;
                              // MS_EXIT: [B, K + 1, D], becomes the stream after its layers
    const int64_t* parents;   // [K], of a tree: 0 is the pending token, i + 1 token i; they ascend. NULL: a chain
    int64_t* tokens;          // [B, K], the result
    void* q;                  // [B, K, V], what they were drawn from
    double seconds;           // in forwards: is added to
} ms_draft;

ms_status ms_draw(ms_draft* draft, ms_source* source);

// A round of the loop: draft, verify, decide. After it the caches have what was kept where it belongs, and what has
// drafted has read it; lengths of caches are the caller's to set, and so the rollback.
typedef struct {
    ms_type type;
    const void* target;
    int64_t threads;
    const ms_warp* warp;
    const int64_t* pending;    // [B], the last token of each row
    const int64_t* positions;  // [B], how many tokens each row has
    ms_draft* draft;           // with a drafter: is drawn. Without one the draft is there
    const ms_block* block;     // what the target reads, but for tokens and places: the pending and the drafted ones. Its
                               // starts become how many of each row's tokens a cache holds: all but the pending one
    ms_rule rule;
    ms_decision* decision;     // becomes the verdict
    ms_source* source;
    double seconds[3];         // are added to: draft, verify, the target's forwards; those of the draft are in `draft`
} ms_round;

ms_status ms_play(ms_round* round);

#ifdef __cplusplus
}
#endif
